"""The ledger's rows against the signed log and manifest.

Rules
    * what is published is what the manifest lists, changed by what was logged since, and nothing else;
    * a line says the same of a chunk as the ledger does; its verdict and stamp may be newer where the version was judged since;
    * a version is what its last judgement logged, and its state that judgement's or the one a person decided last; none without an
      event, and no judged version without its row;
    * a decision is one that was logged, and each that was logged is there; it is undone where the log says so, and nowhere else;
    * so is what else people did about the quarantine: escalations, undoings, mutes;
    * a seal is one that was logged.

Rows and events are written in one transaction, so that one moment's rows agree with one moment's events; where a comparison needs
two, differences are looked at again while nobody publishes.

What is not done here: rows that no event tells of (documents, findings, signals, retrievals) are not compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
import sqlalchemy as sa

from corpus_guard.corpus._records import TOLD
from corpus_guard.domain import record_digest
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.event_log import signable
from corpus_guard.ledger.tables import ACTS, acts, decisions, events, seals, versions
from corpus_guard.proof._found import Found, Progress
from corpus_guard.proof._sealed import STEP, Key, Sealed, since, states
from corpus_guard.proof.deviations import Kind
from corpus_guard.proof.manifest import LastSealed, manifest_lines
from corpus_guard.proof.merkle import Frontier, leaf_hash

if TYPE_CHECKING:
    from corpus_guard.guard import Guard

PAGE = 1_000  # rows held at a time
JUDGING = ("judged", "rejudged")
STATE_OF = {"release": "released", "reject": "rejected"}
JUDGED_ANEW = frozenset({"owner", "trust", "fetched_at", "verdict", "decision_id", "policy_digest"})
"""Fields of a line that change when a version is judged again; their truth is that of the version's row."""
IN_FLIGHT = ("pending", "retiring")
RESTORE = "somebody wrote to the database by another road; restore it from a copy"


@dataclass(frozen=True, slots=True)
class _Difference:
    """A chunk of which ledger and manifest say something else."""

    key: Key
    doc_id: str
    message: str
    expected: str
    found: str


def check_ledger(guard: Guard, sealed: Sealed, found: Found, progress: Progress) -> set[Key]:
    """Compare rows with log and manifest; deviations go to `found`.

    Returns:
        What the manifest lists and the outbox is about to withdraw or publish again.
    """
    in_flight: set[Key] = set()
    with found.reading("publications"):
        in_flight = _check_publications(guard, sealed, found, progress)
    for what, check in (
        ("versions", _check_versions),
        ("decisions", _check_decisions),
        ("acts", _check_acts),
        ("seals", _check_seals),
    ):
        progress(what, 0, None)
        with found.reading(what):
            check(guard.ledger, found)
    return in_flight


def _check_publications(guard: Guard, sealed: Sealed, found: Found, progress: Progress) -> set[Key]:
    if sealed.event is None:
        return set()
    if not sealed.whole:
        _compare_roots(guard, sealed, found)
        return set()
    if next(_differences(guard, sealed, sealed.event, progress), None) is None:
        return set()
    with guard.ledger.exclusive("publish"):
        different = list(_differences(guard, sealed, sealed.event, progress))
        state = states(guard.ledger, [one.key for one in different])
    in_flight = {one.key for one in different if one.found == "" and state.get(one.key) in IN_FLIGHT}
    for one in different:
        if one.key not in in_flight:
            there = one.found or state.get(one.key, "no row")
            found.add(
                Kind.LEDGER_CHANGED,
                one.key[0],
                f"chunk {one.key[0]} of {one.key[1]}: {one.message}; {RESTORE}",
                expected=one.expected,
                found=there,
                collection=one.key[1],
                doc_id=one.doc_id,
            )
    return in_flight


def _compare_roots(guard: Guard, sealed: Sealed, found: Found) -> None:
    """Without the manifest's file: is the ledger still what was sealed?"""
    if sealed.event is None or since(guard.ledger, sealed).told:
        return
    tree = Frontier()
    for line in manifest_lines(guard.ledger):
        tree.append(leaf_hash(line))
    if tree.root().hex() != sealed.event.root:
        found.add(
            Kind.LEDGER_CHANGED,
            "publications",
            "the manifest cannot be compared with, and the ledger's rows do not come to its signed root; restore manifest or ledger "
            "from a copy",
            expected=sealed.event.root,
            found=tree.root().hex(),
        )


