"""What the ledger remembers for screening: measures of the past, and what slow checks found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from corpus_guard.domain import Finding, TrustLevel
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.tables import bands, documents, results, signals, versions
from corpus_guard.screening.signals import Signals
from corpus_guard.screening.survey import MOST_OF_A_BAND, Known, Standing, band_keys

RECENT = 5_000  # accepted versions a source's statistics rest on

_STANDING = {
    "accepted": Standing.SERVED,
    "released": Standing.SERVED,
    "quarantined": Standing.QUARANTINED,
    "rejected": Standing.REJECTED,
}


class LedgerHistory:
    """`corpus_guard.screening.survey.History` over the ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def robust_values(self, source: str) -> Mapping[str, Sequence[float]]:
        """Signal → values of the source's most recent accepted versions."""
        statement = (
            sa.select(signals.c["values"])
            .join(versions, versions.c.version_id == signals.c.version_id)
            .where(signals.c.source == source, versions.c.state.in_(("accepted", "released")))
            .order_by(versions.c.judged_at.desc())
            .limit(RECENT)
        )
        columns: dict[str, list[float]] = {}
        with self._ledger.read() as connection:
            for (values,) in connection.execute(statement):
                for name, value in values.items():
                    columns.setdefault(name, []).append(value)
        return columns

    def same_text(self, text_sha256s: Sequence[str]) -> Iterable[Known]:
        """Versions that have one of these texts."""
        for _, known in self._known(sa.literal(0), versions.c.text_sha256.in_(text_sha256s)):
            yield known

    def near(self, keys: Sequence[int]) -> Iterable[tuple[int, Known]]:
        """(band, version) for versions that have one of these bands, MOST_OF_A_BAND of one standing and trust level."""
        return self._known(bands.c.band, bands.c.band.in_(keys), join_bands=True)

    def _known(self, key: Any, condition: Any, *, join_bands: bool = False) -> Iterator[tuple[int, Known]]:
        tables = versions.join(documents, documents.c.doc_id == versions.c.doc_id).join(
            signals, signals.c.version_id == versions.c.version_id
        )
        if join_bands:
            tables = tables.join(bands, bands.c.version_id == versions.c.version_id)
        # An accepted version that is no longer served is history, not a neighbour; what was refused stays known.
        standing = sa.or_(
            versions.c.version_id == documents.c.target_version, versions.c.state.in_(("quarantined", "rejected"))
        )
        statement = (
            sa.select(
                key.label("key"),
                versions.c.version_id,
                versions.c.doc_id,
                documents.c.source,
                documents.c.trust,
                versions.c.state,
                versions.c.text_sha256,
                signals.c.minhash,
                sa.func.row_number()
                .over(partition_by=(key, versions.c.state, documents.c.trust), order_by=versions.c.version_id)
                .label("position"),
            )
            .select_from(tables)
            .where(condition, standing)
        )
        if join_bands:  # a flood of copies in the ledger must not fill the memory of every later run
            ranked = statement.subquery()
            statement = sa.select(ranked).where(ranked.c.position <= MOST_OF_A_BAND)
        with self._ledger.read() as connection:
            for row in connection.execute(statement):
                yield (
                    row.key,
                    Known(
                        version_id=row.version_id,
                        doc_id=row.doc_id,
                        source=row.source,
                        trust=TrustLevel(row.trust),
                        standing=_STANDING[row.state],
                        text_sha256=row.text_sha256,
                        minhash=row.minhash,
                    ),
                )


class LedgerCache:
    """`corpus_guard.screening.runner.ResultCache` over the ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def load(self, keys: Sequence[str]) -> Mapping[str, Sequence[Finding]]:
        """Known results."""
        if not keys:
            return {}
        with self._ledger.read() as connection:
            rows = connection.execute(sa.select(results).where(results.c.key.in_(keys)))
            return {row.key: [Finding.from_dict(finding) for finding in row.findings] for row in rows}

    def save(self, found: Mapping[str, Sequence[Finding]]) -> None:
        """Remember."""
        if found:
            rows = [{"key": key, "findings": [finding.as_dict() for finding in each]} for key, each in found.items()]
            with self._ledger.write() as connection:
                self._ledger.insert_missing(connection, results, rows)


def remember(ledger: Ledger, connection: sa.Connection, measured: Iterable[Signals]) -> None:
    """Keep the measures of judged versions, in the transaction that records their verdicts."""
    measured = list(measured)
    rows = [
        {"version_id": one.version_id, "source": one.source, "values": dict(one.values), "minhash": one.minhash}
        for one in measured
    ]
    ledger.insert_missing(connection, signals, rows)
    ledger.insert_missing(
        connection,
        bands,
        [{"band": band, "version_id": one.version_id} for one in measured for band in band_keys(one.minhash)],
    )
