"""Two homes on one machine: what `make demo` does in both at once, then a mistake, and both corpora hold."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from corpus_guard.corpus.server import running_server
from corpus_guard.ledger import Ledger
from corpus_guard.settings import Settings
from environment import PROJECT

DEMO = [sys.executable, str(PROJECT / "docker" / "local" / "demo.py")]
GUARD = str(Path(sys.executable).with_name("guard"))


def environment(home: Path, **more: str) -> dict[str, str]:
    """The caller's environment, with nothing about the guard but its home."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CORPUS_GUARD_", "AIRFLOW"))}
    return {**kept, "CORPUS_GUARD_HOME": str(home), "COLUMNS": "200", **more}


def verify(home: Path, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [GUARD, "verify", "--no-incident"],
        env=environment(home, **more),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.hours  # two demos, one after the other on one core
@pytest.mark.timeout(3_600)
def test_two_demos_at_once_both_hold_and_neither_enters_the_others_store(tmp_path: Path, models_home: Path) -> None:
    homes = [tmp_path / "first", tmp_path / "second"]
    for home in homes:
        home.mkdir()
        (home / "models").symlink_to(models_home / "models")
    demos = [
        subprocess.Popen(DEMO, env=environment(home), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for home in homes
    ]
    for demo in demos:
        said, _ = demo.communicate(timeout=1_800)
        assert demo.returncode == 0, said
    ids = [Ledger(f"sqlite:///{home / 'ledger.sqlite'}").deployment_id for home in homes]
    assert len(set(ids)) == 2
    for home in homes:
        done = verify(home)
        assert done.returncode == 0, done.stdout + done.stderr

    first, second = homes
    with running_server(Settings(home=first)) as url:
        mistaken = verify(second, CORPUS_GUARD_CHROMA_URL=url)

    assert mistaken.returncode == 1
    assert "collection_foreign" in mistaken.stdout
    for home in homes:
        done = verify(home)
        assert done.returncode == 0, done.stdout + done.stderr
