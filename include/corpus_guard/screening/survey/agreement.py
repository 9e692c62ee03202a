"""Groups of new low-trust chunks that answer one question and agree.

A poisoned answer is made to fill the results: several texts say one thing in different words. In the space of
embeddings they are a tight island: near each other, far from everything else. They are short, of one length, and
say little but their claim. Honest texts on one topic lie in gradual neighbourhoods and say many other things
besides; copies and templates ("X is a village in Y") share their phrases rather than their meaning.

Rules
- Only chunks of open documents are members; every chunk of the run is part of the background an island must
  stand out from.
- A voice is another document; equal texts are one voice, and so are the chunks of one document.
- A chunk is scored by its three nearest voices (`FEATURES`). A group needs two members with a high score
  (`seed`), or one where the others are served already, and takes in its neighbours with a lower score
  (`member`). It holds three documents at least.
- Where other chunks lie near that are no members, the group's claim can be told from its topic: the words that
  most of its seeds hold, and few of those others. Who does not hold them is no member, however near.
- A served document is a member if it is near a seed and holds the claim; where no claim can be told, if it is
  one of the three nearest voices of a seed.
- Fewer than `MIN_BACKGROUND_CHUNKS` chunks of other documents and texts are no background: then there are no
  groups.

What it cannot tell: in a vacuum, honest short texts that say one thing alike (three pharmacies on one drug) and
planted ones. A group whose claim is not in its words, but in their order, keeps its honest neighbours.

Cost: all cosines in blocks, n^2 x 384; above `MAX_CELL_CHUNKS` chunks only within cells of a k-means, where
an island lies whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain, combinations, islice, takewhile
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from corpus_guard.domain import Span
from corpus_guard.screening.learned_scores import LearnedScore
from corpus_guard.screening.survey.common_wording import find_shared_words, repetition
from corpus_guard.screening.wording import Wording, prose_share, shingles, split_words, stem

FEATURES: Final = (
    "third",  # cosine to the third nearest voice
    "fourth",
    "prominence",  # how far the third nearest lies above the twentieth, or above the far ranks times 0.8
    "far_prominence",  # how far it lies above the mean of the ranks 33 to 64
    "gap",  # how far it lies above the mean of the ranks 6 to 12: where an island of five ends
    "mutual",  # mean cosine between the chunk and its three voices, and between these
    "shared",  # weight of content words shared with a voice, of the union (mean of three)
    "covered",  # the same, of the chunk's own words
    "common",  # weight of the chunk's words that two voices hold, of all its words
    "copied",  # shared three-word phrases beyond 0.35 of the union: templates and edited copies
    "opening",  # how many voices begin with the same five words, 0 to 3
    "length",  # log of the number of words, 3 to 6
    "length_spread",  # of the chunk and its three voices: deviation / mean
    "prose",  # share of letters and spaces, at least 0.7
)
VERSION: Final = "coordination/3"
MAX_NAMED_DOCUMENTS: Final = 12  # other documents of a group that are named
MAX_SERVED_DOCUMENTS: Final = 100  # served documents of a group that are named: the nearest
MAX_COMPARED_TEXTS: Final = 24  # other members whose words are looked at
MIN_BACKGROUND_CHUNKS: Final = 30
MAX_RANKS: Final = 64  # nearest chunks of the run that are looked at
LINK_COSINE: Final = 0.6  # from which two members are of one group
SAME_TEXT_COSINE: Final = 0.9995  # from which two chunks are one text
MIN_THIRD_COSINE: Final = 0.45  # to the third voice, below which the texts are not even fetched
MIN_PROMINENCE: Final = 0.2  # the same for the prominence
MAX_CELL_CHUNKS: Final = 60_000  # chunks compared with each other: 4 teraflop, about a minute on two cores
TOPIC_COSINE: Final = 0.5  # from which a chunk that is no member is about the same topic
MAX_TOPIC_CHUNKS: Final = 20  # of these, the nearest
MIN_TOPIC_CHUNKS: Final = 3  # below, claim and topic cannot be told apart
CLAIM_HELD: Final = 0.6  # share of the seeds that hold a word of the claim
CLAIM_FOREIGN: Final = 0.3  # share of the others that may hold it, too
CLAIM_SHARE: Final = 0.5  # of the words of a claim, that a member holds
_OPENING_WORDS: Final = 5
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
    opposed: bool = False  # they state what a more trusted document contradicts
    shared: tuple[Span, ...] = ()  # words of the chunk that most other members hold, in its text
    repeated: float = 0.0  # how much the members repeat each other word for word, 0..1
    origins: int = 1  # sources and sites that the arriving members come from

    def to_record(self) -> list[object]:
        """Return a JSON-ready form."""
        return [
            self.ordinal,
            self.score,
            self.documents,
            self.similarity,
            self.others,
            self.served,
            self.opposed,
            [number for span in self.shared for number in (span.start, span.end)],
            self.repeated,
            self.origins,
        ]

    @classmethod
    def from_record(cls, record: Sequence[Any]) -> Agreement:
        """Read the output of `to_record`. A wrong shape raises TypeError or ValueError."""
        ordinal, score, documents, similarity, others, served, opposed, places, repeated, origins = record
        return cls(
            ordinal,
            score,
            documents,
            similarity,
            tuple(others),
            tuple(served),
            bool(opposed),
            tuple(Span(start, end) for start, end in zip(places[::2], places[1::2], strict=True)),
            float(repeated),
            int(origins),
        )


@dataclass(frozen=True, slots=True)
class Passage:
    """A new chunk, as far as the others need to know it; its vector lies beside it."""

    version_id: str  # "" for one that is served already and only part of the background
    doc_id: str
    ordinal: int
    open: bool  # from a source that anybody can write to
    origin: str = ""  # its source, and the site if the source reads several


def passage_origin(source: str, uri: str) -> str:
    """Return the source, and the site of a web page: its last two labels, so that one owner of a domain is one origin."""
    host = (urlsplit(uri).hostname or "") if "://" in uri else ""
    return f"{source} {'.'.join(host.split('.')[-2:])}".rstrip()


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

    model: LearnedScore
    seed: float
    member: float


@dataclass(slots=True)
class _Surroundings:
    """Neighbourhood of a candidate."""

    voices: list[tuple[float, str | int]]  # nearest first, four at most: cosine, position or served text
    served: tuple[tuple[str, str, float], ...]  # document, text and cosine of the served chunks on its topic
    served_voices: int  # how many of the three nearest voices are served already
    prominence: float
    far_prominence: float
    gap: float
    mutual: float


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
    """
    near = find_surroundings(passages, vectors, served)
    positions = list(near)
    if not positions:
        return
    rows = agreement_features(near, texts, wording)
    scores = dict(zip(positions, grouping.model.score(rows).tolist(), strict=True))
    members = [position for position in positions if scores[position] >= grouping.member]
    if not members:
        return
    components = [
        [members[index] for index in component] for component in _linked_components(vectors[np.array(members, np.intp)])
    ]
    seeded = [linked for linked in components if max(scores[position] for position in linked) >= grouping.seed]
    topics = [_on_topic(passages, vectors, linked) for linked in seeded]
    read = _read_texts([*chain.from_iterable(seeded), *chain.from_iterable(topics)], texts)
    for linked, topic in zip(seeded, topics, strict=True):
        seeds = [position for position in linked if scores[position] >= grouping.seed]
        group = _Group(near, linked, seeds, topic, read)
        group_members, served_members = group.members(), group.served_members()
        seeds = [position for position in seeds if position in group_members]
        others_served = any(near[position].served_voices >= 2 for position in seeds)
        documents = dict.fromkeys([*(passages[position].doc_id for position in group_members), *served_members])
        if len(seeds) < (1 if others_served else 2) or len(documents) < 3:
            continue
        statements = [*(read[position] for position in group_members), *served_members.values()]
        repeated = round(repetition(statements, wording.rarity), 4)
        origins = _independent_origins([passages[position] for position in group_members], len(documents))
        for number, position in enumerate(group_members):
            own = passages[position].doc_id
            others = [*statements[:number], *statements[number + 1 :]][:MAX_COMPARED_TEXTS]
            yield (
                position,
                Agreement(
                    passages[position].ordinal,
                    round(scores[position], 4),
                    len(documents),
                    round(near[position].voices[2][0], 4),
                    tuple([document for document in documents if document != own][:MAX_NAMED_DOCUMENTS]),
                    tuple(islice(served_members, MAX_SERVED_DOCUMENTS)),
                    shared=find_shared_words(read[position], [_stems(text) for text in others]),
                    repeated=repeated,
                    origins=origins,
                ),
            )


