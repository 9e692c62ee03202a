"""A run in the space of embeddings: groups of chunks that agree, the bank's questions each text lies near, and
what other documents state about the same things.

Computed once a run from the vectors of its chunks (`survey_semantics`); the checks only look things up.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Protocol

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
from corpus_guard.screening.survey.related_statements import RelatedStatement
from corpus_guard.screening.wording import load_wording

NEAR_COSINE: Final = 0.45  # of a question and a text that could be its answer; honest answers lie between 0.3 and 0.8
QUESTIONS_PER_CHUNK: Final = 3  # questions kept
MIN_BANK_QUESTIONS: Final = 20  # from which the share near a chunk means anything: of three questions, one is a third
_CHUNKS_PER_BLOCK: Final = 1_000  # 1,000 x 5,000 cosines are 20 MB


@dataclass(frozen=True, slots=True)
class NearbyQuestion:
    """A question that people asked, near a chunk."""

    ordinal: int
    question: str
    similarity: float  # cosine


@dataclass(frozen=True, slots=True)
class Semantics:
    """Agreements, nearby questions, reach and related statements, by version id."""

    agreements: Mapping[str, tuple[Agreement, ...]] = field(default_factory=lambda: MappingProxyType({}))
    questions: Mapping[str, tuple[NearbyQuestion, ...]] = field(default_factory=lambda: MappingProxyType({}))
    reach: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """The largest share of the bank's questions, 0..1, that any chunk lies near. Versions near none are left
    out, and all versions where the bank holds fewer than `MIN_BANK_QUESTIONS`."""
    related: Mapping[str, tuple[RelatedStatement, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """Sentences that agree with one of another document of the same or a higher trust, or contradict it."""
    not_compared: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Chunks that state something and were not compared: the budget of the run was reached."""

    def of(self, version_ids: Collection[str]) -> Semantics:
        """Return the part about some versions."""
        chosen = set(version_ids)
        return Semantics(
            {key: value for key, value in self.agreements.items() if key in chosen},
            {key: value for key, value in self.questions.items() if key in chosen},
            {key: value for key, value in self.reach.items() if key in chosen},
            {key: value for key, value in self.related.items() if key in chosen},
            {key: value for key, value in self.not_compared.items() if key in chosen},
        )

    def to_record(self) -> dict[str, object]:
        """Return a JSON-ready form."""
        return {
            "agreements": {
                version: [(a.ordinal, a.score, a.documents, a.similarity, a.others, a.served) for a in agreements]
                for version, agreements in self.agreements.items()
            },
            "questions": {
                version: [(q.ordinal, q.question, q.similarity) for q in questions]
                for version, questions in self.questions.items()
            },
            "reach": dict(self.reach),
            "related": {
                version: [statement.to_record() for statement in related] for version, related in self.related.items()
            },
            "not_compared": dict(self.not_compared),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Semantics:
        """Read the output of `to_record`.

        A wrong shape raises KeyError, TypeError, ValueError or AttributeError.
        """
        return cls(
            {
                version: tuple(
                    Agreement(ordinal, score, documents, similarity, tuple(others), tuple(served))
                    for ordinal, score, documents, similarity, others, served in agreements
                )
                for version, agreements in record["agreements"].items()
            },
            {
                version: tuple(NearbyQuestion(*question) for question in questions)
                for version, questions in record["questions"].items()
            },
            dict(record["reach"]),
            {
                version: tuple(RelatedStatement.from_record(statement) for statement in related)
                for version, related in record["related"].items()
            },
            dict(record["not_compared"]),
        )


class QuestionBank(Protocol):
    """Questions with their vectors, as in `corpus_guard.corpus.query_bank.QueryBank`."""

    @property
    def questions(self) -> Sequence[str]:
        """Return the texts."""

    @property
    def vectors(self) -> NDArray[np.float32]:
        """Return unit vectors of shape (questions, dimensions)."""


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
        bank: questions that people asked.
        served: chunks that the collections hold already.
    """
    agreements: dict[str, list[Agreement]] = {}
    if grouping is not None:
        wording = load_wording(vocabulary)
        for position, agreement in find_groups(passages, vectors, texts, wording, grouping, served or NoServedChunks()):
            agreements.setdefault(passages[position].version_id, []).append(agreement)
    questions, reach = _nearby_questions(passages, vectors, bank)
    return Semantics({version: tuple(group) for version, group in agreements.items()}, questions, reach)


def _nearby_questions(
    passages: Sequence[Passage], vectors: NDArray[np.float32], bank: QuestionBank | None
) -> tuple[dict[str, tuple[NearbyQuestion, ...]], dict[str, float]]:
    if bank is None or not len(bank.questions):
        return {}, {}
    questions: dict[str, list[NearbyQuestion]] = {}
    reach: dict[str, float] = {}
    for start in range(0, len(passages), _CHUNKS_PER_BLOCK):
        cosines = vectors[start : start + _CHUNKS_PER_BLOCK] @ bank.vectors.T
        shares = (cosines >= NEAR_COSINE).mean(axis=1)
        for row in np.flatnonzero(shares).tolist():
            passage = passages[start + row]
            if not passage.version_id:
                continue
            if len(bank.questions) >= MIN_BANK_QUESTIONS:
                reach[passage.version_id] = max(reach.get(passage.version_id, 0.0), round(float(shares[row]), 4))
            nearest = np.argsort(-cosines[row], kind="stable")[:QUESTIONS_PER_CHUNK]
            questions.setdefault(passage.version_id, []).extend(
                NearbyQuestion(passage.ordinal, bank.questions[question], round(float(cosines[row, question]), 4))
                for question in nearest.tolist()
                if cosines[row, question] >= NEAR_COSINE
            )
    return {version: tuple(nearby) for version, nearby in questions.items()}, reach
