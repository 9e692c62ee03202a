"""What a person reads when a disk, a server or a clock fails, and that the next run completes the work."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import psutil
import pytest
import sqlalchemy as sa

from corpus_guard.corpus.store import Store
from corpus_guard.errors import StoreUnavailable
from corpus_guard.ledger import ledger as clock
from corpus_guard.ledger.tables import documents, events
from corpus_guard.models import Models
from corpus_guard.proof.log.key_files import write_durably
from deploying import BAD, GOOD, Typed, Workspace, deploy

DISK = 6 * 2**20  # bytes


@pytest.fixture
def run(deployment: Workspace, monkeypatch: pytest.MonkeyPatch, typed: Typed) -> Typed:
    """`guard` in this process, models loaded once."""
    deployment.enter(monkeypatch)
    return typed


@pytest.fixture
def disk(deployment: Workspace) -> Iterator[Path]:
    """The home on a small disk of its own."""
    home = deployment.settings.home
    models = (home / "models").resolve()
    if shutil.which("mount") is None:
        pytest.skip("no mount")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(home)], check=False)
    if mounted.returncode != 0:
        pytest.skip("this user may not mount a disk in memory")
    (home / "models").symlink_to(models)
    try:
        yield home
    finally:
        subprocess.run(["umount", "-l", str(home)], check=True)


@contextmanager
def filled(disk: Path, left: int) -> Iterator[None]:
    """Leave `left` bytes on a disk."""
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(max(0, shutil.disk_usage(disk).free - left)))
    try:
        yield
    finally:
        ballast.unlink()


def test_a_disk_that_is_full_at_each_step_is_named_and_the_next_run_completes(
    deployment: Workspace, run: Typed, disk: Path
) -> None:
    for number in range(3):
        deployment.page(f"good-{number}.md", GOOD + f"\nEntry {number}.\n")
    deployment.page("bad.md", BAD)
    stopped_at: set[str] = set()
    for left in (0, 2**16, 2**18, 5 * 2**16, 6 * 2**16, 7 * 2**16, 2**19, 5 * 2**17):
        with filled(disk, left):
            code, _, said = run("refresh")
        if code == 0:
            break
        line = said.splitlines()[-1]
        assert code == 3, said
        assert "guard: " in line
        assert "full" in line or "No space left on device" in line
        assert "ree space on" in line
        stopped_at.add("ledger" if "ledger at" in line else "storage")

    assert "ledger" in stopped_at
    assert run("refresh")[0] == 0
    code, shown, _ = run("verify")
    assert code == 0, shown
    assert deployment.refresh("again")["unchanged"] == 4


def test_a_disk_that_has_no_byte_left_is_named(deployment: Workspace, run: Typed, disk: Path) -> None:
    deployment.page("good.md")
    assert run("refresh")[0] == 0

    with filled(disk, 0):
        for command in (["refresh"], ["status"], ["verify"], ["keys", "rotate", "--reason", "yearly"]):
            code, _, said = run(*command)
            assert code == 3
            assert f"The disk of {disk} is full" in said.splitlines()[-1]
        with pytest.raises(OSError, match=f"No space left on device: '{disk}/log.pub'"):
            write_durably(disk / "log.pub", b"a key", 0o644)
        assert not list(disk.glob(".log.pub*"))

    assert run("verify")[0] == 0


def test_a_home_that_cannot_be_written_is_named(deployment: Workspace, run: Typed, disk: Path) -> None:
    deployment.page("good.md")
    assert run("refresh")[0] == 0
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)

    for command in (["refresh"], ["status"], ["verify"], ["search", "harbour"]):
        code, shown, said = run(*command)
        assert (code, shown) == (3, "")
        assert f"{disk} cannot be written: a read-only disk" in said.splitlines()[-1]

    subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
    assert run("verify")[0] == 0


def test_chroma_killed_while_chunks_are_written(
    tmp_path: Path, models_home: Path, hashed_models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment = deploy(tmp_path / "deployment", chroma_url="", models_home=models_home, models=hashed_models)
    for number in range(4):
        deployment.page(f"page-{number}.md", GOOD + f"\nEntry {number}.\n")
    upsert = Store.upsert
    others = set(psutil.Process().children(recursive=True))

    def killed_behind_the_first(*given: Any, **named: Any) -> Any:
        written = upsert(*given, **named)
        for process in set(psutil.Process().children(recursive=True)) - others:
            process.kill()
        monkeypatch.setattr(Store, "upsert", upsert)
        return written

    monkeypatch.setattr(Store, "upsert", killed_behind_the_first)
    with (
        deployment.guard() as guard,
        pytest.raises(StoreUnavailable, match=r"Chroma at http.* does not answer .*then run again"),
    ):
        guard.refresh("r1")
    with deployment.guard() as guard:
        result = guard.refresh("r2")
        verified = guard.verify()

    assert result["served"] == 4
    assert verified.holds, verified.as_dict()


def test_a_full_disk_below_the_batches_is_named(deployment: Workspace, run: Typed, disk: Path) -> None:
    storage = disk / "storage"
    storage.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", str(storage)], check=True)
    deployment.page("good.md", GOOD * 100)
    try:
        code, _, said = run("refresh")
    finally:
        subprocess.run(["umount", "-l", str(storage)], check=True)

    assert code == 3
    last = said.splitlines()[-1]
    assert f"guard: {storage}" in last
    assert "No space left on device; free space on this disk, then run again" in last
    assert run("refresh")[0] == 0


def test_a_run_that_repeats_a_stopped_one_takes_no_document_for_vanished(
    deployment: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise StoreUnavailable("stopped")

    deployment.page("good.md")
    with monkeypatch.context() as patch, deployment.guard() as guard, pytest.raises(StoreUnavailable):
        patch.setattr("corpus_guard.corpus.publishing.record", stopped)
        guard.refresh("r1")
    with deployment.guard() as guard:
        guard.refresh("r2")
        with guard.ledger.read() as connection:
            missing = connection.scalars(sa.select(documents.c.missing_since)).all()
            held = connection.scalars(sa.select(events.c.subject).where(events.c.kind == "retirement_held")).all()

    assert (missing, held) == ([None], [])


def test_a_clock_that_jumps_back_freezes_no_document(deployment: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    class SetBack(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return datetime.now(tz) - timedelta(days=3)

    deployment.page("page.md")
    deployment.refresh("r1")
    deployment.page("page.md", GOOD + "\nThe second text.\n")

    with monkeypatch.context() as patch, deployment.guard() as guard:
        patch.setattr(clock, "datetime", SetBack)
        second = guard.refresh("r2")
        assert guard.verify().holds
    deployment.page("page.md", GOOD + "\nThe third text.\n")
    with deployment.guard() as guard:
        third = guard.refresh("r3")
        texts = [record.text for record in guard.store.scan(guard.store.names()[0])]
        assert guard.verify().holds

    assert (second["accepted"], second["published"], second["retired"]) == (1, 1, 1)
    assert (third["accepted"], third["published"], third["retired"]) == (1, 1, 1)
    assert "The third text." in texts[0]
