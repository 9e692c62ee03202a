"""New verdicts for known versions: what is served follows, on both kinds of ledger."""

from __future__ import annotations

from datetime import datetime, timedelta

import sqlalchemy as sa

from corpus_guard.corpus import publishing
from corpus_guard.domain import Verdict, Version
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import decisions, events, findings, versions
from material import MODEL, Shelf, a_version, judged

ACCEPT, QUARANTINE, REJECT = Verdict.ACCEPT, Verdict.QUARANTINE, Verdict.REJECT
PASSAGES = ("The winch is greased in May. ", "The lamp is lit at dusk.")


def row(shelf: Shelf, version: Version) -> sa.Row[tuple[object, ...]]:
    with shelf.ledger.read() as connection:
        return connection.execute(sa.select(versions).where(versions.c.version_id == version.version_id)).one()


def rejudge(
    shelf: Shelf, *pairs: tuple[Version, Verdict], as_of: dict[str, datetime] | None = None, **fields: object
) -> dict[str, str]:
    """What a rescreen records; the vectors are those that `record` was given."""
    made = [version for version, _ in pairs]
    stored = row(shelf, made[0])
    with shelf.ledger.write() as connection:
        states = publishing.rejudge(
            connection,
            "rescreen-1",
            stored.batch,
            [(version, judged(version, verdict, policy_digest="1" * 64, **fields)) for version, verdict in pairs],
            as_of or {version.version_id: row(shelf, version).judged_at for version in made},
            collection=shelf.store.collection_name,
            vectors=f"{stored.batch.rpartition('/')[0]}/vectors.parquet",
            model=MODEL,
        )
    shelf.drain()
    return states


def decide(shelf: Shelf, version: Version, verdict: str) -> None:
    with shelf.ledger.write() as connection:
        connection.execute(
            decisions.insert().values(
                decision_id=version.version_id, version_id=version.version_id, content_sha256=version.stamp.content_sha256,
                verdict=verdict, reviewer="ines", reason="known", policy_digest="0" * 64, decided_at=now(), applied_at=now(),
            )
        )  # fmt: skip
        state = {"release": "released", "reject": "rejected"}[verdict]
        connection.execute(versions.update().where(versions.c.version_id == version.version_id).values(state=state))


def test_what_was_served_and_no_longer_may_be_is_taken_out(shelf: Shelf) -> None:
    one, other = a_version(), a_version("winch.md", PASSAGES)
    shelf.serve(one, other)

    assert rejudge(shelf, (one, QUARANTINE)) == {one.version_id: "quarantined"}

    assert shelf.check_agreement() == shelf.held_by(other)
    assert shelf.document(one).target_version is None


def test_what_waited_and_may_pass_is_published(shelf: Shelf) -> None:
    one = a_version()
    shelf.record((one, QUARANTINE))
    shelf.drain()

    assert rejudge(shelf, (one, ACCEPT)) == {one.version_id: "accepted"}

    assert shelf.check_agreement() == shelf.held_by(one)
    stored = row(shelf, one)
    assert (stored.verdict, stored.policy_digest, stored.run_id) == ("accept", "1" * 64, "rescreen-1")
    assert shelf.ledger.rows(sa.select(findings)) == []


def test_what_stays_served_is_not_touched_and_needs_no_vectors(shelf: Shelf) -> None:
    one = a_version()
    shelf.serve(one)
    before = shelf.in_ledger()
    stored = row(shelf, one)

    with shelf.ledger.write() as connection:
        states = publishing.rejudge(
            connection, "rescreen-1", stored.batch, [(one, judged(one, ACCEPT, policy_digest="1" * 64))],
            {one.version_id: stored.judged_at}, collection=shelf.store.collection_name, vectors="", model="",
        )  # fmt: skip

    assert states == {one.version_id: "accepted"}
    assert shelf.in_ledger() == before
    assert row(shelf, one).policy_digest == "1" * 64


def test_what_is_still_to_be_published_keeps_its_vectors(shelf: Shelf) -> None:
    one = a_version()
    shelf.accept(one)  # killed before it was drained
    stored = row(shelf, one)

    with shelf.ledger.write() as connection:
        publishing.rejudge(
            connection, "rescreen-1", stored.batch, [(one, judged(one, ACCEPT, policy_digest="1" * 64))],
            {one.version_id: stored.judged_at}, collection=shelf.store.collection_name, vectors="", model="",
        )  # fmt: skip
    shelf.drain()

    assert shelf.check_agreement() == shelf.held_by(one)


def test_there_and_back_again(shelf: Shelf) -> None:
    one = a_version()
    shelf.serve(one)

    for verdict, held in (
        (QUARANTINE, set()),
        (ACCEPT, shelf.held_by(one)),
        (REJECT, set()),
        (ACCEPT, shelf.held_by(one)),
    ):
        rejudge(shelf, (one, verdict))
        assert shelf.check_agreement() == held


def test_the_predecessor_goes_when_its_successor_may_pass(shelf: Shelf) -> None:
    old, new = a_version(), a_version(passages=PASSAGES, minute=5)
    shelf.serve(old)
    shelf.record((new, QUARANTINE))
    shelf.drain()
    assert shelf.check_agreement() == shelf.held_by(old)

    rejudge(shelf, (new, ACCEPT))

    assert shelf.check_agreement() == shelf.held_by(new)


def test_a_served_predecessor_that_may_pass_no_longer_goes_alone(shelf: Shelf) -> None:
    old, new = a_version(), a_version(passages=PASSAGES, minute=5)
    shelf.serve(old)
    shelf.record((new, QUARANTINE))

    rejudge(shelf, (old, QUARANTINE))

    assert shelf.check_agreement() == set()
    assert shelf.document(new).latest_version == new.version_id


def test_a_reviewers_decision_stays_in_force(shelf: Shelf) -> None:
    released, rejected = a_version(), a_version("winch.md", PASSAGES)
    shelf.serve(released, rejected)
    decide(shelf, released, "release")
    decide(shelf, rejected, "reject")

    assert rejudge(shelf, (released, QUARANTINE), (rejected, ACCEPT)) == {
        released.version_id: "released",
        rejected.version_id: "rejected",
    }

    assert shelf.check_agreement() == shelf.held_by(released)
    assert row(shelf, released).verdict == "quarantine"


def test_what_somebody_else_judged_meanwhile_is_passed_over(shelf: Shelf) -> None:
    one, other = a_version(), a_version("winch.md", PASSAGES)
    shelf.serve(one, other)
    read = {version.version_id: row(shelf, version).judged_at for version in (one, other)}
    read[one.version_id] -= timedelta(seconds=1)

    assert rejudge(shelf, (one, QUARANTINE), (other, QUARANTINE), as_of=read) == {other.version_id: "quarantined"}

    assert shelf.check_agreement() == shelf.held_by(one)
    assert row(shelf, one).policy_digest == "0" * 64


def test_the_event_log_tells_old_and_new(shelf: Shelf) -> None:
    one = a_version()
    shelf.serve(one)
    rejudge(shelf, (one, QUARANTINE), shadow_verdict=REJECT)

    told = shelf.ledger.rows(
        sa.select(events.c.kind, events.c.body).where(events.c.subject == one.version_id).order_by(events.c.seq)
    )
    assert [(event.kind, event.body["verdict"], event.body["shadow_verdict"]) for event in told] == [
        ("judged", "accept", None),
        ("rejudged", "quarantine", "reject"),
    ]
    assert row(shelf, one).shadow_verdict == "reject"
