"""The ledger's tables: the one source of truth. Chroma and the manifest are derived from it.

Times are UTC; ids and hashes are lower-case hex. Text is not kept here but in the Parquet batch a version names.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    text,
)

from corpus_guard.domain import Severity, TrustLevel
from corpus_guard.ledger._review_tables import ACTS, acts, campaigns, decisions, standing
from corpus_guard.ledger._schema import Sequence, Utc, metadata, one_of
from corpus_guard.ledger._traceback_tables import REPORT_STATES, enhancements, filings, reports, suspects, traces

__all__ = [
    "ACTS",
    "HEAD",
    "REPORT_STATES",
    "Utc",
    "acts",
    "bands",
    "blocked",
    "campaigns",
    "chunks",
    "decisions",
    "documents",
    "enhancements",
    "events",
    "filings",
    "findings",
    "heads",
    "incidents",
    "metadata",
    "publications",
    "purges",
    "queries",
    "reports",
    "results",
    "retrievals",
    "runs",
    "seals",
    "signals",
    "standing",
    "suspects",
    "traces",
    "validators",
    "versions",
]

HEAD = "0009"
"""The newest migration; a ledger at another one is migrated when opened."""

VERSION_STATES = ("accepted", "quarantined", "released", "rejected")
PUBLICATION_STATES = ("pending", "published", "retiring", "retired")
QUERY_ORIGINS = ("log", "report")
INCIDENT_STATES = ("open", "healed", "accepted", "closed")
PURGE_STATES = ("removed", "closed")

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
    one_of("state", ("running", "sealed", "failed")),
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
    one_of("trust", TrustLevel),
)

validators = Table(
    "validators",  # what a source said last of a document's bytes; counts only while these are the document's newest bytes
    metadata,
    Column("doc_id", String(32), primary_key=True),
    Column("validator", Text, nullable=False),  # opaque to everybody but the source
    Column("content_sha256", String(64), nullable=False),  # of the bytes it came with
    Column("read_at", Utc, nullable=False),  # when these bytes were last read, and not only said to be the same
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
    Column("state", String(12), nullable=False),
    Column("verdict", String(10), nullable=False),  # the policy's; `state` may since have been decided by a person
    Column("risk", Float, nullable=False),
    Column("policy_digest", String(64), nullable=False),
    Column("skipped", JSON, nullable=False),
    Column("run_id", String(250), nullable=False, index=True),
    Column("judged_at", Utc, nullable=False),
    Column("shadow_verdict", String(10)),  # what the verdict would have been if nothing were shadowed; none: the same
    Column("principal", String(32), index=True),  # digest of who stands behind it: what queues and groups go by
    Column("severity", String(10)),  # of its worst finding that counts; none: no finding
    Column("checks", Text),  # ",a,b,": those with a finding that counts
    Column(
        "campaign", String(32), nullable=False, server_default=text("''")
    ),  # of what waits and belongs together; else empty
    Column("waits_since", Utc),  # kept once it is decided; none: it never waited
    one_of("state", VERSION_STATES),
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
    Column("muted", Boolean),  # two people said that it means nothing in this source
    one_of("severity", Severity),
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
    one_of("state", PUBLICATION_STATES),
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
    Column("number", Sequence, primary_key=True, autoincrement=True),
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
    one_of("origin", QUERY_ORIGINS),
)

retrievals = Table(
    "retrievals",  # the retrieval log
    metadata,
    Column("retrieval_id", Sequence, primary_key=True, autoincrement=True),
    Column("query_id", String(32), ForeignKey("queries.query_id"), nullable=False, index=True),
    Column("at", Utc, nullable=False, index=True),
    Column("session", String(250), nullable=False),  # what the caller calls the conversation or run; may be empty
    Column("checked_by", String(20), nullable=False),  # off, filterrag, ml_filterrag
    Column("filter_digest", String(64)),  # SHA-256 of the model it judged by; null: by none
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
    one_of("state", INCIDENT_STATES),
)

blocked = Table(
    "blocked",  # content that was purged: it comes back by no road
    metadata,
    Column("sha256", String(64), primary_key=True),
    Column("kind", String(10), primary_key=True),
    Column("purge_id", String(32), nullable=False, index=True),
    Column("reason", Text, nullable=False),
    Column("blocked_at", Utc, nullable=False),
    one_of("kind", ("content", "text")),  # bytes as fetched; text as parsed
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
    one_of("state", PURGE_STATES),
)

# What a page of the queue is sorted and counted by: 50,000 items are counted without a look at their rows.
Index(
    "ix_versions_state",
    versions.c.state,
    versions.c.risk,
    versions.c.campaign,
    versions.c.version_id,
    versions.c.severity,
    versions.c.checks,
)
Index("ix_versions_waits_since", versions.c.state, versions.c.waits_since, versions.c.version_id)
_GROUPED = text("campaign <> ''")
Index(
    "ix_versions_campaign",
    versions.c.campaign,
    versions.c.state,
    versions.c.version_id,
    sqlite_where=_GROUPED,
    postgresql_where=_GROUPED,
)
Index("ix_documents_latest", documents.c.latest_version, documents.c.retired_at, documents.c.source, documents.c.trust)
Index("ix_publications_collection_state", publications.c.collection, publications.c.state)
