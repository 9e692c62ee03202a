"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

SEQUENCE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "documents",
        sa.Column("doc_id", sa.String(length=32), nullable=False),
        sa.Column("source", sa.String(length=64), nullable=False),
        sa.Column("uri", sa.Text(), nullable=False),
        sa.Column("trust", sa.String(length=10), nullable=False),
        sa.Column("latest_version", sa.String(length=32), nullable=False),
        sa.Column("latest_content_sha256", sa.String(length=64), nullable=False),
        sa.Column("latest_fetched_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("target_version", sa.String(length=32), nullable=True),
        sa.Column("target_fetched_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("missing_since", sa.DateTime(timezone=True), nullable=True),
        sa.Column("retired_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("trust IN ('trusted', 'reviewed', 'open')", name=op.f("ck_documents_trust")),
        sa.PrimaryKeyConstraint("doc_id", name=op.f("pk_documents")),
    )
    op.create_index(op.f("ix_documents_source"), "documents", ["source"], unique=False)
    op.create_table(
        "events",
        sa.Column("seq", SEQUENCE, autoincrement=True, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("kind", sa.String(length=40), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("run_id", sa.String(length=250), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_events")),
    )
    op.create_index(op.f("ix_events_kind"), "events", ["kind"], unique=False)
    op.create_table(
        "results",
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("findings", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_results")),
    )
    op.create_table(
        "runs",
        sa.Column("run_id", sa.String(length=250), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("sources", sa.JSON(), nullable=False),
        sa.Column("policy_digest", sa.String(length=64), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("counts", sa.JSON(), nullable=True),
        sa.CheckConstraint("state IN ('running', 'sealed', 'failed')", name=op.f("ck_runs_state")),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_runs")),
    )
    op.create_table(
        "seals",
        sa.Column("number", SEQUENCE, autoincrement=True, nullable=False),
        sa.Column("run_id", sa.String(length=250), nullable=False),
        sa.Column("manifest", sa.Text(), nullable=False),
        sa.Column("manifest_sha256", sa.String(length=64), nullable=False),
        sa.Column("chunks", sa.Integer(), nullable=False),
        sa.Column("sealed_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_seals")),
    )
    op.create_table(
        "versions",
        sa.Column("version_id", sa.String(length=32), nullable=False),
        sa.Column("doc_id", sa.String(length=32), nullable=False),
        sa.Column("content_sha256", sa.String(length=64), nullable=False),
        sa.Column("text_sha256", sa.String(length=64), nullable=False),
        sa.Column("stamp", sa.JSON(), nullable=False),
        sa.Column("batch", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=12), nullable=False),
        sa.Column("verdict", sa.String(length=10), nullable=False),
        sa.Column("risk", sa.Float(), nullable=False),
        sa.Column("policy_digest", sa.String(length=64), nullable=False),
        sa.Column("skipped", sa.JSON(), nullable=False),
        sa.Column("run_id", sa.String(length=250), nullable=False),
        sa.Column("judged_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint(
            "state IN ('accepted', 'quarantined', 'released', 'rejected')", name=op.f("ck_versions_state")
        ),
        sa.ForeignKeyConstraint(["doc_id"], ["documents.doc_id"], name=op.f("fk_versions_doc_id")),
        sa.PrimaryKeyConstraint("version_id", name=op.f("pk_versions")),
    )
    op.create_index(op.f("ix_versions_content_sha256"), "versions", ["content_sha256"], unique=False)
    op.create_index(op.f("ix_versions_doc_id"), "versions", ["doc_id"], unique=False)
    op.create_index(op.f("ix_versions_state"), "versions", ["state"], unique=False)
    op.create_index(op.f("ix_versions_text_sha256"), "versions", ["text_sha256"], unique=False)
    op.create_table(
        "bands",
        sa.Column("band", sa.BigInteger(), nullable=False),
        sa.Column("version_id", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(["version_id"], ["versions.version_id"], name=op.f("fk_bands_version_id")),
        sa.PrimaryKeyConstraint("band", "version_id", name=op.f("pk_bands")),
    )
    op.create_table(
        "chunks",
        sa.Column("chunk_id", sa.String(length=32), nullable=False),
        sa.Column("version_id", sa.String(length=32), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("span_start", sa.Integer(), nullable=False),
        sa.Column("span_end", sa.Integer(), nullable=False),
        sa.Column("tokens", sa.Integer(), nullable=False),
        sa.Column("text_sha256", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(["version_id"], ["versions.version_id"], name=op.f("fk_chunks_version_id")),
        sa.PrimaryKeyConstraint("chunk_id", name=op.f("pk_chunks")),
    )
    op.create_index(op.f("ix_chunks_version_id"), "chunks", ["version_id"], unique=False)
    op.create_table(
        "decisions",
        sa.Column("decision_id", sa.String(length=32), nullable=False),
        sa.Column("version_id", sa.String(length=32), nullable=False),
        sa.Column("content_sha256", sa.String(length=64), nullable=False),
        sa.Column("verdict", sa.String(length=10), nullable=False),
        sa.Column("reviewer", sa.String(length=200), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("policy_digest", sa.String(length=64), nullable=False),
        sa.Column("decided_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("applied_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("verdict IN ('release', 'reject')", name=op.f("ck_decisions_verdict")),
        sa.ForeignKeyConstraint(["version_id"], ["versions.version_id"], name=op.f("fk_decisions_version_id")),
        sa.PrimaryKeyConstraint("decision_id", name=op.f("pk_decisions")),
    )
    op.create_index(op.f("ix_decisions_applied_at"), "decisions", ["applied_at"], unique=False)
    op.create_index(op.f("ix_decisions_version_id"), "decisions", ["version_id"], unique=False)
    op.create_table(
        "findings",
        sa.Column("version_id", sa.String(length=32), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("check_name", sa.String(length=40), nullable=False),
        sa.Column("code", sa.String(length=80), nullable=False),
        sa.Column("severity", sa.String(length=10), nullable=False),
        sa.Column("score", sa.Float(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("span_start", sa.Integer(), nullable=True),
        sa.Column("span_end", sa.Integer(), nullable=True),
        sa.Column("tags", sa.JSON(), nullable=False),
        sa.CheckConstraint(
            "severity IN ('info', 'low', 'medium', 'high', 'critical')", name=op.f("ck_findings_severity")
        ),
        sa.ForeignKeyConstraint(["version_id"], ["versions.version_id"], name=op.f("fk_findings_version_id")),
        sa.PrimaryKeyConstraint("version_id", "ordinal", name=op.f("pk_findings")),
    )
    op.create_index(op.f("ix_findings_check_name"), "findings", ["check_name"], unique=False)
    op.create_table(
        "signals",
        sa.Column("version_id", sa.String(length=32), nullable=False),
        sa.Column("source", sa.String(length=64), nullable=False),
        sa.Column("values", sa.JSON(), nullable=False),
        sa.Column("minhash", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["version_id"], ["versions.version_id"], name=op.f("fk_signals_version_id")),
        sa.PrimaryKeyConstraint("version_id", name=op.f("pk_signals")),
    )
    op.create_index(op.f("ix_signals_source"), "signals", ["source"], unique=False)
    op.create_table(
        "publications",
        sa.Column("chunk_id", sa.String(length=32), nullable=False),
        sa.Column("collection", sa.String(length=128), nullable=False),
        sa.Column("doc_id", sa.String(length=32), nullable=False),
        sa.Column("version_id", sa.String(length=32), nullable=False),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("vectors", sa.Text(), nullable=False),
        sa.Column("model", sa.String(length=120), nullable=False),
        sa.Column("vector_sha256", sa.String(length=64), nullable=True),
        sa.Column("metadata_sha256", sa.String(length=64), nullable=True),
        sa.Column("changed_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("run_id", sa.String(length=250), nullable=False),
        sa.CheckConstraint(
            "state IN ('pending', 'published', 'retiring', 'retired')", name=op.f("ck_publications_state")
        ),
        sa.ForeignKeyConstraint(["chunk_id"], ["chunks.chunk_id"], name=op.f("fk_publications_chunk_id")),
        sa.PrimaryKeyConstraint("chunk_id", "collection", name=op.f("pk_publications")),
    )
    op.create_index(op.f("ix_publications_changed_at"), "publications", ["changed_at"], unique=False)
    op.create_index("ix_publications_collection_state", "publications", ["collection", "state"], unique=False)
    op.create_index(op.f("ix_publications_doc_id"), "publications", ["doc_id"], unique=False)
    op.create_index(op.f("ix_publications_state"), "publications", ["state"], unique=False)
    op.create_index(op.f("ix_publications_version_id"), "publications", ["version_id"], unique=False)
