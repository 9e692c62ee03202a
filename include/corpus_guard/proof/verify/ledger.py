"""Comparison of publications, verdicts and decisions with the events and the manifest that tell of them.

Rules
    * what is published is what the manifest lists, changed by what was logged since, and nothing else;
    * a line of the manifest and the ledger say the same about a chunk; verdict and stamp may be newer if the
      version was judged since;
    * a version is as its last judgement was logged; its state is that of the judgement or of the last
      decision. No version exists without an event, and no judged version without its row;
    * a decision is as it was logged, and each logged decision has its row; it is undone where the log says
      so, and nowhere else;
    * the same holds for all other acts of reviewers: escalations, undoings, mutes;
    * a seal is as it was logged.

Rows and events are written in one transaction, so rows and events that are read together agree. Where a
comparison reads them at two times, differences are checked again while nobody publishes.

Not done here: comparing every table with the digests of its rows; `corpus_guard.proof.verify.rows` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import orjson
import sqlalchemy as sa

from corpus_guard.batches import Storage
from corpus_guard.corpus.publishing import JUDGEMENT_EVENT_FIELDS
from corpus_guard.domain import Progress, record_digest
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.event_log import loggable
from corpus_guard.ledger.states import ACT_KINDS, STATE_AFTER_DECISION, UNFINISHED_STATES, Purpose, VersionState
from corpus_guard.ledger.tables import acts, decisions, events, seals, versions
from corpus_guard.proof.alignment import align
from corpus_guard.proof.deviations import DeviationKind
from corpus_guard.proof.log.merkle import Frontier, leaf_hash
from corpus_guard.proof.manifest import ManifestLine, RecordKey, SealEvent, manifest_lines
from corpus_guard.proof.verify.expected import LINES_PER_REPORT, SignedSeal, changes_since, publication_states
from corpus_guard.proof.verify.findings import RESTORE, DeviationCollector

ROWS_PER_FETCH: Final = 1_000
JUDGEMENT_EVENTS: Final = ("judged", "rejudged", "reopened")
FIELDS_OF_JUDGEMENT: Final = frozenset({"owner", "trust", "fetched_at", "verdict", "decision_id", "policy_digest"})
"""Fields of a manifest's line that a new judgement changes; the comparison of versions covers them."""
PENDING_PURPOSES: Final = (Purpose.WITHDRAW, Purpose.RESTORE)
"""Purposes of decisions that may wait to take effect on a version that is served, or was withdrawn."""


@dataclass(frozen=True, slots=True)
class _Difference:
    """A chunk about which ledger and manifest differ."""

    key: RecordKey
    doc_id: str
    problem: str
    expected: str
    actual: str


def check_ledger(
    ledger: Ledger, storage: Storage, seal: SignedSeal, collector: DeviationCollector, progress: Progress
) -> set[RecordKey]:
    """Compare rows with log and manifest; deviations go to `collector`.

    Returns:
        Records that the manifest lists and the outbox is about to withdraw or publish again.
    """
    in_flight: set[RecordKey] = set()
    with collector.catching_unreadable("publications"):
        in_flight = _check_publications(ledger, storage, seal, collector, progress)
    for subject, check in (
        ("versions", _check_versions),
        ("decisions", _check_decisions),
        ("acts", _check_acts),
        ("seals", _check_seals),
    ):
        progress(subject, 0, None)
        with collector.catching_unreadable(subject):
            check(ledger, collector)
    return in_flight


