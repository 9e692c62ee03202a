"""SARIF 2.1.0 (OASIS): one log with one run, for code hosts and editors.

Rules
    * results are written as they come and the rules they used after them: memory grows with the number of rules, not of results;
      who reads a SARIF log usually holds all of it, so take JSON Lines for a large corpus;
    * an artifact is named relative to its source (`uriBaseId`), percent-encoded; the base has no address, so nothing resolves elsewhere;
    * a region counts code points of the text *as parsed*: in HTML, PDF or DOCX the fetched bytes have other offsets. No snippet is given;
    * messages are plain: braces and brackets are escaped, so that no file name makes a placeholder or a link (3.11.5, 3.11.6);
    * a finding that a person released is suppressed, with their verdict; every finding has a fingerprint that follows from content.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from corpus_guard import __version__
from corpus_guard.domain import Severity
from corpus_guard.exports.findings import (
    CHECK_MEANINGS,
    TAXA,
    TAXONOMIES,
    ExportedDeviation,
    ExportedFinding,
    ExportItem,
    dump_json,
    portable_uri,
)

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"
FINGERPRINT: Final = "corpusGuardFinding/v1"
CORPUS: Final = "corpus"  # the base of what a verification names: records, heads, events
_ESCAPED: Final = str.maketrans({"{": "{{", "}": "}}", "[": "\\[", "]": "\\]"})
_TAXONOMY: Final = {name: index for index, name in enumerate(TAXONOMIES)}
_BY_TAXONOMY: Final = {
    key: sorted({taxon.uid: taxon for taxon in TAXA.values() if taxon.taxonomy == key}.items()) for key in TAXONOMIES
}
_PLACE: Final = {key: {uid: index for index, (uid, _) in enumerate(found)} for key, found in _BY_TAXONOMY.items()}


def format_log(items: Iterable[ExportItem]) -> Iterator[str]:
    """A SARIF log in pieces that are to be joined with nothing between them; one piece a result."""
    rules: dict[str, int] = {}
    bases: dict[str, None] = {}
    yield f'{{"$schema":{dump_json(SCHEMA)},"version":"2.1.0","runs":[{{"columnKind":"unicodeCodePoints","results":['
    for number, item in enumerate(items):
        result = _finding(item) if isinstance(item, ExportedFinding) else _deviation(item)
        result["ruleIndex"] = rules.setdefault(result["ruleId"], len(rules))
        bases[result["locations"][0]["physicalLocation"]["artifactLocation"]["uriBaseId"]] = None
        yield ("," if number else "") + "\n" + dump_json(result)
    rest = {
        "tool": {"driver": _driver(rules)},
        "taxonomies": [_taxonomy(key) for key in TAXONOMIES],
        "originalUriBaseIds": {base: {"description": {"text": _plain(f"source {base}")}} for base in bases},
    }
    yield "\n]," + dump_json(rest)[1:] + "]}"


def sarif_level(severity: Severity) -> str:
    """SARIF's level of ours."""
    if severity.rank >= Severity.HIGH.rank:
        return "error"
    return "warning" if severity is Severity.MEDIUM else "note"


def _finding(item: ExportedFinding) -> dict[str, Any]:
    finding = item.finding
    location: dict[str, Any] = {"artifactLocation": {"uri": item.stamp.uri, "uriBaseId": item.stamp.source}}
    if finding.span:
        location["region"] = {
            "charOffset": finding.span.start,
            "charLength": finding.span.end - finding.span.start,
        }
    result = {
        **_result(item.uid, finding.code, finding.severity, finding.message, finding.tags, location),
        "rank": round(finding.score * 100, 1),
        "properties": {
            "docId": item.doc_id,
            "versionId": item.version_id,
            "contentSha256": item.stamp.content_sha256,
            "state": item.state,
            "verdict": item.verdict,
            "policyDigest": item.policy_digest,
        },
    }
    if item.state == "released" and item.decision:
        result["suppressions"] = [{"kind": "external", "status": "accepted"}]
    return result


def _deviation(item: ExportedDeviation) -> dict[str, Any]:
    one = item.deviation
    location = {"artifactLocation": {"uri": portable_uri(one.subject), "uriBaseId": one.collection or CORPUS}}
    return {
        **_result(item.uid, f"integrity.{one.kind}", item.severity, one.message, item.tags, location),
        "properties": {"docId": one.doc_id, "expected": one.expected, "found": one.found},
    }


def _result(
    uid: str, code: str, severity: Severity, message: str, tags: tuple[str, ...], location: dict[str, Any]
) -> dict[str, Any]:
    return {
        "ruleId": code,
        "level": sarif_level(severity),
        "message": {"text": _plain(message)},
        "locations": [{"physicalLocation": location}],
        "partialFingerprints": {FINGERPRINT: uid},
        "taxa": [
            {
                "id": TAXA[tag].uid,
                "index": _PLACE[TAXA[tag].taxonomy][TAXA[tag].uid],
                "toolComponent": _component(TAXA[tag].taxonomy),
            }
            for tag in tags
            if tag in TAXA
        ],
    }


def _driver(rules: dict[str, int]) -> dict[str, Any]:
    return {
        "name": "Corpus Guard",
        "semanticVersion": __version__,
        "rules": [_rule(code) for code in rules],
        "supportedTaxonomies": [_component(key) for key in TAXONOMIES],
    }


def _rule(code: str) -> dict[str, Any]:
    check, _, what = code.partition(".")
    rule: dict[str, Any] = {
        "id": code,
        "shortDescription": {"text": f"{check}: {what.replace('_', ' ').replace('.', ', ')}"},
    }
    if check in CHECK_MEANINGS:
        rule["fullDescription"] = {"text": CHECK_MEANINGS[check]}
    return rule


def _taxonomy(key: str) -> dict[str, Any]:
    name, edition = TAXONOMIES[key]
    taxa = [{"id": uid, "shortDescription": {"text": taxon.name}} for uid, taxon in _BY_TAXONOMY[key]]
    return {"name": name, "version": edition, "taxa": taxa}


def _component(key: str) -> dict[str, Any]:
    return {"name": TAXONOMIES[key][0], "index": _TAXONOMY[key]}


def _plain(text: str) -> str:
    return text.translate(_ESCAPED)
