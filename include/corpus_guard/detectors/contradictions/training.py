"""Training of the reader of contradictions: pages and posts in, ``screening/learned`` out.

Each post is shown beside an excerpt of its page with the sentence that it is about, and some beside an excerpt without it, or beside
the page on another thing of the same kind: whatever they say, they say nothing of that.
The model that reads sentences is shown one of them each time.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from corpus_guard.detectors.contradictions.claims import Labelled, find_most_alike, split_plain
from corpus_guard.detectors.contradictions.pairs import Pair, PairLabel
from corpus_guard.detectors.reader_training import Recipe, train_reader
from corpus_guard.domain import Progress, digest, no_progress
from corpus_guard.models.contradiction_reader import CONTRADICTS, EXCERPT_CHARS, EXCERPTS, SENTENCES, SIEVE, PagePost
from corpus_guard.models.trained_reader import ReaderKind, ReaderWeights
from corpus_guard.models.weights import Weights

LABELS: Final = {PairLabel.CONTRADICTS: CONTRADICTS, PairLabel.SAME: 1, PairLabel.OTHER: 2}
WHOLE: Final = 0.6
"""Share of the posts that are shown beside their whole page; the others beside some of its sentences."""
ELSEWHERE: Final = 0.1
"""Share of the posts that are also shown beside other sentences of their page."""
SISTERS: Final = 0.25
"""Share of the posts that are also shown beside a page on another thing of the same kind."""
UNTITLED: Final = 0.2
"""Share of what is shown without its page's title: honest or not, it must not be known by that."""
SURROUNDED: Final = 0.15
"""Share of the posts beside which a second one stands that says something other."""
MAX_SURROUNDED: Final = 200
"""Characters of a post that gets such a neighbour."""

RECIPES: Final = {
    SIEVE.name: Recipe(epochs=2, batch=48, learning_rate=1e-3, dropout=0.1),
    EXCERPTS.name: Recipe(epochs=2, batch=48, learning_rate=3e-4, dropout=0.1),
    SENTENCES.name: Recipe(),
}
ADAPTED: Final = {
    SIEVE.name: Recipe(batch=32, learning_rate=5e-4, unit_learning_rate=3e-4, dropout=0.1),
    EXCERPTS.name: Recipe(batch=32, learning_rate=1.5e-4, unit_learning_rate=3e-4, dropout=0.1),
    SENTENCES.name: Recipe(batch=32, learning_rate=1.5e-4, unit_learning_rate=3e-4, dropout=0.1),
}
"""Recipes for a model that goes on from weights that it has."""

Example = tuple[PagePost, int]
"""Texts that are shown, and the right output of the unit."""


def make_examples(
    pairs: Iterable[Pair],
    honest: Iterable[PagePost] = (),
    claims: Iterable[Labelled] = (),
    seed: int = 0,
    *,
    alone: bool = False,
) -> list[Example]:
    """Return what the reader is shown, in a random order.

    Args:
        honest: texts of honest documents beside others: they contradict nothing.
        claims: of other people, and changed sentences of honest texts.
        alone: show one sentence of a page at a time.
    """
    choice = random.Random(f"{seed} contradictions")  # noqa: S311 - no secret
    pages: defaultdict[tuple[str, str, tuple[str, ...]], list[Pair]] = defaultdict(list)
    kinds: defaultdict[tuple[str, str], dict[str, tuple[str, ...]]] = defaultdict(dict)
    for pair in pairs:
        pages[pair.field, pair.title, pair.page].append(pair)
        if pair.kind:
            kinds[pair.field, pair.kind][pair.title] = pair.page
    examples: list[Example] = [(shown, LABELS[PairLabel.OTHER]) for shown in honest]
    examples += [(_show_alone(shown) if alone else shown, LABELS[label]) for shown, label in claims]
    for (field, title, page), own in pages.items():
        others = [pair.text for pair in own if pair.label is PairLabel.OTHER]
        for pair in own:
            excerpt = _shorten(page, pair.sentence, choice, alone=alone)
            examples.append((PagePost(title, excerpt, _surround(pair.text, others, choice)), LABELS[pair.label]))
            rest = [each for number, each in enumerate(page) if number != pair.sentence]
            if rest and choice.random() < ELSEWHERE:
                elsewhere = _shorten(rest, choice.randrange(len(rest)), choice, alone=alone)
                examples.append((PagePost(title, elsewhere, pair.text), LABELS[PairLabel.OTHER]))
            sisters = {name: its for name, its in kinds.get((field, pair.kind), {}).items() if name != title}
            if sisters and choice.random() < SISTERS:
                name = choice.choice(sorted(sisters))
                sister = sisters[name]
                nearest = find_most_alike(pair.text, sister)
                excerpt = _shorten(sister, nearest, choice, alone=alone)
                examples.append((PagePost(name, excerpt, pair.text), LABELS[PairLabel.OTHER]))
    choice.shuffle(examples)
    return [(replace(shown, title="") if choice.random() < UNTITLED else shown, label) for shown, label in examples]


