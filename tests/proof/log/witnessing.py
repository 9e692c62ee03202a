"""A witness in a process of its own, as `guard witness run` starts it."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from corpus_guard.proof.log.note import VerifierKey
from postgres import free_port

COMMAND = "from corpus_guard.cli.witness import app; app()"


@dataclass
class Running:
    """A witness in a process of its own."""

    home: Path
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def key(self) -> VerifierKey:
        return VerifierKey.parse((self.home / "witness.pub").read_text())

    def start(self) -> None:
        arguments = ("run", "--home", str(self.home), "--port", str(self.port))
        with (self.home.parent / "witness.err").open("ab") as errors:
            self.process = subprocess.Popen([sys.executable, "-c", COMMAND, *arguments], stderr=errors)
        for _ in range(200):
            assert self.process.poll() is None, self.said()
            with contextlib.suppress(httpx.TransportError):
                assert httpx.get(f"{self.url}/vkey").text.strip() == self.key.encode()
                return
            time.sleep(0.05)
        raise AssertionError("the witness does not start")

    def said(self) -> str:
        return (self.home.parent / "witness.err").read_text()

    def kill(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def post(self, body: bytes) -> httpx.Response:
        return httpx.post(f"{self.url}/add-checkpoint", content=body, timeout=30)
