"""What all tables of the ledger share. Part of `corpus_guard.ledger.tables`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, DateTime, Integer, MetaData, TypeDecorator

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
Sequence = BigInteger().with_variant(Integer, "sqlite")


def one_of(column: str, values: Any) -> CheckConstraint:
    return CheckConstraint(f"{column} IN ({', '.join(repr(str(value)) for value in values)})", name=column)
