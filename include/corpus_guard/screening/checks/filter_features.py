"""Texts that ML-FilterRAG would drop if one of the bank's questions were asked.

The filter of the guarded retriever, at ingestion: for a chunk near a question of the query bank, a small
language model answers the question from the chunk alone, and the classifier in use judges the paper's four
features (`corpus_guard.corpus.filterrag`).

Rules
    * only chunks of open sources are read: who may write elsewhere need not wait to be retrieved;
    * a run reads at most `max_pairs` pairs of question and chunk: questions that people asked before those
      made from headings, and the nearest first. A version with a pair that is left over has a finding of its
      own, *unread*: not checked is not clean;
    * a version that cheaper checks hold back already is not read.

What it misses is what ML-FilterRAG misses, and every text that is near no question of the bank. Its false
alarms are short honest answers: the policy that comes with the guard only records its findings
(``shadow``). Reading a pair takes a third of a second on one core.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

from pydantic import Field

from corpus_guard.corpus.filterrag.features import FeatureExtractor
from corpus_guard.corpus.filterrag.filters import SHIPPED_CLASSIFIER, ClassifierInUse, MLFilterRAG
from corpus_guard.domain import Chunk, Finding, Severity, TrustLevel, Version
from corpus_guard.models import Models
from corpus_guard.screening.check import ConfiguredCheck, Hits, Params
from corpus_guard.screening.survey.semantics import CLOSE_COSINE, NearbyQuestion
from corpus_guard.screening.survey.survey import Survey

VERSION: Final = "filter_features/1"


class FilterFeaturesParams(Params):
    """The section ``filter_features`` of policy.yaml."""

    max_pairs: int = Field(default=100, ge=0)
    """Pairs that a run reads, a third of a second each."""


class FilterFeatures(ConfiguredCheck[FilterFeaturesParams]):
    """ML-FilterRAG over the chunks near a question of the bank."""

    name = "filter_features"
    second_stage = True
    params_class = FilterFeaturesParams
    code_version = (VERSION,)

    def __init__(
        self, params: FilterFeaturesParams, models: Models, classifier: ClassifierInUse = SHIPPED_CLASSIFIER
    ) -> None:
        """Keep the parameters; loads nothing."""
        super().__init__(params)
        self._models = models
        self._extractor = FeatureExtractor(models)
        self._classifier = classifier
        self._filter: MLFilterRAG | None = None

    def resources(self) -> Sequence[str]:
        """Return the digests of the features, with their models, and of the classifier."""
        return (self._extractor.version, self._classifier.digest)

    def applies_to(self, version: Version) -> bool:
        """Return True for every version of an open source with chunks."""
        return bool(version.chunks) and version.stamp.trust is TrustLevel.OPEN

    def evidence(self, version: Version, survey: Survey | None) -> Sequence[str]:
        """Return the questions of the version, and which of them are read."""
        return [
            f"{chunk.ordinal} {question.question} {self._is_read(question)}"
            for question, chunk in self._pairs(version, survey)
        ]

    def wants(self, version: Version, findings: Iterable[Finding], survey: Survey | None) -> str | None:
        """Return None for a version near a question, otherwise the reason to pass it over."""
        if self._pairs(version, survey):
            return None
        return f"no question of the bank lies as near as {CLOSE_COSINE}"

    def run(self, batch: Sequence[Version], survey: Survey | None) -> Hits:
        """Read the pairs of all versions; of each version the worst one counts."""
        to_read: list[tuple[int, NearbyQuestion, Chunk]] = []
        for position, version in enumerate(batch):
            pairs = self._pairs(version, survey)
            read = [(position, question, chunk) for question, chunk in pairs if self._is_read(question)]
            to_read += read
            if unread := len(pairs) - len(read):
                yield position, self._unread(unread, len(pairs))
        if not to_read:
            return
        opinions = self._opened().judge_pairs([(question.question, chunk.text) for _, question, chunk in to_read])
        worst: dict[int, tuple[float, Chunk]] = {}
        for (position, _, chunk), opinion in zip(to_read, opinions, strict=True):
            score = 1.0 if math.isnan(opinion.score) else opinion.score
            if opinion.poisoned and score > worst.get(position, (-1.0, chunk))[0]:
                worst[position] = score, chunk
        for position, (score, chunk) in worst.items():
            yield position, self._poisoned(chunk, score)

    def _pairs(self, version: Version, survey: Survey | None) -> list[tuple[NearbyQuestion, Chunk]]:
        """Return the questions near the version, each with its chunk."""
        if survey is None:
            return []
        chunks = {chunk.ordinal: chunk for chunk in version.chunks}
        return [
            (question, chunks[question.ordinal])
            for question in survey.semantics.questions.get(version.version_id, ())
            if question.rank is not None and question.ordinal in chunks
        ]

    def _is_read(self, question: NearbyQuestion) -> bool:
        return question.rank is not None and question.rank < self.params.max_pairs

    def _opened(self) -> MLFilterRAG:
        if self._filter is None:
            self._filter = MLFilterRAG(self._extractor, self._classifier.load())
        return self._filter

    def _poisoned(self, chunk: Chunk, score: float) -> Finding:
        return self.finding(
            "poisoned",
            Severity.MEDIUM,
            score,
            f"ML-FilterRAG would drop it for a question of the query bank (probability {score:.2f}): it repeats the words "
            "of the question and of the answer that a language model takes from it. Check the answer it gives",
            span=chunk.span,
            tags=("poisoning", "rag_poisoning", "retrieval_content"),
        )

    def _unread(self, unread: int, pairs: int) -> Finding:
        return self.finding(
            "unread",
            Severity.MEDIUM,
            0.5,
            f"{unread} of the {pairs} questions near it were not put to the language model: the run had read "
            f"{self.params.max_pairs} pairs already. Not checked is not clean",
            tags=("poisoning",),
        )
