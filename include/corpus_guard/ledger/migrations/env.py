"""Alembic's entry: migrations run on the connection the ledger opened, in its transaction."""

from alembic import context

from corpus_guard.ledger.tables import metadata

connection = context.config.attributes.get("connection")
if connection is None:
    raise SystemExit("open the ledger instead: migrations run by themselves (corpus_guard.ledger.Ledger)")
context.configure(connection=connection, target_metadata=metadata)
context.run_migrations()
