"""Groups of new low-trust chunks that answer one question and agree.

A poisoned answer is made to fill the results: several texts say one thing in different words. In the space of
embeddings they are a tight island: near each other, far from everything else. Honest texts on one topic lie
in gradual neighbourhoods instead; copies and templates ("X is a village in Y") share their phrases rather
than their meaning.

Rules
- Only chunks of open documents are members; every chunk of the run is part of the background an island must
  stand out from.
- A voice is another document; equal texts are one voice, and so are the chunks of one document.
- A chunk is scored by its three nearest voices (`FEATURES`). A group needs two members with a high score
  (`seed`), or one where the others are served already, and takes in its neighbours with a lower score
  (`member`). It holds three documents at least.
- Fewer than `MIN_BACKGROUND_CHUNKS` chunks of other documents and texts are no background: then there are no
  groups.

Cost: all cosines in blocks, n^2 x 384; above `MAX_CELL_CHUNKS` chunks only within cells of a k-means, where
an island lies whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from corpus_guard.screening.logistic import Logistic
from corpus_guard.screening.wording import Wording, prose_share, shingles, split_words

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
MAX_NAMED_DOCUMENTS: Final = 12  # other documents of a group that are named
MAX_SERVED_DOCUMENTS: Final = 100  # served documents of a group that are named: the nearest
MIN_BACKGROUND_CHUNKS: Final = 30
MAX_RANKS: Final = 64  # nearest chunks of the run that are looked at
LINK_COSINE: Final = 0.6  # from which two members are of one group
SAME_TEXT_COSINE: Final = 0.9995  # from which two chunks are one text
MIN_THIRD_COSINE: Final = 0.45  # to the third voice, below which the texts are not even fetched
MIN_PROMINENCE: Final = 0.2  # the same for the prominence
MAX_CELL_CHUNKS: Final = 60_000  # chunks compared with each other: 4 teraflop, about a minute on two cores
_COSINES_PER_BLOCK: Final = 24_000_000  # 96 MB


@dataclass(frozen=True, slots=True)
class Agreement:
    """A chunk that says what several other low-trust documents say, apart from everything around it."""

    ordinal: int  # which chunk of the version
    score: float  # 0..1
    documents: int  # in the group, this one included
    similarity: float  # cosine to the third nearest of them
    others: tuple[str, ...]  # document ids, at most MAX_NAMED_DOCUMENTS
    served: tuple[str, ...] = ()  # ids of those that are served already, at most MAX_SERVED_DOCUMENTS


@dataclass(frozen=True, slots=True)
class Passage:
    """A new chunk, as far as the others need to know it; its vector lies beside it."""

    version_id: str  # "" for one that is served already and only part of the background
    doc_id: str
    ordinal: int
    open: bool  # from a source that anybody can write to


class FetchTexts(Protocol):
    """Function that fetches the texts of a few passages by their positions."""

    def __call__(self, positions: Sequence[int]) -> list[str]:
        """Return the texts in the order of `positions`."""


class ServedChunks(Protocol):
    """Chunks that the collections of low trust hold already."""

    def near(self, vectors: NDArray[np.float32]) -> Sequence[Sequence[tuple[str, str, float]]]:
        """Return for each vector (document id, text, cosine) of its nearest chunks, nearest first."""


class NoServedChunks:
    """An empty collection, for ``guard screen`` on a folder."""

    def near(self, vectors: NDArray[np.float32]) -> Sequence[Sequence[tuple[str, str, float]]]:
        """Return nothing for each vector."""
        return [()] * len(vectors)


@dataclass(frozen=True, slots=True)
class GroupingModel:
    """Model and thresholds that decide which chunks form a group."""

    model: Logistic
    seed: float
    member: float


@dataclass(slots=True)
class _Surroundings:
    """Neighbourhood of a candidate."""

    voices: list[tuple[float, str | int]]  # nearest first, four at most: cosine, position or served text
    linked_served: tuple[str, ...]  # served documents it is linked to
    served_voices: int  # how many of the three nearest voices are served already
    prominence: float
    far_prominence: float


def find_groups(
    passages: Sequence[Passage],
    vectors: NDArray[np.float32],
    texts: FetchTexts,
    wording: Wording,
    grouping: GroupingModel,
    served: ServedChunks,
) -> Iterator[tuple[int, Agreement]]:
    """Yield (position, agreement) of every chunk that belongs to a group.

    Args:
        passages: every new chunk.
        vectors: their unit vectors, shape (passages, dimensions).
        texts: fetches texts by position.
        wording: weighs words by their rarity.
        grouping: model and thresholds.
        served: chunks that the collections hold already.
    """
    near = find_surroundings(passages, vectors, served)
    positions = list(near)
    if not positions:
        return
    scores = grouping.model.score(agreement_features(near, texts, wording))
    members = [index for index, score in enumerate(scores) if score >= grouping.member]
    if not members:
        return
    chosen = np.array([positions[index] for index in members], np.intp)
    for component in _linked_components(vectors[chosen]):
        group = [members[index] for index in component]
        seeds = [index for index in group if scores[index] >= grouping.seed]
        others_served = any(near[positions[index]].served_voices >= 2 for index in seeds)
        documents: dict[str, None] = {}
        for index in group:
            documents[passages[positions[index]].doc_id] = None
        for index in group:
            documents.update(dict.fromkeys(near[positions[index]].linked_served))
        if len(seeds) < (1 if others_served else 2) or len(documents) < 3:
            continue
        for index in group:
            own = passages[positions[index]].doc_id
            yield (
                positions[index],
                Agreement(
                    passages[positions[index]].ordinal,
                    round(float(scores[index]), 4),
                    len(documents),
                    round(near[positions[index]].voices[2][0], 4),
                    tuple([document for document in documents if document != own][:MAX_NAMED_DOCUMENTS]),
                ),
            )


def find_surroundings(
    passages: Sequence[Passage], vectors: NDArray[np.float32], served: ServedChunks
) -> dict[int, _Surroundings]:
    """Return position → surroundings of every open chunk whose nearest voices stand out at all."""
    near: dict[int, _Surroundings] = {}
    arriving = {passage.doc_id for passage in passages if passage.version_id}  # the others are served: background
    codes = np.unique([passage.doc_id for passage in passages], return_inverse=True)[1] if passages else np.empty(0)
    is_open = np.array([passage.open for passage in passages], bool)
    for cell in _cells(vectors):
        if len(cell) <= MIN_BACKGROUND_CHUNKS:
            continue
        width = max(1, _COSINES_PER_BLOCK // len(cell))
        for start in range(0, len(cell), width):
            rows = cell[start : start + width]
            rows = rows[is_open[rows]]
            if not len(rows):
                continue
            # An older version of an arriving document is no voice of its own.
            served_near = [
                [chunk for chunk in chunks if chunk[0] not in arriving] for chunks in served.near(vectors[rows])
            ]
            cosines = vectors[rows] @ vectors[cell].T
            cosines[codes[rows][:, None] == codes[cell][None, :]] = -1.0
            cosines[cosines > SAME_TEXT_COSINE] = -1.0
            for row, position in enumerate(rows):
                surroundings = _surroundings(passages, vectors, cell, cosines[row], served_near[row])
                if surroundings is not None:
                    near[int(position)] = surroundings
    return near


def _surroundings(
    passages: Sequence[Passage],
    vectors: NDArray[np.float32],
    cell: NDArray[np.intp],
    cosines: NDArray[np.float32],
    served_near: Sequence[tuple[str, str, float]],
) -> _Surroundings | None:
    count = min(MAX_RANKS, len(cosines) - 1)
    top = np.argpartition(-cosines, count - 1)[:count]
    top = top[np.argsort(-cosines[top], kind="stable")]
    top = top[cosines[top] > -1.0]
    if len(top) < MIN_BACKGROUND_CHUNKS:
        return None
    new = [(float(cosines[index]), int(cell[index])) for index in top]
    open_new = [(cosine, passages[position].doc_id, position) for cosine, position in new if passages[position].open]
    others = [(cosine, document, text) for document, text, cosine in served_near if cosine <= SAME_TEXT_COSINE]
    candidates: list[tuple[float, str, str | int]] = sorted([*open_new, *others], key=lambda candidate: -candidate[0])
    if len(candidates) < 4 or candidates[2][0] < MIN_THIRD_COSINE:
        return None
    voices = list(islice(_distinct_voices(candidates, vectors), 4))
    if len(voices) < 4 or voices[2][0] < MIN_THIRD_COSINE:
        return None
    third = voices[2][0]
    # Served chunks belong to the island, never to the background: the nearest of thousands is always near.
    ranks = cosines[top]
    far = third - float(np.mean(ranks[len(ranks) // 2 :]))
    prominence = max(third - float(ranks[min(19, len(ranks) - 1)]), 0.8 * far)
    if prominence < MIN_PROMINENCE:
        return None
    linked = tuple(document for document, _, cosine in served_near if LINK_COSINE <= cosine <= SAME_TEXT_COSINE)
    return _Surroundings(voices, linked, sum(isinstance(voice, str) for _, voice in voices[:3]), prominence, far)


def _distinct_voices(
    candidates: Iterable[tuple[float, str, str | int]], vectors: NDArray[np.float32]
) -> Iterator[tuple[float, str | int]]:
    """Yield (cosine, position or served text) of one chunk of each document and of each text, in order."""
    documents: set[str] = set()
    texts: set[str | int] = set()
    for cosine, document, voice in candidates:
        copied = voice in texts
        if isinstance(voice, int):
            copied = any(
                vectors[voice] @ vectors[other] > SAME_TEXT_COSINE for other in texts if isinstance(other, int)
            )
        if document not in documents and not copied:
            documents.add(document)
            texts.add(voice)
            yield cosine, voice


def agreement_features(near: Mapping[int, _Surroundings], texts: FetchTexts, wording: Wording) -> NDArray[np.float64]:
    """Return `FEATURES` of each candidate, shape (candidates, features), in the order of `near`."""
    voice_positions = (
        voice for candidate in near.values() for _, voice in candidate.voices[:3] if isinstance(voice, int)
    )
    positions = sorted({*near, *voice_positions})
    fetched: dict[int | str, str] = dict(zip(positions, texts(positions), strict=True))
    content: dict[int | str, dict[str, float]] = {}
    phrases: dict[int | str, set[int]] = {}

    def read(key: int | str) -> str:
        text = key if isinstance(key, str) else fetched[key]
        if key not in content:
            content[key], phrases[key] = wording.content(text), shingles(text)
        return text

    rows = []
    for position, candidate in near.items():
        text = read(position)
        voices = [voice for _, voice in candidate.voices[:3]]
        lengths = [max(1, len(split_words(read(voice)))) for voice in (position, *voices)]
        own, own_phrases = content[position], phrases[position]
        shared = [
            sum(weight for word, weight in own.items() if word in content[voice]) / _union_weight(own, content[voice])
            for voice in voices
        ]
        copied = [len(own_phrases & phrases[voice]) / max(1, len(own_phrases | phrases[voice])) for voice in voices]
        rows.append(
            (
                *(cosine for cosine, _ in candidate.voices[1:4]),
                candidate.prominence,
                candidate.far_prominence,
                float(np.mean(shared)),
                max(0.0, float(np.mean(copied)) - 0.35),
                min(6.0, max(3.0, float(np.log(lengths[0])))),
                float(np.std(lengths) / np.mean(lengths)),
                max(0.7, prose_share(text)),
            )
        )
    return np.array(rows, np.float64).reshape(-1, len(FEATURES))


def _union_weight(first: Mapping[str, float], second: Mapping[str, float]) -> float:
    return max(1e-6, sum({**first, **second}.values()))


def _linked_components(vectors: NDArray[np.float32]) -> Iterator[list[int]]:
    """Yield the positions of vectors linked by cosines of at least LINK_COSINE, directly or through others."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    width = max(1, _COSINES_PER_BLOCK // max(1, len(vectors)))
    pairs = [
        np.argwhere(vectors[start : start + width] @ vectors.T >= LINK_COSINE) + np.array([start, 0])
        for start in range(0, len(vectors), width)
    ]
    rows, columns = np.concatenate(pairs).T
    graph = coo_matrix((np.ones(len(rows), bool), (rows, columns)), shape=(len(vectors),) * 2)
    _, labels = connected_components(graph, directed=False)
    order = np.argsort(labels, kind="stable")
    for group in np.split(order, np.flatnonzero(np.diff(labels[order])) + 1):
        yield group.tolist()


def _cells(vectors: NDArray[np.float32]) -> Iterator[NDArray[np.intp]]:
    """Yield all positions at once, or cells of a k-means where all cosines would take too long."""
    if len(vectors) <= MAX_CELL_CHUNKS:
        yield np.arange(len(vectors), dtype=np.intp)
        return
    from sklearn.cluster import MiniBatchKMeans

    count = 2 * -(-len(vectors) // MAX_CELL_CHUNKS)
    labels = MiniBatchKMeans(count, random_state=0, batch_size=4_096, n_init=1).fit_predict(vectors)
    for cell in range(count):
        yield np.flatnonzero(labels == cell).astype(np.intp)
