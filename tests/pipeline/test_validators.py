"""What a source says of being unchanged: it costs nothing, and it never makes a changed document look unchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from corpus_guard.deployment import Deployment
from corpus_guard.domain import TrustLevel, doc_id
from corpus_guard.errors import Inconsistent
from corpus_guard.intake.sources import Fetched, FetchFailed, Outcome, SourceItem, Sources, Unchanged
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import documents, validators
from corpus_guard.pipeline.steps import RefreshResult
from deploying import GOOD, Workspace
from stepping import SteppedRun

Make = Callable[..., Workspace]


@dataclass
class Shelf:
    """A source that counts what it is asked for. Its validators are numbers that the test sets."""

    texts: dict[str, str]
    numbers: dict[str, int] = field(default_factory=dict)
    listed: bool = False
    """Whether listing says the validators, as object stores do; else fetching answers `Unchanged`, as web servers do."""
    lies: bool = False
    short: bool = False
    name: str = "shelf"
    owner: str = "keeper"
    trust: TrustLevel = TrustLevel.OPEN
    asked: list[str] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)

    def list(self) -> Iterator[SourceItem]:
        for uri in sorted(self.texts):
            yield SourceItem(uri, None, None, "null", self._validator(uri) if self.listed else None)

    def fetch(self, items: Sequence[SourceItem]) -> Iterator[Outcome]:
        for item in items[: -1 if self.short else None]:
            self.asked.append(item.uri)
            validator = self._validator(item.uri)
            if self.texts[item.uri] == "":
                yield FetchFailed(item, "intake.gone", "it is gone")
            elif self.lies or (validator is not None and item.known_validator == validator):
                yield Unchanged(item)
            else:
                self.sent.append(item.uri)
                yield Fetched(item, self.texts[item.uri].encode(), "text/markdown", validator=validator)

    def _validator(self, uri: str) -> str | None:
        return str(self.numbers[uri]) if uri in self.numbers else None


@pytest.fixture
def shelf() -> Shelf:
    texts = {f"{name}.md": GOOD.replace("{title}", name) for name in ("tide gauge", "barometer", "rain gauge")}
    return Shelf(texts, dict.fromkeys(texts, 1))


def opened(deployment: Workspace, shelf: Shelf) -> Deployment:
    guard = deployment.guard()
    guard.__dict__["sources"] = Sources([shelf], Path("sources.yaml"))
    shelf.asked, shelf.sent = [], []
    return guard


def run(deployment: Workspace, shelf: Shelf, name: str) -> RefreshResult:
    with opened(deployment, shelf) as guard:
        return guard.refresh(name)


@pytest.mark.parametrize("listed", [True, False], ids=["listed", "asked"])
def test_what_its_source_calls_unchanged_is_not_sent_again(deployment: Workspace, shelf: Shelf, listed: bool) -> None:
    shelf.listed = listed
    first = run(deployment, shelf, "r1")
    assert (first["accepted"], len(shelf.sent)) == (3, 3)

    second = run(deployment, shelf, "r2")

    assert (second["unchanged"], second["documents"]) == (3, 3)
    assert (len(shelf.asked), shelf.sent) == (0 if listed else 3, [])
    assert second["manifest_sha256"] == first["manifest_sha256"]


def test_a_new_validator_sends_the_bytes_and_equal_bytes_are_unchanged(deployment: Workspace, shelf: Shelf) -> None:
    shelf.listed = True
    run(deployment, shelf, "r1")
    shelf.numbers["barometer.md"] = 2
    shelf.numbers["rain gauge.md"] = 2
    shelf.texts["rain gauge.md"] = GOOD.replace("{title}", "rain gauge of the west pier")

    second = run(deployment, shelf, "r2")

    assert shelf.sent == ["barometer.md", "rain gauge.md"]
    assert (second["unchanged"], second["accepted"]) == (2, 1)
    run(deployment, shelf, "r3")
    assert shelf.asked == []


def test_a_kill_between_fetching_and_recording_leaves_nothing_that_looks_unchanged(
    deployment: Workspace, shelf: Shelf
) -> None:
    shelf.listed = True
    run(deployment, shelf, "r1")
    changed = GOOD.replace("{title}", "barometer of the new office")
    shelf.numbers["barometer.md"], shelf.texts["barometer.md"] = 2, changed
    with opened(deployment, shelf) as guard:
        stepped = SteppedRun(guard, "killed")
        for listing in stepped.discover():
            stepped.intake(listing)  # and no step after it
    assert shelf.sent == ["barometer.md"]

    again = run(deployment, shelf, "r2")

    assert shelf.sent == ["barometer.md"]
    assert again["accepted"] == 1
    run(deployment, shelf, "r3")
    assert shelf.asked == []


def test_bytes_that_come_back_during_a_kill_are_seen(deployment: Workspace, shelf: Shelf) -> None:
    """1 recorded, 2 fetched and never recorded, then 1 again: the validator of 2 must not stand for anything."""
    shelf.listed = True
    run(deployment, shelf, "r1")
    first = shelf.texts["barometer.md"]
    shelf.numbers["barometer.md"], shelf.texts["barometer.md"] = 2, GOOD.replace("{title}", "another barometer")
    with opened(deployment, shelf) as guard:
        stepped = SteppedRun(guard, "killed")
        for listing in stepped.discover():
            stepped.intake(listing)
    shelf.numbers["barometer.md"], shelf.texts["barometer.md"] = 1, first

    again = run(deployment, shelf, "r2")

    assert (shelf.sent, again["unchanged"]) == (["barometer.md"], 3)


def test_a_source_that_lies_is_found_out_when_the_days_are_over(make: Make, shelf: Shelf) -> None:
    deployment = make(refetch_days=30)
    run(deployment, shelf, "r1")
    shelf.texts["barometer.md"] = GOOD.replace("{title}", "barometer that nobody told of")
    assert run(deployment, shelf, "r2")["unchanged"] == 3
    with deployment.guard() as guard, guard.ledger.write() as connection:
        connection.execute(validators.update().values(read_at=now() - timedelta(days=31)))

    found = run(deployment, shelf, "r3")

    assert (found["accepted"], found["unchanged"], len(shelf.sent)) == (1, 2, 3)
    assert run(deployment, shelf, "r4")["unchanged"] == 3
    assert shelf.sent == []


def test_refetch_days_0_believes_no_source(make: Make, shelf: Shelf) -> None:
    deployment = make(refetch_days=0)
    shelf.listed = True
    run(deployment, shelf, "r1")

    second = run(deployment, shelf, "r2")

    assert (len(shelf.sent), second["unchanged"]) == (3, 3)


def test_another_trust_level_or_a_return_after_retirement_reads_the_bytes(deployment: Workspace, shelf: Shelf) -> None:
    shelf.listed = True
    run(deployment, shelf, "r1")
    shelf.trust = TrustLevel.REVIEWED
    assert run(deployment, shelf, "r2")["accepted"] == 3
    with deployment.guard() as guard, guard.ledger.write() as connection:
        connection.execute(
            documents.update().where(documents.c.uri == "barometer.md").values(retired_at=now(), target_version=None)
        )

    assert run(deployment, shelf, "r3")["accepted"] == 1
    assert shelf.sent == ["barometer.md"]


def test_unchanged_without_anything_known_is_a_failure(deployment: Workspace, shelf: Shelf) -> None:
    shelf.lies = True

    sealed = run(deployment, shelf, "r1")

    assert (sealed["failed"], sealed["unchanged"]) == (3, 0)


def test_a_source_that_gives_too_few_outcomes_is_named(deployment: Workspace, shelf: Shelf) -> None:
    shelf.short = True
    with (
        opened(deployment, shelf) as guard,
        pytest.raises(Inconsistent, match="source shelf: fetch ended 1 outcomes early"),
    ):
        guard.refresh("r1")


def test_what_is_gone_is_not_seen_and_vanishes_after_its_grace(deployment: Workspace, shelf: Shelf) -> None:
    run(deployment, shelf, "r1")
    shelf.texts["barometer.md"] = ""

    second = run(deployment, shelf, "r2")

    assert (second["failed"], second["unchanged"]) == (1, 2)
    with deployment.guard() as guard, guard.ledger.read() as connection:
        missing = connection.execute(sa.select(documents.c.uri).where(documents.c.missing_since.is_not(None))).scalars()
        assert [*missing] == ["barometer.md"]
        assert (
            connection.scalar(
                sa.select(validators.c.validator).where(validators.c.doc_id == doc_id("shelf", "rain gauge.md"))
            )
            == "1"
        )
