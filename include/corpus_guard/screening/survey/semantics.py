"""A run in the space of embeddings: groups of chunks that agree, the bank's questions each text lies near, and
what other documents state about the same things.

Computed once a run from the vectors of its chunks (`survey_semantics`); the checks only look things up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from corpus_guard.screening.survey.agreement import (
    Agreement,
    FetchTexts,
    GroupingModel,
    NoServedChunks,
    Passage,
    ServedChunks,
    find_groups,
)
from corpus_guard.screening.survey.hub_reach import HubReach
from corpus_guard.screening.survey.related_statements import RelatedStatement
from corpus_guard.screening.wording import load_wording

NEAR_COSINE: Final = 0.45  # of a question and a text that could be its answer; honest answers lie between 0.3 and 0.8
CLOSE_COSINE: Final = 0.55  # of a question and a text that a language model is worth reading it for
QUESTIONS_PER_CHUNK: Final = 3  # questions kept
Known = TypeVar("Known")
_CHUNKS_PER_BLOCK: Final = 1_000  # 1,000 x 5,000 cosines are 20 MB


@dataclass(frozen=True, slots=True)
class NearbyQuestion:
    """A question of the bank, near a chunk."""

    ordinal: int
    question: str
    similarity: float  # cosine
    generated: bool = False  # made from a heading of a trusted document; False: people asked it
    rank: int | None = None  # in the run's order of reading, from 0 (`_rank`); None: not close enough to be read


@dataclass(frozen=True, slots=True)
class Semantics:
    """Agreements, nearby questions, hubness and related statements, by version id."""

    agreements: Mapping[str, tuple[Agreement, ...]] = field(default_factory=lambda: MappingProxyType({}))
    questions: Mapping[str, tuple[NearbyQuestion, ...]] = field(default_factory=lambda: MappingProxyType({}))
    hubness: Mapping[str, HubReach] | None = None
    """Chunk of each version that stands out most. Versions that would be no result of any question are left out;
    None: there was too little to compare with."""
    related: Mapping[str, tuple[RelatedStatement, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """Sentences that agree with one of another document of the same or a higher trust, or contradict it."""
    not_compared: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Chunks that state something and were not compared: the budget of the run was reached."""
    contradicted: Mapping[str, tuple[RelatedStatement, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """By trusted version, its sentences that contradict served ones of lower trust."""

    def of(self, version_ids: Collection[str]) -> Semantics:
        """Return the part about some versions."""
        return Semantics(
            select(self.agreements, version_ids),
            select(self.questions, version_ids),
            None if self.hubness is None else select(self.hubness, version_ids),
            select(self.related, version_ids),
            select(self.not_compared, version_ids),
            select(self.contradicted, version_ids),
        )

    def with_agreements(self, more: Iterable[tuple[str, Agreement]]) -> Semantics:
        """Return the same with further agreements, each with the id of its version."""
        agreements = {version: list(version_agreements) for version, version_agreements in self.agreements.items()}
        for version, agreement in more:
            agreements.setdefault(version, []).append(agreement)
        return replace(
            self, agreements={version: tuple(version_agreements) for version, version_agreements in agreements.items()}
        )

    def to_record(self) -> dict[str, object]:
        """Return a JSON-ready form."""
        return {
            "agreements": {
                version: [agreement.to_record() for agreement in agreements]
                for version, agreements in self.agreements.items()
            },
            "questions": {
                version: [(q.ordinal, q.question, q.similarity, q.generated, q.rank) for q in questions]
                for version, questions in self.questions.items()
            },
            "hubness": None
            if self.hubness is None
            else {version: (reach.share, reach.usual, reach.ordinal) for version, reach in self.hubness.items()},
            "related": _statement_records(self.related),
            "not_compared": dict(self.not_compared),
            "contradicted": _statement_records(self.contradicted),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Semantics:
        """Read the output of `to_record`.

        A wrong shape raises KeyError, TypeError, ValueError or AttributeError.
        """
        return cls(
            {
                version: tuple(map(Agreement.from_record, agreements))
                for version, agreements in record["agreements"].items()
            },
            {
                version: tuple(NearbyQuestion(*question) for question in questions)
                for version, questions in record["questions"].items()
            },
            None
            if record["hubness"] is None
            else {version: HubReach(*reach) for version, reach in record["hubness"].items()},
            _statements(record["related"]),
            dict(record["not_compared"]),
            _statements(record["contradicted"]),
        )


def select(by_version: Mapping[str, Known], version_ids: Collection[str]) -> dict[str, Known]:
    """Return what is known of some versions, in their order."""
    return {version_id: by_version[version_id] for version_id in version_ids if version_id in by_version}


def _statement_records(statements: Mapping[str, Sequence[RelatedStatement]]) -> dict[str, list[list[object]]]:
    return {version: [statement.to_record() for statement in related] for version, related in statements.items()}


def _statements(records: Mapping[str, list[list[Any]]]) -> dict[str, tuple[RelatedStatement, ...]]:
    return {version: tuple(map(RelatedStatement.from_record, related)) for version, related in records.items()}


class QuestionBank(Protocol):
    """Questions with their vectors, as in `corpus_guard.corpus.query_bank.QueryBank`."""

    @property
    def questions(self) -> Sequence[str]:
        """Return the texts."""

    @property
    def vectors(self) -> NDArray[np.float32]:
        """Return unit vectors of shape (questions, dimensions)."""

    @property
    def asked_count(self) -> int:
        """Return how many of them, the first, people asked; the others were made from headings."""


def survey_semantics(
    passages: Sequence[Passage],
    vectors: NDArray[np.float32],
    texts: FetchTexts,
    *,
    vocabulary: Path,
    grouping: GroupingModel | None,
    bank: QuestionBank | None = None,
    served: ServedChunks | None = None,
) -> Semantics:
    """Compare all new chunks of a run with each other and with the question bank.

    Args:
        passages: every new chunk.
        vectors: their unit vectors, shape (passages, dimensions).
        texts: fetches texts; called for the few that could belong to a group.
        vocabulary: ``tokenizer.json`` of a frequency-ordered vocabulary, to read them by.
        grouping: decides which chunks form a group; None when documents are screened one by one.
        bank: questions that people ask, or would ask.
    """
    agreements: dict[str, list[Agreement]] = {}
    if grouping is not None:
        wording = load_wording(vocabulary)
        for position, agreement in find_groups(passages, vectors, texts, wording, grouping, served or NoServedChunks()):
            agreements.setdefault(passages[position].version_id, []).append(agreement)
    return Semantics(
        {version: tuple(group) for version, group in agreements.items()}, _nearby_questions(passages, vectors, bank)
    )


def _nearby_questions(
    passages: Sequence[Passage], vectors: NDArray[np.float32], bank: QuestionBank | None
) -> dict[str, tuple[NearbyQuestion, ...]]:
    if bank is None or not len(bank.questions):
        return {}
    questions: dict[str, list[NearbyQuestion]] = {}
    for start in range(0, len(passages), _CHUNKS_PER_BLOCK):
        cosines = vectors[start : start + _CHUNKS_PER_BLOCK] @ bank.vectors.T
        near = cosines >= NEAR_COSINE
        for row in np.flatnonzero(near.any(axis=1)).tolist():
            passage = passages[start + row]
            if not passage.version_id:
                continue
            asked_cosines, generated_cosines = cosines[row, : bank.asked_count], cosines[row, bank.asked_count :]
            nearest = _nearest(asked_cosines, QUESTIONS_PER_CHUNK)
            if passage.open:
                free = QUESTIONS_PER_CHUNK - len(nearest)
                nearest += [bank.asked_count + position for position in _nearest(generated_cosines, free)]
            if nearest:
                questions.setdefault(passage.version_id, []).extend(
                    NearbyQuestion(
                        passage.ordinal,
                        bank.questions[question],
                        round(float(cosines[row, question]), 4),
                        generated=question >= bank.asked_count,
                    )
                    for question in nearest
                )
    return _rank(questions)


def _nearest(cosines: NDArray[np.float32], count: int) -> list[int]:
    """Return the positions of the largest cosines that are near, the largest first."""
    order = np.argsort(-cosines, kind="stable")[:count].tolist()
    return [position for position in order if cosines[position] >= NEAR_COSINE]


def _rank(questions: Mapping[str, Sequence[NearbyQuestion]]) -> dict[str, tuple[NearbyQuestion, ...]]:
    """Return the questions with the ranks of close ones: asked before generated, then the nearest first."""
    pairs = [
        (question.generated, -question.similarity, version, place)
        for version, nearby in questions.items()
        for place, question in enumerate(nearby)
        if question.similarity >= CLOSE_COSINE
    ]
    ranks = {(version, place): rank for rank, (_, _, version, place) in enumerate(sorted(pairs))}
    return {
        version: tuple(replace(question, rank=ranks.get((version, place))) for place, question in enumerate(nearby))
        for version, nearby in questions.items()
    }