def _check_publications(
    ledger: Ledger, storage: Storage, seal: SignedSeal, collector: DeviationCollector, progress: Progress
) -> set[RecordKey]:
    if seal.event is None:
        return set()
    if not seal.manifest_intact:
        _compare_roots(ledger, seal, collector)
        return set()
    if next(_differences(ledger, storage, seal, seal.event, progress), None) is None:
        return set()
    with ledger.exclusive("publish"):
        differences = list(_differences(ledger, storage, seal, seal.event, progress))
        states = publication_states(ledger, [difference.key for difference in differences])
    in_flight = {
        difference.key
        for difference in differences
        if difference.actual == "" and states.get(difference.key) in UNFINISHED_STATES
    }
    for difference in differences:
        if difference.key not in in_flight:
            chunk_id, collection = difference.key
            collector.add(
                DeviationKind.LEDGER_CHANGED,
                chunk_id,
                f"chunk {chunk_id} of {collection}: {difference.problem}; {RESTORE}",
                expected=difference.expected,
                actual=difference.actual or states.get(difference.key, "no row"),
                collection=collection,
                doc_id=difference.doc_id,
            )
    return in_flight


def _compare_roots(ledger: Ledger, seal: SignedSeal, collector: DeviationCollector) -> None:
    """Compare the ledger with the signed root, for lack of the manifest's lines."""
    if seal.event is None or changes_since(ledger, seal).digests:
        return
    tree = Frontier()
    for line in manifest_lines(ledger):
        tree.append(leaf_hash(line))
    if tree.root().hex() != seal.event.root:
        collector.add(
            DeviationKind.LEDGER_CHANGED,
            "publications",
            "the publications in the ledger do not have the signed root, and without an intact manifest the "
            "changed rows are unknown; restore the manifest or the ledger from a backup",
            expected=seal.event.root,
            actual=tree.root().hex(),
        )


def _differences(
    ledger: Ledger, storage: Storage, seal: SignedSeal, event: SealEvent, progress: Progress
) -> Iterator[_Difference]:
    """Yield the differences between the ledger and the manifest with what was logged since."""
    logged = dict(changes_since(ledger, seal).digests)
    rejudged = _judged_since(ledger, event)
    aligned = align(_keyed(storage.read_lines(event.name)), _keyed(manifest_lines(ledger)))
    for number, (key, line, row) in enumerate(aligned, 1):
        if number % LINES_PER_REPORT == 0:
            progress("ledger", number, event.chunks)
        if key in logged:
            yield from _compare_with_log(key, logged.pop(key), row)
        else:
            yield from _compare_with_line(key, line, row, rejudged)
    for key, digest in logged.items():
        yield from _compare_with_log(key, digest, None)


def _compare_with_log(key: RecordKey, digest: str | None, row: ManifestLine | None) -> Iterator[_Difference]:
    actual = None
    if row:
        actual = record_digest(row["text_sha256"] or "", row["vector_sha256"] or "", row["metadata_sha256"] or "")
    if actual != digest:
        problem = "its row in the ledger is not what was logged since the last seal"
        yield _Difference(key, row["doc_id"] if row else "", problem, digest or "withdrawn", actual or "")


def _compare_with_line(
    key: RecordKey, line: ManifestLine | None, row: ManifestLine | None, rejudged: set[str]
) -> Iterator[_Difference]:
    if line is None:
        problem = "the ledger serves it, and neither the manifest nor the log lists it"
        yield _Difference(key, row["doc_id"] if row else "", problem, "not served", "published")
    elif row is None:
        problem = "the manifest lists it, and the ledger does not serve it"
        yield _Difference(key, line["doc_id"], problem, "published", "")
    else:
        ignored = FIELDS_OF_JUDGEMENT if row["version_id"] in rejudged else frozenset()
        changed = sorted(name for name, value in line.items() if name not in ignored and row.get(name) != value)
        if changed:
            name = changed[0]
            problem = f"its {name} in the ledger is not that of the manifest"
            before, after = str(line.get(name))[:100], str(row.get(name))[:100]
            yield _Difference(key, line["doc_id"], problem, before, after)


def _keyed(lines: Iterator[bytes]) -> Iterator[tuple[RecordKey, ManifestLine]]:
    for raw in lines:
        line: ManifestLine = orjson.loads(raw)
        yield (line["chunk_id"], line["collection"]), line


