"""Reports, traces and enhancements. Part of `corpus_guard.ledger.tables`."""

from __future__ import annotations

from sqlalchemy import JSON, Column, Float, ForeignKey, Integer, String, Table, Text

from corpus_guard.ledger._schema import Utc, metadata, one_of

TRACE_OUTCOMES = ("traced", "not_poisoning", "exhausted", "undecided", "judge_failed")
REPORT_STATES = ("open", *TRACE_OUTCOMES)
LABELS = ("poisoned", "benign", "undecided")
ENHANCEMENT_STATES = ("active", "expired", "withdrawn")

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
    one_of("state", REPORT_STATES),
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
    Column(
        "activations", JSON(none_as_null=True)
    ),  # what the model's activations say of its first answer: vote, margin, probe, reason
    Column("failure", Text),  # what the judge died of
    Column("seconds", Float, nullable=False),
    Column("started_at", Utc, nullable=False),
    Column("finished_at", Utc, index=True),
    one_of("outcome", TRACE_OUTCOMES),
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
    one_of("label", LABELS),
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
    one_of("state", ENHANCEMENT_STATES),
)
