"""The id of the deployment: a vector store belongs to one, and every collection names it."""

import secrets

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

# Seat belts against mistakes, as on the event log; the collections hold the id too.
SQLITE_TRIGGER = """CREATE TRIGGER deployment_{verb} BEFORE {verb} ON deployment BEGIN
SELECT RAISE(ABORT, 'deployment never changes'); END"""
POSTGRESQL_TRIGGER = (
    "CREATE TRIGGER deployment_{verb} BEFORE {verb} ON deployment EXECUTE FUNCTION corpus_guard_append_only()"
)


def upgrade() -> None:
    deployment = op.create_table(
        "deployment",
        sa.Column("deployment_id", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("deployment_id", name=op.f("pk_deployment")),
    )
    op.bulk_insert(deployment, [{"deployment_id": secrets.token_hex(16)}])
    postgresql = op.get_bind().dialect.name == "postgresql"
    for verb in ("INSERT", "UPDATE", "DELETE", *(("TRUNCATE",) if postgresql else ())):
        op.execute((POSTGRESQL_TRIGGER if postgresql else SQLITE_TRIGGER).format(verb=verb))