def _judged_since(ledger: Ledger, event: SealEvent) -> set[str]:
    """Return the versions that were judged or decided on after the manifest was written."""
    # A seal of an unchanged corpus logs the same manifest again: its first seal tells when it was written.
    written = sa.select(sa.func.min(events.c.seq)).where(events.c.kind == "sealed", events.c.subject == event.sha256)
    statement = sa.select(events.c.subject).where(
        events.c.seq > written.scalar_subquery(), events.c.kind.in_((*JUDGEMENT_EVENTS, "decided"))
    )
    with ledger.read() as connection:
        return set(connection.execute(statement).scalars())


def _check_versions(ledger: Ledger, collector: DeviationCollector) -> None:
    judged, decided = _last_event("judged", *JUDGEMENT_EVENTS), _last_event("decided", "decided")
    judgement, decision = events.alias("judgement"), events.alias("decision")
    rows: sa.Select[tuple[object, ...]] = (
        sa.select(
            versions.c.version_id,
            *(versions.c[name] for name in JUDGEMENT_EVENT_FIELDS),
            judgement.c.body.label("judgement"),
            decision.c.body.label("decision"),
        )
        .join_from(versions, judged, judged.c.subject == versions.c.version_id, isouter=True)
        .join(judgement, judgement.c.seq == judged.c.seq, isouter=True)
        .join(decided, decided.c.subject == versions.c.version_id, isouter=True)
        .join(decision, decision.c.seq == decided.c.seq, isouter=True)
        .execution_options(yield_per=ROWS_PER_FETCH)
    )
    # No full outer join: SQLite then compares each version with each judgement.
    without_row = (
        sa.select(judged.c.subject, judgement.c.body)
        .join(judgement, judgement.c.seq == judged.c.seq)
        .join(versions, versions.c.version_id == judged.c.subject, isouter=True)
        .where(versions.c.version_id.is_(None))
    )
    with ledger.read() as connection:
        for version_id, body in connection.execute(without_row):
            _report_version(collector, version_id, "its judgement was logged, and its row is missing", body["doc_id"])
        undone = set(connection.scalars(sa.select(events.c.subject).where(events.c.kind == "review_undo")))
        for row in connection.execute(rows):
            if row.judgement is None:
                _report_version(collector, row.version_id, "no event says that it was ever judged", row.doc_id)
            elif mismatch := _version_mismatch(row, was_undone=row.version_id in undone):
                name, expected = mismatch
                problem = f"its {name} is not what was logged"
                _report_version(collector, row.version_id, problem, row.doc_id, expected, str(getattr(row, name)))


def _last_event(name: str, *kinds: str) -> sa.Subquery:
    newest = sa.func.max(events.c.seq).label("seq")
    return sa.select(events.c.subject, newest).where(events.c.kind.in_(kinds)).group_by(events.c.subject).subquery(name)


def _version_mismatch(row: sa.Row[tuple[object, ...]], *, was_undone: bool) -> tuple[str, str] | None:
    """Return the first field that is not as logged, with the logged value; None if all are."""
    for name in JUDGEMENT_EVENT_FIELDS:
        if name not in row.judgement:  # an older release logged fewer fields
            continue
        allowed = {row.judgement[name]}
        if name == "state" and row.decision:
            allowed.add(STATE_AFTER_DECISION[row.decision["verdict"]])
            allowed |= {VersionState.QUARANTINED} if was_undone else set()
            # Until it takes effect, a withdrawal or a restore leaves the state of the decision before it.
            allowed |= set(STATE_AFTER_DECISION.values()) if row.decision.get("purpose") in PENDING_PURPOSES else set()
        if loggable(getattr(row, name)) not in allowed:
            return name, " or ".join(sorted(map(str, allowed)))
    return None


def _report_version(
    collector: DeviationCollector, version_id: str, problem: str, doc_id: str, expected: str = "", actual: str = ""
) -> None:
    collector.add(
        DeviationKind.LEDGER_CHANGED,
        version_id,
        f"version {version_id}: {problem}; {RESTORE}",
        expected=expected,
        actual=actual,
        doc_id=doc_id,
    )


