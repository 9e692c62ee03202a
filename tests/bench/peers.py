"""Two scanners that run offline, from PyPI, in a throw-away environment of their own: put to the same texts as the guard."""

from __future__ import annotations

import json
import os
import subprocess
import venv
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpus_guard.models import Models
from corpus_guard.tracking.measures import ScreeningOutcome

CHILD = Path(__file__).with_name("peer_child.py")
PACKAGES = (
    "pyhroff-ragsentry==1.1.0",
    "rag-guard-enterprise==1.0.0",
    "scikit-learn",  # rag-guard's embedding check and its HTML sanitizer ask for these two without declaring them
    "beautifulsoup4",
)
NAMES = ("ragsentry", "rag-guard")
INSTALL_SECONDS = 600


class Unavailable(Exception):
    """The peers cannot be installed here; says why."""


class Vectors:
    """MiniLM vectors of texts, each computed once."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self._known: dict[str, NDArray[np.float32]] = {}

    def of(self, texts: Sequence[str]) -> list[list[float]]:
        missing = [text for text in dict.fromkeys(texts) if text not in self._known]
        if missing:
            self._known.update(zip(missing, self._models.embedder.embed(missing), strict=True))
        return [[round(float(x), 6) for x in self._known[text]] for text in texts]


class Peer:
    """A screener in another process."""

    def __init__(self, name: str, python: Path, vectors: Vectors | None = None) -> None:
        """Start it.

        Args:
            name: of `NAMES`.
            python: of the peers' environment.
            vectors: for a peer that compares texts by meaning.
        """
        self.name = name
        self._vectors = vectors
        quiet = {name: value for name, value in os.environ.items() if not name.startswith(("CORPUS_GUARD_", "PYTHON"))}
        self._process = subprocess.Popen(
            [str(python), str(CHILD), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            env={**quiet, "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""},
        )

    def screen(self, texts: Sequence[str], *, one_by_one: bool, bank: Sequence[str]) -> list[ScreeningOutcome]:
        """Neither peer knows questions, so `bank` makes no difference to them."""
        vectors = self._vectors.of(texts) if self._vectors and not one_by_one else None
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps({"texts": list(texts), "vectors": vectors}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name}: its process ended with {self._process.wait()} before it answered")
        found = json.loads(line)
        assert len(found) == len(texts), self.name
        return [ScreeningOutcome(bool(codes), float(bool(codes)), tuple(codes)) for codes in found]

    def close(self) -> None:
        """End its process."""
        assert self._process.stdin
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def install(folder: Path, packages: Sequence[str] = PACKAGES, data: Sequence[str] = ()) -> Path:
    """A fresh environment with the peers in it.

    Args:
        folder: of the environment.
        packages: with what they depend on.
        data: packages of which only files are read: without what they depend on, whatever Python they ask for.

    Returns:
        Its Python.

    Raises:
        Unavailable: pip could not install them.
    """
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    commands = [[*pip, *packages]]
    if data:
        commands.append([*pip, "--no-deps", "--ignore-requires-python", *data])
    for command in commands:
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise Unavailable(f"pip took more than {INSTALL_SECONDS} s") from None
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            raise Unavailable(errors[-1] if errors else f"pip ended with {done.returncode}")
    return python


@contextmanager
def running(folder: Path, models: Models) -> Iterator[list[Peer]]:
    """Both peers, started; ended with the block.

    Raises:
        Unavailable: they cannot be installed.
    """
    python = install(folder)
    vectors = Vectors(models)
    with ExitStack() as stack:
        peers = []
        for name in NAMES:
            peers.append(Peer(name, python, vectors if name == "rag-guard" else None))
            stack.callback(peers[-1].close)
        yield peers
