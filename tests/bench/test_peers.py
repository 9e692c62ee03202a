"""The peers' road: texts out, findings back, in order. Their packages are stood in for; one slow test installs them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from bench import peers
from corpus_guard.attacks.overrides import PHRASES
from corpus_guard.models import Models

STAND_INS = {
    "ragsentry/__init__.py": "",
    "ragsentry/document.py": "class Document:\n    def __init__(self, name, lines): self.lines = lines\n",
    "ragsentry/scanner.py": """
print("a peer that talks on standard output")
class Found: check = "shouting"
def scan_document(document):
    if document.lines == ["die"]: raise SystemExit(3)
    return [Found()] * sum(line.isupper() for line in document.lines)
""",
    "rag_guard/__init__.py": """
import types
class GuardConfig: pass
class RAGGuard:
    def __init__(self, config): pass
    def scan_document(self, text, vector, corpus):
        near = corpus is not None and float((corpus @ vector).max()) > 0.97
        return types.SimpleNamespace(flagged=near, threat_type="near_duplicate" if near else None, detector_name="d")
""",
}


class Angles:
    """Vectors that a text names itself, in degrees."""

    def of(self, texts: list[str]) -> list[list[float]]:
        return [[float(f(np.radians(float(text)))) for f in (np.cos, np.sin)] for text in texts]


@pytest.fixture
def python(tmp_path: Path) -> Path:
    for name, code in STAND_INS.items():
        path = tmp_path / "site" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code)
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path / "site"} exec {sys.executable} "$@"\n')
    script.chmod(0o755)
    return script


@pytest.fixture
def sentry(python: Path) -> Iterator[peers.Peer]:
    peer = peers.Peer("ragsentry", python)
    yield peer
    peer.close()


def test_answers_come_in_order_batch_after_batch(sentry: peers.Peer) -> None:
    first = sentry.screen(["quiet", "LOUD\nLOUDER", "lone \ud800"], one_by_one=True, bank=())
    second = sentry.screen(["LOUD"], one_by_one=False, bank=("Who?",))

    assert [outcome.caught for outcome in first] == [False, True, False]
    assert first[1].codes == ("shouting", "shouting")
    assert [(outcome.caught, outcome.risk) for outcome in second] == [(True, 1.0)]


def test_a_peer_that_dies_is_named_and_not_taken_for_one_that_found_nothing(sentry: peers.Peer) -> None:
    with pytest.raises(RuntimeError, match="ragsentry: its process ended with 3"):
        sentry.screen(["die"], one_by_one=True, bank=())


def test_in_company_each_text_is_compared_with_those_let_in_before_it(python: Path) -> None:
    peer = peers.Peer("rag-guard", python, Angles())  # type: ignore[arg-type]
    texts = ["0", "10", "90", "22", "91"]  # 10 degrees are near, 14 are not; 10 was not let in, so 22 has no near one

    together = peer.screen(texts, one_by_one=False, bank=())
    alone = peer.screen(texts, one_by_one=True, bank=())
    peer.close()

    assert [outcome.caught for outcome in together] == [False, True, False, False, True]
    assert together[1].codes == ("near_duplicate",)
    assert not any(outcome.caught for outcome in alone)


def test_the_versions_are_pinned() -> None:
    assert peers.PACKAGES[:2] == ("pyhroff-ragsentry==1.1.0", "rag-guard-enterprise==1.0.0")


@pytest.mark.slow
def test_the_real_ones_run(tmp_path: Path, models: Models) -> None:
    texts = [PHRASES[0], "The quay is swept on Mondays.", " The quay is swept on Mondays."]
    try:
        with peers.running(tmp_path / "venv", models) as others:
            caught = {p.name: [o.caught for o in p.screen(texts, one_by_one=False, bank=())] for p in others}
    except peers.Unavailable as error:
        pytest.skip(str(error))

    assert set(caught) == set(peers.NAMES)
    assert [found[1] for found in caught.values()] == [False, False]
    assert caught["rag-guard"][2] is True