_Identity = str | tuple[str, ...]
"""Id of a decision; the words of a decision that was logged without id."""


def _check_decisions(ledger: Ledger, collector: DeviationCollector) -> None:
    logged: dict[_Identity, Mapping[str, object]] = {}
    with ledger.read() as connection:  # people decide: the decisions fit into memory
        decided = sa.select(events.c.subject, events.c.body).where(events.c.kind == "decided")
        for version_id, body in connection.execute(decided):
            # An older release logged no decision id.
            identity = body.get("decision_id") or _decision_words(version_id, body)
            logged[identity] = {"version_id": version_id, **body}
        undone_rows = sa.select(decisions.c.decision_id).where(decisions.c.undone_at.is_not(None))
        undone = set(connection.scalars(undone_rows))
        undo_events = connection.scalars(sa.select(events.c.body).where(events.c.kind == "review_undo"))
        logged_undone = {body.get("about") for body in undo_events}
        rows = _loggable_rows(connection, decisions)
    for row in rows:
        decision_id = str(row["decision_id"])
        if (decision_id in undone) != (decision_id in logged_undone):
            _report_decision(collector, decision_id, "its row and the log differ on whether it was undone")
        event = logged.pop(decision_id, None) or logged.pop(_decision_words(row["version_id"], row), None)
        if event is None or any(row[name] != event.get(name, row[name]) for name in row):
            _report_decision(collector, decision_id, "its row is not what was logged")
    for event in logged.values():
        subject = str(event.get("decision_id", event["version_id"]))
        _report_decision(collector, subject, "it was logged, and its row is missing")


def _loggable_rows(connection: sa.Connection, table: sa.Table) -> list[dict[str, object]]:
    """Return the rows of a table as the log would hold them, without times."""
    columns = [column for column in table.c if not column.name.endswith("_at")]
    return [
        {str(name): loggable(value) for name, value in row._mapping.items()}
        for row in connection.execute(sa.select(*columns))
    ]


def _decision_words(version_id: object, row: Mapping[str, object]) -> tuple[str, ...]:
    return str(version_id), str(row["verdict"]), str(row["reviewer"]), str(row["reason"])


def _report_decision(collector: DeviationCollector, decision_id: str, problem: str) -> None:
    collector.add(DeviationKind.LEDGER_CHANGED, decision_id, f"decision {decision_id}: {problem}; {RESTORE}")


def _check_acts(ledger: Ledger, collector: DeviationCollector) -> None:
    logged: dict[str, Mapping[str, object]] = {}
    with ledger.read() as connection:
        kinds = [f"review_{kind}" for kind in ACT_KINDS]
        for kind, body in connection.execute(sa.select(events.c.kind, events.c.body).where(events.c.kind.in_(kinds))):
            logged[body["act_id"]] = {**body, "kind": kind.removeprefix("review_"), "subject": body.get("about")}
        rows = _loggable_rows(connection, acts)
    for row in rows:
        act_id = str(row["act_id"])
        event = logged.pop(act_id, None)
        if event is None or any(value != event.get(name) for name, value in row.items()):
            _report_decision(collector, act_id, "its row is not what was logged")
    for act_id in logged:
        _report_decision(collector, act_id, "it was logged, and its row is missing")


def _check_seals(ledger: Ledger, collector: DeviationCollector) -> None:
    is_its_event = sa.and_(events.c.kind == "sealed", events.c.subject == seals.c.manifest_sha256)
    statement = sa.select(seals.c.number).join(events, is_its_event, isouter=True).where(events.c.seq.is_(None))
    with ledger.read() as connection:
        for number in connection.execute(statement).scalars():
            collector.add(
                DeviationKind.LEDGER_CHANGED,
                f"seal {number}",
                f"seal {number} names a manifest that no event names; {RESTORE}",
            )
