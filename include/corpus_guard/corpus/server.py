"""One Chroma server process owns the store.

Several processes on one store folder corrupt its index while every write is acknowledged (chromadb 1.5.9, 3 of 3 trials). So
whoever starts a server first takes a lock on the folder, the server inherits it, and the operating system frees it when the
server dies, however it dies. The server is Chroma's Rust one; its Python server has CVE-2026-45829 and is never run.

    python -m corpus_guard.corpus.server --home var --port 8765      stays in the foreground
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import fcntl
import ipaddress
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from corpus_guard.errors import StoreUnavailable
from corpus_guard.settings import Settings

START_SECONDS = 60
OWNER_SECONDS = 300  # another command may own the store for as long as a refresh of a small corpus takes


def answers(url: str) -> bool:
    """Does a Chroma server answer at `url`?"""
    try:
        return httpx.get(f"{url}/api/v2/heartbeat", timeout=5).is_success
    except httpx.HTTPError:
        return False


@contextlib.contextmanager
def serving(settings: Settings) -> Iterator[str]:
    """The URL of a server that answers, started here and stopped at the end if none does and the address is this machine.

    Raises:
        StoreUnavailable: nothing answers at a remote address, or another process keeps the store.
    """
    if answers(settings.chroma_url):
        yield settings.chroma_url
        return
    if not _is_loopback(settings.chroma_url):
        raise StoreUnavailable(
            f"Chroma at {settings.chroma_url} does not answer; start it, or correct CORPUS_GUARD_CHROMA_URL. Running again converges"
        )
    with _own(settings.home, OWNER_SECONDS) as lock:
        port = _free_port()
        log = settings.home / "logs" / "chroma.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as out:
            server = subprocess.Popen(
                _command(settings.home, port),
                pass_fds=[lock],
                stdout=out,
                stderr=out,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - one system call
            )
        try:
            url = f"http://127.0.0.1:{port}"
            _wait(server, url, log)
            yield url
        finally:
            server.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.wait(10)
            server.kill()
            server.wait()


@contextlib.contextmanager
def _own(home: Path, wait: float) -> Iterator[int]:
    path = home / "chroma.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + wait
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise StoreUnavailable(
                        f"the store {home / 'chroma'} is owned by another Chroma server that does not answer at CORPUS_GUARD_CHROMA_URL; "
                        "point the variable at it, or stop it, then run again"
                    ) from None
                time.sleep(0.1)
        yield descriptor
    finally:
        os.close(descriptor)


def _command(home: Path, port: int, host: str = "127.0.0.1") -> list[str]:
    chroma = Path(sys.executable).with_name("chroma")
    return [str(chroma), "run", "--path", str(home / "chroma"), "--host", host, "--port", str(port)]


def _wait(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not answers(url):
        if server.poll() is not None or time.monotonic() > deadline:
            raise StoreUnavailable(f"Chroma did not start (exit code {server.poll()}); its log is {log}")
        time.sleep(0.05)


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _die_with_parent() -> None:
    # Linux: a killed command takes its server along, or the lock would outlive it. Elsewhere `serving` says who to stop.
    # The signal comes when the starting *thread* ends: call `serving` from one that lives as long as the server shall.
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None, use_errno=True).prctl(pr_set_pdeathsig, signal.SIGKILL)


def main() -> None:
    """Take the store's lock and become the Chroma server."""
    parser = argparse.ArgumentParser(prog="python -m corpus_guard.corpus.server", description=__doc__)
    parser.add_argument("--home", type=Path, required=True, help="the guard's folder; the store is in chroma/ below it")
    parser.add_argument("--port", type=int, required=True, help="port to listen on")
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on; another one only where no stranger reaches it"
    )
    arguments = parser.parse_args()
    with _own(arguments.home.absolute(), wait=10) as lock:
        os.set_inheritable(lock, True)
        command = _command(arguments.home.absolute(), arguments.port, arguments.host)
        os.execv(command[0], command)  # noqa: S606


if __name__ == "__main__":
    main()
