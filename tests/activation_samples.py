"""Recordings with states that were drawn: what a probe is to find in them is known."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from corpus_guard.traceback.activations.recording import (
    PROMPT_VERSION,
    AnswerKind,
    LabelledPrompt,
    Recording,
    Recordings,
    _write,
    sample_id,
)

LAYERS, HIDDEN = 5, 24
MODEL = "drawn@sha256:000000000000/float32"


def drawn(
    samples: int = 240,
    signal: float = 1.5,
    seed: int = 0,
    layers: int = LAYERS,
    hidden: int = HIDDEN,
    source: str = "drawn",
    *,
    scattered: bool = False,
) -> Recordings:
    """Four samples a question; in the states of attacker's answers `signal` is added to one half of the units and taken from the other.

    The halves lie side by side; `scattered`, which unit is of which is drawn, as it is in a language model.
    """
    draw = np.random.default_rng(seed)
    states = draw.normal(size=(samples, layers, hidden)).astype(np.float32)
    direction = np.ones((layers, hidden), np.float32)  # in broad strokes, as a network of convolutions can see it
    direction[:, hidden // 2 :] = -1
    if scattered:
        direction = np.random.default_rng(0).permuted(direction, axis=1)
    rows = []
    about = draw.normal(size=(-(-samples // 4), layers, hidden)).astype(np.float32)  # each question's own
    states += about[np.arange(samples) // 4]
    for number in range(samples):
        led = bool(draw.random() < 0.5)
        if led:
            states[number] += signal * direction
        kind = "planted" if led else ("look-alike" if number % 4 == 0 else "clean")
        rows.append(
            Recording(
                sample=f"{source}-{seed}-{number}",
                key=f"{source} question {number // 4}",
                source=source,
                kind=kind,
                planted=5 if led else 0,
                texts=5,
                tokens=int(draw.integers(100, 200)),
                answered=AnswerKind.ATTACKER if led else AnswerKind.RIGHT,
                answer="Ada Moss",
                log_probability=float(-draw.random()),
            )
        )
    return Recordings(MODEL, PROMPT_VERSION, tuple(rows), states)


def as_if_answered(model: str, prompts: Sequence[LabelledPrompt], folder: Path) -> None:
    """Record every prompt as if the model had answered it: led where a text is planted, and then its states lean one way."""
    draw = np.random.default_rng(0)
    folder.mkdir(parents=True)
    lean = np.repeat([1.0, -1.0], 288)
    rows, states = [], []
    for one in prompts:
        led = one.planted > 0
        states.append(draw.normal(size=(31, 576)) + led * lean)
        rows.append(
            Recording(
                sample_id(model, one), one.key, one.source, one.kind, one.planted, len(one.texts), 200,
                AnswerKind.ATTACKER if led else AnswerKind.RIGHT, "x", -1.0,
            )
        )  # fmt: skip
    _write(folder, model, rows, np.array(states, np.float32))