def _surround(text: str, others: Sequence[str], choice: random.Random) -> str:
    if choice.random() >= SURROUNDED or len(text) >= MAX_SURROUNDED:
        return text
    neighbours = [other for other in others if other != text]
    if not neighbours:
        return text
    both = [text, choice.choice(neighbours)]
    choice.shuffle(both)
    return " ".join(both)


def _shorten(page: Sequence[str], chosen: int, choice: random.Random, *, alone: bool) -> str:
    """Return a page, or some of its sentences with a given one, or that alone; never more than are read."""
    if alone:
        return page[chosen]
    others = [number for number in range(len(page)) if number != chosen]
    choice.shuffle(others)
    shown, room = [chosen], EXCERPT_CHARS - len(page[chosen])
    for number in others[: len(others) if choice.random() < WHOLE else choice.randrange(len(page))]:
        room -= len(page[number]) + 1
        if room < 0:
            break
        shown.append(number)
    return " ".join(page[number] for number in sorted(shown))


def _show_alone(shown: PagePost) -> PagePost:
    """Return a post beside the sentence of the excerpt that has most words in common with it."""
    sentences = split_plain(shown.excerpt)
    return replace(shown, excerpt=sentences[find_most_alike(shown.post, sentences)]) if sentences else shown


def train_contradiction_reader(
    kind: ReaderKind,
    pairs: Sequence[Pair],
    base: Weights,
    *,
    honest: Sequence[PagePost] = (),
    claims: Sequence[Labelled] = (),
    start: ReaderWeights | None = None,
    share: float = 1.0,
    seed: int = 0,
    progress: Progress = no_progress,
) -> ReaderWeights:
    """Train a model of the reader. The same pairs and seed give the same weights on the same kind of processor.

    Args:
        base: the built-in embedder for the sieve, the encoder of pairs for excerpts, the language model for sentences.
        start: weights that it goes on from; None: it begins with the model as it is.
        share: of the trained weights in what is returned; the rest is `start`.
    """
    shown = make_examples(pairs, honest, claims, seed, alone=kind is SENTENCES)
    examples = [(pair.prompt(kind), label) for pair, label in shown]
    sheet = _sheet(pairs, honest, claims) | ({"started_from": dict(start.sheet)} if start else {})
    recipe = (ADAPTED if start else RECIPES)[kind.name]
    trained = train_reader(kind, examples, base, sheet, recipe, start=start, seed=seed, progress=progress)
    return start.moved_towards(trained, share) if start and share < 1 else trained


def _sheet(pairs: Sequence[Pair], honest: Sequence[PagePost], claims: Sequence[Labelled]) -> dict[str, Any]:
    return {
        "pages": len({(pair.field, pair.title) for pair in pairs}),
        "pairs": len(pairs),
        "honest": len(honest),
        "claims": len(claims),
        "fields": sorted({pair.field for pair in pairs}),
        "texts": digest("contradictions/pairs/v1", [f"{pair.label} {pair.text}" for pair in pairs]),
    }
