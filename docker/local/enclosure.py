"""Run a command shut in: a network with nothing but loopback, processes of its own, and on request another root file system, read-only.

    python docker/local/enclosure.py --host postgres --host chroma -- command ...
    python docker/local/enclosure.py --root ROOT --uid 50000 --bind HOME:/var/lib/corpus-guard -- command ...

Rules this module keeps:

1. Nothing outside is reached and no port is taken outside: the network namespace is new.
2. Names given with ``--host`` are 127.0.0.1 inside, so that one service's address of another can stay as it is written.
3. With ``--root`` the command sees that folder as ``/``, may write to ``/tmp`` and to what was bound, and has no capability and no way
   to one: what a container with ``read_only: true``, ``cap_drop: [ALL]`` and ``no-new-privileges`` has.
4. When the command ends, or this process is killed, every process inside is killed.

Needs Linux, util-linux, and root or user namespaces; ``--root`` needs root. It is a test bench, no security boundary.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

ENTERED = "CORPUS_GUARD_ENCLOSED"
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1  # linux/sockios.h, linux/if.h


def unavailable() -> str:
    """Why there can be no enclosure here; empty when there can."""
    if sys.platform != "linux" or not shutil.which("unshare"):
        return "needs Linux with unshare (util-linux)"
    tried = subprocess.run([*_namespaces(), "true"], capture_output=True, text=True, check=False)
    return "" if tried.returncode == 0 else f"unshare: {tried.stderr.strip()}; needs root, or user namespaces"


def main(arguments: list[str]) -> int:
    """Enter, then run; the exit code is the command's."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", action="append", default=[], help="a name for 127.0.0.1")
    parser.add_argument("--root", type=Path, help="the root file system")
    parser.add_argument("--uid", type=int, default=50_000, help="whom the command runs as in --root; its group is 0")
    parser.add_argument("--bind", action="append", default=[], help="FOLDER:PLACE, writable, in --root")
    parser.add_argument("--env", action="append", default=[], help="NAME=VALUE; with --root nothing else is passed on")
    parser.add_argument("command", nargs="+")
    asked = parser.parse_args(arguments)
    point = os.environ.pop(ENTERED, "")
    if not point:
        again = [*_namespaces(), sys.executable, __file__, *arguments]
        with tempfile.TemporaryDirectory() as made:  # where the other root is mounted, inside only
            return subprocess.run(again, env={**os.environ, ENTERED: made}, check=False).returncode
    _loopback_up()
    _name_hosts(asked.host)
    words = asked.command
    if asked.root:
        words = _enter_root(asked.root, Path(point), asked.bind) + _as_nobody(asked.uid, asked.env) + words
    # Process 1 of a namespace has no default signal handlers and must reap: so it waits here instead of becoming the command.
    return subprocess.run(words, check=False).returncode


def _namespaces() -> list[str]:
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *user, "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]


def _loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        asked = struct.pack("16sh", b"lo", 0)
        (flags,) = struct.unpack_from("h", fcntl.ioctl(handle, SIOCGIFFLAGS, asked), 16)
        fcntl.ioctl(handle, SIOCSIFFLAGS, struct.pack("16sh", b"lo", flags | IFF_UP))


def _name_hosts(names: list[str]) -> None:
    if not names:
        return
    with tempfile.NamedTemporaryFile("w", delete=False) as file:
        file.write(f"127.0.0.1 localhost {socket.gethostname()} {' '.join(names)}\n")
    Path(file.name).chmod(0o644)
    _mount("--bind", file.name, "/etc/hosts")
    Path(file.name).unlink()


def _enter_root(root: Path, point: Path, binds: list[str]) -> list[str]:
    _mount("--bind", str(root), str(point))
    _mount("--options", "remount,bind,ro", str(point))
    _mount("--types", "proc", "proc", str(point / "proc"))
    _mount("--rbind", "/dev", str(point / "dev"))
    _mount("--types", "tmpfs", "--options", "mode=1777", "tmpfs", str(point / "tmp"))
    for bind in binds:
        folder, _, place = bind.rpartition(":")
        _mount("--bind", folder, str(point / place.lstrip("/")))
    beside = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"  # where a plain user's PATH does not lead
    return [shutil.which("chroot", path=beside) or "chroot", str(point)]


def _as_nobody(uid: int, env: list[str]) -> list[str]:
    rights = [
        f"--reuid={uid}",
        "--regid=0",
        "--clear-groups",
        "--no-new-privs",
        "--bounding-set=-all",
        "--inh-caps=-all",
    ]
    return ["env", "-i", *env, "setpriv", *rights]


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
