"""The Chroma server of a deployment: one process owns the store.

Rules
    * several processes on one store folder corrupt its index while every write is acknowledged (chromadb
      1.5.9, 3 of 3 trials): a starter first takes a lock on the folder, the server inherits it, and the
      operating system frees it when the server dies, however it dies;
    * a server listens on a port of its home. It is written to ``chroma.json`` in the home and is believed
      only if the process named there holds the lock: nobody takes whatever answers at some port;
    * processes of a home share its server; the one that started it stops it when the others are done;
    * CORPUS_GUARD_CHROMA_URL, if it is set, is used as it is; `corpus_guard.corpus.ownership` checks whose
      collections are there;
    * the server's memory is overwritten before it is used again: a new index is otherwise written with what the
      last one left there, a purged vector too (chromadb 1.5.9, about one start in three).

The server is Chroma's Rust one; its Python server has CVE-2026-45829 and is never run.

    python -m corpus_guard.corpus.server --home var --port 8765      stays in the foreground
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import fcntl
import ipaddress
import json
import logging
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

log = logging.getLogger(__name__)

START_SECONDS = 60
# What Chroma's own command `chroma` calls (chromadb 1.5.9), without the client that it imports first: a second each start.
_CHROMA = "import sys, chromadb_rust_bindings as chroma; chroma.cli(['chroma', *sys.argv[1:]])"
# Read by glibc: any byte but 0 turns it on; other C libraries ignore it.
_OVERWRITTEN_MEMORY = {"MALLOC_PERTURB_": "165"}
OWNER_SECONDS = 300  # another command may own the store for as long as a refresh of a small corpus takes


def is_answering(url: str) -> bool:
    """Return whether a Chroma server answers at `url`."""
    try:
        # Plain HTTP needs no certificates; reading them takes 40 ms.
        return httpx.get(f"{url}/api/v2/heartbeat", timeout=5, verify=urlsplit(url).scheme == "https").is_success
    except httpx.HTTPError:
        return False


def find_server(settings: Settings) -> str | None:
    """Return the URL of the deployment's server if it answers, else None; nothing is started."""
    if settings.chroma_url:
        return settings.chroma_url if is_answering(settings.chroma_url) else None
    try:
        server = json.loads((settings.home / "chroma.json").read_text(encoding="utf-8"))
        url, pid = str(server["url"]), int(server["pid"])
    except (OSError, ValueError, TypeError, LookupError):  # none runs, or it is being written
        return None
    return url if _holds_lock(pid, settings.home) and is_answering(url) else None


@contextlib.contextmanager
def running_server(settings: Settings) -> Iterator[str]:
    """Yield the URL of a running server.

    If none answers, one is started for this home, unless CORPUS_GUARD_CHROMA_URL names another machine. It is
    stopped at the end, after other processes of the home that use it are done.

    Raises:
        StoreUnavailable: nothing answers at a remote address, or another process holds the store.
    """
    home, deadline = settings.home, time.monotonic() + OWNER_SECONDS
    with contextlib.ExitStack() as closing:
        users = None if settings.chroma_url else closing.enter_context(_counted_as_user(home))
        while (url := find_server(settings)) is None:
            if settings.chroma_url and not _is_loopback(settings.chroma_url):
                raise StoreUnavailable(
                    f"Chroma at {settings.chroma_url} does not answer; start it, or correct CORPUS_GUARD_CHROMA_URL, "
                    "then run again"
                )
            lock = _lock_store(home)
            if lock is not None:
                closing.callback(os.close, lock)
                url = closing.enter_context(_started_server(home, lock, users))
                break
            _wait_for_owner(home, deadline)
        yield url


