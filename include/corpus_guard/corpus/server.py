"""The local Chroma server: one process owns the store.

Several processes on one store folder corrupt its index while every write is acknowledged (chromadb 1.5.9, 3
of 3 trials). Therefore a starter first takes a lock on the folder, the server inherits it, and the operating
system frees it when the server dies, however it dies. The server is Chroma's Rust one; its Python server has
CVE-2026-45829 and is never run.

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


def is_answering(url: str) -> bool:
    """Return whether a Chroma server answers at `url`."""
    try:
        return httpx.get(f"{url}/api/v2/heartbeat", timeout=5).is_success
    except httpx.HTTPError:
        return False


@contextlib.contextmanager
def running_server(settings: Settings) -> Iterator[str]:
    """Yield the URL of a running server.

    If none answers at a loopback address, one is started, and stopped at the end.

    Raises:
        StoreUnavailable: nothing answers at a remote address, or another process holds the store.
    """
    if is_answering(settings.chroma_url):
        yield settings.chroma_url
        return
    if not _is_loopback(settings.chroma_url):
        raise StoreUnavailable(
            f"Chroma at {settings.chroma_url} does not answer; start it, or correct CORPUS_GUARD_CHROMA_URL, then run again"
        )
    with _store_lock(settings.home, OWNER_SECONDS) as lock:
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
            _wait_until_answering(server, url, log)
            yield url
        finally:
            server.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.wait(10)
            server.kill()
            server.wait()


@contextlib.contextmanager
def _store_lock(home: Path, wait: float) -> Iterator[int]:
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
                        f"the store {home / 'chroma'} is owned by another Chroma server that does not answer at "
                        "CORPUS_GUARD_CHROMA_URL; point the variable at that server, or stop it, then run again"
                    ) from None
                time.sleep(0.1)
        yield descriptor
    finally:
        os.close(descriptor)


def _command(home: Path, port: int, host: str = "127.0.0.1") -> list[str]:
    chroma = Path(sys.executable).with_name("chroma")
    return [str(chroma), "run", "--path", str(home / "chroma"), "--host", host, "--port", str(port)]


def _wait_until_answering(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not is_answering(url):
        if server.poll() is not None or time.monotonic() > deadline:
            raise StoreUnavailable(
                f"Chroma did not start (exit code {server.poll()}); its log is {log}; read it, then run again"
            )
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
    # Linux: a killed command takes its server along; otherwise the lock would outlive it. On other systems
    # the error of `_store_lock` says what to stop. The signal comes when the starting *thread* ends: start
    # the server from a thread that lives as long as the server is needed.
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None, use_errno=True).prctl(pr_set_pdeathsig, signal.SIGKILL)


def main() -> None:
    """Take the store's lock and become the Chroma server."""
    parser = argparse.ArgumentParser(prog="python -m corpus_guard.corpus.server", description=__doc__)
    parser.add_argument(
        "--home", type=Path, required=True, help="folder of the deployment; the store is in chroma/ below it"
    )
    parser.add_argument("--port", type=int, required=True, help="port to listen on")
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on; choose another only where no stranger can reach it"
    )
    arguments = parser.parse_args()
    with _store_lock(arguments.home.absolute(), wait=10) as lock:
        os.set_inheritable(lock, True)
        command = _command(arguments.home.absolute(), arguments.port, arguments.host)
        os.execv(command[0], command)  # noqa: S606


if __name__ == "__main__":
    main()
