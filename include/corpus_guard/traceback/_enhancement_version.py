"""From a question and its right answer to a version that can be published. Part of `corpus_guard.traceback.enhancement`.

The bytes of the version are the enhancement itself, as canonical JSON with its author and time: enabling the same text again later makes
another version, so that no record is ever written anew under its id.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from corpus_guard import domain
from corpus_guard.batches.tables import vectors_to_table, versions_to_table
from corpus_guard.corpus import trigger
from corpus_guard.corpus.retrieval_log import query_id
from corpus_guard.domain import Judgement, Severity, Stamp, TrustLevel, Verdict, Version, canonical_json, digest
from corpus_guard.errors import Misuse
from corpus_guard.intake.stamps import FETCHED_BY
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import documents

if TYPE_CHECKING:
    from corpus_guard.guard import Guard

FORBIDDEN = ("instructions", "unicode")  # checks whose findings refuse a text, from this severity on
SEVERE = Severity.MEDIUM


@dataclass(frozen=True, slots=True)
class Made:
    """A version that was stored and not yet recorded."""

    query: str
    text: str
    by: str
    version: Version
    judgement: Judgement
    batch: str  # storage name of its text
    vectors: str  # storage name of the question's vector
    model: str  # that made the vector


def make(guard: Guard, run_id: str, query: str, text: str, by: str) -> Made:
    """Stamp, screen and store; everything that a refresh would have left behind.

    Raises:
        Misuse: longer than a chunk, or screening does not let it pass.
    """
    version = _version(guard, run_id, query, text, by)
    judgement = guard.screening.judge([version], None)[0]
    _refuse(judgement)
    folder = f"batches/{digest('enhancement batch/v1', [version.version_id])[:32]}"
    vectors, model = _store(guard, folder, version, query)
    return Made(query, text, by, version, judgement, f"{folder}/versions.parquet", vectors, model)


def _version(guard: Guard, run_id: str, query: str, text: str, by: str) -> Version:
    when = now()
    key = query_id(query)
    uri = f"question/{key}"
    document = domain.doc_id(trigger.SOURCE, uri)
    content = canonical_json({"query": query, "text": text, "by": by, "at": when.isoformat()})
    sha256 = guard.blobs.put(content)
    version = domain.version_id(document, sha256)
    wrapped = trigger.wrap(text)
    chunks = guard.chunker.cut(document, version, wrapped)
    if len(chunks) != 1:
        raise Misuse(
            f"the text makes {len(chunks)} chunks of {guard.settings.chunk_tokens} tokens, and an enhancement is one; shorten it"
        )
    with guard.ledger.read() as connection:
        parent = connection.scalar(
            documents.select().with_only_columns(documents.c.latest_version).where(documents.c.doc_id == document)
        )
    stamp = Stamp(
        source=trigger.SOURCE,
        owner=by,
        trust=TrustLevel.TRUSTED,
        uri=uri,
        content_sha256=sha256,
        size=len(content),
        media_type="application/json",
        fetched_at=when,
        fetched_by=FETCHED_BY,
        run_id=run_id,
        parent_version=parent,
    )
    return Version(document, version, stamp, wrapped, "", chunks)


def _refuse(judgement: Judgement) -> None:
    codes = {
        one.code
        for one in judgement.findings
        if one.code.endswith(".unchecked") or (one.check in FORBIDDEN and one.severity.rank >= SEVERE.rank)
    }
    if judgement.verdict is Verdict.REJECT:
        codes |= {one.code for one in judgement.findings}
    if codes:
        raise Misuse(
            f"screening does not let this text outrank the corpus: {', '.join(sorted(codes))}; say it in plain words"
        )


def _store(guard: Guard, folder: str, version: Version, query: str) -> tuple[str, str]:
    """Batch, measures and vector; a rescreening reads them like those of any other version."""
    from corpus_guard.screening.signals import signals_of, to_table

    guard.storage.write_table(f"{folder}/versions.parquet", versions_to_table([version]))
    guard.storage.write_table(f"{folder}/signals.parquet", to_table([signals_of(version)]))
    embedder = guard.models.embedder
    # Not the name that the vectors of its texts have: a rescreening makes those, and reads them as such.
    name = f"{folder}/vectors-{digest('enhancement vectors/v1', [str(embedder.weights), query])[:32]}.parquet"
    ids = [chunk.chunk_id for chunk in version.chunks]
    guard.storage.write_table(name, vectors_to_table(ids, embedder.embed([query]), embedder.digest))
    return name, embedder.digest
