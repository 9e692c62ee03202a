"""Rows of Chroma that are no records any more: verification survives them, and names each."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from corpus_guard.domain import TrustLevel
from corpus_guard.proof.deviations import DeviationKind
from tampering import PUMPS, QUAYS, Corpus

NO_METADATA, NO_TEXT, NOTHING, NUMBER_FOR_TEXT, BYTES_FOR_TEXT, NUMBER_FOR_WORD, BYTES_FOR_WORD, SHORT_VECTOR = (
    chunk.chunk_id for chunk in PUMPS.chunks
)
IS_TEXT = "key = 'chroma:document' AND id = {row}"
IS_TRUST = "key = 'trust' AND id = {row}"
STATEMENTS = {
    NO_METADATA: "DELETE FROM embedding_metadata WHERE key <> 'chroma:document' AND id = {row}",
    NO_TEXT: f"DELETE FROM embedding_metadata WHERE {IS_TEXT}",
    NOTHING: "DELETE FROM embedding_metadata WHERE id = {row}",
    NUMBER_FOR_TEXT: f"UPDATE embedding_metadata SET string_value = NULL, int_value = 5 WHERE {IS_TEXT}",
    BYTES_FOR_TEXT: f"UPDATE embedding_metadata SET string_value = x'ff00fe' WHERE {IS_TEXT}",
    NUMBER_FOR_WORD: f"UPDATE embedding_metadata SET string_value = NULL, float_value = 9e999 WHERE {IS_TRUST}",
    BYTES_FOR_WORD: f"UPDATE embedding_metadata SET string_value = x'ff00' WHERE {IS_TRUST}",
}


def test_each_malformed_row_is_named(own: Corpus) -> None:
    for chunk_id, statement in STATEMENTS.items():
        own.chroma_sql(statement, chunk=chunk_id)
    with closing(sqlite3.connect(own.chroma_home / "chroma" / "chroma.sqlite3")) as database, database:
        database.execute(
            "UPDATE embeddings_queue SET vector = substr(vector, 1, 32) WHERE id = ? AND vector IS NOT NULL",
            (SHORT_VECTOR,),
        )
    # An id that is no text: Chroma refuses to list the collection.
    own.chroma_sql(
        "UPDATE embeddings SET embedding_id = x'ff00' WHERE segment_id = {segment} AND embedding_id = :chunk",
        name=own.name(TrustLevel.TRUSTED),
        chunk=QUAYS.chunks[0].chunk_id,
    )

    result = own.verified()

    assert not result.holds
    assert {(deviation.kind, deviation.subject) for deviation in result.deviations} == {
        (DeviationKind.METADATA_CHANGED, NO_METADATA),
        (DeviationKind.TEXT_CHANGED, NO_TEXT),
        (DeviationKind.TEXT_CHANGED, NOTHING),
        (DeviationKind.METADATA_CHANGED, NOTHING),
        (DeviationKind.TEXT_CHANGED, NUMBER_FOR_TEXT),
        (DeviationKind.TEXT_CHANGED, BYTES_FOR_TEXT),
        (DeviationKind.METADATA_CHANGED, NUMBER_FOR_WORD),
        (DeviationKind.METADATA_CHANGED, BYTES_FOR_WORD),
        (DeviationKind.VECTOR_CHANGED, SHORT_VECTOR),
        (DeviationKind.COLLECTION_DAMAGED, own.name(TrustLevel.TRUSTED)),
    }
