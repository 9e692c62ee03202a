"""`corpus_refresh` through Airflow from a web server, an object store, a Git repository and a table; the second run fetches nothing."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from deployment import MakeDeployment, Run, Workspace
from four_sources import (
    TEXTS,
    Servers,
    connections,
    declare,
    documentation,
    fill_bucket,
    fill_table,
    make_repository,
    serving,
)

from object_store import SECRET, ObjectStore, object_store
from postgres import LocalPostgres, free_port

pytestmark = pytest.mark.slow

PASSWORD = "pa55-of-the-table"
RUN_SECONDS = 2_400  # 500 pages on a machine that does other things


@dataclass
class World:
    one: Workspace
    servers: Servers
    store: ObjectStore
    table: LocalPostgres
    pages: int

    def run(self) -> Run:
        env = {**connections(self.store, self.table, PASSWORD), "CORPUS_GUARD_SHARD_DOCUMENTS": "100"}
        return self.one.start("corpus_refresh", **env).finish(RUN_SECONDS)


@pytest.fixture(
    scope="module", params=[pytest.param(12, id="12-pages"), pytest.param(500, id="500-pages", marks=pytest.mark.hours)]
)
def world(
    request: pytest.FixtureRequest, deploy: MakeDeployment, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("world")
    one = deploy(f"intake{request.param}")
    with (
        object_store(folder) as store,
        LocalPostgres(folder / "pg", free_port(), PASSWORD, durable=False) as table,
        serving(Servers(documentation(request.param), make_repository(folder))) as servers,
    ):
        fill_bucket(store)
        fill_table(table)
        declare(one.sources_file, servers)
        yield World(one, servers, store, table, request.param)


def test_four_kinds_of_sources_are_refreshed_and_a_second_run_fetches_nothing(world: World) -> None:
    first = world.run()
    assert first.succeeded, first.log[-4000:]
    world.one.everything_agrees()
    counts = world.one.ask_runs()[0].counts
    total = world.pages + 3 * len(TEXTS)
    assert (counts["documents"], counts["failed"], counts["unchanged"]) == (total, 0, 0)
    assert counts["accepted"] + counts["quarantined"] + counts["rejected"] == total
    assert counts["accepted"] >= 0.9 * total
    commit = subprocess.run(
        ["git", "rev-parse", "main"], cwd=world.servers.repository, capture_output=True, text=True, check=True
    ).stdout.strip()
    assert world.one.stamp("docs/crane.md")["revision"] == commit
    assert world.one.stamp("crane.md")["revision"]
    read = Counter(path for path, status in world.servers.gets if status == 200)
    assert sum(count for path, count in read.items() if path.endswith(".html")) == world.pages

    gets, objects, fetches, statements = (
        world.servers.gets,
        world.store.asked(),
        world.servers.fetches,
        said(world.table),
    )
    world.servers.gets = []
    assert fetches == 1
    assert any('"body"' in line for line in statements)

    second = world.run()

    assert second.succeeded, second.log[-4000:]
    again = world.one.ask_runs()[1].counts
    assert again["unchanged"] == again["documents"] == total
    assert again["manifest_sha256"] == counts["manifest_sha256"]
    asked = Counter(world.servers.gets)
    assert {key: count for key, count in asked.items() if key[0].endswith(".html")} == {
        (path, 304): 1 for path in world.servers.pages if path.endswith(".html")
    }
    assert len(gets) > world.pages
    assert [one for one in world.store.asked()[len(objects) :] if "/guides/docs/" in one] == []
    assert any("list-type=2" in one for one in world.store.asked()[len(objects) :])
    assert world.servers.fetches == fetches
    later = said(world.table)[len(statements) :]
    assert any('"updated"' in line for line in later)
    assert not any('"body"' in line for line in later)
    for text in (first.log, second.log):
        assert SECRET not in text and PASSWORD not in text


def said(table: LocalPostgres) -> list[str]:
    """What the table's server logged: every statement, line by line."""
    return Path(table.log).read_text(errors="replace").splitlines()
