"""What calibration reads from the ledger, on both kinds."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from corpus_guard.domain import Severity, Skipped, TrustLevel, Verdict
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import decisions, versions
from corpus_guard.screening.calibration import VersionOutcome
from corpus_guard.screening.history import load_judged_documents
from corpus_guard.screening.runner import DECIDED_ALREADY
from material import Shelf, a_version, judged

ACCEPT, QUARANTINE, REJECT = Verdict.ACCEPT, Verdict.QUARANTINE, Verdict.REJECT


def read(shelf: Shelf, source: str | None = None) -> list[Any]:
    return list(load_judged_documents(shelf.ledger, source))


def decide(shelf: Shelf, version: Any, *verdicts: str) -> None:
    with shelf.ledger.write() as connection:
        for number, verdict in enumerate(verdicts):
            connection.execute(
                decisions.insert().values(
                    decision_id=f"{number}{version.version_id[1:]}", version_id=version.version_id,
                    content_sha256=version.stamp.content_sha256, verdict=verdict, reviewer="ines", reason="known",
                    policy_digest="0" * 64, decided_at=now(),
                )
            )  # fmt: skip


def test_every_outcome(shelf: Shelf) -> None:
    names = ("a", "b", "c", "d", "e")
    made = {name: a_version(f"{name}.md", [f"The pump {name} is old."], source=name) for name in names}
    shelf.record(
        (made["a"], ACCEPT),
        (made["b"], QUARANTINE),
        (made["c"], QUARANTINE),
        (made["d"], QUARANTINE),
        (made["e"], REJECT),
    )
    decide(shelf, made["c"], "release")
    decide(shelf, made["d"], "release", "reject")

    assert {one.source: one.outcome for one in read(shelf)} == {
        "a": VersionOutcome.ACCEPTED,
        "b": VersionOutcome.WAITING,
        "c": VersionOutcome.RELEASED,
        "d": VersionOutcome.REJECTED,
        "e": VersionOutcome.REFUSED,
    }


def test_findings_come_without_text_and_in_their_order(shelf: Shelf) -> None:
    shelf.record((a_version(), QUARANTINE))

    (one,) = read(shelf)

    (finding,) = one.findings
    assert (finding.check, finding.code, finding.severity, finding.score) == (
        "instructions", "instructions.override", Severity.HIGH, 0.9,
    )  # fmt: skip
    assert (finding.message, finding.span) == ("", None)
    assert (one.trust, one.unseen) == (TrustLevel.OPEN, False)


def test_a_document_counts_once_by_its_latest_version_until_it_vanishes(shelf: Shelf) -> None:
    old, new = a_version(), a_version(passages=["The winch is greased in May."], minute=5)
    shelf.record((old, QUARANTINE))
    shelf.record((new, ACCEPT))
    assert [one.outcome for one in read(shelf)] == [VersionOutcome.ACCEPTED]

    shelf.retire(new.doc_id)

    assert read(shelf) == []


def test_one_source_alone(shelf: Shelf) -> None:
    shelf.record((a_version(source="one"), ACCEPT), (a_version(source="two"), QUARANTINE))

    assert [one.source for one in read(shelf, "two")] == ["two"]
    assert read(shelf, "three") == []


def test_what_a_slow_check_never_saw_is_known(shelf: Shelf) -> None:
    version = a_version()
    shelf.record((version, QUARANTINE))
    skipped = judged(version, skipped=(Skipped("perplexity", DECIDED_ALREADY),)).skipped
    with shelf.ledger.write() as connection:
        values = {"skipped": [[one.check, one.reason] for one in skipped]}
        connection.execute(sa.update(versions).values(values))

    assert [one.unseen for one in read(shelf)] == [True]
