"""Reports and who filed them, traces and the texts they judged, enhancements."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.create_table(
        "reports",
        sa.Column("report_id", sa.String(length=32), nullable=False),
        sa.Column("query_id", sa.String(length=32), nullable=False),
        sa.Column("query", sa.Text(), nullable=False),
        sa.Column("output", sa.Text(), nullable=False),
        sa.Column("correct", sa.Text(), nullable=True),
        sa.Column("state", sa.String(length=14), nullable=False),
        sa.Column("weight", sa.Float(), nullable=False),
        sa.Column("first_reported_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_reported_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint(
            "state IN ('open', 'traced', 'not_poisoning', 'exhausted', 'undecided', 'judge_failed')",
            name=op.f("ck_reports_state"),
        ),
        sa.ForeignKeyConstraint(["query_id"], ["queries.query_id"], name=op.f("fk_reports_query_id")),
        sa.PrimaryKeyConstraint("report_id", name=op.f("pk_reports")),
    )
    op.create_index(op.f("ix_reports_last_reported_at"), "reports", ["last_reported_at"], unique=False)
    op.create_index(op.f("ix_reports_query_id"), "reports", ["query_id"], unique=False)
    op.create_index(op.f("ix_reports_state"), "reports", ["state"], unique=False)
    op.create_table(
        "filings",
        sa.Column("filing_id", sa.String(length=32), nullable=False),
        sa.Column("report_id", sa.String(length=32), nullable=False),
        sa.Column("reporter", sa.String(length=200), nullable=False),
        sa.Column("reported_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("received_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("session", sa.String(length=250), nullable=False),
        sa.Column("served", sa.JSON(), nullable=False),
        sa.Column("correct", sa.Text(), nullable=True),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("counted", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["report_id"], ["reports.report_id"], name=op.f("fk_filings_report_id")),
        sa.PrimaryKeyConstraint("filing_id", name=op.f("pk_filings")),
    )
    op.create_index(op.f("ix_filings_report_id"), "filings", ["report_id"], unique=False)
    op.create_index(op.f("ix_filings_reported_at"), "filings", ["reported_at"], unique=False)
    op.create_index(op.f("ix_filings_reporter"), "filings", ["reporter"], unique=False)
    op.create_table(
        "traces",
        sa.Column("trace_id", sa.String(length=32), nullable=False),
        sa.Column("report_id", sa.String(length=32), nullable=False),
        sa.Column("run_id", sa.String(length=250), nullable=False),
        sa.Column("judge", sa.String(length=200), nullable=False),
        sa.Column("k", sa.Integer(), nullable=False),
        sa.Column("as_of", sa.DateTime(timezone=True), nullable=True),
        sa.Column("outcome", sa.String(length=14), nullable=True),
        sa.Column("ended", sa.String(length=20), nullable=True),
        sa.Column("probability", sa.Float(), nullable=True),
        sa.Column("iterations", sa.Integer(), nullable=False),
        sa.Column("missing", sa.Integer(), nullable=False),
        sa.Column("counts", sa.JSON(), nullable=False),
        sa.Column("answer_before", sa.Text(), nullable=True),
        sa.Column("answer_after", sa.Text(), nullable=True),
        sa.Column("failure", sa.Text(), nullable=True),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "outcome IN ('traced', 'not_poisoning', 'exhausted', 'undecided', 'judge_failed')",
            name=op.f("ck_traces_outcome"),
        ),
        sa.ForeignKeyConstraint(["report_id"], ["reports.report_id"], name=op.f("fk_traces_report_id")),
        sa.PrimaryKeyConstraint("trace_id", name=op.f("pk_traces")),
    )
    op.create_index(op.f("ix_traces_finished_at"), "traces", ["finished_at"], unique=False)
    op.create_index(op.f("ix_traces_outcome"), "traces", ["outcome"], unique=False)
    op.create_index(op.f("ix_traces_report_id"), "traces", ["report_id"], unique=False)
    op.create_index(op.f("ix_traces_run_id"), "traces", ["run_id"], unique=False)
    op.create_table(
        "suspects",
        sa.Column("trace_id", sa.String(length=32), nullable=False),
        sa.Column("chunk_id", sa.String(length=250), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("iteration", sa.Integer(), nullable=False),
        sa.Column("label", sa.String(length=10), nullable=False),
        sa.Column("score", sa.Float(), nullable=False),
        sa.Column("explanation", sa.Text(), nullable=False),
        sa.Column("similarity", sa.Float(), nullable=False),
        sa.Column("text_sha256", sa.String(length=64), nullable=False),
        sa.Column("collection", sa.String(length=128), nullable=False),
        sa.Column("version_id", sa.String(length=32), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("uri", sa.Text(), nullable=False),
        sa.CheckConstraint("label IN ('poisoned', 'benign', 'undecided')", name=op.f("ck_suspects_label")),
        sa.ForeignKeyConstraint(["trace_id"], ["traces.trace_id"], name=op.f("fk_suspects_trace_id")),
        sa.PrimaryKeyConstraint("trace_id", "chunk_id", name=op.f("pk_suspects")),
    )
    op.create_index(op.f("ix_suspects_label"), "suspects", ["label"], unique=False)
    op.create_index(op.f("ix_suspects_text_sha256"), "suspects", ["text_sha256"], unique=False)
    op.create_table(
        "enhancements",
        sa.Column("enhancement_id", sa.String(length=32), nullable=False),
        sa.Column("query_id", sa.String(length=32), nullable=False),
        sa.Column("query", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("report_id", sa.String(length=32), nullable=True),
        sa.Column("doc_id", sa.String(length=32), nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_by", sa.String(length=200), nullable=True),
        sa.CheckConstraint("state IN ('active', 'expired', 'withdrawn')", name=op.f("ck_enhancements_state")),
        sa.ForeignKeyConstraint(["report_id"], ["reports.report_id"], name=op.f("fk_enhancements_report_id")),
        sa.PrimaryKeyConstraint("enhancement_id", name=op.f("pk_enhancements")),
    )
    op.create_index(op.f("ix_enhancements_expires_at"), "enhancements", ["expires_at"], unique=False)
    op.create_index(op.f("ix_enhancements_query_id"), "enhancements", ["query_id"], unique=False)
    op.create_index(op.f("ix_enhancements_state"), "enhancements", ["state"], unique=False)
