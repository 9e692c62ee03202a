"""Groups of new low-trust chunks that answer one question and agree.

A poisoned answer is made to fill the results: several texts say one thing in different words. In the space of embeddings they are a
tight island: near each other, far from everything else. Honest texts on one topic lie in gradual neighbourhoods instead; copies and
templates ("X is a village in Y") share their phrases rather than their meaning.

Rules
- Only chunks of open documents are members; every chunk of the run is part of the background an island must stand out from.
- A voice is another document; equal texts are one voice, and so are the chunks of one document.
- A chunk is scored by its three nearest voices (`FEATURES`); a group needs two members of a high score (`seed`), or one where
  the others are served already, and takes in its neighbours of a lower one (`member`). It holds three documents at least.
- Fewer than `FEWEST` chunks of other documents and texts are no background: nothing is said.

Cost: all cosines in blocks, n^2 x 384; above `CELL` chunks only within cells of a k-means, where an island lies whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpus_guard.screening._logistic import Logistic
from corpus_guard.screening.semantic import NAMED, Agreement, Passage, Served, Texts
from corpus_guard.screening.wording import Wording, prose, shingles, words

FEATURES: Final = (
    "second",  # cosine to the second nearest voice
    "third",
    "fourth",
    "prominence",  # how far the third nearest lies above the twentieth, or above the far ranks times 0.8
    "far_prominence",  # how far it lies above the mean of the ranks 33 to 64
    "shared",  # weight of content words shared with a voice, of the union (mean of three)
    "copied",  # shared three-word phrases beyond 0.35 of the union: templates and edited copies
    "length",  # log of the number of words, 3 to 6
    "length_spread",  # of the chunk and its three voices: deviation / mean
    "prose",  # share of letters and spaces, at least 0.7
)
VERSION: Final = "coordination/1"
FEWEST: Final = 30
RANKS: Final = 64
LINK: Final = 0.6  # cosine from which two members are of one group
SAME: Final = 0.9995  # cosine from which two chunks are one text
WORTH: Final = 0.45, 0.2  # third, prominence below which the texts are not even fetched
CELL: Final = 60_000  # chunks compared with each other: 4 teraflop, about a minute on two cores
_BLOCK: Final = 24_000_000  # cosines held at a time: 96 MB


@dataclass(frozen=True, slots=True)
class Grouping:
    """How groups are told."""

    model: Logistic
    seed: float
    member: float


@dataclass(slots=True)
class _Near:
    """A candidate's surroundings."""

    voices: list[tuple[float, str | int]]  # nearest first, four at most: cosine, position or served text
    known: tuple[str, ...]  # served documents it is linked to
    served: int  # how many of the three nearest voices are served already
    prominence: float
    far_prominence: float


def groups(
    passages: Sequence[Passage],
    vectors: NDArray[np.float32],
    texts: Texts,
    wording: Wording,
    grouping: Grouping,
    served: Served,
) -> Iterator[tuple[int, Agreement]]:
    """(position, agreement) of every chunk that belongs to a group."""
    near = surroundings(passages, vectors, served)
    positions = list(near)
    if not positions:
        return
    scores = grouping.model.score(features(near, texts, wording))
    members = [index for index, score in enumerate(scores) if score >= grouping.member]
    if not members:
        return
    chosen = np.array([positions[index] for index in members], np.intp)
    for group in _components(vectors[chosen]):
        inside = [members[index] for index in group]
        seeds = [index for index in inside if scores[index] >= grouping.seed]
        known = any(near[positions[index]].served >= 2 for index in seeds)
        documents: dict[str, None] = {}
        for index in inside:
            documents[passages[positions[index]].doc_id] = None
        for index in inside:
            documents.update(dict.fromkeys(near[positions[index]].known))
        if len(seeds) < (1 if known else 2) or len(documents) < 3:
            continue
        for index in inside:
            own = passages[positions[index]].doc_id
            yield (
                positions[index],
                Agreement(
                    passages[positions[index]].ordinal,
                    round(float(scores[index]), 4),
                    len(documents),
                    round(near[positions[index]].voices[2][0], 4),
                    tuple([document for document in documents if document != own][:NAMED]),
                ),
            )


