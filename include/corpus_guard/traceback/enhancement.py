"""Benign text enhancement (BTE): a right answer put where its question finds it.

Source: "Traceback of Poisoning Attacks to Retrieval-Augmented Generation" (Zhang and others, WWW 2025), appendix 8.3.

The record's vector is the question's own embedding (the paper's retrieval proxy), its text the right answer wrapped in a trigger
(`corpus_guard.corpus.trigger`). It is a document like any other: of the internal source ``@enhancements``, trust level trusted, with bytes,
stamp, screening, a person's release, Parquet batch, outbox, manifest line. So `guard verify` accounts for it, `guard rescreen` leaves the
person's decision in force, a heal puts it back, and `guard purge` erases it from corpus and storage.

Rules
    * a person puts it there, by name and with a reason; what a report calls the right answer is only a proposal;
    * a question has one enhancement in force; enabling another replaces it, enabling the same again changes at most its end;
    * what outranks the whole corpus may carry no orders: a text in which screening finds an instruction, a Unicode trick or a trigger
      is refused, and so is one that could not be looked at, or was purged;
    * past its end it is not served, whether `expire` has run or not; ended ones leave the collections through the outbox;
    * killed anywhere, the same call again converges.

What it does not do: make sure that the answer is right; reach paraphrases that the embedder places far from the question. Its question
and text stand in the ledger's table of enhancements, and stay there when the document is purged.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from corpus_guard.corpus import outbox, publishing, trigger
from corpus_guard.corpus.retrieval_log import LONGEST, query_id
from corpus_guard.domain import digest
from corpus_guard.errors import Misuse, UnknownSubject
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import decisions, documents, enhancements, publications, reports, versions
from corpus_guard.proof.sealing import seal_corpus
from corpus_guard.traceback._enhancement_version import Made, make

if TYPE_CHECKING:
    from corpus_guard.guard import Guard

TEXT = 2_000  # characters of a text at most; one chunk is the tighter limit where chunks are short
NAME = 200  # characters of a name
REASON = 2_000  # characters of a reason
SHORTEST_PREFIX = 6  # characters of an id
STATES = {"active", "expired", "withdrawn"}

_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Enhancement:
    """A right answer behind a question."""

    enhancement_id: str
    query_id: str
    query: str
    text: str  # without its trigger
    state: str  # active, expired, withdrawn
    report_id: str | None
    doc_id: str
    created_by: str
    reason: str
    created_at: datetime
    expires_at: datetime | None  # None: until somebody withdraws it
    ended_at: datetime | None
    ended_by: str | None
    served: bool  # lies in a collection and is in force

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        times = ("created_at", "expires_at", "ended_at")
        return {**asdict(self), **{name: when.isoformat() for name in times if (when := getattr(self, name))}}


@dataclass(frozen=True, slots=True)
class Changed:
    """What a command did."""

    enhancements: tuple[Enhancement, ...]  # as they stand now
    published: int  # chunks
    retired: int  # chunks
    manifest_sha256: str

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {**asdict(self), "enhancements": [one.as_dict() for one in self.enhancements]}


def benign_text(query: str, answer: str) -> str:
    """A text that answers the question, where only the answer is known; the paper lets a language model write a sentence.

    Of five forms the small language model took the answer from this one most often (30 of 40 questions; 14 to 27 from the others).
    """
    asked = " ".join(query.split()).rstrip("?!. ")
    return f"Question: {asked}? Answer: {' '.join(answer.split()).rstrip('. ')}."


def enable(
    guard: Guard,
    run_id: str,
    query: str,
    text: str,
    *,
    by: str,
    reason: str,
    expires_at: datetime | None = None,
    report_id: str | None = None,
) -> Changed:
    """Put a right answer behind a question, publish it and seal.

    Args:
        guard: the deployment.
        run_id: who works, for the event log.
        query: the question, as people ask it.
        text: what answers it, a sentence or a few; see `benign_text`.
        by: who vouches for it.
        reason: why they can; kept for good.
        expires_at: from when on it is served no longer.
        report_id: the report it answers.

    Raises:
        Misuse: something is missing, too long, not printable, a trigger, an instruction, or was purged; or `expires_at` has passed.
        UnknownSubject: there is no such report.
        StoreUnavailable: Chroma does not answer; the outbox holds it, and the same call again converges.
    """
    query, text = _checked(query, "the question", LONGEST), _checked(text, "the text", TEXT)
    by, reason = _checked(by, "the name of who vouches for it", NAME), _checked(reason, "the reason", REASON)
    if expires_at is not None and expires_at <= now():
        raise Misuse(
            f"an enhancement that ends at {expires_at.isoformat()} has ended already; give a time that lies ahead"
        )
    _known_report(guard.ledger, report_id)
    found = _prolonged(guard.ledger, run_id, query, text, by, expires_at)
    if found is None:
        made = make(guard, run_id, query, text, by)
        found = _record(guard, run_id, made, {"reason": reason, "expires_at": expires_at, "report_id": report_id})
    return _applied(guard, run_id, [found])


def withdraw(guard: Guard, run_id: str, name: str, *, by: str, reason: str) -> Changed:
    """Serve an enhancement no longer.

    Args:
        guard: the deployment.
        run_id: who works, for the event log.
        name: its id, or the beginning of it.
        by: who withdraws it.
        reason: why; kept for good.

    Raises:
        Misuse: nobody or no reason is named.
        UnknownSubject: no such enhancement, or several begin so.
        StoreUnavailable: Chroma does not answer; it is served no longer all the same, and the same call again converges.
    """
    by, reason = _checked(by, "the name of who withdraws it", NAME), _checked(reason, "the reason", REASON)
    one = find(guard.ledger, name)
    _end(guard.ledger, run_id, [one], "withdrawn", by, reason)
    return _applied(guard, run_id, [one.enhancement_id])


def expire(guard: Guard, run_id: str) -> Changed:
    """Take those whose end has passed out of the collections; nobody was served them since. Raises what `withdraw` raises."""
    over = past_end(guard.ledger)
    _end(guard.ledger, run_id, over, "expired", "", "its end has passed")
    return _applied(guard, run_id, [one.enhancement_id for one in over])


def past_end(ledger: Ledger) -> list[Enhancement]:
    """Those that are still in the collections though their end has passed."""
    when = now()
    return [one for one in find_all(ledger, state="active") if one.expires_at and one.expires_at <= when]


def find_all(ledger: Ledger, *, state: str | None = None, limit: int | None = None) -> list[Enhancement]:
    """Enhancements, the youngest first.

    Raises:
        Misuse: no such state.
    """
    if state is not None and state not in STATES:
        raise Misuse(f"state {state!r}: expected one of {', '.join(sorted(STATES))}")
    wanted = [enhancements.c.state == state] if state else []
    return _read(ledger, *wanted, limit=limit)


def find(ledger: Ledger, name: str) -> Enhancement:
    """One, by its id or the beginning of it (at least six characters).

    Raises:
        UnknownSubject: none, or several.
    """
    if re.fullmatch(f"[0-9a-f]{{{SHORTEST_PREFIX},32}}", name):
        found = _read(ledger, enhancements.c.enhancement_id.startswith(name), limit=2)
        if len(found) == 1:
            return found[0]
        if found:
            raise UnknownSubject(f"several enhancements begin with {name!r}; give more of the id")
    raise UnknownSubject(
        f"enhancement {name[:40]!r} is not in the ledger, or less than {SHORTEST_PREFIX} characters of an id; "
        "`guard enhance list` shows them"
    )


def _read(ledger: Ledger, *wanted: sa.ColumnElement[bool], limit: int | None = None) -> list[Enhancement]:
    served = (
        sa.exists()
        .where(
            publications.c.doc_id == enhancements.c.doc_id,
            publications.c.state == "published",
            publications.c.version_id == documents.c.target_version,
            documents.c.doc_id == enhancements.c.doc_id,
            enhancements.c.state == "active",
            sa.or_(enhancements.c.expires_at.is_(None), enhancements.c.expires_at > now()),
        )
        .label("served")
    )
    statement = sa.select(enhancements, served).where(*wanted).limit(limit)
    order = (enhancements.c.created_at.desc(), enhancements.c.enhancement_id)
    with ledger.read() as connection:
        return [Enhancement(**row._mapping) for row in connection.execute(statement.order_by(*order))]


def _checked(text: str, what: str, longest: int) -> str:
    text = text.strip()
    if not text:
        raise Misuse(f"an enhancement needs {what}; it is empty")
    if len(text) > longest:
        raise Misuse(f"{what} has {len(text):,} characters, at most {longest:,} are taken; shorten it")
    if odd := _UNPRINTABLE.search(text):
        raise Misuse(f"{what} holds U+{ord(odd[0]):04X} at character {odd.start() + 1}; take it out")
    if trigger.defuse(text)[1]:
        raise Misuse(f"{what} holds a trigger ({trigger.OPEN}), which only the guard sets; take it out")
    return text


def _known_report(ledger: Ledger, report_id: str | None) -> None:
    if report_id is None:
        return
    with ledger.read() as connection:
        if not connection.scalar(sa.select(reports.c.report_id).where(reports.c.report_id == report_id)):
            raise UnknownSubject(f"report {report_id[:40]!r} is not in the ledger; `guard report list` shows them")


def _prolonged(ledger: Ledger, run_id: str, query: str, text: str, by: str, expires_at: datetime | None) -> str | None:
    """The id of the one in force that says the same; its end is the one asked for now. None: there is no such one."""
    same = (
        enhancements.c.query_id == query_id(query),
        enhancements.c.text == text,
        enhancements.c.state == "active",
        # Purged, or taken out by another road: then it is made again.
        enhancements.c.doc_id.in_(sa.select(documents.c.doc_id).where(documents.c.target_version.is_not(None))),
    )
    with ledger.write() as connection:
        row = connection.execute(sa.select(enhancements).where(*same)).first()
        if row is None:
            return None
        if row.expires_at != expires_at:
            here = enhancements.c.enhancement_id == row.enhancement_id
            connection.execute(enhancements.update().where(here).values(expires_at=expires_at))
            told = {"by": by, "expires_at": expires_at.isoformat() if expires_at else None}
            ledger.event(connection, "enhancement_prolonged", row.enhancement_id, run_id, **told)
    return str(row.enhancement_id)


def _record(guard: Guard, run_id: str, made: Made, row: dict[str, Any]) -> str:
    """Verdict, release, outbox row and enhancement, in one transaction."""
    version = made.version
    enhancement = digest("enhancement/v1", [version.version_id])[:32]

    def along_with(connection: sa.Connection) -> None:
        _release(guard, connection, run_id, made, row["reason"])
        old = connection.scalars(
            sa.select(enhancements.c.enhancement_id).where(
                enhancements.c.doc_id == version.doc_id, enhancements.c.state == "active"
            )
        ).all()
        _mark_ended(guard.ledger, connection, run_id, old, "withdrawn", made.by, "replaced by another")
        connection.execute(
            enhancements.insert().values(
                enhancement_id=enhancement,
                query_id=query_id(made.query),
                query=made.query,
                text=made.text,
                state="active",
                doc_id=version.doc_id,
                created_by=made.by,
                created_at=version.stamp.fetched_at,
                **row,
            )
        )
        guard.ledger.event(
            connection,
            "enhanced",
            enhancement,
            run_id,
            query_id=query_id(made.query),
            version_id=version.version_id,
            text_sha256=version.text_sha256,
            by=made.by,
            report_id=row["report_id"],
            expires_at=row["expires_at"].isoformat() if row["expires_at"] else None,
        )

    publishing.record(
        guard.ledger,
        run_id,
        made.batch,
        [(version, made.judgement)],
        collection=guard.collection,
        vectors=made.vectors,
        model=made.model,
        along_with=along_with,
    )
    return enhancement


def _release(guard: Guard, connection: sa.Connection, run_id: str, made: Made, reason: str) -> None:
    """The decision of whoever vouches for it: what keeps it served when another policy judges it."""
    version = made.version
    here = versions.c.version_id == version.version_id
    if connection.scalar(sa.select(versions.c.state).where(here)) == "rejected":
        raise Misuse("this text was purged from the corpus, and comes back by no road; nothing was changed")
    decided = {
        "decision_id": digest("decision/v1", [version.version_id, "release", made.by])[:32],
        "content_sha256": version.stamp.content_sha256,
        "verdict": "release",
        "reviewer": made.by,
        "reason": reason,
    }
    when = now()
    row = {**decided, "version_id": version.version_id, "policy_digest": made.judgement.policy_digest}
    connection.execute(decisions.insert().values(**row, decided_at=when, applied_at=when))
    guard.ledger.event(connection, "decided", version.version_id, run_id, **decided)
    connection.execute(versions.update().where(here).values(state="released"))
    publishing.request(
        guard.ledger,
        connection,
        run_id,
        [version],
        collection=guard.collection,
        vectors=made.vectors,
        model=made.model,
    )
    target = sa.select(documents.c.target_version).where(documents.c.doc_id == version.doc_id)
    if connection.scalar(target) != version.version_id:
        raise Misuse("somebody changed the enhancement of this question meanwhile; look at it, then run again")


def _end(ledger: Ledger, run_id: str, ending: list[Enhancement], state: str, by: str, reason: str) -> None:
    """Those that are still active end, and their documents are retired."""
    if not ending:
        return
    with ledger.write() as connection:
        ids = [one.enhancement_id for one in ending]
        ended = _mark_ended(ledger, connection, run_id, ids, state, by, reason)
        gone = [one.doc_id for one in ending if one.enhancement_id in ended]
        publishing.retire(ledger, connection, run_id, gone, f"enhancement {state}")


def _mark_ended(
    ledger: Ledger, connection: sa.Connection, run_id: str, ids: Any, state: str, by: str, reason: str
) -> set[str]:
    ended = set()
    for enhancement in ids:
        here = sa.and_(enhancements.c.enhancement_id == enhancement, enhancements.c.state == "active")
        values = {"state": state, "ended_at": now(), "ended_by": by or None}
        if connection.execute(enhancements.update().where(here).values(**values)).rowcount:
            ledger.event(connection, "enhancement_ended", enhancement, run_id, state=state, by=by, reason=reason)
            ended.add(enhancement)
    return ended


def _applied(guard: Guard, run_id: str, ids: list[str]) -> Changed:
    published, retired = outbox.drain(guard.ledger, guard.storage, lambda: guard.store, run_id)
    sealed = seal_corpus(guard, run_id).manifest.sha256
    by_id = {one: find(guard.ledger, one) for one in ids}
    return Changed(tuple(by_id.values()), published, retired, sealed)
