"""The `git` program on one bare clone, isolated from the settings of its surroundings."""

from __future__ import annotations

import base64
import os
import re
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from corpus_guard.intake.sources.connections import Connection

MEMORY_BYTES = 4 * 2**30  # of address space; git maps packs
_HEX = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_LIMITED = 'ulimit -f "$1"; ulimit -v "$2"; shift 2; exec "$@"'
"""Limits that forks inherit: git's own children, which do the transfer, have them too."""
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


class TreeEntry(NamedTuple):
    """An entry of a commit's tree."""

    mode: str
    blob: str  # hash, hex
    size: int | None  # bytes; None: not a blob
    path: bytes


class GitError(Exception):
    """A call of git failed; the message has no URL and nothing that git printed."""


class GitClone:
    """One clone; created empty when it does not exist."""

    def __init__(self, folder: Path, url: str, login: Connection | None, *, seconds: float, max_bytes: int) -> None:
        self._folder, self._url, self._seconds, self._max_bytes = folder, url, seconds, max_bytes
        self._login = login
        if not (folder / "HEAD").is_file():
            self._run("init", "--quiet", "--bare", "--template=", "--", str(folder), bare=False)

    def resolve(self, ref: str) -> str:
        """Return the commit that `ref` names in the repository now."""
        if _HEX.fullmatch(ref):
            return ref
        output = self._run("ls-remote", "--", self._url, ref, f"{ref}^{{}}").decode("utf-8", "replace")
        commits: dict[str, str] = {}  # by ref
        for line in output.splitlines():
            commit, _, name = line.partition("\t")
            commits.setdefault(name, commit)
        for name in (f"refs/tags/{ref}^{{}}", f"refs/heads/{ref}", f"refs/tags/{ref}", ref):
            if _HEX.fullmatch(commits.get(name, "")):
                return commits[name]
        raise GitError("there is no such branch or tag")

    def fetch_commit(self, commit: str, ref: str) -> None:
        """Fetch `commit` into the clone unless it is there."""
        marker = self._folder / "whole" / commit  # a fetch that was killed may leave a commit without its blobs
        if marker.is_file():
            return
        shallow = ["--depth=1"]
        # A server may refuse hashes; the ref may have moved.
        for target, options in ((commit, shallow), (ref, shallow), (ref, [])):
            try:
                self._run("fetch", "--quiet", *options, "--no-tags", "--no-write-fetch-head", "--", self._url, target)
            except GitError as error:
                failure = error
                continue
            if self._has(commit):
                marker.parent.mkdir(exist_ok=True)
                marker.touch()
                return
            failure = GitError("the commit is not reachable from the ref")
        raise failure

    def list_tree(self, commit: str, folder: str) -> Iterator[TreeEntry]:
        """Yield all entries of the commit's tree, read as git writes them."""
        pathspec = ["--", f":(literal){folder}/"] if folder else []
        with self._process("ls-tree", "-r", "-z", "--long", "--full-tree", commit, *pathspec) as process:
            out, rest = _pipe(process.stdout), b""
            while piece := out.read(2**16):
                *records, rest = (rest + piece).split(b"\0")
                for record in records:
                    meta, _, path = record.partition(b"\t")
                    mode, _type, name, size = meta.decode("ascii").split()
                    yield TreeEntry(mode, name, int(size) if size.isdigit() else None, path)

    def read_blobs(self, names: Sequence[str], limit: int) -> Iterator[bytes | None]:
        """Yield the bytes of blobs, in order; None for one that is missing or not a blob.

        Raises:
            GitError: a blob has more than `limit` bytes, although its tree states fewer.
        """
        if not names:
            return
        with self._process("cat-file", "--batch", "--buffer", stdin=subprocess.PIPE) as process:
            out = _pipe(process.stdout)
            # In a thread of its own: else both pipes fill up.
            threading.Thread(target=_write_names, args=(process, names), daemon=True).start()
            for name in names:
                header = out.readline(200).decode("ascii", "replace").split()
                if len(header) != 3 or header[0] != name:
                    yield None
                    continue
                size = int(header[2])
                if size > limit:
                    raise GitError("a blob has another size than its tree states")
                content = out.read(size)
                out.read(1)
                yield content if header[1] == "blob" and len(content) == size else None

    def _has(self, commit: str) -> bool:
        try:
            self._run("cat-file", "-e", f"{commit}^{{tree}}")
        except GitError:
            return False
        return True

    def _run(self, *arguments: str, bare: bool = True) -> bytes:
        try:
            completed = subprocess.run(
                self._command(arguments, bare=bare),
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=self._seconds,
                check=False,
            )
        except FileNotFoundError as error:
            raise GitError("the git program was not found; install it") from error
        except subprocess.TimeoutExpired as error:
            raise GitError(f"git {arguments[0]} took more than {self._seconds:g} seconds") from error
        if completed.returncode != 0:
            foreign = b"dubious ownership" in completed.stderr
            reason = ": the repository belongs to another user of this machine" if foreign else ""
            raise GitError(f"git {arguments[0]} ended with {completed.returncode}{reason}")
        return completed.stdout

    def _process(self, *arguments: str, stdin: int = subprocess.DEVNULL) -> _GitProcess:
        return _GitProcess(self._command(arguments), self._environment(), stdin, self._seconds)

    def _command(self, arguments: Sequence[str], *, bare: bool = True) -> list[str]:
        git_dir = [f"--git-dir={self._folder}"] if bare else []
        limits = [str(self._max_bytes // 512), str(MEMORY_BYTES // 1024)]  # blocks of 512 bytes (POSIX), KiB
        return ["sh", "-c", _LIMITED, "sh", *limits, "git", "--no-replace-objects", *git_dir, *arguments]

    def _environment(self) -> dict[str, str]:
        """Return the environment, settings included: every user of the machine can read a command line."""
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


class _GitProcess:
    """A process whose output is read piece by piece, killed at its time limit."""

    def __init__(self, command: Sequence[str], env: dict[str, str], stdin: int, seconds: float) -> None:
        self._command, self._env, self._stdin, self._seconds = command, env, stdin, seconds

    def __enter__(self) -> subprocess.Popen[bytes]:
        self._process = subprocess.Popen(
            self._command, env=self._env, stdin=self._stdin, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._timer = threading.Timer(self._seconds, self._process.kill)
        self._timer.daemon = True
        self._timer.start()
        return self._process

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        timed_out = not self._timer.is_alive()
        self._timer.cancel()
        complete = self._process.stdout is not None and kind is None and not self._process.stdout.read(1)
        if not complete:
            self._process.kill()
        for pipe in (self._process.stdout, self._process.stdin):
            if pipe is not None and not pipe.closed:
                _close(pipe)
        code = self._process.wait()
        if kind is None and (timed_out or code != 0 or not complete):
            raise GitError(f"git took more than {self._seconds:g} seconds" if timed_out else f"git ended with {code}")


def _write_names(process: subprocess.Popen[bytes], names: Sequence[str]) -> None:
    pipe = _pipe(process.stdin)
    try:
        for name in names:
            pipe.write(f"{name}\n".encode())
        pipe.close()
    except (BrokenPipeError, ValueError):
        return  # the reader notices that the answers end


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise TypeError("the process was started without this pipe")
    return pipe


def _close(pipe: IO[bytes]) -> None:
    try:
        pipe.close()
    except (BrokenPipeError, OSError, ValueError):
        return
