"""The ledger's tables: the one source of truth. Chroma and the manifest are derived from it.

Times are UTC; ids and hashes are lower-case hex. Text is not kept here but in the Parquet batch a version
names.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

import sqlalchemy as sa
from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    TypeDecorator,
    text,
)

from corpus_guard.domain import Severity, TrustLevel
from corpus_guard.ledger.states import (
    ACT_KINDS,
    DECISIVE_ACTIONS,
    ActCause,
    BlockedKind,
    EnhancementState,
    IncidentState,
    Label,
    PublicationState,
    PurgeState,
    Purpose,
    QueryOrigin,
    ReportState,
    RunState,
    TraceOutcome,
    VersionState,
)

SCHEMA_REVISION = "0018"
"""The newest migration; a ledger at another one is migrated when opened."""

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)


class UtcDateTime(TypeDecorator[datetime]):
    """Point in time, UTC. SQLite stores no time zone; this type puts UTC back."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:
        """Convert to UTC.

        Raises:
            ValueError: `value` has no time zone.
        """
        if value is not None and value.tzinfo is None:
            raise ValueError("expected a time with a time zone, got one without")
        return value.astimezone(UTC) if value else None

    def process_result_value(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:
        """Return the time in UTC: SQLite gives it back without a zone, PostgreSQL in that of its session."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


# SQLite numbers rows by itself only in a column of exactly this type.
Sequence = BigInteger().with_variant(Integer, "sqlite")


def _one_of(column: str, values: Iterable[str]) -> CheckConstraint:
    return CheckConstraint(f"{column} IN ({', '.join(repr(str(value)) for value in values)})", name=column)


deployment = Table(
    "deployment",  # one row, made with the ledger; the same id stands in each collection
    metadata,
    Column("deployment_id", String(32), primary_key=True),
)

runs = Table(
    "runs",
    metadata,
    Column("run_id", String(250), primary_key=True),
    Column("kind", String(20), nullable=False),  # refresh, release, rescreen
    Column("state", String(10), nullable=False),
    Column("sources", JSON, nullable=False),
    Column("policy_digest", String(64), nullable=False),
    Column("started_at", UtcDateTime, nullable=False),
    Column("finished_at", UtcDateTime),
    Column("counts", JSON),
    Column("awaited_until", UtcDateTime),  # for the next process of a run that several do, one after the other
    _one_of("state", RunState),
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
    Column("latest_fetched_at", UtcDateTime, nullable=False),
    Column("target_version", String(32), index=True),  # that the collections should hold; null: nothing is served
    Column("target_fetched_at", UtcDateTime),
    Column("last_seen_at", UtcDateTime, nullable=False),
    Column("missing_since", UtcDateTime),
    Column("retired_at", UtcDateTime),
    _one_of("trust", TrustLevel),
)

validators = Table(
    # a source's last validator (ETag, …) of a document; counts only while its bytes are the newest
    "validators",
    metadata,
    Column("doc_id", String(32), primary_key=True),
    Column("validator", Text, nullable=False),  # opaque to all but the source
    Column("content_sha256", String(64), nullable=False),  # of the bytes that came with it
    # when these bytes were last read, not only reported as unchanged
    Column("read_at", UtcDateTime, nullable=False),
)

versions = Table(
    "versions",
    metadata,
    Column("version_id", String(32), primary_key=True),
    Column("doc_id", String(32), ForeignKey("documents.doc_id"), nullable=False, index=True),
    Column("content_sha256", String(64), nullable=False, index=True),
    Column("text_sha256", String(64), nullable=False, index=True),
    Column("stamp", JSON, nullable=False),
    Column("batch", Text, nullable=False, index=True),  # storage path of the Parquet batch that holds its text
    Column("state", String(12), nullable=False),
    Column("verdict", String(10), nullable=False),  # of the policy; a person may since have decided `state`
    Column("risk", Float, nullable=False),
    Column("policy_digest", String(64), nullable=False),
    Column("skipped", JSON, nullable=False),
    Column("run_id", String(250), nullable=False, index=True),
    Column("judged_at", UtcDateTime, nullable=False),
    Column("shadow_verdict", String(10)),  # the verdict if nothing were shadowed; null: the same
    # digest of who stands behind it (`corpus_guard.ledger.triage`)
    Column("principal", String(32), index=True),
    Column("severity", String(10)),  # of its worst finding that counts; null: no finding
    Column("checks", Text),  # ",a,b,": checks with a finding that counts
    # shared by waiting versions that belong together; else empty
    Column("campaign", String(32), nullable=False, server_default=text("''")),
    Column("waits_since", UtcDateTime),  # stays after the decision; null: it never waited
    # served, and waits for a decision since later documents cast doubt on it; null: it does not
    Column("reopened_at", UtcDateTime),
    _one_of("state", VersionState),
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
    Column("muted", Boolean),  # two people declared it meaningless in this source
    Column("counterstatement", JSON(none_as_null=True)),  # places of the sentence that contradicts it
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
    "publications",  # the outbox: `pending` and `retiring` rows are work to do in Chroma
    metadata,
    Column("chunk_id", String(32), ForeignKey("chunks.chunk_id"), primary_key=True),
    Column("collection", String(128), primary_key=True),
    Column("doc_id", String(32), nullable=False, index=True),
    Column("version_id", String(32), nullable=False, index=True),
    Column("state", String(10), nullable=False, index=True),
    Column("vectors", Text, nullable=False, index=True),  # storage path of the Parquet file that holds its vector
    Column("model", String(120), nullable=False),
    Column("vector_sha256", String(64)),  # of the little-endian float32 bytes that Chroma returned
    Column("metadata_sha256", String(64)),
    Column("changed_at", UtcDateTime, nullable=False, index=True),
    Column("run_id", String(250), nullable=False),
    _one_of("state", PublicationState),
)

signals = Table(
    "signals",  # measures of versions, for later surveys
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
    Column("version_id", String(32), ForeignKey("versions.version_id"), primary_key=True, index=True),
)

results = Table(
    "results",  # results of slow checks, and answers of chat endpoints, by content
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
    Column("root", String(64)),  # RFC 6962 tree over its lines; null: sealed by a release that signed nothing
    Column("chunks", Integer, nullable=False),
    Column("sealed_at", UtcDateTime, nullable=False),
)

queries = Table(
    # distinct questions; deleted after a time, as `retrievals` (`corpus_guard.corpus.retrieval_log`)
    "queries",
    metadata,
    Column("query_id", String(32), primary_key=True),  # of the normalised text; keyed where the text is not stored
    Column("text", Text, nullable=False),  # as first asked; empty: not stored
    Column("origin", String(10), nullable=False),  # report: somebody reported an answer to it
    Column("count", Integer, nullable=False),
    Column("first_seen_at", UtcDateTime, nullable=False),
    Column("last_seen_at", UtcDateTime, nullable=False, index=True),
    # coarse form of its embedding, hex (`corpus_guard.corpus.sketches`); null: it was not embedded
    Column("sketch", String(32)),
    _one_of("origin", QueryOrigin),
)

retrievals = Table(
    "retrievals",  # the retrieval log
    metadata,
    Column("retrieval_id", Sequence, primary_key=True, autoincrement=True),
    Column("query_id", String(32), ForeignKey("queries.query_id"), nullable=False, index=True),
    Column("at", UtcDateTime, nullable=False, index=True),
    # name the caller gives to the conversation or run; may be empty
    Column("session", String(250), nullable=False),
    Column("checked_by", String(20), nullable=False),  # off, filterrag, ml_filterrag
    Column("filter_digest", String(64)),  # SHA-256 of the filter's model; null: it has none
    Column("filtered", JSON, nullable=False),  # [{chunk_id, score}]: taken for poisoned by the filter
    Column("withheld", JSON, nullable=False),  # [{chunk_id, collection}]: not vouched for by the ledger
    Column("served", Integer, nullable=False, server_default=text("0")),  # number of its `retrieved_chunks`
    Column("origin", String(20), nullable=False, server_default=text("'guard'")),  # who wrote it (`RetrievalOrigin`)
    # identity at its origin: what is sent twice is stored once; null: written by our own retriever
    Column("record_key", String(32), unique=True, index=True),
    Column("user_id", String(250)),  # who asked, as the application names them; null: not known
    Column("answer", Text),  # that was given; null: not known
)

retrieved_chunks = Table(
    "retrieved_chunks",  # texts that a retrieval gave to the application
    metadata,
    Column("chunk_id", String(250), primary_key=True),  # Chroma's ids may be anybody's
    Column("retrieval_id", Sequence, ForeignKey("retrievals.retrieval_id"), primary_key=True, index=True),
    Column("rank", Integer, nullable=False),  # 1: nearest
    Column("score", Float),  # similarity, as its origin gives it; null: not known
    Column("shown", Boolean),  # a person saw it, or the answer cites it; null: not known
    # PostgreSQL: 500,000 entries are read from the index alone, in half the time that their rows take
    PrimaryKeyConstraint("chunk_id", "retrieval_id", postgresql_include=["shown"]),
    sqlite_with_rowid=False,
)

events = Table(
    # append-only: changes of the corpus, each a leaf of the log's tree (`corpus_guard.ledger.event_log`)
    "events",
    metadata,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),  # 0, 1, 2, … without a gap
    Column("at", UtcDateTime, nullable=False),
    Column("kind", String(40), nullable=False, index=True),
    Column("subject", Text, nullable=False),
    Column("run_id", String(250), nullable=False),
    Column("body", JSON, nullable=False),
    # RFC 6962 leaf hash of its line, which names its predecessor's
    Column("leaf_sha256", String(64), nullable=False),
)

heads = Table(
    "heads",  # append-only: every signed state of the log
    metadata,
    # 0, 1, 2, …: each can be written once
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("size", BigInteger, nullable=False),  # events below it
    Column("root", String(64), nullable=False),
    # compact range of `size` leaves, hex: the next head hashes only new events
    Column("nodes", JSON, nullable=False),
    Column("note", Text, nullable=False),  # C2SP checkpoint with its signatures and cosignatures
    Column("signed_at", UtcDateTime, nullable=False),
)

incidents = Table(
    "incidents",  # deviations found by a verification
    metadata,
    Column("incident_id", String(32), primary_key=True),
    Column("state", String(10), nullable=False, index=True),
    Column("opened_at", UtcDateTime, nullable=False),
    Column("run_id", String(250), nullable=False),
    Column("counts", JSON, nullable=False),  # kind of deviation → how many
    Column("deviations", Text, nullable=False),  # storage name of the JSON lines
    Column("closed_at", UtcDateTime),
    Column("closed_by", String(200)),
    Column("reason", Text),
    _one_of("state", IncidentState),
)

blocked = Table(
    "blocked",  # hashes of purged content: it is never taken in again
    metadata,
    Column("sha256", String(64), primary_key=True),
    Column("kind", String(10), primary_key=True),
    Column("purge_id", String(32), nullable=False, index=True),
    Column("reason", Text, nullable=False),
    Column("blocked_at", UtcDateTime, nullable=False),
    _one_of("kind", BlockedKind),
)

purges = Table(
    "purges",
    metadata,
    Column("purge_id", String(32), primary_key=True),
    Column("state", String(10), nullable=False, index=True),
    Column("subject", JSON, nullable=False),  # the request: {chunk|document|source|hash: …}
    Column("versions", JSON, nullable=False),  # ids
    Column("requested_by", String(200), nullable=False),
    Column("reason", Text, nullable=False),
    Column("requested_at", UtcDateTime, nullable=False),
    Column("run_id", String(250), nullable=False),
    Column("closed_at", UtcDateTime),
    Column("evidence", JSON),  # what was searched, and that nothing was left
    _one_of("state", PurgeState),
)

decisions = Table(
    "decisions",  # append-only but for the columns `…_at`
    metadata,
    Column("decision_id", String(32), primary_key=True),
    Column("version_id", String(32), ForeignKey("versions.version_id"), nullable=False, index=True),
    Column(
        "content_sha256", String(64), nullable=False
    ),  # of the bytes that were decided on; other bytes reopen the question
    Column("verdict", String(10), nullable=False),
    Column("reviewer", String(200), nullable=False),  # name
    Column("reason", Text, nullable=False),
    Column("policy_digest", String(64), nullable=False),
    Column("decided_at", UtcDateTime, nullable=False),
    Column("applied_at", UtcDateTime, index=True),
    Column("reviewer_id", String(200)),  # null: written by a release that kept the name alone
    Column("auth", String(200)),  # the auth manager's class name, or "cli"
    Column("revision", String(32)),  # of the item as the reviewer saw it
    Column("lacking", Integer),  # approvals still missing: 1 for the first of two; null or 0: none
    Column("completes", String(32)),  # the first approval, in a row that is the second
    Column("undone_at", UtcDateTime),
    Column("purpose", String(10)),  # what it was made for; null: a review of the quarantine
    _one_of("verdict", DECISIVE_ACTIONS),
    _one_of("purpose", Purpose),
)

acts = Table(
    "acts",  # append-only: what people do about the quarantine besides release and reject
    metadata,
    Column("act_id", String(32), primary_key=True),
    Column("kind", String(10), nullable=False, index=True),
    Column("version_id", String(32), ForeignKey("versions.version_id"), index=True),
    Column(
        "subject", String(32), index=True
    ),  # id of the decision that is undone, or of the mute that is confirmed or lifted
    Column("content_sha256", String(64)),
    Column("source", String(64)),  # of a mute
    Column("code", String(80)),  # of a mute
    Column("cause", String(10), nullable=False),
    Column("reviewer_id", String(200), nullable=False),
    Column("reviewer", String(200), nullable=False),
    Column("auth", String(200), nullable=False),
    Column("reason", Text, nullable=False),
    Column("policy_digest", String(64), nullable=False),
    Column("revision", String(32)),
    Column("done_at", UtcDateTime, nullable=False, index=True),
    _one_of("kind", ACT_KINDS),
    _one_of("cause", ActCause),
)

campaigns = Table(
    "campaigns",  # waiting near-duplicates share bands, and so a campaign
    metadata,
    Column("band", BigInteger, primary_key=True, autoincrement=False),
    Column("campaign", String(32), nullable=False),
)


reports = Table(
    "reports",  # reported wrong answers; the same question with the same answer is one report
    metadata,
    Column("report_id", String(32), primary_key=True),  # of the normalised query and output
    Column("query_id", String(32), ForeignKey("queries.query_id"), nullable=False, index=True),
    Column("query", Text, nullable=False),
    Column("output", Text, nullable=False),  # the answer that was wrong
    Column("correct", Text),  # the right answer, where somebody gave it
    Column("state", String(14), nullable=False, index=True),  # open, or the outcome of its last trace
    Column("weight", Float, nullable=False),  # of its reporters; the heaviest is traced first
    Column("first_reported_at", UtcDateTime, nullable=False),
    Column("last_reported_at", UtcDateTime, nullable=False, index=True),
    _one_of("state", ReportState),
)

filings = Table(
    "filings",  # each time somebody filed a report
    metadata,
    # of report, reporter, time and session: importing twice adds nothing
    Column("filing_id", String(32), primary_key=True),
    Column("report_id", String(32), ForeignKey("reports.report_id"), nullable=False, index=True),
    Column("reporter", String(200), nullable=False, index=True),
    Column("reported_at", UtcDateTime, nullable=False, index=True),
    Column("received_at", UtcDateTime, nullable=False),
    Column("session", String(250), nullable=False),
    Column("served", JSON, nullable=False),  # chunk ids that the answer was made from, as reported
    Column("correct", Text),
    Column("origin", Text, nullable=False),  # command line, file and line, trace id
    Column("counted", Float, nullable=False),  # weight it adds to the report; 0: over its reporter's limit
)

traces = Table(
    "traces",  # a report followed back to texts (RAGForensics)
    metadata,
    Column("trace_id", String(32), primary_key=True),  # of report, run, judge and point in time
    Column("report_id", String(32), ForeignKey("reports.report_id"), nullable=False, index=True),
    Column("run_id", String(250), nullable=False, index=True),
    Column("judge", String(200), nullable=False),  # digest
    Column("k", Integer, nullable=False),
    Column("as_of", UtcDateTime),  # the corpus of that time; null: of now
    Column("outcome", String(14), index=True),  # null: still running
    Column("ended", String(20)),  # why the loop stopped
    Column("probability", Float),  # of an attack
    Column("iterations", Integer, nullable=False),
    Column("missing", Integer, nullable=False),  # chunks that were served then and are erased now
    Column("counts", JSON, nullable=False),  # label → number of texts
    Column("answer_before", Text),  # of the RAG model, from the texts retrieved first
    Column("answer_after", Text),  # with the traced texts set aside
    # judgement of the model's activations: vote, margin, probe, reason
    Column("activations", JSON(none_as_null=True)),
    Column("failure", Text),  # error of the judge
    Column("seconds", Float, nullable=False),
    Column("started_at", UtcDateTime, nullable=False),
    Column("finished_at", UtcDateTime, index=True),
    _one_of("outcome", TraceOutcome),
)

suspects = Table(
    "suspects",  # texts a trace judged, each once
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
    Column("version_id", String(32), nullable=False),  # empty: never published by the ledger
    Column("source", Text, nullable=False),
    Column("uri", Text, nullable=False),
    _one_of("label", Label),
)

enhancements = Table(
    "enhancements",  # right answers, published where their question finds them (BTE)
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
    Column("created_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime, index=True),
    Column("ended_at", UtcDateTime),
    Column("ended_by", String(200)),
    _one_of("state", EnhancementState),
)

# Covers the sorting and counting of the queue: 50,000 items are counted without reading their rows.
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
_WAITING = text("state = 'quarantined' OR reopened_at IS NOT NULL")
Index(
    "ix_versions_waiting",
    versions.c.risk,
    versions.c.campaign,
    versions.c.version_id,
    versions.c.severity,
    versions.c.checks,
    versions.c.state,
    versions.c.reopened_at,
    sqlite_where=_WAITING,
    postgresql_where=_WAITING,
)
Index(
    "ix_versions_waiting_since",
    versions.c.waits_since,
    versions.c.version_id,
    sqlite_where=_WAITING,
    postgresql_where=_WAITING,
)
Index("ix_documents_latest", documents.c.latest_version, documents.c.retired_at, documents.c.source, documents.c.trust)
Index("ix_publications_collection_state", publications.c.collection, publications.c.state)
_PENDING = text("state = 'pending'")
Index(
    "ix_publications_pending",
    publications.c.vectors,
    publications.c.version_id,
    publications.c.chunk_id,
    publications.c.collection,
    sqlite_where=_PENDING,
    postgresql_where=_PENDING,
)


def waits_for_publication() -> sa.ColumnElement[bool]:
    """Return the condition for chunks that wait to be published, written so that queries use the index above."""
    return publications.c.state == sa.literal_column(f"'{PublicationState.PENDING.value}'")


def waits_for_decision() -> sa.ColumnElement[bool]:
    """Return the condition for versions that wait for a person: in quarantine, or served and reopened.

    It is written so that queries use the indexes above: with the state as a literal, and with a range of the risk,
    which is never negative, without which SQLite begins with all documents.
    """
    quarantined = versions.c.state == sa.literal_column(f"'{VersionState.QUARANTINED.value}'")
    return sa.and_(sa.or_(quarantined, versions.c.reopened_at.is_not(None)), versions.c.risk >= 0)


def decision_stands() -> sa.ColumnElement[bool]:
    """Return the condition for decisions that count: not undone, and not the first approval of two."""
    return sa.and_(decisions.c.undone_at.is_(None), sa.func.coalesce(decisions.c.lacking, 0) == 0)