def _differences(guard: Guard, sealed: Sealed, event: LastSealed, progress: Progress) -> Iterator[_Difference]:
    after = since(guard.ledger, sealed)
    told = dict(after.told)
    anew = _judged_since(guard.ledger, event)
    old = _keyed(guard.storage.lines(event.name))
    new = _keyed(manifest_lines(guard.ledger))
    left, right = next(old, None), next(new, None)
    number = 0
    while left or right:
        number += 1
        if number % STEP == 0:
            progress("ledger", number, event.chunks)
        key = min(row[0] for row in (left, right) if row)
        listed = left[1] if left and left[0] == key else None
        row = right[1] if right and right[0] == key else None
        if listed:
            left = next(old, None)
        if row:
            right = next(new, None)
        if key in told:
            yield from _against_log(key, told.pop(key), row)
        else:
            yield from _against_line(key, listed, row, anew)
    for key, digest in told.items():
        yield from _against_log(key, digest, None)


def _against_log(key: Key, digest: str | None, row: Mapping[str, Any] | None) -> Iterator[_Difference]:
    there = record_digest(*(row[f"{part}_sha256"] or "" for part in ("text", "vector", "metadata"))) if row else None
    if there != digest:
        message = "the ledger says something else of it than the log does since the last seal"
        yield _Difference(key, row["doc_id"] if row else "", message, digest or "withdrawn", there or "")


def _against_line(
    key: Key, listed: Mapping[str, Any] | None, row: Mapping[str, Any] | None, anew: set[str]
) -> Iterator[_Difference]:
    if listed is None:
        message = "the ledger serves it, and neither manifest nor log tells of it"
        yield _Difference(key, row["doc_id"] if row else "", message, "not served", "published")
    elif row is None:
        yield _Difference(key, listed["doc_id"], "the manifest lists it, the ledger does not serve it", "published", "")
    else:
        free = JUDGED_ANEW if row["version_id"] in anew else frozenset()
        other = sorted(name for name in listed if name not in free and row.get(name) != listed[name])
        if other:
            name = other[0]
            message = f"the ledger says another {name} than the manifest"
            yield _Difference(key, listed["doc_id"], message, str(listed[name])[:100], str(row.get(name))[:100])


def _keyed(lines: Iterator[bytes]) -> Iterator[tuple[Key, Mapping[str, Any]]]:
    for line in lines:
        row = orjson.loads(line)
        yield (row["chunk_id"], row["collection"]), row


def _judged_since(ledger: Ledger, event: LastSealed) -> set[str]:
    # A seal of an unchanged corpus logs the manifest it has: what counts is when that was written.
    written = sa.select(sa.func.min(events.c.seq)).where(events.c.kind == "sealed", events.c.subject == event.sha256)
    statement = sa.select(events.c.subject).where(
        events.c.seq > written.scalar_subquery(), events.c.kind.in_((*JUDGING, "decided"))
    )
    with ledger.read() as connection:
        return set(connection.execute(statement).scalars())


def _check_versions(ledger: Ledger, found: Found) -> None:
    judged, decided = _last("judged", *JUDGING), _last("decided", "decided")
    told, choice = events.alias("told"), events.alias("choice")
    statement = (
        sa.select(
            versions.c.version_id,
            *(versions.c[name] for name in TOLD),
            judged.c.subject,
            told.c.body.label("told"),
            choice.c.body.label("choice"),
        )
        .join_from(versions, judged, judged.c.subject == versions.c.version_id, isouter=True, full=True)
        .join(told, told.c.seq == judged.c.seq, isouter=True)
        .join(decided, decided.c.subject == versions.c.version_id, isouter=True)
        .join(choice, choice.c.seq == decided.c.seq, isouter=True)
        .execution_options(yield_per=PAGE)
    )
    with ledger.read() as connection:
        undone = set(connection.scalars(sa.select(events.c.subject).where(events.c.kind == "review_undo")))
        for row in connection.execute(statement):
            if row.version_id is None:
                _version(found, row.subject, "the log tells of its judgement, and its row is gone", row.told["doc_id"])
            elif row.told is None:
                _version(found, row.version_id, "no event tells that it was ever judged", row.doc_id)
            elif other := _differs(row, waits_again=row.version_id in undone):
                name, expected = other
                message = f"its row says another {name} than the log"
                _version(found, row.version_id, message, row.doc_id, expected, str(getattr(row, name)))