def surroundings(passages: Sequence[Passage], vectors: NDArray[np.float32], served: Served) -> dict[int, _Near]:
    """Position → surroundings, of every open chunk whose nearest voices stand out at all."""
    near: dict[int, _Near] = {}
    arriving = {passage.doc_id for passage in passages if passage.version_id}  # the others are served: background
    codes = np.unique([passage.doc_id for passage in passages], return_inverse=True)[1] if passages else np.empty(0)
    is_open = np.array([passage.open for passage in passages], bool)
    for cell in _cells(vectors):
        if len(cell) <= FEWEST:
            continue
        width = max(1, _BLOCK // len(cell))
        for start in range(0, len(cell), width):
            rows = cell[start : start + width]
            rows = rows[is_open[rows]]
            if not len(rows):
                continue
            # An older version of what arrives now is no voice of its own.
            known = [[one for one in found if one[0] not in arriving] for found in served.near(vectors[rows])]
            cosines = vectors[rows] @ vectors[cell].T
            cosines[codes[rows][:, None] == codes[cell][None, :]] = -1.0
            cosines[cosines > SAME] = -1.0
            for row, position in enumerate(rows):
                found = _look(passages, vectors, cell, cosines[row], known[row])
                if found is not None:
                    near[int(position)] = found
    return near


def _look(
    passages: Sequence[Passage],
    vectors: NDArray[np.float32],
    cell: NDArray[np.intp],
    cosines: NDArray[np.float32],
    known: Sequence[tuple[str, str, float]],
) -> _Near | None:
    count = min(RANKS, len(cosines) - 1)
    top = np.argpartition(-cosines, count - 1)[:count]
    top = top[np.argsort(-cosines[top], kind="stable")]
    top = top[cosines[top] > -1.0]
    if len(top) < FEWEST:
        return None
    new = [(float(cosines[index]), int(cell[index])) for index in top]
    heard = [(cosine, passages[position].doc_id, position) for cosine, position in new if passages[position].open]
    others = [(cosine, document, text) for document, text, cosine in known if cosine <= SAME]
    found: list[tuple[float, str, str | int]] = sorted([*heard, *others], key=lambda one: -one[0])
    if len(found) < 4 or found[2][0] < WORTH[0]:
        return None
    voices = list(islice(_voices(found, vectors), 4))
    if len(voices) < 4 or voices[2][0] < WORTH[0]:
        return None
    third = voices[2][0]
    # What is served counts to the island, never to the background: nearest of thousands, it is always near.
    ranks = cosines[top]
    far = third - float(np.mean(ranks[len(ranks) // 2 :]))
    prominence = max(third - float(ranks[min(19, len(ranks) - 1)]), 0.8 * far)
    if prominence < WORTH[1]:
        return None
    linked = tuple(document for document, _, cosine in known if LINK <= cosine <= SAME)
    return _Near(voices, linked, sum(isinstance(voice, str) for _, voice in voices[:3]), prominence, far)


def _voices(
    found: Iterable[tuple[float, str, str | int]], vectors: NDArray[np.float32]
) -> Iterator[tuple[float, str | int]]:
    """(cosine, position or served text) of one chunk of each document, and of each text, in the order `found`."""
    documents: set[str] = set()
    texts: set[str | int] = set()
    for cosine, document, voice in found:
        copied = voice in texts
        if isinstance(voice, int):
            copied = any(vectors[voice] @ vectors[other] > SAME for other in texts if isinstance(other, int))
        if document not in documents and not copied:
            documents.add(document)
            texts.add(voice)
            yield cosine, voice


def features(near: Mapping[int, _Near], texts: Texts, wording: Wording) -> NDArray[np.float64]:
    """Shape (candidates, FEATURES), in the order of `near`."""
    needed = sorted({*near, *(voice for one in near.values() for _, voice in one.voices[:3] if isinstance(voice, int))})
    fetched: dict[int | str, str] = dict(zip(needed, texts(needed), strict=True))
    content: dict[int | str, dict[str, float]] = {}
    phrases: dict[int | str, set[int]] = {}

    def told(key: int | str) -> str:
        text = key if isinstance(key, str) else fetched[key]
        if key not in content:
            content[key], phrases[key] = wording.content(text), shingles(text)
        return text

    rows = []
    for position, one in near.items():
        text = told(position)
        voices = [voice for _, voice in one.voices[:3]]
        lengths = [max(1, len(words(told(voice)))) for voice in (position, *voices)]
        own, own_phrases = content[position], phrases[position]
        shared = [
            sum(weight for word, weight in own.items() if word in content[voice]) / _union(own, content[voice])
            for voice in voices
        ]
        copied = [len(own_phrases & phrases[voice]) / max(1, len(own_phrases | phrases[voice])) for voice in voices]
        rows.append(
            (
                *(cosine for cosine, _ in one.voices[1:4]),
                one.prominence,
                one.far_prominence,
                float(np.mean(shared)),
                max(0.0, float(np.mean(copied)) - 0.35),
                min(6.0, max(3.0, float(np.log(lengths[0])))),
                float(np.std(lengths) / np.mean(lengths)),
                max(0.7, prose(text)),
            )
        )
    return np.array(rows, np.float64).reshape(-1, len(FEATURES))


def _union(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    return max(1e-6, sum({**one, **other}.values()))


def _components(vectors: NDArray[np.float32]) -> Iterator[list[int]]:
    """Positions of vectors linked by cosines of at least LINK, directly or through others."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    width = max(1, _BLOCK // max(1, len(vectors)))
    pairs = [
        np.argwhere(vectors[start : start + width] @ vectors.T >= LINK) + np.array([start, 0])
        for start in range(0, len(vectors), width)
    ]
    rows, columns = np.concatenate(pairs).T
    graph = coo_matrix((np.ones(len(rows), bool), (rows, columns)), shape=(len(vectors),) * 2)
    _, labels = connected_components(graph, directed=False)
    order = np.argsort(labels, kind="stable")
    for group in np.split(order, np.flatnonzero(np.diff(labels[order])) + 1):
        yield group.tolist()


def _cells(vectors: NDArray[np.float32]) -> Iterator[NDArray[np.intp]]:
    """All positions at once, or cells of a k-means where all cosines would take too long."""
    if len(vectors) <= CELL:
        yield np.arange(len(vectors), dtype=np.intp)
        return
    from sklearn.cluster import MiniBatchKMeans

    wanted = 2 * -(-len(vectors) // CELL)
    labels = MiniBatchKMeans(wanted, random_state=0, batch_size=4_096, n_init=1).fit_predict(vectors)
    for cell in range(wanted):
        yield np.flatnonzero(labels == cell).astype(np.intp)
