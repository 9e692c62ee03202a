"""Results of a screening without a ledger, for terminals, hooks and code hosts.

Rules
    * no word of a document unless asked for: what a finding says, its code and its place;
    * every character that a terminal could act on is shown as its code point;
    * ``text`` names only documents that are held back; ``sarif`` holds only their findings of medium severity or more,
      because a code host shows each result to everybody who reads the change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from corpus_guard.domain import Severity, Verdict, digest
from corpus_guard.domain import doc_id as document_id
from corpus_guard.exports.findings import ExportedFinding, escape_unprintable, portable_uri
from corpus_guard.exports.sarif import format_log
from corpus_guard.screening.standalone import ScreenedDocument

CHECKOUT = "%SRCROOT%"
"""Base of the files of a checkout, as code hosts know it."""
_STATES = {Verdict.ACCEPT: "accepted", Verdict.QUARANTINE: "quarantined", Verdict.REJECT: "rejected"}
_HOW = {Verdict.QUARANTINE: "held back", Verdict.REJECT: "rejected"}


def format_text(documents: Iterable[ScreenedDocument], *, quoted: bool = False) -> Iterator[str]:
    """Yield a line for each document that is held back, and one for each of its findings; with another for its text if `quoted`."""
    for document in documents:
        yield from _lines(document, quoted=quoted)


def format_sarif(documents: Iterable[ScreenedDocument]) -> Iterator[str]:
    """Yield a SARIF log in pieces to be joined with nothing between them."""
    return format_log(_results(documents))


def _lines(document: ScreenedDocument, *, quoted: bool) -> Iterator[str]:
    verdict = document.judgement.verdict
    if verdict is Verdict.ACCEPT:
        return
    name = escape_unprintable(document.id)
    yield f"{name}: {_HOW[verdict]}, risk {document.judgement.risk:.2f}\n"
    rows = zip(document.judgement.findings, document.lines, document.quotes, document.contradicted, strict=True)
    for finding, line, quote, contradicted in rows:
        place = f", line {line}" if line else ""
        yield f"  {finding.severity}: {finding.code}{place}: {escape_unprintable(finding.message)}\n"
        if quoted and quote:
            yield f"    > {_one_line(quote)}\n"
        if contradicted:
            words = f": {_one_line(contradicted.quote)}" if quoted else ""
            yield f"    contradicts {escape_unprintable(contradicted.file)}{words}\n"


def _one_line(text: str) -> str:
    return escape_unprintable(" ".join(text.split()))


def _within_checkout(file: str) -> str:
    """Return the path of a file relative to the working directory, where it lies below: a code host places no other."""
    path, checkout = Path(file), Path.cwd()
    return str(path.relative_to(checkout)) if path.is_relative_to(checkout) else file


def _results(documents: Iterable[ScreenedDocument]) -> Iterator[ExportedFinding]:
    at = datetime.now(UTC)
    for document in documents:
        judgement = document.judgement
        if judgement.verdict is Verdict.ACCEPT:
            continue
        uri = portable_uri(_within_checkout(document.file))
        stamp = replace(document.stamp, uri=uri, source=CHECKOUT, declared={})
        for number, (finding, line) in enumerate(zip(judgement.findings, document.lines, strict=True)):
            if finding.severity.rank < Severity.MEDIUM.rank:
                continue
            yield ExportedFinding(
                uid=digest("screened/v1", [document.id, finding.code, str(number)])[:32],
                finding=finding,
                doc_id=document_id(stamp.source, document.id),
                version_id=judgement.version_id,
                stamp=stamp,
                state=_STATES[judgement.verdict],
                verdict=judgement.verdict.value,
                risk=judgement.risk,
                policy_digest=judgement.policy_digest,
                run_id="screen",
                judged_at=at,
                current=True,
                decision=None,
                line=line or 1,
            )
