"""One server owns the store; whoever dies lets go of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from corpus_guard.corpus import server
from corpus_guard.corpus.chroma_store import ChromaStore
from corpus_guard.corpus.server import find_server, is_answering, running_server
from corpus_guard.errors import StoreUnavailable
from corpus_guard.settings import Settings
from material import a_record
from postgres import free_port

HOLD = """
import sys, time
from corpus_guard.corpus.server import running_server
from corpus_guard.settings import Settings
with running_server(Settings(home=sys.argv[1], chroma_url=sys.argv[2])) as url:
    print(url, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def nobody() -> str:
    """An address where nothing answers."""
    return f"http://127.0.0.1:{free_port()}"


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """The long-running form, as the local stack starts it."""
    port = free_port()
    with _program("-m", "corpus_guard.corpus.server", "--home", str(tmp_path), "--port", str(port)) as process:
        url = f"http://127.0.0.1:{port}"
        _until(lambda: is_answering(url))
        yield process, url
        process.kill()


def test_a_server_that_answers_is_used_and_left_running(
    owner: tuple[subprocess.Popen[bytes], str], tmp_path: Path
) -> None:
    _, url = owner

    with running_server(Settings(home=tmp_path, chroma_url=url)) as found:
        assert found == url

    assert is_answering(url)


def test_a_server_overwrites_memory_before_it_is_used_again(
    owner: tuple[subprocess.Popen[bytes], str], tmp_path: Path, nobody: str
) -> None:
    """Else a new index is written with purged vectors in it: in one of three servers, and then in every index."""
    process, _ = owner
    long_running = psutil.Process(process.pid).environ()
    with running_server(Settings(home=tmp_path / "other", chroma_url=nobody)) as url:
        port = str(url.rpartition(":")[2])
        (started,) = [child for child in psutil.Process().children() if port in child.cmdline()]
        for_a_command = started.environ()

    assert long_running["MALLOC_PERTURB_"] == for_a_command["MALLOC_PERTURB_"] == "165"


def test_while_a_server_owns_the_store_nobody_else_opens_it(
    owner: tuple[subprocess.Popen[bytes], str], tmp_path: Path, nobody: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    process, _ = owner
    monkeypatch.setattr(server, "OWNER_SECONDS", 0.3)
    settings = Settings(home=tmp_path, chroma_url=nobody)

    with pytest.raises(StoreUnavailable, match=f"the store {tmp_path / 'chroma'} is owned by another Chroma server"):
        running_server(settings).__enter__()

    process.kill()  # the operating system frees the lock of a process that cannot
    process.wait()
    monkeypatch.setattr(server, "OWNER_SECONDS", 10)
    with running_server(settings) as url:
        assert is_answering(url)


def test_nothing_acknowledged_is_lost_when_the_server_is_killed(
    owner: tuple[subprocess.Popen[bytes], str], tmp_path: Path, nobody: str
) -> None:
    process, url = owner
    written = [a_record(f"passage {number}") for number in range(300)]
    ChromaStore(url, "corpus").upsert("corpus-open", written, "hashed-texts")
    process.kill()
    process.wait()

    with running_server(Settings(home=tmp_path, chroma_url=nobody)) as again:
        store = ChromaStore(again, "corpus")
        assert {record.fingerprint for record in store.scan("corpus-open")} == {
            record.fingerprint for record in written
        }
        # Counts can be right while a record is unreachable (chroma #7678): every one is asked for.
        for record in written:
            assert store.query(["corpus-open"], record.vector, 1)[0].record.chunk_id == record.chunk_id


def test_a_server_started_for_a_command_ends_with_it(tmp_path: Path, nobody: str) -> None:
    with running_server(Settings(home=tmp_path, chroma_url=nobody)) as url:
        (child,) = [one for one in psutil.Process().children() if _serves(one, tmp_path)]
        assert is_answering(url)
        assert [one.laddr.ip for one in child.net_connections() if one.status == "LISTEN"] == ["127.0.0.1"]

    assert not child.is_running()


def test_a_command_that_is_killed_takes_its_server_along(tmp_path: Path, nobody: str) -> None:
    with _program("-c", HOLD, str(tmp_path), nobody) as process:
        assert process.stdout is not None
        url = process.stdout.readline().decode().strip()
        (child,) = psutil.Process(process.pid).children()
        assert is_answering(url)

        process.send_signal(signal.SIGKILL)

        _until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)
    assert not is_answering(url)
    with running_server(Settings(home=tmp_path, chroma_url=nobody)) as again:  # and the lock is free
        assert is_answering(again)


def test_the_second_of_two_commands_waits_for_the_first(tmp_path: Path, nobody: str) -> None:
    with _program("-c", HOLD, str(tmp_path), nobody) as first:
        assert first.stdout is not None
        first.stdout.readline()
        with _program("-c", HOLD, str(tmp_path), nobody) as second:
            time.sleep(1.5)
            assert second.poll() is None
            first.kill()
            assert second.stdout is not None
            assert is_answering(second.stdout.readline().decode().strip())
            second.kill()


def test_a_home_has_a_server_of_its_own_which_its_processes_share(tmp_path: Path) -> None:
    home, other = Settings(home=tmp_path / "home"), Settings(home=tmp_path / "other")

    with running_server(home) as url, running_server(other) as elsewhere, running_server(home) as again:
        assert (find_server(home), find_server(other)) == (again, elsewhere) == (url, elsewhere)
        assert url != elsewhere

    assert find_server(home) is None


def test_an_address_that_the_owner_of_the_lock_did_not_write_is_not_believed(tmp_path: Path) -> None:
    home, other = Settings(home=tmp_path / "home"), Settings(home=tmp_path / "other")
    home.home.mkdir()
    with running_server(other) as elsewhere:
        (home.home / "chroma.json").write_text((other.home / "chroma.json").read_text())

        assert find_server(home) is None
        with running_server(home) as url:
            assert url != elsewhere


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"url": "http://127.0.0.1:9", "pid": "x"}', "\x00"])
def test_an_address_that_cannot_be_read_is_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "chroma.json").write_text(content)

    assert find_server(Settings(home=tmp_path)) is None


