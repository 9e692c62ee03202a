"""The last step of intake: a document, its provenance and its chunks as one `corpus_guard.domain.Version`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType

from corpus_guard import __version__, domain
from corpus_guard.domain import Finding, Stamp, Version
from corpus_guard.intake.chunking import Chunker
from corpus_guard.intake.parsing.document import MAX_DECLARED, ParsedDocument
from corpus_guard.intake.sources import Source
from corpus_guard.intake.sources.source import SourceItem

FETCHED_BY = f"corpus-guard/{__version__}"
EMPTY, NO_TEXT = "parsing.empty", "parsing.no_text"


def make_version(
    *,
    source: Source,
    item: SourceItem,
    content_sha256: str,
    size: int,
    parsed: ParsedDocument,
    problems: Sequence[Finding],
    declared: Mapping[str, str],
    run_id: str,
    fetched_at: datetime,
    parent_version: str | None,
    chunker: Chunker,
    revision: str | None = None,
) -> Version:
    """Stamp one document and split it into chunks. Pure: the same arguments give the same version.

    Args:
        content_sha256: hash of the bytes as fetched, hex, or of a stand-in for bytes that were refused
            unread.
        problems: problems met while fetching.
        declared: the document's claims in the source's columns.
        fetched_at: time with a time zone.
        parent_version: the version this one follows; None for a new document.
        revision: place in the source's history that the bytes are from.
    """
    document = domain.doc_id(source.name, item.uri)
    version = domain.version_id(document, content_sha256)
    # Claims in the source's columns take precedence over those in the bytes.
    claims = {**declared, **{key: value for key, value in parsed.declared.items() if key not in declared}}
    stamp = Stamp(
        source=source.name,
        owner=source.owner,
        trust=source.trust,
        uri=item.uri,
        content_sha256=content_sha256,
        size=size,
        media_type=parsed.media_type,
        fetched_at=fetched_at,
        fetched_by=FETCHED_BY,
        run_id=run_id,
        parent_version=parent_version,
        modified_at=item.modified_at,
        declared=MappingProxyType(dict(list(claims.items())[:MAX_DECLARED])),
        revision=revision,
    )
    return Version(
        doc_id=document,
        version_id=version,
        stamp=stamp,
        text=parsed.text,
        hidden=parsed.hidden,
        chunks=chunker.cut(document, version, parsed.text),
        problems=join_problems(problems, parsed.problems),
    )


def join_problems(fetching: Sequence[Finding], parsing: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return what fetching and parsing found; that a text is empty adds nothing where the source says so of its row, with its line."""
    has_no_text = any(problem.code == NO_TEXT for problem in fetching)
    return (*fetching, *(problem for problem in parsing if problem.code != EMPTY or not has_no_text))
