"""A case's timeline: what happened to the accused texts, each line with the event in the signed log that proves it.

Rules
    * a line that an event states carries the event's number and leaf hash; whoever has the exported log and the public key
      can find and check it (`corpus_guard.exports.case_check`);
    * a line that no event states says so: the retrieval log is not signed, and anybody who may ask can write to it;
    * a line says in our own words what happened. It quotes no document, no question and no answer.

Not done here: deciding what caused what (`corpus_guard.forensics.root_cause`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final, TypeAlias

import sqlalchemy as sa

from corpus_guard.domain import JsonRecord, plural
from corpus_guard.forensics.cases import Case, CaseEvent
from corpus_guard.forensics.scope import Scope
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.queries import Row, select_in_batches
from corpus_guard.ledger.runs import CONFIGURED_EVENT
from corpus_guard.ledger.tables import events, heads, publications

MAX_LINES: Final = 2_000
MARGIN: Final = timedelta(days=1)  # before the first accused version: configurations that changed then are named
UNSIGNED: Final = "not in the signed log"
_BODY_KINDS: Final = {
    "withdrawn": "versions",
    "restored": "versions",
    "withdrawal_refused": "versions",
    "purged": "versions",
}
_COLLECTION_KINDS: Final = ("published", "unpublished")
_Body: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TimelineEntry(JsonRecord):
    """A line of a timeline."""

    json_properties: ClassVar = ("proof",)

    at: datetime  # UTC
    kind: str  # of the event, or ``retrieved``
    subject: str  # id of what it is about
    text: str  # in our words
    run_id: str = ""
    seq: int | None = None  # number of the event; None: no event states it
    leaf: str = ""  # RFC 6962 leaf hash of the event, hex
    is_signed: bool = False  # a signed head covers the event

    @property
    def proof(self) -> str:
        """The event that states it, in words."""
        if self.seq is None:
            return UNSIGNED
        return f"event {self.seq}{'' if self.is_signed else ', not signed yet'}"


def case_timeline(
    ledger: Ledger, case: Case, scope: Scope, further: Iterable[TimelineEntry] = ()
) -> list[TimelineEntry]:
    """Return what happened, the oldest first, at most `MAX_LINES` lines.

    Args:
        further: lines that no event states, such as retrievals.
    """
    subjects = {
        case.case_id,
        *scope.versions,
        *scope.documents,
        *scope.reports,
        *scope.incidents,
        *scope.withdrawals,
        *scope.purges,
    }
    names = {version.version_id: version.place for version in scope.accused}
    with ledger.read() as connection:
        signed = connection.scalar(sa.select(sa.func.max(heads.c.size))) or 0
        rows = {row.seq: row for row in select_in_batches(connection, sa.select(events), events.c.subject, subjects)}
        rows |= {row.seq: row for row in _events_about(connection, set(scope.versions))}
        rows |= {row.seq: row for row in _publications(connection, scope, {row.run_id for row in rows.values()})}
        rows |= {row.seq: row for row in _seals_after(connection, rows.values())}
        rows |= {row.seq: row for row in _configurations(connection, scope)}
    lines = [
        TimelineEntry(row.at, row.kind, row.subject, text, row.run_id, row.seq, row.leaf_sha256, row.seq < signed)
        for row in rows.values()
        if (text := _sentence(row, names, set(scope.chunks)))
    ]
    ordered = sorted([*lines, *further], key=lambda line: (line.at, line.seq or 0))
    return ordered[:MAX_LINES]


def _events_about(connection: sa.Connection, version_ids: set[str]) -> Iterator[Row]:
    """Yield the events that list one of these versions in their body."""
    for row in connection.execute(sa.select(events).where(events.c.kind.in_(list(_BODY_KINDS)))):
        if version_ids & set(_strings(row.body.get(_BODY_KINDS[row.kind]))):
            yield row


def _publications(connection: sa.Connection, scope: Scope, run_ids: set[str]) -> Iterator[Row]:
    """Yield the events by which chunks of the scope came into a collection or left it."""
    columns = sa.select(publications.c.run_id)
    runs = run_ids | {
        row.run_id for row in select_in_batches(connection, columns, publications.c.version_id, scope.versions)
    }
    wanted = set(scope.chunks)
    statement = sa.select(events).where(events.c.kind.in_(_COLLECTION_KINDS))
    for row in select_in_batches(connection, statement, events.c.run_id, runs - {""}):
        if wanted & set(row.body["chunks"]):
            yield row


def _seals_after(connection: sa.Connection, rows: Iterable[Row]) -> Iterator[Row]:
    """Yield the first seal after each publication and withdrawal: it says what was served from then on."""
    seals = connection.execute(sa.select(events).where(events.c.kind == "sealed").order_by(events.c.seq)).all()
    changes = sorted(row.seq for row in rows if row.kind in _COLLECTION_KINDS)
    position = 0
    for seal in seals:
        covered = position
        while covered < len(changes) and changes[covered] < seal.seq:
            covered += 1
        if covered > position:
            yield seal
        position = covered


def _configurations(connection: sa.Connection, scope: Scope) -> Iterator[Row]:
    """Yield the changes of the configuration while the accused versions came in."""
    if not scope.accused:
        return
    fetched = [datetime.fromisoformat(version.fetched_at) for version in scope.accused]
    statement = sa.select(events).where(
        events.c.kind == CONFIGURED_EVENT, events.c.at >= min(fetched) - MARGIN, events.c.at <= max(fetched) + MARGIN
    )
    yield from connection.execute(statement)


def _sentence(row: Row, names: Mapping[str, str], chunk_ids: set[str]) -> str:
    """Return what an event says, in words."""
    say = _SENTENCES.get(row.kind)
    if say is not None:
        return say(row.subject, row.body)
    name, body = names.get(row.subject, ""), row.body
    by = str(body.get("by", ""))
    if row.kind in {"judged", "rejudged"}:
        again = " again" if row.kind == "rejudged" else ""
        return f"{name} judged{again}: {body.get('verdict')}, risk {body.get('risk')}, now {body.get('state')}"
    if row.kind == "reopened":
        return f"{name} reopened: it stays served until a person decides" if name else "report opened again"
    if row.kind == "decided":
        return f"{name}: {body.get('verdict')} by {body.get('reviewer')}"
    if row.kind in _COLLECTION_KINDS:
        way = "put into" if row.kind == "published" else "taken out of"
        return f"{plural(len(chunk_ids & set(body['chunks'])), 'accused chunk')} {way} {row.subject}"
    return f"{_words(row.kind)}{f' by {by}' if by else ''}"


def _traced(body: Mapping[str, Any]) -> str:
    """Return the outcome of a trace, and what the masked replays of its carrying sentences showed."""
    replays = [changes for *_, changes in body.get("carriers", {}).values() if changes is not None]
    outcome = f"report traced: {_words(body.get('outcome', ''))}"
    if not replays:
        return outcome
    return f"{outcome}; without the sentence that carries it, the answer changes for {sum(replays)} of {plural(len(replays), 'text')}"


def _words(name: str) -> str:
    return str(name).replace("_", " ")


def _strings(value: object) -> Sequence[str]:
    return [str(member) for member in value] if isinstance(value, list | tuple) else []


def _configuration(subject: str, body: _Body) -> str:
    loosened = _strings(body.get("loosened"))
    changed = f"configuration changed: {plural(len(body.get('changes', ())), 'value')}"
    return f"{changed}, loosened: {', '.join(loosened[:3])}" if loosened else changed


def _asked_again(subject: str, body: _Body) -> str:
    given = "still given" if body.get("agrees") else "no longer given"
    return f"question asked again after {body.get('after')}: the reported answer is {given}"


_SENTENCES: Final[Mapping[str, Callable[[str, _Body], str]]] = {
    "sealed": lambda _, body: f"corpus sealed: {plural(int(body.get('chunks', 0)), 'chunk')} served",
    "retired": lambda _, body: f"document retired: {body.get('reason')}",
    "withdrawn": lambda _, body: (
        f"{plural(len(body['versions']), 'version')} withdrawn and blocked by {body.get('by')}"
    ),
    "restored": lambda _, body: (
        f"{plural(len(body['versions']), 'version')} restored by {', '.join(_strings(body.get('by')))}"
    ),
    "withdrawal_refused": lambda _, body: (
        f"withdrawal of {plural(len(body['versions']), 'version')} refused by {body.get('by')}"
    ),
    "purge_began": lambda _, body: f"purge begun by {body.get('by')}",
    "purged": lambda _, body: (
        f"{plural(len(body['versions']), 'version')} erased; {body.get('searched')} files searched, nothing left"
    ),
    "traced": lambda _, body: _traced(body),
    "asked_again": _asked_again,
    "incident_opened": lambda _, body: (
        "incident opened: " + ", ".join(f"{count} {_words(kind)}" for kind, count in body["counts"].items())
    ),
    CONFIGURED_EVENT: _configuration,
    CaseEvent.OPENED: lambda _, body: f"case opened by {body.get('by')}",
    CaseEvent.ADDED: lambda _, body: f"{plural(len(body['members']), 'member')} added by {body.get('by')}",
    CaseEvent.APPROVED: lambda _, body: (
        f"step {_words(body['what'])} approved by {body.get('by')}: {plural(len(body['subjects']), 'subject')}"
    ),
    CaseEvent.DONE: lambda _, body: f"step {_words(body['what'])} done",
    CaseEvent.EXPORTED: lambda _, body: f"case file written: {plural(len(body['files']), 'file')}",
    CaseEvent.CLOSED: lambda _, body: f"case closed by {body.get('by')}",
    CaseEvent.REOPENED: lambda _, body: f"case opened again by {body.get('by')}",
}
"""Words of an event, from its subject and its body; for kinds that need no name of a document."""
