"""Test kit for checks of your own: what every check must do, tried on texts that break careless ones.

    from corpus_guard.screening.check_kit import codes_in, list_problems

    def test_my_check():
        check = MyCheck()
        assert list_problems(check) == []
        assert codes_in(check, "Call now to win!") == ["my_check.advert"]

It tries what a refresh would: hostile texts, hidden text, an empty text, a batch in another order, a survey
that knows nothing. It cannot try whether the check is right: give it texts that it must find, and ordinary ones
that it must leave alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from corpus_guard import domain
from corpus_guard.domain import Chunk, Finding, Stamp, TrustLevel, Version
from corpus_guard.screening.check import Check
from corpus_guard.screening.own_checks import OwnCheck
from corpus_guard.screening.survey.survey import Survey

HOSTILE_TEXTS: Final = (
    "",
    " \n\t\u2028 ",
    "a" * 50_000,
    "(" * 5_000 + ")" * 5_000,
    "a!" * 20_000,
    "\ud800 a lone surrogate",
    "\x00 a zero byte \x1b[31m and an escape sequence",
    "\u202etxt.exe \u200b\u200c\u200d \U000e0041",
    "<script>alert(1)</script> {{ 7 * 7 }} ${x} %s {0}",
    "中文字符" * 500 + " नमस्ते Ελληνικά",
    "The pump house is inspected every spring, before the first boat is launched at the old quay.",
)


def make_version(text: str, *, uri: str = "page.md", hidden: str = "", **stamp: Any) -> Version:
    """Return a version with this text, as a refresh would make it; `stamp` overrides fields of its stamp."""
    content = text.encode("utf-8", "surrogatepass")
    fields: dict[str, Any] = {
        "source": "kit",
        "owner": "kit",
        "trust": TrustLevel.OPEN,
        "uri": uri,
        "content_sha256": domain.sha256_bytes(content),
        "size": len(content),
        "media_type": "text/markdown",
        "fetched_at": datetime(2026, 1, 1, tzinfo=UTC),
        "fetched_by": "check-kit",
        "run_id": "kit",
    }
    made = Stamp(**{**fields, **stamp})
    doc = domain.doc_id(made.source, made.uri)
    version = domain.version_id(doc, made.content_sha256)
    chunk = Chunk(domain.chunk_id(doc, version, 0, text, "whole"), 0, 0, len(text), text, max(1, len(text) // 4))
    return Version(doc, version, made, text, hidden, (chunk,) if text else ())


def codes_in(check: Check, text: str, **version: Any) -> list[str]:
    """Return the codes of the findings in a text; `version` as for `make_version`."""
    return sorted({finding.code for _, finding in check.run([make_version(text, **version)], Survey())})


def list_problems(check: Check) -> list[str]:
    """Return what is wrong with a check, one sentence each; an empty list: nothing the kit can see."""
    own_check = check if isinstance(check, OwnCheck) else OwnCheck(check, "")
    versions = [make_version(text, uri=f"{number}.md") for number, text in enumerate(HOSTILE_TEXTS)]
    versions += [make_version("An honest page.", uri="hidden.md", hidden=text) for text in HOSTILE_TEXTS]
    problems = []
    alone: dict[str, list[Finding]] = {}
    for version in versions:
        try:
            alone[version.version_id] = _findings(own_check, [version])[0]
        except Exception as error:  # the author wants to read it; the texts are the kit's own
            shown = repr(version.text[:20]) if version.text else "an empty text"
            problems.append(f"raises {type(error).__name__} for {shown} (hidden: {version.hidden[:20]!r}): {error}")
    if problems:
        return problems
    try:
        together = _findings(own_check, versions)
        reversed_order = _findings(own_check, versions[::-1])[::-1]
    except Exception as error:
        return [f"raises {type(error).__name__} for a batch, and not for each version alone: {error}"]
    if together != [alone[version.version_id] for version in versions]:
        problems.append("finds something else in a batch than in each version alone")
    if not own_check.across_documents and reversed_order != together:
        problems.append("finds something else when the batch is in another order")
    if _findings(own_check, []) != []:
        problems.append("finds something in an empty batch")
    try:
        _findings(own_check, versions[-1:], survey=None)
    except Exception as error:
        problems.append(f"raises {type(error).__name__} when documents are screened one by one (survey is None)")
    if not check.digest:
        problems.append("has an empty digest")
    return problems


def _findings(check: Check, versions: Sequence[Version], survey: Survey | None = Survey()) -> list[list[Finding]]:  # noqa: B008 - frozen
    findings: list[list[Finding]] = [[] for _ in versions]
    chosen = [number for number, version in enumerate(versions) if check.applies_to(version)]
    for position, finding in check.run([versions[number] for number in chosen], survey):
        findings[chosen[position]].append(finding)
    return findings
