"""Attribution under drift: is a text of another day found in the corpus of now?

What is played
    * every text stands in the corpus of now in an edited form, among distractors; what is looked for is its form of another day. The
      edits are this module's own: words changed for others of the corpus, dropped, inserted (a third each), to a share of the words;
      sentences put in another order; and chunk borders moved, so that the old chunk lies in two new ones, each with a stranger's words;
    * an attribution is right where the most confident chunk is the edited text, or one of its two parts;
    * texts whose edited form was left out are looked for as well: a stranger they are attributed to is false. What has the same key
      (the other texts of an attack on one question) or the same words is no stranger, and is counted by itself.

Texts fall into two halves by their key, as everywhere (`corpus_guard.evaluation.samples`): parameters are fitted on the one, figures
come from the other.

What it does not show: what somebody does who knows how attribution works and rewrites every sentence. That is another text.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpus_guard.errors import Misuse
from corpus_guard.evaluation.measures import wilson
from corpus_guard.evaluation.samples import Form, Half, Sample, normal
from corpus_guard.screening._logistic import Logistic
from corpus_guard.traceback.attribution import FEATURES, attribute, candidates_of, features_of, probes
from corpus_guard.traceback.suspects import Embeds, Suspect, TextsInMemory

SHARES = (0.0, 0.3, 0.5)
"""Drift: the share of words that was edited."""
TARGETS: Mapping[float, float] = {0.0: 0.99, 0.3: 0.95, 0.5: 0.90}
ABSENT = 4  # one text in so many is not there any more
PRIOR = 10.0  # variance of a weight, before anything was seen
SHORTEST = 8  # words; of fewer, half are no text any more
_SENTENCE = re.compile(r"(?<=[.!?])\s+")

Progress = Callable[[str, int, int | None], object]


class Edit(StrEnum):
    """How a text came to be another."""

    WORDS = "words"  # changed, dropped, inserted
    ORDER = "order"  # and its sentences (or halves, where it is one) in another order
    CHUNKS = "chunks"  # and cut in two, each part joined with a stranger's


@dataclass(frozen=True, slots=True)
class Line:
    """One kind of edit at one drift."""

    edit: Edit
    share: float
    n: int  # texts that are there
    found: int  # the right chunk is the most confident one
    wrong: int  # a stranger is
    absent: int  # texts that are not there
    false: int  # and were attributed to a stranger
    sibling: int  # of both: attributed to what says the same in other words, or once more
    how: Mapping[str, int]  # by which step the right ones were found

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        low, high = wilson(self.found, self.n)
        false_low, false_high = wilson(self.false, self.absent)
        return {
            "edit": self.edit.value,
            "drift": self.share,
            "n": self.n,
            "found": self.found,
            "rate": round(self.found / self.n, 4) if self.n else 0.0,
            "low": round(low, 4),
            "high": round(high, 4),
            "wrong": self.wrong,
            "sibling": self.sibling,
            "absent": self.absent,
            "false": self.false,
            "false_rate": round(self.false / self.absent, 4) if self.absent else 0.0,
            "false_low": round(false_low, 4),
            "false_high": round(false_high, 4),
            "how": dict(sorted(self.how.items())),
        }


def edited(text: str, edit: Edit, share: float, strangers: Sequence[str], chance: random.Random) -> tuple[str, ...]:
    """The chunks that a text became.

    Args:
        text: of another day.
        edit: what happened to it beside the words.
        share: of its words that were changed, dropped or followed by a new one, 0..1.
        strangers: other texts: new words come from them, and what the chunks are joined with.
        chance: decides.
    """
    new = [word for other in strangers for word in other.split()] or ["-"]
    if edit is Edit.ORDER:
        text = _shuffled(text, chance)
    words: list[str] = []
    for word in text.split():
        if chance.random() >= share:
            words.append(word)
            continue
        change = chance.choice(("change", "drop", "insert"))
        words += {"change": [], "drop": [], "insert": [word]}[change]
        if change != "drop":
            words.append(chance.choice(new))
    if edit is not Edit.CHUNKS:
        return (" ".join(words),)
    middle = round(len(words) * chance.uniform(0.35, 0.65))
    before, after = (strangers[chance.randrange(len(strangers))].split() for _ in range(2))
    size = max(len(words) // 2, 4)
    return " ".join([*before[-size:], *words[:middle]]), " ".join([*words[middle:], *after[:size]])


def _shuffled(text: str, chance: random.Random) -> str:
    parts = [part for part in _SENTENCE.split(text) if part]
    if len(parts) < 2:
        words = text.split()
        middle = len(words) // 2
        parts = [" ".join(words[:middle]), " ".join(words[middle:])]
        parts.reverse()
    else:
        chance.shuffle(parts)
    return " ".join(parts)


@dataclass(frozen=True, slots=True)
class Old:
    """A text of another day."""

    key: str  # texts of one key say the same: the siblings of an attack, the parts of a page
    text: str


@dataclass(frozen=True, slots=True)
class Case:
    """A text of another day, and what it retrieves now."""

    text: str
    vector: NDArray[np.float32]
    candidates: tuple[Suspect, ...]
    right: frozenset[str]  # chunk ids; empty: it is not there any more
    siblings: frozenset[str]  # chunk ids of what says the same in other words, or once more


def cases(
    texts: Sequence[Old],
    distractors: Sequence[Old],
    embedder: Embeds,
    edit: Edit,
    share: float,
    seed: int = 0,
    absent: int = ABSENT,
) -> list[Case]:
    """Look each text up in a corpus where it was edited.

    Args:
        texts: of another day.
        distractors: what else is there now.
        embedder: of both days.
        edit: what happened to the texts.
        share: the drift, 0..1.
        seed: of the edits.
        absent: every so manieth text is not there any more.

    Raises:
        Misuse: there is nothing to look for, or nothing else.
    """
    texts = [one for one in {one.text: one for one in texts}.values() if len(one.text.split()) >= SHORTEST]
    if not texts or not distractors:
        raise Misuse(
            f"drift: {len(texts)} texts of at least {SHORTEST} words among {len(distractors)} others; give both"
        )
    chance = random.Random(f"drift {seed} {edit} {share}")  # noqa: S311 - sampling, no secret
    nothing = np.empty(0, np.float32)
    now: list[Suspect] = []
    origin: list[Old] = []
    right: list[frozenset[str]] = []
    for number, one in enumerate(texts):
        strangers = [chance.choice(distractors).text for _ in range(4)]
        pieces = () if number % absent == absent - 1 else edited(one.text, edit, share, strangers, chance)
        here = [Suspect(f"{number}.{part}", piece, 0.0, nothing) for part, piece in enumerate(pieces)]
        right.append(frozenset(piece.chunk_id for piece in here))
        now, origin = now + here, origin + [one] * len(here)
    now += [Suspect(f"other.{number}", one.text, 0.0, nothing) for number, one in enumerate(distractors)]
    origin += distractors
    vectors = embedder.embed([one.text for one in now])
    now = [replace(one, vector=vector) for one, vector in zip(now, vectors, strict=True)]
    asked = list(dict.fromkeys(probe for one in texts for probe in probes(one.text)))
    known = dict(zip(asked, embedder.embed(asked), strict=True))
    corpus = TextsInMemory(now, vectors, _Known(known))
    same = _same(now, origin)
    return [
        Case(
            one.text,
            known[one.text],
            tuple(candidates_of(one.text, corpus)),
            wanted,
            (same[one.key] | same[normal(one.text)]) - wanted,
        )
        for one, wanted in zip(texts, right, strict=True)
    ]


def _same(now: Sequence[Suspect], origin: Sequence[Old]) -> Mapping[str, frozenset[str]]:
    """Key, and text as a key → ids of chunks that say the same."""
    found: dict[str, set[str]] = defaultdict(set)
    for suspect, one in zip(now, origin, strict=True):
        found[one.key].add(suspect.chunk_id)
        found[normal(one.text)].add(suspect.chunk_id)
    return defaultdict(frozenset, {key: frozenset(ids) for key, ids in found.items()})


def measure(played: Sequence[Case], edit: Edit, share: float) -> Line:
    """Attribute each, and count."""
    counts: Counter[str] = Counter()
    how: Counter[str] = Counter()
    for case in played:
        there = bool(case.right)
        counts["n" if there else "absent"] += 1
        found = attribute(case.text, case.candidates, case.vector)[:1]
        if not found:
            continue
        first = found[0].chunk_id
        if first in case.right:
            counts["found"] += 1
            how[found[0].how] += 1
        elif first in case.siblings:
            counts["sibling"] += 1
        else:
            counts["wrong" if there else "false"] += 1
    names = ("n", "found", "wrong", "absent", "false", "sibling")
    return Line(edit, share, how=dict(how), **{name: counts[name] for name in names})


def experiment(
    texts: Sequence[Old],
    distractors: Sequence[Old],
    embedder: Embeds,
    seed: int = 0,
    progress: Progress = lambda what, done, total: None,
) -> list[Line]:
    """Every edit at every drift. Raises what `cases` raises."""
    lines: list[Line] = []
    for edit in Edit:
        for share in SHARES:
            progress(f"{edit}, drift {share:.0%}", len(lines), len(Edit) * len(SHARES))
            lines.append(measure(cases(texts, distractors, embedder, edit, share, seed), edit, share))
    return lines


def material(samples: Iterable[Sample], half: Half, count: int, seed: int = 0) -> tuple[list[Old], list[Old]]:
    """Texts to look for, `count` of them, and five times as many others, from labelled texts of one half."""
    chosen = {one.text: Old(one.key, one.text) for one in samples if one.half is half and one.form is not Form.LED}
    ordered = sorted(
        chosen.values(), key=lambda one: hashlib.sha256(f"{seed} {one.text}".encode("utf-8", "replace")).digest()
    )
    return ordered[:count], ordered[count : 6 * count]


def fit(played: Iterable[Case], names: Sequence[str]) -> Logistic:
    """Parameters that tell the right candidates from strangers; siblings are neither.

    Args:
        played: cases of the tuning half.
        names: which of the features; those of `BY_RUNS` or `BY_VECTOR`.
    """
    from scipy.optimize import minimize

    columns = [FEATURES.index(name) for name in names]
    rows, labels = [], []
    for case in played:
        here = [one for one in case.candidates if one.chunk_id not in case.siblings]
        # With the few candidates of a small corpus as well: there the third highest says less.
        for few in (here, [one for one in here if one.chunk_id in case.right] + here[:: max(len(here) // 5, 1)]):
            several = list({one.chunk_id: one for one in few}.values())
            rows.append(features_of(case.text, several, case.vector)[:, columns])
            labels.append(np.array([one.chunk_id in case.right for one in several], np.float64))
    table, label = np.concatenate(rows), np.concatenate(labels)
    mean, scale = table.mean(axis=0), np.maximum(table.std(axis=0), 1e-9)
    standard = (table - mean) / scale

    def loss(weights: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        logits = standard @ weights[:-1] + weights[-1]
        wrong = 1 / (1 + np.exp(-np.clip(logits, -60, 60))) - label
        value = np.logaddexp(0, logits) - label * logits
        slope = np.append(standard.T @ wrong + weights[:-1] / PRIOR, wrong.sum())
        return float(value.sum() + (weights[:-1] ** 2).sum() / (2 * PRIOR)), slope

    bounds = [(0, None)] * len(names) + [(None, None)]
    best = minimize(loss, np.zeros(len(names) + 1), jac=True, method="L-BFGS-B", bounds=bounds).x
    features = {
        name: {
            "mean": round(float(mean[at]), 4),
            "scale": round(float(scale[at]), 4),
            "weight": round(float(best[at]), 3),
        }
        for at, name in enumerate(names)
    }
    return Logistic.model_validate(
        {
            "version": "1",
            "trained_on": f"{len(labels) // 2} texts",
            "intercept": round(float(best[-1]), 3),
            "features": features,
        }
    )


class _Known:
    """Vectors that were made before."""

    def __init__(self, vectors: Mapping[str, NDArray[np.float32]]) -> None:
        self._vectors = vectors

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Theirs."""
        return np.stack([self._vectors[text] for text in texts])