@contextlib.contextmanager
def _started_server(home: Path, lock: int, users: int | None) -> Iterator[str]:
    """Start a server that holds `lock`; with `users`, let the processes of the home share it."""
    output = home / "logs" / "chroma.log"
    output.parent.mkdir(parents=True, exist_ok=True)
    url = f"http://127.0.0.1:{_free_port()}"
    with output.open("ab") as out:
        server = subprocess.Popen(
            _command(home, urlsplit(url).port or 0),
            env=os.environ | _OVERWRITTEN_MEMORY,
            pass_fds=[lock],
            stdout=out,
            stderr=out,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - one system call
        )
    try:
        _wait_until_answering(server, url, output)
        if users is None:
            yield url
            return
        _announce(home, url, server.pid)
        try:
            yield url
        finally:
            _wait_for_other_users(home, users)
    finally:
        server.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(10)
        server.kill()
        server.wait()


@contextlib.contextmanager
def _counted_as_user(home: Path) -> Iterator[int]:
    """Hold a shared lock, which the process that started the server waits for before it stops it."""
    home.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(home / "chroma.users", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)  # the owner holds it alone for a moment
        yield descriptor
    finally:
        os.close(descriptor)


def _wait_for_other_users(home: Path, users: int) -> None:
    deadline = time.monotonic() + OWNER_SECONDS
    warned = False
    while time.monotonic() < deadline:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        if not warned:
            log.warning(
                "another process still uses the Chroma server of %s, which this one started; waiting for it, at most "
                "%d s",
                home,
                OWNER_SECONDS,
            )
            warned = True
        time.sleep(0.1)


def _announce(home: Path, url: str, pid: int) -> None:
    """Write where the home's server listens; `find_server` reads it."""
    new = home / f"chroma.json.{pid}"
    try:
        new.write_text(json.dumps({"url": url, "pid": pid}), encoding="utf-8")
    except OSError as error:
        error.filename = str(new)  # a full disk does not say which
        new.unlink(missing_ok=True)
        raise
    new.replace(home / "chroma.json")


def _holds_lock(pid: int, home: Path) -> bool:
    """Return whether a process has the store's lock open: the file may be older than the server that runs."""
    if sys.platform != "linux":
        with contextlib.suppress(OSError):
            os.kill(pid, 0)
            return True
        return False
    try:
        lock = (home / "chroma.lock").stat()
        return any(os.path.samestat(lock, entry.stat()) for entry in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:  # it ended, or belongs to another user
        return False


def _lock_store(home: Path) -> int | None:
    """Return a descriptor that holds the lock of the store; None if another process holds it."""
    home.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(home / "chroma.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _wait_for_owner(home: Path, deadline: float) -> None:
    if time.monotonic() > deadline:
        raise StoreUnavailable(
            f"the store {home / 'chroma'} is owned by another Chroma server that cannot be used from here; point "
            "CORPUS_GUARD_CHROMA_URL at that server, or stop it, then run again"
        )
    time.sleep(0.1)


def _command(home: Path, port: int, host: str = "127.0.0.1") -> list[str]:
    return [
        *[sys.executable, "-P", "-c", _CHROMA],
        *["run", "--path", str(home / "chroma"), "--host", host, "--port", str(port)],
    ]


def _wait_until_answering(server: subprocess.Popen[bytes], url: str, output: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not is_answering(url) or server.poll() is not None:  # what answers for a server that ended is another one
        if server.poll() is not None or time.monotonic() > deadline:
            raise StoreUnavailable(
                f"Chroma did not start (exit code {server.poll()}); its log is {output}; read it, then run again"
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
    # Linux alone: the kernel kills the server when the thread that started it ends, so that the store's lock is free again. Start it
    # from a thread that outlives its use. Elsewhere a killed command leaves its server: `_wait_for_owner` says what to stop.
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
    home, deadline = arguments.home.absolute(), time.monotonic() + 10
    while (lock := _lock_store(home)) is None:
        _wait_for_owner(home, deadline)
    os.set_inheritable(lock, True)
    host = "127.0.0.1" if arguments.host == "0.0.0.0" else arguments.host  # noqa: S104 - compared, not bound
    _announce(home, f"http://{host}:{arguments.port}", os.getpid())  # `execve` keeps the process id
    command = _command(home, arguments.port, arguments.host)
    os.execve(command[0], command, os.environ | _OVERWRITTEN_MEMORY)  # noqa: S606


if __name__ == "__main__":
    main()
