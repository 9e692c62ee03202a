"""The ledger's tables: the one source of truth. Chroma and the manifest are derived from it.

Times are UTC; ids and hashes are lower-case hex. Text is not kept here but in the Parquet batch a version names.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
)

from corpus_guard.domain import Severity, TrustLevel

HEAD = "0005"
"""The newest migration; a ledger at another one is migrated when opened."""

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)


class Utc(TypeDecorator[datetime]):
    """A point in time, UTC. SQLite forgets time zones; this remembers that there is only one."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Any) -> datetime | None:
        """Refuse a time without a zone."""
        if value is not None and value.tzinfo is None:
            raise ValueError("a time without a zone; the ledger takes UTC")
        return value.astimezone(UTC) if value else None

    def process_result_value(self, value: datetime | None, dialect: Any) -> datetime | None:
        """SQLite gives the time back without its zone, PostgreSQL in that of its session."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


# SQLite numbers rows by itself only in a column of exactly this type.
_Sequence = BigInteger().with_variant(Integer, "sqlite")


def _one_of(column: str, values: Any) -> CheckConstraint:
    return CheckConstraint(f"{column} IN ({', '.join(repr(str(value)) for value in values)})", name=column)


VERSION_STATES = ("accepted", "quarantined", "released", "rejected")
PUBLICATION_STATES = ("pending", "published", "retiring", "retired")
QUERY_ORIGINS = ("log", "report")
INCIDENT_STATES = ("open", "healed", "accepted", "closed")
PURGE_STATES = ("removed", "closed")
TRACE_OUTCOMES = ("traced", "not_poisoning", "exhausted", "undecided", "judge_failed")
REPORT_STATES = ("open", *TRACE_OUTCOMES)
LABELS = ("poisoned", "benign", "undecided")
ENHANCEMENT_STATES = ("active", "expired", "withdrawn")

runs = Table(
    "runs",
    metadata,
    Column("run_id", String(250), primary_key=True),
    Column("kind", String(20), nullable=False),  # refresh, release, rescreen
    Column("state", String(10), nullable=False),
    Column("sources", JSON, nullable=False),
    Column("policy_digest", String(64), nullable=False),
    Column("started_at", Utc, nullable=False),
    Column("finished_at", Utc),
    Column("counts", JSON),
    _one_of("state", ("running", "sealed", "failed")),
)

documents = Table(
    "documents",
    metadata,
    Column("doc_id", String(32), primary_key=True),
    Column("source", String(64), nullable=False, index=True),
    Column("uri", Text, nullable=False),
    Column("trust", String(10), nullable=False),
    Column("latest_version", String(32), nullable=False),  # newest by fetch time, whatever its verdict
    Column("latest_content_sha256", String(64), nullable=False),
    Column("latest_fetched_at", Utc, nullable=False),
    Column("target_version", String(32)),  # the one the collections should hold; none: nothing is served
    Column("target_fetched_at", Utc),
    Column("last_seen_at", Utc, nullable=False),
    Column("missing_since", Utc),
    Column("retired_at", Utc),
    _one_of("trust", TrustLevel),
)

versions = Table(
    "versions",
    metadata,
    Column("version_id", String(32), primary_key=True),
    Column("doc_id", String(32), ForeignKey("documents.doc_id"), nullable=False, index=True),
    Column("content_sha256", String(64), nullable=False, index=True),
    Column("text_sha256", String(64), nullable=False, index=True),
    Column("stamp", JSON, nullable=False),
    Column("batch", Text, nullable=False),  # storage path of the Parquet batch that holds its text
    Column("state", String(12), nullable=False, index=True),
    Column("verdict", String(10), nullable=False),  # the policy's; `state` may since have been decided by a person
    Column("risk", Float, nullable=False),
    Column("policy_digest", String(64), nullable=False),
    Column("skipped", JSON, nullable=False),
    Column("run_id", String(250), nullable=False),
    Column("judged_at", Utc, nullable=False),
    Column("shadow_verdict", String(10)),  # what the verdict would have been if nothing were shadowed; none: the same
    _one_of("state", VERSION_STATES),
)

findings = Table(
    "findings",
    metadata,
    Column("version_id", String(32), ForeignKey("versions.version_id"), primary_key=True),
    Column("ordinal", Integer, primary_key=True),
    Column("check_name", String(40), nullable=False, index=True),
    Column("code", String(80), nullable=False),
    Column("severity", String(10), nullable=False),
    Column("score", Float, nullable=False),
    Column("message", Text, nullable=False),
    Column("span_start", Integer),
    Column("span_end", Integer),
    Column("tags", JSON, nullable=False),
    _one_of("severity", Severity),
)

chunks = Table(
    "chunks",
    metadata,
    Column("chunk_id", String(32), primary_key=True),
    Column("version_id", String(32), ForeignKey("versions.version_id"), nullable=False, index=True),
    Column("ordinal", Integer, nullable=False),
    Column("span_start", Integer, nullable=False),
    Column("span_end", Integer, nullable=False),
    Column("tokens", Integer, nullable=False),
    Column("text_sha256", String(64), nullable=False),
)

publications = Table(
    "publications",  # the outbox: `pending` and `retiring` rows are work to be done in Chroma
    metadata,
    Column("chunk_id", String(32), ForeignKey("chunks.chunk_id"), primary_key=True),
    Column("collection", String(128), primary_key=True),
    Column("doc_id", String(32), nullable=False, index=True),
    Column("version_id", String(32), nullable=False, index=True),
    Column("state", String(10), nullable=False, index=True),
    Column("vectors", Text, nullable=False),  # storage path of the Parquet file that holds its vector
    Column("model", String(120), nullable=False),
    Column("vector_sha256", String(64)),  # of little-endian float32 as Chroma gave it back
    Column("metadata_sha256", String(64)),
    Column("changed_at", Utc, nullable=False, index=True),
    Column("run_id", String(250), nullable=False),
    _one_of("state", PUBLICATION_STATES),
)

decisions = Table(
    "decisions",
    metadata,
    Column("decision_id", String(32), primary_key=True),
    Column("version_id", String(32), ForeignKey("versions.version_id"), nullable=False, index=True),
    Column("content_sha256", String(64), nullable=False),  # what was decided on; other bytes reopen the question
    Column("verdict", String(10), nullable=False),
    Column("reviewer", String(200), nullable=False),
    Column("reason", Text, nullable=False),
    Column("policy_digest", String(64), nullable=False),
    Column("decided_at", Utc, nullable=False),
    Column("applied_at", Utc, index=True),
    _one_of("verdict", ("release", "reject")),
)

signals = Table(
    "signals",  # what the survey needs to know of the past
    metadata,
    Column("version_id", String(32), ForeignKey("versions.version_id"), primary_key=True),
    Column("source", String(64), nullable=False, index=True),
    Column("values", JSON, nullable=False),
    Column("minhash", LargeBinary, nullable=False),
)

bands = Table(
    "bands",  # locality-sensitive hashing: near-duplicates share a band
    metadata,
    Column("band", BigInteger, primary_key=True),
    Column("version_id", String(32), ForeignKey("versions.version_id"), primary_key=True),
)

results = Table(
    "results",  # what slow checks found, by content
    metadata,
    Column("key", String(64), primary_key=True),
    Column("findings", JSON, nullable=False),
)

seals = Table(
    "seals",
    metadata,
    Column("number", _Sequence, primary_key=True, autoincrement=True),
    Column("run_id", String(250), nullable=False),
    Column("manifest", Text, nullable=False),  # storage path
    Column("manifest_sha256", String(64), nullable=False),
    Column("root", String(64)),  # RFC 6962 tree over its lines; none: sealed by a release that signed nothing
    Column("chunks", Integer, nullable=False),
    Column("sealed_at", Utc, nullable=False),
)

queries = Table(
    "queries",  # distinct questions; the one kind of row that is forgotten again (`corpus_guard.corpus.retrieval_log`)
    metadata,
    Column("query_id", String(32), primary_key=True),  # of the normalised text
    Column("text", Text, nullable=False),  # as it was asked first
    Column("origin", String(10), nullable=False),  # report, where somebody ever reported an answer to it
    Column("count", Integer, nullable=False),
    Column("first_seen_at", Utc, nullable=False),
    Column("last_seen_at", Utc, nullable=False, index=True),
    _one_of("origin", QUERY_ORIGINS),
)

retrievals = Table(
    "retrievals",  # the retrieval log
    metadata,
    Column("retrieval_id", _Sequence, primary_key=True, autoincrement=True),
    Column("query_id", String(32), ForeignKey("queries.query_id"), nullable=False, index=True),
    Column("at", Utc, nullable=False, index=True),
    Column("session", String(250), nullable=False),  # what the caller calls the conversation or run; may be empty
    Column("checked_by", String(20), nullable=False),  # off, filterrag, ml_filterrag
    Column("served", JSON, nullable=False),  # [{chunk_id, rank, similarity}], nearest first
    Column("filtered", JSON, nullable=False),  # [{chunk_id, score}]: the filter took them for poisoned
    Column("withheld", JSON, nullable=False),  # [{chunk_id, collection}]: the ledger does not vouch for them
)

events = Table(
    "events",  # append-only: the life of the corpus, each a leaf of the log's tree (`corpus_guard.ledger.event_log`)
    metadata,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),  # 0, 1, 2, … without a gap
    Column("at", Utc, nullable=False),
    Column("kind", String(40), nullable=False, index=True),
    Column("subject", Text, nullable=False),
    Column("run_id", String(250), nullable=False),
    Column("body", JSON, nullable=False),
    Column("leaf_sha256", String(64), nullable=False),  # RFC 6962 leaf hash of its line, which names its predecessor's
)

heads = Table(
    "heads",  # append-only: every signed state of the log
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),  # 0, 1, 2, …: the next one can be written once
    Column("size", BigInteger, nullable=False),  # events below it
    Column("root", String(64), nullable=False),
    Column("nodes", JSON, nullable=False),  # compact range of `size` leaves, hex: the next head costs only what is new
    Column("note", Text, nullable=False),  # C2SP checkpoint with its signatures and cosignatures
    Column("signed_at", Utc, nullable=False),
)

incidents = Table(
    "incidents",  # a verification that found deviations
    metadata,
    Column("incident_id", String(32), primary_key=True),
    Column("state", String(10), nullable=False, index=True),
    Column("opened_at", Utc, nullable=False),
    Column("run_id", String(250), nullable=False),
    Column("counts", JSON, nullable=False),  # kind of deviation → how many
    Column("deviations", Text, nullable=False),  # storage name of the JSON lines
    Column("closed_at", Utc),
    Column("closed_by", String(200)),
    Column("reason", Text),
    _one_of("state", INCIDENT_STATES),
)

blocked = Table(
    "blocked",  # content that was purged: it comes back by no road
    metadata,
    Column("sha256", String(64), primary_key=True),
    Column("kind", String(10), primary_key=True),
    Column("purge_id", String(32), nullable=False, index=True),
    Column("reason", Text, nullable=False),
    Column("blocked_at", Utc, nullable=False),
    _one_of("kind", ("content", "text")),  # bytes as fetched; text as parsed
)

purges = Table(
    "purges",
    metadata,
    Column("purge_id", String(32), primary_key=True),
    Column(
        "state", String(10), nullable=False, index=True
    ),  # removed: served no longer; closed: seen to be gone from disk
    Column("subject", JSON, nullable=False),  # what was asked for: {chunk|document|source|hash: …}
    Column("versions", JSON, nullable=False),  # ids
    Column("requested_by", String(200), nullable=False),
    Column("reason", Text, nullable=False),
    Column("requested_at", Utc, nullable=False),
    Column("run_id", String(250), nullable=False),
    Column("closed_at", Utc),
    Column("evidence", JSON),  # what was searched, and that nothing was found
    _one_of("state", PURGE_STATES),
)

reports = Table(
    "reports",  # wrong answers that were reported; the same question with the same answer is one report
    metadata,
    Column("report_id", String(32), primary_key=True),  # of the normalised query and output
    Column("query_id", String(32), ForeignKey("queries.query_id"), nullable=False, index=True),
    Column("query", Text, nullable=False),
    Column("output", Text, nullable=False),  # the answer that was wrong
    Column("correct", Text),  # the right one, where somebody knew it
    Column("state", String(14), nullable=False, index=True),  # open, or how its last trace ended
    Column("weight", Float, nullable=False),  # of those who reported it: what is traced first
    Column("first_reported_at", Utc, nullable=False),
    Column("last_reported_at", Utc, nullable=False, index=True),
    _one_of("state", REPORT_STATES),
)

filings = Table(
    "filings",  # each time somebody reported it
    metadata,
    Column(
        "filing_id", String(32), primary_key=True
    ),  # of report, reporter, time and session: importing twice adds nothing
    Column("report_id", String(32), ForeignKey("reports.report_id"), nullable=False, index=True),
    Column("reporter", String(200), nullable=False, index=True),
    Column("reported_at", Utc, nullable=False, index=True),
    Column("received_at", Utc, nullable=False),
    Column("session", String(250), nullable=False),
    Column("served", JSON, nullable=False),  # chunk ids that the answer was made from, as told
    Column("correct", Text),
    Column("origin", Text, nullable=False),  # command line, file and line, trace id
    Column("counted", Float, nullable=False),  # what it adds to the report's weight; 0: over its reporter's limit
)

traces = Table(
    "traces",  # a report followed back to texts (RAGForensics)
    metadata,
    Column("trace_id", String(32), primary_key=True),  # of report, run, judge and point in time
    Column("report_id", String(32), ForeignKey("reports.report_id"), nullable=False, index=True),
    Column("run_id", String(250), nullable=False, index=True),
    Column("judge", String(200), nullable=False),  # its digest
    Column("k", Integer, nullable=False),
    Column("as_of", Utc),  # the corpus of then; none: of now
    Column("outcome", String(14), index=True),  # none: still running
    Column("ended", String(20)),  # why the loop stopped
    Column("probability", Float),  # that the report is an attack
    Column("iterations", Integer, nullable=False),
    Column("missing", Integer, nullable=False),  # chunks served then that are erased now
    Column("counts", JSON, nullable=False),  # label → texts
    Column("answer_before", Text),  # of the RAG model, from what was retrieved first
    Column("answer_after", Text),  # with the traced texts set aside
    Column("failure", Text),  # what the judge died of
    Column("seconds", Float, nullable=False),
    Column("started_at", Utc, nullable=False),
    Column("finished_at", Utc, index=True),
    _one_of("outcome", TRACE_OUTCOMES),
)

suspects = Table(
    "suspects",  # every text a trace judged, once
    metadata,
    Column("trace_id", String(32), ForeignKey("traces.trace_id"), primary_key=True),
    Column("chunk_id", String(250), primary_key=True),  # Chroma's ids may be anybody's
    Column("ordinal", Integer, nullable=False),  # in the order they were judged
    Column("iteration", Integer, nullable=False),
    Column("label", String(10), nullable=False, index=True),
    Column("score", Float, nullable=False),  # probability of being poisoned, 0..1
    Column("explanation", Text, nullable=False),
    Column("similarity", Float, nullable=False),
    Column("text_sha256", String(64), nullable=False, index=True),
    Column("collection", String(128), nullable=False),
    Column("version_id", String(32), nullable=False),  # empty: the ledger never published it
    Column("source", Text, nullable=False),
    Column("uri", Text, nullable=False),
    _one_of("label", LABELS),
)

enhancements = Table(
    "enhancements",  # right answers put where a question finds them (BTE)
    metadata,
    Column("enhancement_id", String(32), primary_key=True),
    Column("query_id", String(32), nullable=False, index=True),
    Column("query", Text, nullable=False),
    Column("text", Text, nullable=False),  # without its trigger
    Column("state", String(10), nullable=False, index=True),
    Column("report_id", String(32), ForeignKey("reports.report_id")),
    Column("doc_id", String(32), nullable=False),  # the document it is published as
    Column("created_by", String(200), nullable=False),
    Column("reason", Text, nullable=False),
    Column("created_at", Utc, nullable=False),
    Column("expires_at", Utc, index=True),
    Column("ended_at", Utc),
    Column("ended_by", String(200)),
    _one_of("state", ENHANCEMENT_STATES),
)

Index("ix_publications_collection_state", publications.c.collection, publications.c.state)
