"""Ledger side of screening: history for surveys, results of slow checks, and recorded judgements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from types import MappingProxyType
from typing import Any, Final

import sqlalchemy as sa

from corpus_guard.domain import Finding, Severity, TrustLevel, Verdict
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.queries import insert_missing
from corpus_guard.ledger.states import SERVABLE_STATES, ReviewAction, VersionState
from corpus_guard.ledger.tables import (
    bands,
    decision_stands,
    decisions,
    documents,
    findings,
    results,
    signals,
    versions,
)
from corpus_guard.screening.calibration import JudgedDocument, VersionOutcome
from corpus_guard.screening.runner import DECIDED_ALREADY, MutedCodes
from corpus_guard.screening.survey.resemblance import VERSIONS_PER_BAND, KnownVersion, Standing, band_keys
from corpus_guard.screening.survey.signals import Signals

MAX_RECENT_VERSIONS: Final = 5_000  # accepted versions that a source's statistics rest on
ROWS_PER_FETCH: Final = 5_000

_STANDING_OF_STATE: Final[Mapping[str, Standing]] = {
    VersionState.ACCEPTED: Standing.SERVED,
    VersionState.RELEASED: Standing.SERVED,
    VersionState.QUARANTINED: Standing.QUARANTINED,
    VersionState.REJECTED: Standing.REJECTED,
}
_STANDING_AFTER_VERDICT: Final = {
    Verdict.ACCEPT: Standing.SERVED,
    Verdict.QUARANTINE: Standing.QUARANTINED,
    Verdict.REJECT: Standing.REJECTED,
}
_OUTCOME_OF_DECISION: Final[Mapping[str, VersionOutcome]] = {
    ReviewAction.RELEASE: VersionOutcome.RELEASED,
    ReviewAction.REJECT: VersionOutcome.REJECTED,
}
_OUTCOME_OF_STATE: Final[Mapping[str, VersionOutcome]] = {
    VersionState.ACCEPTED: VersionOutcome.ACCEPTED,
    VersionState.RELEASED: VersionOutcome.RELEASED,
    VersionState.QUARANTINED: VersionOutcome.WAITING,
    VersionState.REJECTED: VersionOutcome.REFUSED,
}


class LedgerHistory:
    """History of earlier runs in the ledger, as in `corpus_guard.screening.survey.resemblance.History`."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def robust_values(self, source: str) -> Mapping[str, Sequence[float]]:
        """Return signal → values of the source's most recent accepted versions."""
        statement = (
            sa.select(signals.c["values"])
            .join(versions, versions.c.version_id == signals.c.version_id)
            .where(signals.c.source == source, versions.c.state.in_(SERVABLE_STATES))
            .order_by(versions.c.judged_at.desc())
            .limit(MAX_RECENT_VERSIONS)
        )
        columns: dict[str, list[float]] = {}
        with self._ledger.read() as connection:
            for (values,) in connection.execute(statement):
                for name, value in values.items():
                    columns.setdefault(name, []).append(value)
        return columns

    def same_text(self, text_sha256s: Sequence[str]) -> Iterable[KnownVersion]:
        """Yield the versions that have one of these texts."""
        for _, version in self._select(sa.literal(0), versions.c.text_sha256.in_(text_sha256s)):
            yield version

    def near(self, keys: Sequence[int]) -> Iterable[tuple[int, KnownVersion]]:
        """Yield (band, version) for versions that have one of these bands.

        Of one band, standing and trust level there are VERSIONS_PER_BAND at most.
        """
        return self._select(bands.c.band, bands.c.band.in_(keys), join_bands=True)

    def _select(
        self, key: sa.ColumnElement[int], condition: sa.ColumnElement[bool], *, join_bands: bool = False
    ) -> Iterator[tuple[int, KnownVersion]]:
        tables = versions.join(documents, documents.c.doc_id == versions.c.doc_id).join(
            signals, signals.c.version_id == versions.c.version_id
        )
        if join_bands:
            tables = tables.join(bands, bands.c.version_id == versions.c.version_id)
        # An accepted version that is no longer served is history, not a neighbour; refused versions stay
        # known.
        comparable = sa.or_(
            versions.c.version_id == documents.c.target_version,
            versions.c.state.in_((VersionState.QUARANTINED, VersionState.REJECTED)),
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
            .where(condition, comparable)
        )
        if join_bands:  # a flood of copies in the ledger must not fill the memory of every later run
            ranked = statement.subquery()
            statement = sa.select(ranked).where(ranked.c.position <= VERSIONS_PER_BAND)
        with self._ledger.read() as connection:
            for row in connection.execute(statement):
                yield (
                    row.key,
                    KnownVersion(
                        version_id=row.version_id,
                        doc_id=row.doc_id,
                        source=row.source,
                        trust=TrustLevel(row.trust),
                        standing=_STANDING_OF_STATE[row.state],
                        text_sha256=row.text_sha256,
                        minhash=row.minhash,
                    ),
                )


