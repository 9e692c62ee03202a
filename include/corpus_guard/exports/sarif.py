"""SARIF 2.1.0 (OASIS): one log with one run, for code hosts and editors.

Rules
    * results are written as they come, and the rules they use after them: memory grows with the number of
      rules, not of results. Readers of a SARIF log usually hold all of it, so prefer JSON Lines for a large
      corpus;
    * an artifact is named relative to its source (`uriBaseId`), percent-encoded; the base has no address, so
      nothing resolves elsewhere;
    * a region counts code points of the text *as parsed*: in HTML, PDF or DOCX the fetched bytes have other
      offsets. No snippet is given. A screening without a ledger gives lines instead, which code hosts show;
    * messages are plain: braces and brackets are escaped, so that no file name makes a placeholder or a link
      (3.11.5, 3.11.6);
    * a finding that a person released is suppressed; every finding has a fingerprint that follows from
      content.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Final

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
from corpus_guard.ledger.states import VersionState

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"
FINGERPRINT: Final = "corpusGuardFinding/v1"
CORPUS: Final = "corpus"  # base of the records, heads and events that a verification names
_ESCAPED: Final = str.maketrans({"{": "{{", "}": "}}", "[": "\\[", "]": "\\]"})
_TAXONOMY: Final = {name: index for index, name in enumerate(TAXONOMIES)}
_BY_TAXONOMY: Final = {
    key: sorted({taxon.uid: taxon for taxon in TAXA.values() if taxon.taxonomy == key}.items()) for key in TAXONOMIES
}
_POSITION: Final = {key: {uid: index for index, (uid, _) in enumerate(taxa)} for key, taxa in _BY_TAXONOMY.items()}


def format_log(items: Iterable[ExportItem]) -> Iterator[str]:
    """Yield a SARIF log in pieces to be joined with nothing between them; one piece a result."""
    rules: dict[str, int] = {}
    bases: dict[str, None] = {}
    remaining = iter(items)
    first = list(islice(remaining, 1))  # before the header: what is wrong with the input must not leave half a document
    yield f'{{"$schema":{dump_json(SCHEMA)},"version":"2.1.0","runs":[{{"columnKind":"unicodeCodePoints","results":['
    for number, item in enumerate(chain(first, remaining)):
        result = _finding(item) if isinstance(item, ExportedFinding) else _deviation(item)
        rule, base = _rule_and_base(item)
        result["ruleIndex"] = rules.setdefault(rule, len(rules))
        bases[base] = None
        yield ("," if number else "") + "\n" + dump_json(result)
    rest = {
        "tool": {
            "driver": {
                "name": "Corpus Guard",
                "semanticVersion": __version__,
                "rules": [_rule(code) for code in rules],
                "supportedTaxonomies": [_component(key) for key in TAXONOMIES],
            }
        },
        "taxonomies": [_taxonomy(key) for key in TAXONOMIES],
        "originalUriBaseIds": {base: {"description": {"text": _escape(f"source {base}")}} for base in bases},
    }
    yield "\n]," + dump_json(rest)[1:] + "]}"


def sarif_level(severity: Severity) -> str:
    """Return the SARIF level of a severity."""
    if severity.rank >= Severity.HIGH.rank:
        return "error"
    return "warning" if severity is Severity.MEDIUM else "note"


def _rule_and_base(item: ExportItem) -> tuple[str, str]:
    """Return the rule of an item's result, and the base of its artifact's URI."""
    if isinstance(item, ExportedFinding):
        return item.finding.code, item.stamp.source
    return f"integrity.{item.deviation.kind}", item.deviation.collection or CORPUS


def _finding(item: ExportedFinding) -> dict[str, object]:
    finding = item.finding
    location: dict[str, object] = {"artifactLocation": {"uri": item.stamp.uri, "uriBaseId": item.stamp.source}}
    if finding.span:
        location["region"] = {"charOffset": finding.span.start, "charLength": finding.span.end - finding.span.start}
    if item.line:
        location["region"] = {"startLine": item.line}
    result = {
        **_result(item, finding.severity, finding.message, finding.tags, location),
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
    if item.state == VersionState.RELEASED and item.decision:
        result["suppressions"] = [{"kind": "external", "status": "accepted"}]
    return result


def _deviation(item: ExportedDeviation) -> dict[str, object]:
    deviation = item.deviation
    uri, base = portable_uri(deviation.subject), deviation.collection or CORPUS
    location = {"artifactLocation": {"uri": uri, "uriBaseId": base}}
    return {
        **_result(item, item.severity, deviation.message, item.tags, location),
        "properties": {"docId": deviation.doc_id, "expected": deviation.expected, "found": deviation.actual},
    }


def _result(
    item: ExportItem, severity: Severity, message: str, tags: tuple[str, ...], location: Mapping[str, object]
) -> dict[str, object]:
    taxa = [TAXA[tag] for tag in tags if tag in TAXA]
    return {
        "ruleId": _rule_and_base(item)[0],
        "level": sarif_level(severity),
        "message": {"text": _escape(message)},
        "locations": [{"physicalLocation": location}],
        "partialFingerprints": {FINGERPRINT: item.uid},
        "taxa": [
            {
                "id": taxon.uid,
                "index": _POSITION[taxon.taxonomy][taxon.uid],
                "toolComponent": _component(taxon.taxonomy),
            }
            for taxon in taxa
        ],
    }


def _rule(code: str) -> dict[str, object]:
    check, _, detail = code.partition(".")
    rule: dict[str, object] = {
        "id": code,
        "shortDescription": {"text": f"{check}: {detail.replace('_', ' ').replace('.', ', ')}"},
    }
    if check in CHECK_MEANINGS:
        rule["fullDescription"] = {"text": CHECK_MEANINGS[check]}
    return rule


def _taxonomy(key: str) -> dict[str, object]:
    name, edition = TAXONOMIES[key]
    taxa = [{"id": uid, "shortDescription": {"text": taxon.name}} for uid, taxon in _BY_TAXONOMY[key]]
    return {"name": name, "version": edition, "taxa": taxa}


def _component(key: str) -> dict[str, object]:
    return {"name": TAXONOMIES[key][0], "index": _TAXONOMY[key]}


def _escape(text: str) -> str:
    return text.translate(_ESCAPED)
