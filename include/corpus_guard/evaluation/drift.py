"""Attribution under drift: whether a text of an earlier day is found in today's corpus.

Experiment
    * every text is in today's corpus in an edited form, among distractors; its earlier form is looked up. The
      edits are this module's own: a share of the words is replaced by other words of the corpus, dropped, or
      followed by a new one (a third each); sentences are reordered; and chunk borders are moved, so that the
      old chunk lies in two new ones, each with words of an unrelated text;
    * an attribution is right if the most confident chunk is the edited text, or one of its two parts;
    * texts whose edited form was left out are looked up, too: an attribution to an unrelated text is false.
      Texts with the same key (the other texts of an attack on one question) or with the same words are
      siblings, and counted separately.

Texts are split into two halves by their key (`corpus_guard.detectors.samples`): parameters were fitted on one
half, figures come from the other.

What it does not show: an attacker who knows how attribution works and rewrites every sentence. The result is
another text.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from corpus_guard.detectors.attacked_corpus import TextVectors
from corpus_guard.detectors.samples import Half, Sample, TextForm, question_key
from corpus_guard.domain import Progress, no_progress
from corpus_guard.errors import Misuse
from corpus_guard.models import TextEmbedder
from corpus_guard.traceback.attribution import attribute, find_candidates, split_into_probes
from corpus_guard.traceback.retrieval import InMemoryCorpus, RetrievedText
from corpus_guard.tracking.measures import CountedShare

SHARES = (0.0, 0.3, 0.5)
"""Drift: share of the words that were edited."""
ABSENT_EVERY = 4  # one text in so many is left out of today's corpus
MIN_WORDS = 8  # of a text: half of fewer words would not be a text
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


class TextEdit(StrEnum):
    """Edit of a text."""

    WORDS = "words"  # changed, dropped, inserted
    ORDER = "order"  # and sentences (or halves of a single one) reordered
    CHUNKS = "chunks"  # and cut in two, each part joined with words of an unrelated text


@dataclass(frozen=True, slots=True)
class DriftRow:
    """Counts for one kind of edit at one drift."""

    edit: TextEdit
    share: float  # the drift
    n: int  # texts that are in today's corpus
    attributed: int  # the right chunk is the most confident one
    wrong: int  # an unrelated chunk is
    absent: int  # texts that are not in today's corpus
    false: int  # attributed to an unrelated chunk nevertheless
    sibling: int  # of both: attributed to a sibling
    how: Mapping[str, int]  # step that found the right chunk → texts

    def as_dict(self) -> dict[str, object]:
        """Return counts, rates and intervals for JSON."""
        right = CountedShare(self.attributed, self.n).as_dict(digits=4)
        false = CountedShare(self.false, self.absent).as_dict(digits=4)
        return {
            "edit": self.edit.value,
            "drift": self.share,
            "n": self.n,
            "found": self.attributed,
            **{name: right[name] for name in ("rate", "low", "high")},
            "wrong": self.wrong,
            "sibling": self.sibling,
            "absent": self.absent,
            "false": self.false,
            **{f"false_{name}": false[name] for name in ("rate", "low", "high")},
            "how": dict(sorted(self.how.items())),
        }


def edit_text(text: str, edit: TextEdit, share: float, unrelated: Sequence[str], rng: random.Random) -> tuple[str, ...]:
    """Return the chunks that a text became.

    Args:
        share: of the words that are replaced, dropped or followed by a new one, 0..1.
        unrelated: other texts, the source of new words and of the other parts of chunks.
    """
    new = [word for other in unrelated for word in other.split()] or ["-"]
    if edit is TextEdit.ORDER:
        text = _reorder_sentences(text, rng)
    words: list[str] = []
    for word in text.split():
        if rng.random() >= share:
            words.append(word)
            continue
        change = rng.choice(("change", "drop", "insert"))
        words += {"change": [], "drop": [], "insert": [word]}[change]
        if change != "drop":
            words.append(rng.choice(new))
    if edit is not TextEdit.CHUNKS:
        return (" ".join(words),)
    middle = round(len(words) * rng.uniform(0.35, 0.65))
    before, after = (unrelated[rng.randrange(len(unrelated))].split() for _ in range(2))
    size = max(len(words) // 2, 4)
    return " ".join([*before[-size:], *words[:middle]]), " ".join([*words[middle:], *after[:size]])


def _reorder_sentences(text: str, rng: random.Random) -> str:
    parts = [part for part in _SENTENCE.split(text) if part]
    if len(parts) < 2:
        words = text.split()
        middle = len(words) // 2
        parts = [" ".join(words[:middle]), " ".join(words[middle:])]
        parts.reverse()
    else:
        rng.shuffle(parts)
    return " ".join(parts)


@dataclass(frozen=True, slots=True)
class PastText:
    """Text of an earlier day."""

    key: str  # texts with the same key say the same: the siblings of an attack, the parts of a page
    text: str


@dataclass(frozen=True, slots=True)
class DriftCase:
    """Text of an earlier day with the chunks that it retrieves today."""

    text: str
    vector: NDArray[np.float32]
    candidates: tuple[RetrievedText, ...]
    right: frozenset[str]  # chunk ids; empty: the text is not in today's corpus
    siblings: frozenset[str]  # ids of chunks that say the same


def build_cases(
    texts: Sequence[PastText],
    distractors: Sequence[PastText],
    embedder: TextEmbedder,
    edit: TextEdit,
    share: float,
    seed: int = 0,
    absent: int = ABSENT_EVERY,
) -> list[DriftCase]:
    """Look each text up in a corpus that holds its edited form.

    Args:
        absent: every `absent`-th text is left out of today's corpus.

    Raises:
        Misuse: there are no texts, or no distractors.
    """
    texts = [past for past in {past.text: past for past in texts}.values() if len(past.text.split()) >= MIN_WORDS]
    if not texts or not distractors:
        raise Misuse(
            f"drift: {len(texts)} texts of at least {MIN_WORDS} words among {len(distractors)} others; expected some of both"
        )
    rng = random.Random(f"drift {seed} {edit} {share}")  # noqa: S311 - sampling, no secret
    no_vector = np.empty(0, np.float32)
    today: list[RetrievedText] = []
    origins: list[PastText] = []
    right: list[frozenset[str]] = []
    for number, past in enumerate(texts):
        unrelated = [rng.choice(distractors).text for _ in range(4)]
        pieces = () if number % absent == absent - 1 else edit_text(past.text, edit, share, unrelated, rng)
        chunks = [RetrievedText(f"{number}.{part}", piece, 0.0, no_vector) for part, piece in enumerate(pieces)]
        right.append(frozenset(chunk.chunk_id for chunk in chunks))
        today, origins = today + chunks, origins + [past] * len(chunks)
    today += [RetrievedText(f"other.{number}", past.text, 0.0, no_vector) for number, past in enumerate(distractors)]
    origins += distractors
    vectors = embedder.embed([chunk.text for chunk in today])
    today = [replace(chunk, vector=vector) for chunk, vector in zip(today, vectors, strict=True)]
    probes = TextVectors(embedder)
    probes.prepare(probe for past in texts for probe in split_into_probes(past.text))
    corpus = InMemoryCorpus(today, vectors, probes)
    siblings = _siblings(today, origins)
    return [
        DriftCase(
            past.text,
            probes.embed([past.text])[0],
            tuple(find_candidates(past.text, corpus)),
            ids,
            (siblings[past.key] | siblings[question_key(past.text)]) - ids,
        )
        for past, ids in zip(texts, right, strict=True)
    ]


def _siblings(today: Sequence[RetrievedText], origins: Sequence[PastText]) -> Mapping[str, frozenset[str]]:
    """Return the ids of chunks that say the same, by key, and by the text as a key."""
    siblings: dict[str, set[str]] = defaultdict(set)
    for chunk, past in zip(today, origins, strict=True):
        siblings[past.key].add(chunk.chunk_id)
        siblings[question_key(past.text)].add(chunk.chunk_id)
    return defaultdict(frozenset, {key: frozenset(ids) for key, ids in siblings.items()})


def measure_drift(cases: Sequence[DriftCase], edit: TextEdit, share: float) -> DriftRow:
    """Attribute the text of each case, and count."""
    counts: Counter[str] = Counter()
    how: Counter[str] = Counter()
    for case in cases:
        is_present = bool(case.right)
        counts["n" if is_present else "absent"] += 1
        attributions = attribute(case.text, case.candidates, case.vector)
        if not attributions:
            continue
        best = attributions[0]
        if best.chunk_id in case.right:
            counts["attributed"] += 1
            how[best.how] += 1
        elif best.chunk_id in case.siblings:
            counts["sibling"] += 1
        else:
            counts["wrong" if is_present else "false"] += 1
    names = ("n", "attributed", "wrong", "absent", "false", "sibling")
    return DriftRow(edit, share, how=dict(how), **{name: counts[name] for name in names})


def run_drift_experiment(
    texts: Sequence[PastText],
    distractors: Sequence[PastText],
    embedder: TextEmbedder,
    seed: int = 0,
    progress: Progress = no_progress,
) -> list[DriftRow]:
    """Measure every edit at every drift; raises what `build_cases` raises."""
    rows: list[DriftRow] = []
    for edit in TextEdit:
        for share in SHARES:
            progress(f"{edit}, drift {share:.0%}", len(rows), len(TextEdit) * len(SHARES))
            rows.append(measure_drift(build_cases(texts, distractors, embedder, edit, share, seed), edit, share))
    return rows


def select_texts(
    samples: Iterable[Sample], half: Half, count: int, seed: int = 0
) -> tuple[list[PastText], list[PastText]]:
    """Return `count` texts of one half to look up, and five times as many others."""
    chosen = {
        sample.text: PastText(sample.key, sample.text)
        for sample in samples
        if sample.half is half and sample.form is not TextForm.LED
    }
    ordered = sorted(
        chosen.values(), key=lambda past: hashlib.sha256(f"{seed} {past.text}".encode("utf-8", "replace")).digest()
    )
    return ordered[:count], ordered[count : 6 * count]