class ReplayedHistory(LedgerHistory):
    """The ledger's history while stored versions are judged again, one arrival after the other.

    It hides versions that still wait, and shows judged versions with their new verdict, recorded or not.
    """

    def __init__(self, ledger: Ledger, waiting: Iterable[str]) -> None:
        super().__init__(ledger)
        self._waiting = set(waiting)
        self._new_standings: dict[str, Standing] = {}
        self._robust_values: dict[str, Mapping[str, Sequence[float]]] = {}

    def settle(self, arrived: Iterable[str], verdicts: Mapping[str, Verdict]) -> None:
        """Show versions that no longer wait, with their new verdict unless a person decided on them."""
        self._new_standings |= {
            version: _STANDING_AFTER_VERDICT[verdict]
            for version, verdict in verdicts.items()
            if version in self._waiting
        }
        self._waiting -= set(arrived)

    def robust_values(self, source: str) -> Mapping[str, Sequence[float]]:
        """Return the values as recorded before; read once a source, though there may be a thousand arrivals."""
        if source not in self._robust_values:
            self._robust_values[source] = super().robust_values(source)
        return self._robust_values[source]

    def same_text(self, text_sha256s: Sequence[str]) -> Iterable[KnownVersion]:
        """Yield the versions that have one of these texts and do not wait."""
        for version in super().same_text(text_sha256s):
            if version.version_id not in self._waiting:
                yield self._with_new_standing(version)

    def near(self, keys: Sequence[int]) -> Iterator[tuple[int, KnownVersion]]:
        """Yield (band, version) for versions that have one of these bands and do not wait."""
        for band, version in super().near(keys):
            if version.version_id not in self._waiting:
                yield band, self._with_new_standing(version)

    def _with_new_standing(self, version: KnownVersion) -> KnownVersion:
        return replace(version, standing=self._new_standings.get(version.version_id, version.standing))


class LedgerCache:
    """Results of slow checks in the ledger, as in `corpus_guard.screening.runner.ResultCache`."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def load(self, keys: Sequence[str]) -> Mapping[str, Sequence[Finding]]:
        """Return the recorded results, by key."""
        if not keys:
            return {}
        with self._ledger.read() as connection:
            rows = connection.execute(sa.select(results).where(results.c.key.in_(keys)))
            return {row.key: [Finding.from_dict(finding) for finding in row.findings] for row in rows}

    def save(self, results_by_key: Mapping[str, Sequence[Finding]]) -> None:
        """Record results."""
        if results_by_key:
            rows = [
                {"key": key, "findings": [finding.as_dict() for finding in result]}
                for key, result in results_by_key.items()
            ]
            with self._ledger.write() as connection:
                insert_missing(connection, results, rows)


def record_signals(connection: sa.Connection, measured: Iterable[Signals]) -> None:
    """Record the measures of judged versions, in the transaction that records their verdicts."""
    measured = list(measured)
    signal_rows = [
        {"version_id": item.version_id, "source": item.source, "values": dict(item.values), "minhash": item.minhash}
        for item in measured
    ]
    band_rows = [{"band": band, "version_id": item.version_id} for item in measured for band in band_keys(item.minhash)]
    insert_missing(connection, signals, signal_rows)
    insert_missing(connection, bands, band_rows)


def load_judged_documents(
    ledger: Ledger, source: str | None = None, mutes: MutedCodes = MappingProxyType({})
) -> Iterator[JudgedDocument]:
    """Yield every document that has not vanished, by its latest version (messages and spans left out).

    Args:
        mutes: source → codes that two people muted: findings from before the mute count as muted too.
    """
    statement: sa.Select[Any] = (
        sa.select(
            versions.c.version_id,
            versions.c.state,
            versions.c.skipped,
            documents.c.source,
            documents.c.trust,
            *findings.c["check_name", "code", "severity", "score", "muted"],
        )
        .select_from(
            documents.join(versions, versions.c.version_id == documents.c.latest_version).outerjoin(
                findings, findings.c.version_id == versions.c.version_id
            )
        )
        .where(documents.c.retired_at.is_(None))
        .order_by(documents.c.source, versions.c.version_id, findings.c.ordinal)
    )
    if source is not None:
        statement = statement.where(documents.c.source == source)
    last = (
        sa.select(decisions.c.version_id, decisions.c.verdict)
        .where(decision_stands(), decisions.c.purpose.is_(None))
        .order_by(decisions.c.decided_at)
    )
    with ledger.read() as connection:
        decided = {row.version_id: row.verdict for row in connection.execute(last)}
        rows = connection.execute(statement.execution_options(yield_per=ROWS_PER_FETCH))
        for version_id, group in groupby(rows, key=lambda row: row.version_id):
            yield _judged_document(list(group), decided.get(version_id), mutes)


def _judged_document(rows: Sequence[sa.Row[Any]], decision: str | None, mutes: MutedCodes) -> JudgedDocument:
    first = rows[0]
    muted = mutes.get(first.source, ())
    return JudgedDocument(
        source=first.source,
        trust=TrustLevel(first.trust),
        findings=tuple(
            Finding(
                row.check_name,
                row.code,
                Severity(row.severity),
                row.score,
                "",
                muted=bool(row.muted) or row.code in muted,
            )
            for row in rows
            if row.code
        ),
        outcome=_OUTCOME_OF_DECISION[decision] if decision else _OUTCOME_OF_STATE[first.state],
        unseen=any(reason == DECIDED_ALREADY for _, reason in first.skipped),
    )
