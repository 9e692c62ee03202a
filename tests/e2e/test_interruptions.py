"""Killed anywhere, or run twice at once, a refresh ends where an undisturbed one ends.

The kill is SIGKILL to the whole process group, at a state seen from outside: a file in storage, rows in the ledger. Kills at random
moments, without Airflow, are in tests/removal/test_killed_at_random.py.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from deployment import MakeDeployment, Run, Workspace
from small_corpus import GOOD, write_document

from corpus_guard.ledger.tables import documents, publications, seals

pytestmark = pytest.mark.slow

PER_RUN = {"fetched_at", "metadata_sha256"}  # the metadata in Chroma holds the time of fetching
CHANGED = {name: f"{text} Rewritten after the winter." for name, text in GOOD.items() if name.endswith("ing.md")}
Moment = Callable[[Workspace], bool]


def published(state: str) -> Any:
    return publications.c.state == state


MOMENTS: dict[str, Moment] = {
    "batch written": lambda one: _stored(one, "signals.parquet") > 0,
    "vectors written": lambda one: _stored(one, "vectors-*.parquet") > 0,
    "judgements written": lambda one: _stored(one, "judgements-*.parquet") > 0,
    "verdicts recorded": lambda one: one.count(publications) > 0,
    "first publications": lambda one: one.count(publications, published("published")) > 0,
    "before seal": lambda one: one.count(publications, published("published")) == SERVED and one.count(seals) == 0,
}
SERVED = 25  # chunks of the whole small corpus
WITHIN_THE_HOUR = {"batch written", "first publications", "before seal", "old chunks retiring"}
"""The moments of `make test-all`; those between them are for `make test-hours`."""
MOMENTS_OF_A_CHANGE: dict[str, Moment] = {
    "changes pending": lambda one: one.count(publications, published("pending")) > 0,
    "old chunks retiring": lambda one: one.count(publications, published("retiring")) > 0,
    "changed, before seal": lambda one: (
        one.count(publications, published("retired")) == len(CHANGED) and one.count(seals) == 1
    ),
}


def each(moments: dict[str, Moment]) -> list[Any]:
    """Return the moments as parameters; each takes two runs of Airflow."""
    return [name if name in WITHIN_THE_HOUR else pytest.param(name, marks=pytest.mark.hours) for name in moments]


@pytest.mark.parametrize("moment", each(MOMENTS))
def test_killed_and_run_again(deploy: MakeDeployment, undisturbed: tuple[Workspace, Run], moment: str) -> None:
    one = deploy("killed")

    killed = one.start()
    killed.wait_until(lambda: MOMENTS[moment](one))
    killed.kill()
    assert one.count(seals) == 0, "the run was over before it was killed"
    again = one.run()

    assert again.succeeded, again.log[-3000:]
    one.everything_agrees()
    assert comparable(one) == comparable(undisturbed[0])
    assert one.states() == undisturbed[0].states()
    assert [run.state for run in one.ask_runs()] == ["running", "sealed"]


@pytest.mark.parametrize("moment", each(MOMENTS_OF_A_CHANGE))
def test_killed_while_changed_documents_are_replaced(
    deploy: MakeDeployment, snapshot: Path, changed_undisturbed: Workspace, moment: str
) -> None:
    one = deploy("changed", snapshot)
    change(one)

    killed = one.start()
    killed.wait_until(lambda: MOMENTS_OF_A_CHANGE[moment](one))
    killed.kill()
    assert one.count(seals) == 1, "the run was over before it was killed"
    # Whatever moment it was, every changed document is served, by its old chunk, its new one, or both.
    assert {uri for _, uri in _places(one)} >= CHANGED.keys()
    again = one.run()

    assert again.succeeded, again.log[-3000:]
    one.everything_agrees()
    assert comparable(one) == comparable(changed_undisturbed)
    assert {name: one.texts()[name].split() for name in CHANGED} == {n: t.split() for n, t in CHANGED.items()}


@pytest.fixture(scope="module")
def changed_undisturbed(deploy: MakeDeployment, snapshot: Path) -> Workspace:
    """The same change, taken in by the library in one process: the control need not go through Airflow."""
    one = deploy("changed-undisturbed", snapshot)
    change(one)
    with one.guard() as guard:
        guard.refresh("control")
    return one


def test_two_copies_at_once(deploy: MakeDeployment, undisturbed: tuple[Workspace, Run]) -> None:
    one = deploy("copies")

    copies = [one.start(), one.start()]
    with ThreadPoolExecutor() as pool:
        ended = list(pool.map(lambda copy: copy.finish(), copies))

    assert [run.succeeded for run in ended] == [True, True], "\n".join(run.log[-2000:] for run in ended)
    one.everything_agrees()
    assert comparable(one) == comparable(undisturbed[0])
    assert one.states() == undisturbed[0].states()
    assert len({run.run_id for run in one.ask_runs()}) == 2
    for run in one.ask_runs():
        parts = ("accepted", "quarantined", "rejected", "unchanged", "failed")
        assert run.counts["documents"] == sum(run.counts[name] for name in parts)
    provenance_is_one_story(one)


def test_two_copies_with_changes_at_once(
    deploy: MakeDeployment, snapshot: Path, changed_undisturbed: Workspace
) -> None:
    one = deploy("changed-copies", snapshot)
    change(one)

    copies = [one.start(), one.start()]
    with ThreadPoolExecutor() as pool:
        ended = list(pool.map(lambda copy: copy.finish(), copies))

    assert [run.succeeded for run in ended] == [True, True], "\n".join(run.log[-2000:] for run in ended)
    one.everything_agrees()
    assert comparable(one) == comparable(changed_undisturbed)
    provenance_is_one_story(one)


def change(one: Workspace) -> None:
    for name, text in CHANGED.items():
        write_document(one.corpus, name, text)


def comparable(one: Workspace) -> list[dict[str, Any]]:
    """The manifest without what two runs of the same corpus may differ in."""
    return [{key: value for key, value in line.items() if key not in PER_RUN} for line in one.manifest()]


def provenance_is_one_story(one: Workspace) -> None:
    """The time of fetching is the same in Chroma, in the manifest and in the ledger."""
    fetched = {line["chunk_id"]: line["fetched_at"] for line in one.manifest()}
    assert {record.chunk_id: record.metadata["fetched_at"] for record in one.records()} == fetched
    statement = sa.select(documents.c.uri, documents.c.target_fetched_at).where(documents.c.target_version.is_not(None))
    by_uri = {row.uri: row.target_fetched_at.isoformat() for row in one.ask(statement)}
    assert {str(record.metadata["uri"]): record.metadata["fetched_at"] for record in one.records()} == by_uri


def _stored(one: Workspace, pattern: str) -> int:
    return len(list((one.home / "storage" / "batches").glob(f"*/{pattern}")))


def _places(one: Workspace) -> set[tuple[str, str]]:
    return {(record.chunk_id, str(record.metadata["uri"])) for record in one.records()}