def _independent_origins(members: Sequence[Passage], documents: int) -> int:
    """Return the number of origins of a group; 1 where more than half of its documents come from one, or are served.

    Of a served document no origin is known: it may have been planted by the same hand.
    """
    origins = {member.doc_id: member.origin for member in members}
    counts = Counter(origin for origin in origins.values() if origin)
    attributed, largest = sum(counts.values()), max(counts.values(), default=0)
    return len(counts) if 2 * attributed > documents >= 2 * largest else 1


class _Group:
    """Chunks that are linked, and the claim that they share."""

    def __init__(
        self,
        near: Mapping[int, _Surroundings],
        linked: Sequence[int],
        seeds: Sequence[int],
        topic: Sequence[int],
        texts: Mapping[int, str],
    ) -> None:
        self._linked = linked
        words = self._words = {position: _stems(texts[position]) for position in (*linked, *topic)}
        self._voices = {voice for position in seeds for _, voice in near[position].voices[:3] if isinstance(voice, str)}
        served: dict[tuple[str, str], float] = {}
        for position in seeds:
            for document, text, cosine in near[position].served:
                served[document, text] = max(cosine, served.get((document, text), -1.0))
        self._served = sorted(served, key=lambda chunk: -served[chunk])
        self._linked_served = {chunk for chunk, cosine in served.items() if cosine >= LINK_COSINE}
        core = [words[position] for position in seeds] + [_stems(text) for text in sorted(self._voices)]
        others = [words[position] for position in topic]
        others += [_stems(text) for _, text in self._served if text not in self._voices]
        self._claim = _claim(core, others[:MAX_TOPIC_CHUNKS])

    def members(self) -> list[int]:
        """Return the positions of the linked chunks that hold the claim."""
        return [position for position in self._linked if self._holds_claim(self._words[position])]

    def served_members(self) -> dict[str, str]:
        """Return the served documents that hold the claim, the nearest first, each with the text that does."""
        members: dict[str, str] = {}
        for document, text in self._served:
            if (
                (document, text) in self._linked_served
                and (self._claim or text in self._voices)
                and self._holds_claim(_stems(text))
            ):
                members.setdefault(document, text)
        return members

    def _holds_claim(self, words: Set[str]) -> bool:
        return len(self._claim.intersection(words)) >= CLAIM_SHARE * len(self._claim)