def _last(name: str, *kinds: str) -> sa.Subquery:
    newest = sa.func.max(events.c.seq).label("seq")
    return sa.select(events.c.subject, newest).where(events.c.kind.in_(kinds)).group_by(events.c.subject).subquery(name)


def _differs(row: Any, *, waits_again: bool) -> tuple[str, str] | None:
    """The first field that is not as it was logged, and what was."""
    for name, logged in ((name, row.told[name]) for name in TOLD if name in row.told):  # an older release told less
        allowed = {logged}
        if name == "state" and row.choice:
            allowed.add(STATE_OF[row.choice["verdict"]])
            allowed |= {"quarantined"} if waits_again else set()
        if signable(getattr(row, name)) not in allowed:
            return name, " or ".join(sorted(map(str, allowed)))
    return None


def _version(found: Found, version: str, message: str, doc_id: str, expected: str = "", there: str = "") -> None:
    found.add(
        Kind.LEDGER_CHANGED,
        version,
        f"version {version}: {message}; {RESTORE}",
        expected=expected,
        found=there,
        doc_id=doc_id,
    )


def _check_decisions(ledger: Ledger, found: Found) -> None:
    logged: dict[Any, Mapping[str, Any]] = {}
    with ledger.read() as connection:  # people decide: there are few enough to be held
        told = sa.select(events.c.subject, events.c.body).where(events.c.kind == "decided")
        for subject, body in connection.execute(told):
            # An event of an older release names no decision.
            logged[body.get("decision_id") or _words(subject, body)] = {"version_id": subject, **body}
        columns = [column for column in decisions.c if not column.name.endswith("_at")]
        undone = set(connection.scalars(sa.select(decisions.c.decision_id).where(decisions.c.undone_at.is_not(None))))
        told_undone = {
            body.get("about")
            for body in connection.scalars(sa.select(events.c.body).where(events.c.kind == "review_undo"))
        }
        rows = [
            {name: signable(value) for name, value in row._mapping.items()}
            for row in connection.execute(sa.select(*columns))
        ]
    for row in rows:
        if (row["decision_id"] in undone) != (row["decision_id"] in told_undone):
            _decision(found, row["decision_id"], "its row and the log differ on whether it was undone")
        event = logged.pop(row["decision_id"], None) or logged.pop(_words(row["version_id"], row), None)
        if event is None or any(row[name] != event.get(name, row[name]) for name in row):
            _decision(found, row["decision_id"], "its row is not what was logged")
    for event in logged.values():
        _decision(found, event.get("decision_id", event["version_id"]), "the log tells of it, and its row is gone")


def _words(version: str, row: Mapping[str, Any]) -> tuple[str, ...]:
    return version, row["verdict"], row["reviewer"], row["reason"]


def _decision(found: Found, decision: str, message: str) -> None:
    found.add(
        Kind.LEDGER_CHANGED,
        decision,
        f"decision {decision}: {message}; {RESTORE}",
    )


def _check_acts(ledger: Ledger, found: Found) -> None:
    logged: dict[str, Mapping[str, Any]] = {}
    with ledger.read() as connection:
        told = sa.select(events.c.kind, events.c.body).where(events.c.kind.in_([f"review_{kind}" for kind in ACTS]))
        for kind, body in connection.execute(told):
            logged[body["act_id"]] = {**body, "kind": kind.removeprefix("review_"), "subject": body.get("about")}
        columns = [column for column in acts.c if not column.name.endswith("_at")]
        rows = [
            {name: signable(value) for name, value in row._mapping.items()}
            for row in connection.execute(sa.select(*columns))
        ]
    for row in rows:
        event = logged.pop(row["act_id"], None)
        if event is None or any(value != event.get(name) for name, value in row.items()):
            _decision(found, row["act_id"], "its row is not what was logged")
    for name in logged:
        _decision(found, name, "the log tells of it, and its row is gone")


def _check_seals(ledger: Ledger, found: Found) -> None:
    statement = (
        sa.select(seals.c.number)
        .join(events, sa.and_(events.c.kind == "sealed", events.c.subject == seals.c.manifest_sha256), isouter=True)
        .where(events.c.seq.is_(None))
    )
    with ledger.read() as connection:
        for number in connection.execute(statement).scalars():
            found.add(
                Kind.LEDGER_CHANGED,
                f"seal {number}",
                f"seal {number} has a manifest that no event tells of; {RESTORE}",
            )
