"""Raw bytes that are missing or damaged, fetched again from their source (`guard incident heal`).

Rules
    * only bytes with the hash that was judged are stored; whatever else the source has now waits for the next refresh;
    * the event ``refetched`` says what was damaged, before the file is written;
    * purged content is not fetched again;
    * what the source no longer has, or has with other bytes, is named with the reason: then only a copy helps.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import sqlalchemy as sa

from corpus_guard.domain import sha256_bytes
from corpus_guard.errors import SourceUnavailable, UnknownSubject
from corpus_guard.intake.blobs import BlobStore
from corpus_guard.intake.sources import Sources
from corpus_guard.intake.sources.source import Fetched, FetchFailed, Outcome, Source
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.event_log import append_event
from corpus_guard.ledger.queries import select_in_batches
from corpus_guard.ledger.tables import documents, versions
from corpus_guard.pipeline.arrivals import checked_outcomes
from corpus_guard.proof.deviations import Deviation, DeviationKind
from corpus_guard.screening.blocked import find_purged

REFETCHED_EVENT: Final = "refetched"
_RAW_NAME: Final = re.compile(r"raw/sha256/[0-9a-f]{2}/([0-9a-f]{64})")
_DAMAGED: Final = (DeviationKind.FILE_MISSING, DeviationKind.FILE_CHANGED)


@dataclass(frozen=True, slots=True)
class RefetchedBytes:
    """Outcome of fetching damaged raw bytes again."""

    restored: list[str] = field(default_factory=list)  # SHA-256
    lost: dict[str, str] = field(default_factory=dict)  # SHA-256 → why the source could not help


def refetch_raw_bytes(
    ledger: Ledger, blobs: BlobStore, sources: Sources, run_id: str, deviations: Iterable[Deviation]
) -> RefetchedBytes:
    """Fetch the documents again whose raw bytes deviations name as missing or changed.

    Args:
        deviations: of an incident; those about anything else are passed over.
    """
    named = {match[1] for each in deviations if each.kind in _DAMAGED and (match := _RAW_NAME.fullmatch(each.subject))}
    damaged = {sha256 for sha256 in named if blobs.actual_sha256(sha256) != sha256}
    result = RefetchedBytes()
    for sha256 in find_purged(ledger, sorted(damaged)):
        damaged.discard(sha256)
        result.lost[sha256] = "it was purged"
    for name, wanted in sorted(_places(ledger, damaged).items()):
        try:
            _refetch(ledger, blobs, sources.named(name), run_id, wanted, result)
        except (SourceUnavailable, UnknownSubject) as error:
            result.lost.update({sha256: str(error) for hashes in wanted.values() for sha256 in hashes})
    for sha256 in damaged.difference(result.restored, result.lost):
        result.lost[sha256] = "no document of the ledger has these bytes"
    for sha256 in result.restored:
        result.lost.pop(sha256, None)  # another source had them
    return result


def _places(ledger: Ledger, hashes: Iterable[str]) -> Mapping[str, Mapping[str, set[str]]]:
    """Return source → URI → hashes of the raw bytes that the document had."""
    statement = sa.select(documents.c.source, documents.c.uri, versions.c.content_sha256).join(
        documents, documents.c.doc_id == versions.c.doc_id
    )
    places: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    with ledger.read() as connection:
        for row in select_in_batches(connection, statement, versions.c.content_sha256, sorted(hashes)):
            places[row.source][row.uri].add(row.content_sha256)
    return places


def _refetch(
    ledger: Ledger,
    blobs: BlobStore,
    source: Source,
    run_id: str,
    wanted: Mapping[str, set[str]],
    result: RefetchedBytes,
) -> None:
    items = [replace(item, known_validator=None) for item in source.list() if item.uri in wanted]
    for uri in wanted.keys() - {item.uri for item in items}:
        result.lost.update(dict.fromkeys(wanted[uri], f"source {source.name} no longer lists its document"))
    for outcome in checked_outcomes(source, items):
        hashes = wanted[outcome.item.uri]
        content, reason = _content(outcome)
        sha256 = sha256_bytes(content)
        if sha256 in hashes:
            with ledger.write() as connection:
                append_event(connection, REFETCHED_EVENT, sha256, run_id, lost=blobs.actual_sha256(sha256) or "")
            blobs.put(content)
            result.restored.append(sha256)
        others = hashes - {sha256}
        result.lost.update(dict.fromkeys(others, reason or f"source {source.name} has other bytes now"))


def _content(outcome: Outcome) -> tuple[bytes, str]:
    """Return the bytes that were fetched, and why there are none."""
    if isinstance(outcome, Fetched):
        return outcome.content, ""
    return b"", outcome.message if isinstance(outcome, FetchFailed) else "the source sent no bytes"
