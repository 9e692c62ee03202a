"""The `git` program on one bare clone, with nothing left to its surroundings."""

from __future__ import annotations

import base64
import os
import re
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from corpus_guard.intake.sources.connections import Connection

MEMORY = 4 * 2**30  # bytes of address space; git maps packs
_HEX = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_LIMITED = 'ulimit -f "$1"; ulimit -v "$2"; shift 2; exec "$@"'
"""Limits that a fork inherits: git's own children, which do the transfer, have them too."""
_SETTINGS = {
    "protocol.allow": "never",
    "protocol.https.allow": "always",
    "protocol.http.allow": "always",  # GitConfig decides
    "protocol.file.allow": "always",
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.askPass": "",
    "credential.helper": "",
    "http.followRedirects": "false",
    "fetch.recurseSubmodules": "false",
    "fetch.unpackLimit": "1",  # one pack, checked as a whole, under the limit for one file
    "gc.auto": "0",
    "maintenance.auto": "false",
    "protocol.version": "2",
    "safe.bareRepository": "explicit",
}


File = tuple[str, str, int | None, bytes]
"""Mode, hash, size and path of an entry of a tree."""


class GitFailed(Exception):
    """A call of git failed; the message has no URL and nothing that git printed."""


class Git:
    """One clone; made empty when it is not there."""

    def __init__(self, folder: Path, url: str, login: Connection | None, *, seconds: float, max_bytes: int) -> None:
        self._folder, self._url, self._seconds, self._max_bytes = folder, url, seconds, max_bytes
        self._login = login
        if not (folder / "HEAD").is_file():
            self._run("init", "--quiet", "--bare", "--template=", "--", str(folder), bare=False)

    def resolve(self, ref: str) -> str:
        """The commit that `ref` names in the repository now."""
        if _HEX.fullmatch(ref):
            return ref
        said = self._run("ls-remote", "--", self._url, ref, f"{ref}^{{}}").decode("utf-8", "replace")
        found: dict[str, str] = {}
        for line in said.splitlines():
            commit, _, name = line.partition("\t")
            found.setdefault(name, commit)
        for name in (f"refs/tags/{ref}^{{}}", f"refs/heads/{ref}", f"refs/tags/{ref}", ref):
            if _HEX.fullmatch(found.get(name, "")):
                return found[name]
        raise GitFailed("there is no such branch or tag")

    def take(self, commit: str, ref: str) -> None:
        """Have `commit` in the clone; nothing where it is there."""
        whole = self._folder / "whole" / commit  # a fetch that was killed may leave a commit without its blobs
        if whole.is_file():
            return
        depth = ["--depth=1"]
        for what, how in (
            (commit, depth),
            (ref, depth),
            (ref, []),
        ):  # a server may refuse hashes; the ref may have moved
            try:
                self._run("fetch", "--quiet", *how, "--no-tags", "--no-write-fetch-head", "--", self._url, what)
            except GitFailed as error:
                failed = error
                continue
            if self._has(commit):
                whole.parent.mkdir(exist_ok=True)
                whole.touch()
                return
            failed = GitFailed("the commit is not reachable from the ref")
        raise failed

    def files(self, commit: str, folder: str) -> Iterator[File]:
        """Everything in the commit's tree, read as git writes it."""
        below = ["--", f":(literal){folder}/"] if folder else []
        with self._process("ls-tree", "-r", "-z", "--long", "--full-tree", commit, *below) as process:
            out, rest = _pipe(process.stdout), b""
            while piece := out.read(2**16):
                *entries, rest = (rest + piece).split(b"\0")
                for entry in entries:
                    meta, _, path = entry.partition(b"\t")
                    mode, _kind, name, size = meta.decode("ascii").split()
                    yield mode, name, int(size) if size.isdigit() else None, path

    def blobs(self, names: Sequence[str], limit: int) -> Iterator[bytes | None]:
        """The bytes of blobs, in order; None for one that is missing, no blob, or above `limit`."""
        if not names:
            return
        with self._process("cat-file", "--batch", "--buffer", stdin=subprocess.PIPE) as process:
            out = _pipe(process.stdout)
            asking = threading.Thread(target=_write, args=(process, names), daemon=True)  # else both pipes fill up
            asking.start()
            for name in names:
                header = out.readline(200).decode("ascii", "replace").split()
                if len(header) != 3 or header[0] != name:
                    yield None
                    continue
                size = int(header[2])
                if size > limit:  # listing said otherwise
                    raise GitFailed("a blob has another size than its tree says")
                content = out.read(size)
                out.read(1)
                yield content if header[1] == "blob" and len(content) == size else None

    def _has(self, commit: str) -> bool:
        try:
            self._run("cat-file", "-e", f"{commit}^{{tree}}")
        except GitFailed:
            return False
        return True

    def _run(self, *arguments: str, bare: bool = True) -> bytes:
        try:
            done = subprocess.run(
                self._command(arguments, bare=bare),
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=self._seconds,
                check=False,
            )
        except FileNotFoundError as error:
            raise GitFailed("there is no git program; install it") from error
        except subprocess.TimeoutExpired as error:
            raise GitFailed(f"git {arguments[0]} took more than {self._seconds:g} seconds") from error
        if done.returncode != 0:
            owned = (
                ": the repository belongs to another user of this machine"
                if b"dubious ownership" in done.stderr
                else ""
            )
            raise GitFailed(f"git {arguments[0]} ended with {done.returncode}{owned}")
        return done.stdout

    def _process(self, *arguments: str, stdin: int = subprocess.DEVNULL) -> _Running:
        return _Running(self._command(arguments), self._environment(), stdin, self._seconds)

    def _command(self, arguments: Sequence[str], *, bare: bool = True) -> list[str]:
        at = [f"--git-dir={self._folder}"] if bare else []
        limits = [str(self._max_bytes // 512), str(MEMORY // 1024)]  # blocks of 512 bytes (POSIX), KiB
        return ["sh", "-c", _LIMITED, "sh", *limits, "git", "--no-replace-objects", *at, *arguments]

    def _environment(self) -> dict[str, str]:
        """Settings go through variables: what stands in a command line every user of the machine can read."""
        settings = dict(_SETTINGS)
        if self._login is not None:
            token = base64.b64encode(f"{self._login.login}:{self._login.password}".encode()).decode()
            settings[f"http.{self._url}.extraHeader"] = f"Authorization: Basic {token}"
        env = {name: os.environ[name] for name in ("PATH", "SSL_CERT_FILE", "SSL_CERT_DIR") if name in os.environ}
        env |= {
            "LC_ALL": "C",
            "HOME": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_CONFIG_COUNT": str(len(settings)),
        }
        for number, (key, value) in enumerate(settings.items()):
            env |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
        if "SSL_CERT_FILE" in env:
            env["GIT_SSL_CAINFO"] = env["SSL_CERT_FILE"]
        return env


class _Running:
    """A process whose output is read piece by piece, killed when its time is over."""

    def __init__(self, command: Sequence[str], env: dict[str, str], stdin: int, seconds: float) -> None:
        self._command, self._env, self._stdin, self._seconds = command, env, stdin, seconds

    def __enter__(self) -> subprocess.Popen[bytes]:
        self._process = subprocess.Popen(
            self._command, env=self._env, stdin=self._stdin, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._late = threading.Timer(self._seconds, self._process.kill)
        self._late.daemon = True
        self._late.start()
        return self._process

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        over = not self._late.is_alive()
        self._late.cancel()
        whole = self._process.stdout is not None and kind is None and not self._process.stdout.read(1)
        if not whole:
            self._process.kill()
        for pipe in (self._process.stdout, self._process.stdin):
            if pipe is not None and not pipe.closed:
                _close(pipe)
        code = self._process.wait()
        if kind is None and (over or code != 0 or not whole):
            raise GitFailed(f"git took more than {self._seconds:g} seconds" if over else f"git ended with {code}")


def _write(process: subprocess.Popen[bytes], names: Sequence[str]) -> None:
    pipe = _pipe(process.stdin)
    try:
        for name in names:
            pipe.write(f"{name}\n".encode())
        pipe.close()
    except (BrokenPipeError, ValueError):
        return  # the reader sees that the answers end


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise TypeError("the process was started without this pipe")
    return pipe


def _close(pipe: object) -> None:
    try:
        pipe.close()  # type: ignore[attr-defined]
    except (BrokenPipeError, OSError, ValueError):
        return
