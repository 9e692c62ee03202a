"""What a run looks like in the space of embeddings: who agrees with whom, and which questions a text would be retrieved for.

Computed once a run from the vectors of its chunks (`corpus_guard.screening._agreement`, `read`); the checks only look things up.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from corpus_guard.screening._agreement import Grouping

NEAR: Final = 0.45  # cosine of a question and a text that could be its answer; honest answers lie between 0.3 and 0.8
ASKED: Final = 3  # questions kept for a chunk
MANY: Final = 20  # questions from which the share near a chunk says anything: of three, one is a third
NAMED: Final = 12  # other documents of a group that are named


@dataclass(frozen=True, slots=True)
class Agreement:
    """A chunk that says what several other low-trust documents say, apart from everything around it."""

    ordinal: int  # which chunk of the version
    score: float  # 0..1
    documents: int  # in the group, this one included
    similarity: float  # cosine to the third nearest of them
    others: tuple[str, ...]  # document ids, at most NAMED


@dataclass(frozen=True, slots=True)
class Asked:
    """A question that people asked, near a chunk."""

    ordinal: int
    question: str
    similarity: float  # cosine


@dataclass(frozen=True, slots=True)
class Semantics:
    """By version id."""

    agreements: Mapping[str, tuple[Agreement, ...]] = field(default_factory=lambda: MappingProxyType({}))
    questions: Mapping[str, tuple[Asked, ...]] = field(default_factory=lambda: MappingProxyType({}))
    reach: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """The largest share of the bank's questions, 0..1, that any chunk lies near to; versions near none are left out, and all
    where the bank holds fewer than `MANY`."""

    def of(self, version_ids: Collection[str]) -> Semantics:
        """The same for some versions only."""
        wanted = set(version_ids)
        return Semantics(
            {key: value for key, value in self.agreements.items() if key in wanted},
            {key: value for key, value in self.questions.items() if key in wanted},
            {key: value for key, value in self.reach.items() if key in wanted},
        )

    def record(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "agreements": {
                version: [(a.ordinal, a.score, a.documents, a.similarity, a.others) for a in found]
                for version, found in self.agreements.items()
            },
            "questions": {
                version: [(q.ordinal, q.question, q.similarity) for q in found]
                for version, found in self.questions.items()
            },
            "reach": dict(self.reach),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Semantics:
        """The inverse of `record`; raises what a wrong shape raises."""
        return cls(
            {
                version: tuple(Agreement(o, s, d, similarity, tuple(others)) for o, s, d, similarity, others in found)
                for version, found in record["agreements"].items()
            },
            {version: tuple(Asked(*asked) for asked in found) for version, found in record["questions"].items()},
            dict(record["reach"]),
        )


@dataclass(frozen=True, slots=True)
class Passage:
    """A new chunk, as far as the others need to know it; its vector lies beside it."""

    version_id: str  # "" for one that is served already and only part of the background
    doc_id: str
    ordinal: int
    open: bool  # from a source anybody can write to


class Texts(Protocol):
    """Fetches the texts of a few passages by their positions."""

    def __call__(self, positions: Sequence[int]) -> list[str]:
        """In the order of `positions`."""


class Bank(Protocol):
    """`corpus_guard.corpus.query_bank.QueryBank`."""

    @property
    def questions(self) -> Sequence[str]:
        """Texts."""

    @property
    def vectors(self) -> NDArray[np.float32]:
        """Shape (questions, dimensions)."""


class Served(Protocol):
    """What the collections of low trust hold already."""

    def near(self, vectors: NDArray[np.float32]) -> Sequence[Sequence[tuple[str, str, float]]]:
        """For each vector (document id, text, cosine) of its nearest chunks, nearest first."""


class NothingServed:
    """No collection: ``guard screen`` on a folder."""

    def near(self, vectors: NDArray[np.float32]) -> Sequence[Sequence[tuple[str, str, float]]]:
        """Nothing."""
        return [()] * len(vectors)


def read(
    passages: Sequence[Passage],
    vectors: NDArray[np.float32],
    texts: Texts,
    *,
    vocabulary: Path,
    grouping: Grouping | None,
    bank: Bank | None = None,
    served: Served | None = None,
) -> Semantics:
    """Look at all new chunks of a run.

    Args:
        passages: every new chunk.
        vectors: their unit vectors, shape (passages, dimensions).
        texts: fetches texts; asked for the few that could belong to a group.
        vocabulary: ``tokenizer.json`` of a frequency-ordered vocabulary, to read them by.
        grouping: how groups are told; None when documents are screened one by one.
        bank: questions that people asked.
        served: what is in the collections already.
    """
    from corpus_guard.screening import _agreement
    from corpus_guard.screening.wording import wording_of

    agreements: dict[str, list[Agreement]] = {}
    if grouping is not None:
        for position, found in _agreement.groups(
            passages, vectors, texts, wording_of(vocabulary), grouping, served or NothingServed()
        ):
            agreements.setdefault(passages[position].version_id, []).append(found)
    questions, reach = _questions(passages, vectors, bank)
    return Semantics({version: tuple(found) for version, found in agreements.items()}, questions, reach)


def _questions(
    passages: Sequence[Passage], vectors: NDArray[np.float32], bank: Bank | None
) -> tuple[dict[str, tuple[Asked, ...]], dict[str, float]]:
    import numpy as np

    if bank is None or not len(bank.questions):
        return {}, {}
    asked: dict[str, list[Asked]] = {}
    reach: dict[str, float] = {}
    for start in range(0, len(passages), 1_000):  # 1,000 x 5,000 cosines are 20 MB
        cosines = vectors[start : start + 1_000] @ bank.vectors.T
        shares = (cosines >= NEAR).mean(axis=1)
        for row in np.flatnonzero(shares).tolist():
            passage = passages[start + row]
            if not passage.version_id:
                continue
            if len(bank.questions) >= MANY:
                reach[passage.version_id] = max(reach.get(passage.version_id, 0.0), round(float(shares[row]), 4))
            best = np.argsort(-cosines[row], kind="stable")[:ASKED]
            asked.setdefault(passage.version_id, []).extend(
                Asked(passage.ordinal, bank.questions[question], round(float(cosines[row, question]), 4))
                for question in best.tolist()
                if cosines[row, question] >= NEAR
            )
    return {version: tuple(found) for version, found in asked.items()}, reach
