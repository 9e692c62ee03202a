"""The last step of intake: everything known of a document's bytes, as one `corpus_guard.domain.Version`."""

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
    """Stamp and cut one document. Pure: the same arguments give the same version.

    Args:
        source: whose name, owner and trust the stamp carries.
        item: the document's place.
        content_sha256: of the bytes as fetched, hex; of what stands in for bytes that were refused unread.
        size: of the bytes.
        parsed: what was read of them.
        problems: what fetching found wrong, beside what parsing did.
        declared: what the source's columns say of the document.
        run_id: of the run that fetched.
        fetched_at: with a time zone.
        parent_version: the version this one follows; None for a document seen for the first time.
        chunker: cuts the text.
        revision: where in the source's history the bytes are from.
    """
    document = domain.doc_id(source.name, item.uri)
    version = domain.version_id(document, content_sha256)
    # What the source's columns say goes before what the bytes say of themselves.
    said = {**declared, **{key: value for key, value in parsed.declared.items() if key not in declared}}
    named = {problem.code for problem in problems}
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
        declared=MappingProxyType(dict(list(said.items())[:MAX_DECLARED])),
        revision=revision,
    )
    return Version(
        doc_id=document,
        version_id=version,
        stamp=stamp,
        text=parsed.text,
        hidden=parsed.hidden,
        chunks=chunker.cut(document, version, parsed.text),
        # A row without text was named by its source, with its line; that its text is empty says nothing more.
        problems=(*problems, *(one for one in parsed.problems if one.code != EMPTY or NO_TEXT not in named)),
    )
