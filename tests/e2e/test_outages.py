"""A server that does not answer fails the task with its address; when it is back, Airflow's own retry ends the work."""

from __future__ import annotations

from pathlib import Path

import pytest
from deployment import MakeDeployment, Run, Workspace
from small_corpus import write_document

from corpus_guard.corpus import server
from corpus_guard.errors import LedgerUnavailable, StoreUnavailable
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.tables import publications
from postgres import LocalPostgres, free_port

PASSWORD = "of-the-ledger"


@pytest.mark.slow
def test_chroma_away_and_back(deploy: MakeDeployment, snapshot: Path) -> None:
    one = deploy("chroma-away", snapshot, chroma=False)
    write_document(
        one.corpus,
        "batteries.md",
        "# Batteries\n\nThe old cells were sold; nothing but the anchor light draws power now.",
    )
    # Any address of this machine, but not a loopback one: no task may start a server of its own for it.
    url = f"http://0.0.0.0:{one.ports.chroma}"

    run = one.start(CORPUS_GUARD_CHROMA_URL=url)
    run.wait_until(lambda: bool(run.failed()))

    assert "StoreUnavailable" in run.failed()
    assert f"Chroma at {url} does not answer" in run.failed()
    assert one.count(publications, publications.c.state == "pending") == 0, "it is compared with what is served first"

    one.start_chroma()
    ended = run.finish()

    assert ended.succeeded, ended.log[-3000:]
    assert one.ask_runs()[-1].counts["published"] == 1
    assert "anchor light" in one.texts()["batteries.md"]
    one.everything_agrees()


@pytest.mark.slow
def test_chroma_stays_away(deploy: MakeDeployment, snapshot: Path) -> None:
    one = deploy("chroma-gone", snapshot, chroma=False)
    write_document(
        one.corpus,
        "batteries.md",
        "# Batteries\n\nThe bank was moved below the chart table, where it stays dry in any sea.",
    )

    dead = one.run(CORPUS_GUARD_CHROMA_URL="http://chroma.invalid:8000")

    assert not dead.succeeded
    assert dead.log.count("Chroma at http://chroma.invalid:8000 does not answer") >= 3, "one try and two retries"
    assert one.ask_runs()[-1].state == "running"

    one.start_chroma()
    assert one.run().succeeded
    assert "chart table" in one.texts()["batteries.md"]
    one.everything_agrees()


def test_a_store_that_another_server_keeps_is_not_opened_twice(
    deploy: MakeDeployment, snapshot: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = deploy("kept", snapshot)
    monkeypatch.setattr(server, "OWNER_SECONDS", 0.5)
    dead = f"http://127.0.0.1:{free_port()}"

    with (
        one.guard(chroma_url=dead) as guard,
        pytest.raises(StoreUnavailable, match=r"owned by another Chroma server .* CORPUS_GUARD_CHROMA_URL") as raised,
    ):
        guard.store.open()

    assert str(one.home / "chroma") in str(raised.value)
    one.everything_agrees()


def test_a_dead_postgresql_ledger_is_named_without_its_password() -> None:
    port = free_port()

    with pytest.raises(LedgerUnavailable, match=rf"127\.0\.0\.1:{port}/ledger failed: .*then run again") as raised:
        Ledger(f"postgresql+psycopg2://guard:{PASSWORD}@127.0.0.1:{port}/ledger")

    assert PASSWORD not in str(raised.value)
    assert raised.value.__cause__ is not None


@pytest.mark.slow
def test_a_postgresql_ledger_away_and_back(
    deploy: MakeDeployment, undisturbed: tuple[Workspace, Run], tmp_path: Path
) -> None:
    one = deploy("ledger-away")
    server = LocalPostgres(tmp_path / "data", free_port(), PASSWORD, durable=False)
    server.initialise()
    one.ledger_url = server.url("ledger")

    run = one.start()
    run.wait_until(lambda: bool(run.failed()))

    assert "LedgerUnavailable" in run.failed()
    assert f"127.0.0.1:{server.port}/ledger failed" in run.failed()
    assert PASSWORD not in run.said()

    with server:
        server.create_database("ledger")
        ended = run.finish()

        assert ended.succeeded, ended.log[-3000:]
        one.everything_agrees()
        assert one.states() == undisturbed[0].states()
        assert one.texts() == undisturbed[0].texts()
        again = one.run()
        assert again.succeeded
        assert one.ask_runs()[-1].counts["unchanged"] == len(one.states())