def _read_texts(positions: Iterable[int], texts: FetchTexts) -> dict[int, str]:
    distinct = list(dict.fromkeys(positions))
    return dict(zip(distinct, texts(distinct), strict=True))


def _stems(text: str) -> frozenset[str]:
    """Return the stems of all words of a text: also of frequent ones, for "March" may be the claim."""
    return frozenset(stem(word) for word in split_words(text))


def _claim(core: Sequence[Set[str]], others: Sequence[Set[str]]) -> frozenset[str]:
    """Return the words that most of the core hold and few of the others; empty where nothing tells them apart."""
    if len(others) < MIN_TOPIC_CHUNKS:
        return frozenset()
    core_counts, other_counts = (Counter(word for words in texts for word in words) for texts in (core, others))
    return frozenset(
        word
        for word, count in core_counts.items()
        if count >= CLAIM_HELD * len(core) and other_counts[word] <= CLAIM_FOREIGN * len(others)
    )


def _on_topic(passages: Sequence[Passage], vectors: NDArray[np.float32], linked: Sequence[int]) -> list[int]:
    """Return the positions of the new chunks that are no members and lie nearest to one."""
    nearest = np.full(len(vectors), -1.0, np.float32)
    width = max(1, _COSINES_PER_BLOCK // len(vectors))
    for start in range(0, len(linked), width):
        np.maximum(nearest, (vectors[list(linked[start : start + width])] @ vectors.T).max(axis=0), out=nearest)
    nearest[list(linked)] = -1.0
    order = np.argsort(-nearest, kind="stable")
    topic = (int(position) for position in order if passages[position].version_id)
    return list(takewhile(lambda position: nearest[position] >= TOPIC_COSINE, islice(topic, MAX_TOPIC_CHUNKS)))


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
    on_topic = tuple(chunk for chunk in served_near if TOPIC_COSINE <= chunk[2] <= SAME_TEXT_COSINE)
    gap = third - float(np.mean(ranks[5:12]))
    served_voices = sum(isinstance(voice, str) for _, voice in voices[:3])
    return _Surroundings(voices, on_topic, served_voices, prominence, far, gap, _mutual(voices[:3], vectors))


def _mutual(voices: Sequence[tuple[float, str | int]], vectors: NDArray[np.float32]) -> float:
    """Return the mean cosine of a chunk and its voices; served voices have no vector, and count by their own cosine."""
    arriving = [voice for _, voice in voices if isinstance(voice, int)]
    between = [float(vectors[voice] @ vectors[other]) for voice, other in combinations(arriving, 2)]
    return float(np.mean([cosine for cosine, _ in voices] + between))


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
    read: dict[int | str, _Reading] = {}

    def reading(key: int | str) -> _Reading:
        if key not in read:
            read[key] = _Reading.of(key if isinstance(key, str) else fetched[key], wording)
        return read[key]

    rows = []
    for position, candidate in near.items():
        own, voices = reading(position), [reading(voice) for _, voice in candidate.voices[:3]]
        lengths = [each.length for each in (own, *voices)]
        weight = max(1e-6, sum(own.content.values()))
        shared = [sum(weight for word, weight in own.content.items() if word in voice.content) for voice in voices]
        common = sum(
            weight for word, weight in own.content.items() if sum(word in voice.content for voice in voices) >= 2
        )
        copied = [len(own.phrases & voice.phrases) / max(1, len(own.phrases | voice.phrases)) for voice in voices]
        rows.append(
            (
                *(cosine for cosine, _ in candidate.voices[2:4]),
                candidate.prominence,
                candidate.far_prominence,
                candidate.gap,
                candidate.mutual,
                float(
                    np.mean(
                        [
                            part / _union_weight(own.content, voice.content)
                            for part, voice in zip(shared, voices, strict=True)
                        ]
                    )
                ),
                float(np.mean(shared)) / weight,
                common / weight,
                max(0.0, float(np.mean(copied)) - 0.35),
                sum(len(own.opening) == _OPENING_WORDS and own.opening == voice.opening for voice in voices),
                min(6.0, max(3.0, float(np.log(own.length)))),
                float(np.std(lengths) / np.mean(lengths)),
                own.prose,
            )
        )
    return np.array(rows, np.float64).reshape(-1, len(FEATURES))


@dataclass(frozen=True, slots=True)
class _Reading:
    """A text, as far as the features need it."""

    content: Mapping[str, float]
    phrases: Set[int]
    opening: tuple[str, ...]
    length: int  # words, at least 1
    prose: float

    @classmethod
    def of(cls, text: str, wording: Wording) -> _Reading:
        words = split_words(text)
        return cls(
            wording.content(text),
            shingles(text),
            tuple(words[:_OPENING_WORDS]),
            max(1, len(words)),
            max(0.7, prose_share(text)),
        )


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