def test_the_long_running_server_of_a_home_is_found(owner: tuple[subprocess.Popen[bytes], str], tmp_path: Path) -> None:
    process, url = owner
    assert find_server(Settings(home=tmp_path)) == url

    process.kill()
    process.wait()

    assert find_server(Settings(home=tmp_path)) is None


def test_a_command_stops_its_server_after_the_others_are_done(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    with _program("-c", HOLD, str(tmp_path), "") as first:
        assert first.stdout is not None
        assert first.stdin is not None
        url = first.stdout.readline().decode().strip()
        with running_server(settings) as shared:
            first.stdin.close()
            time.sleep(0.5)
            assert shared == url
            assert is_answering(url)
        assert first.wait(20) == 0

    assert not is_answering(url)


def test_no_server_is_started_for_another_machine(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match=r"Chroma at http://chroma\.invalid:8000 does not answer"):
        running_server(Settings(home=tmp_path, chroma_url="http://chroma.invalid:8000")).__enter__()

    assert not (tmp_path / "chroma.lock").exists()


def test_a_server_that_does_not_start_names_its_log(
    tmp_path: Path, nobody: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_command", lambda home, port: ["false"])

    with pytest.raises(StoreUnavailable, match=f"its log is {tmp_path}/logs/chroma.log"):
        running_server(Settings(home=tmp_path, chroma_url=nobody)).__enter__()


@pytest.mark.parametrize(
    ("url", "ours"),
    [
        ("http://127.0.0.1:1", True),
        ("http://127.8.9.1:1", True),
        ("http://[::1]:1", True),
        ("http://localhost:1", True),
        ("http://10.0.0.1:1", False),
        ("http://0.0.0.0:1", False),
        ("http://localhost.example:1", False),
    ],
)
def test_what_counts_as_this_machine(url: str, ours: bool) -> None:
    assert server._is_loopback(url) is ours


def _program(*arguments: str) -> subprocess.Popen[bytes]:
    """Start Python; `HOLD` ends when its standard input is closed."""
    return subprocess.Popen(
        [sys.executable, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )


def _serves(process: psutil.Process, home: Path) -> bool:
    return str(home / "chroma") in process.cmdline()


def _until(holds: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"still not so after {seconds} s (process {os.getpid()})"
        time.sleep(0.05)
