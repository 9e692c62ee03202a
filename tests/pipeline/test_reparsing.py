"""Stored bytes read again by another parser: what reads differently is judged and published, and nothing else is touched."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import orjson
import pyarrow as pa
import pytest
import sqlalchemy as sa

import deciding
from corpus_guard.batches import Storage
from corpus_guard.batches.reading import compare_batch
from corpus_guard.batches.storage import parquet_bytes
from corpus_guard.batches.tables import VERSIONS
from corpus_guard.corpus import outbox
from corpus_guard.corpus.publishing import finding_rows
from corpus_guard.deployment import Deployment
from corpus_guard.domain import Finding, Severity
from corpus_guard.errors import StoreUnavailable
from corpus_guard.intake.parsing import ParsedDocument, ParsingSandbox
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.tables import findings, publications, versions
from corpus_guard.pipeline import reparsing
from corpus_guard.pipeline.rebuild import CannotRebuild, batches_of_documents, batches_of_outbox
from corpus_guard.pipeline.reparsing import FETCHING_CHECK
from corpus_guard.review.decisions import Choice
from deploying import BAD, TICKETS, Workspace

LONG = (
    "# The pump house\n\nThe pump was greased in March and is looked at again in autumn, before the first storms. Whoever opens the "
    "door writes the hour into the book and leaves the lamp as it was found. The pressure is read at noon; in summer it falls by a "
    "tenth, and nobody needs to worry. Spare seals lie in the third drawer, wrapped in oiled paper, with the year on the outside. "
    "When the needle stands in the red field the main tap is closed first, and then the harbour office is told by telephone.\n\n"
    "The filter is rinsed in cold water every second week. Two people carry it, because it is heavier than it looks and the steps "
    "are wet. Sand that is left in the basin goes into the bucket, not into the drain. In winter the pipe along the north wall is "
    "emptied before the frost, and a note on the door says so. Deliveries arrive on Tuesdays by the narrow road behind the sheds.\n\n"
    "The valve is of bronze and turns to the left. It was made in the town, and a second one hangs on the wall of the workshop.\n"
)
OTHER = "# Moorings\n\nVisitors tie up at the eastern quay, pay at the kiosk, and leave before the ferry of Saturday evening.\n"


@pytest.fixture
def guard(deployment: Workspace) -> Iterator[Deployment]:
    """Two accepted documents and one that waits."""
    deployment.page("good.md", LONG)
    deployment.page("other.md", OTHER)
    deployment.page("bad.md", BAD)
    with deployment.guard() as made:
        yield made


def read_as(monkeypatch: pytest.MonkeyPatch, change: Callable[[str], str]) -> None:
    """Let the parser read another text from now on."""
    parse = ParsingSandbox.parse

    def parsed(*given: object) -> ParsedDocument:
        document = parse(*given)  # type: ignore[arg-type]
        return replace(document, text=change(document.text))

    monkeypatch.setattr(ParsingSandbox, "parse", parsed)


def served(guard: Deployment) -> str:
    return "\n".join(sorted(record.text for name in guard.store.names() for record in guard.store.scan(name)))


def batch_of(guard: Deployment) -> str:
    (name,) = (name for name in batches_of_documents(guard.ledger) if name.endswith("/versions.parquet"))
    return name


def holds(guard: Deployment) -> None:
    verified = guard.verify(deep=True)
    assert verified.holds, verified.as_dict()
    assert verified.unsigned == 0


def test_the_same_parser_changes_nothing(guard: Deployment) -> None:
    guard.refresh("r1")
    before = served(guard), guard.storage.names()

    result = guard.reparse("p1")

    assert (result["examined"], result["changed"], result["unreadable"]) == (3, [], [])
    assert served(guard) == before[0]
    assert {name for name in guard.storage.names() - before[1] if name.startswith("batches/")} == set()
    holds(guard)


@pytest.mark.parametrize("how", ["longer", "shorter", "in the middle"])
def test_another_text_is_judged_and_replaces_the_former_one(
    guard: Deployment, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    guard.refresh("r1")
    change: dict[str, Callable[[str], str]] = {
        "longer": lambda text: (
            text
            + "\n\n"
            + "A table that only the new parser reads lists the tides of the year, month by month, with the heights in metres."
        ),
        "shorter": lambda text: text.partition("The valve is")[0].strip(),
        "in the middle": lambda text: text.replace("The pump was greased", "The pump is greased"),
    }
    read_as(monkeypatch, lambda text: change[how](text) if "valve" in text else text)
    before = served(guard)

    planned = guard.reparse("dry", dry_run=True)
    assert served(guard) == before
    result = guard.reparse("p1")

    assert planned["changed"] == result["changed"]
    assert len(result["changed"]) == 1
    assert (result["accepted"], result["quarantined"]) == (1, 0)
    assert ("only the new parser" in served(guard)) == (how == "longer")
    assert ("The valve is" in served(guard)) == (how != "shorter")
    assert ("The pump is greased" in served(guard)) == (how == "in the middle")
    assert ("The pump was greased" in served(guard)) == (how != "in the middle")
    holds(guard)
    again = guard.reparse("p2")
    assert again["changed"] == []
    for name in batches_of_documents(guard.ledger):
        Path(guard.storage.location(name)).unlink()
    guard.rescreen("s1")  # makes the lost batches again, beside the chunks of the former text
    holds(guard)


def test_another_text_may_be_refused_and_leaves_the_service(guard: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    guard.refresh("r1")
    read_as(monkeypatch, lambda text: text.replace("Moorings", BAD))

    result = guard.reparse("p1")

    assert (result["accepted"], result["quarantined"]) == (0, 1)
    assert "Ignore all previous" not in served(guard)
    states = guard.ledger.rows(sa.select(versions.c.stamp, versions.c.state))
    assert {row.stamp["uri"]: row.state for row in states} == {
        "good.md": "accepted",
        "other.md": "quarantined",
        "bad.md": "quarantined",
    }
    holds(guard)


@pytest.mark.parametrize("verdict", ["release", "reject"])
def test_a_release_does_not_cover_a_text_nobody_saw(
    guard: Deployment, monkeypatch: pytest.MonkeyPatch, verdict: Choice
) -> None:
    guard.refresh("r1")
    item = guard.ledger.scalar(sa.select(versions.c.version_id).where(versions.c.state == "quarantined"))
    assert item
    deciding.decided(guard.ledger, item, verdict, policy_digest=guard.screening.digest)
    guard.apply_decisions("d1")
    assert ("Ignore all previous" in served(guard)) == (verdict == "release")
    assert guard.reparse("same")["releases_undone"] == 0
    read_as(monkeypatch, lambda text: text.replace("Ignore", "Please ignore"))

    result = guard.reparse("p1")

    assert result["changed"] == [item]
    assert result["releases_undone"] == (verdict == "release")
    state = guard.ledger.scalar(sa.select(versions.c.state).where(versions.c.version_id == item))
    assert state == ("quarantined" if verdict == "release" else "rejected")
    assert "ignore all previous" not in served(guard)
    holds(guard)
    if verdict == "release":  # a person who sees the new text may release it
        deciding.decided(guard.ledger, item, verdict, policy_digest=guard.screening.digest)
        guard.apply_decisions("d2")
        assert "Please ignore all previous" in served(guard)
        holds(guard)


def test_a_lost_batch_that_reads_differently_is_judged_again(
    guard: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object) -> object:
        raise StoreUnavailable("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(outbox, "drain", stopped)
        with pytest.raises(StoreUnavailable):
            guard.refresh("r1")
    Path(guard.storage.location(batches_of_outbox(guard.ledger)[0])).unlink()
    read_as(monkeypatch, str.upper)
    with pytest.raises(CannotRebuild, match="Run `guard reparse`"):
        guard.refresh("r2")

    result = guard.reparse("p1")

    assert len(result["changed"]) == 3
    assert "THE PUMP WAS GREASED" in served(guard)
    with guard.ledger.read() as connection:
        waiting = sa.select(sa.func.count()).where(publications.c.state.in_(("pending", "retiring")))
        assert connection.scalar(waiting.select_from(publications)) == 0
    guard.refresh("r3")
    holds(guard)


def test_damaged_raw_bytes_are_counted(guard: Deployment) -> None:
    guard.refresh("r1")
    [row] = guard.ledger.rows(sa.select(versions).where(versions.c.state == "quarantined"))
    Path(guard.blobs.path(row.content_sha256)).write_bytes(b"other")

    assert guard.reparse("p1")["unreadable"] == [row.version_id]


def test_each_batch_is_read_once(guard: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    guard.refresh("r1")
    read: list[tuple[str, int]] = []

    def noting(ledger: Ledger, storage: Storage, name: str, version_ids: Sequence[str]) -> object:
        read.append((name, len(version_ids)))
        return compare_batch(ledger, storage, name, version_ids)

    monkeypatch.setattr(reparsing, "compare_batch", noting)

    assert guard.reparse("p1")["examined"] == 3
    assert read == [(batch_of(guard), 3)]


def test_a_row_that_is_no_version_does_not_spoil_the_others_of_its_batch(guard: Deployment) -> None:
    guard.refresh("r1")
    name = batch_of(guard)
    rows = guard.storage.read_table(name).to_pylist()
    rows[1]["stamp"] = b"no stamp"
    guard.storage.write(name, parquet_bytes(pa.Table.from_pylist(rows, schema=VERSIONS)))

    result = guard.reparse("p1")

    assert result["changed"] == [rows[1]["version_id"]]
    assert result["releases_undone"] == 0


def test_problems_of_fetching_stay_with_their_version(guard: Deployment) -> None:
    guard.refresh("r1")
    name = batch_of(guard)
    rows = guard.storage.read_table(name).to_pylist()
    problem = Finding(FETCHING_CHECK, "intake.changed", Severity.LOW, 0.5, "the file changed")
    rows[1]["problems"] = orjson.dumps([problem.as_dict()])
    guard.storage.write(name, parquet_bytes(pa.Table.from_pylist(rows, schema=VERSIONS)))
    with guard.ledger.write() as connection:
        connection.execute(findings.insert(), finding_rows(rows[1]["version_id"], [problem], first=90))

    assert guard.reparse("p1")["changed"] == []


def test_what_was_wrong_with_a_row_stays_with_it(deployment: Workspace) -> None:
    """Its stored bytes are a text: they do not show that another row has its id, or that half a character was replaced."""
    deployment.rows(
        {"id": "t1", "text": "The pump of boat seven was repaired on Monday, and nothing leaks any more."},
        {"id": "t1", "text": "The winch of boat nine was repaired on Tuesday, and it holds the anchor again."},
        '{"id": "t2", "text": "The lamp of boat two was replaced on Friday \\\\ud800 and can be seen from the pier."}',
        {"id": "t3"},
    )
    deployment.sources(TICKETS)
    deployment.refresh("r1")
    states = deployment.states()

    with deployment.guard() as guard:
        assert guard.reparse("p1")["changed"] == []

    assert deployment.states() == states
