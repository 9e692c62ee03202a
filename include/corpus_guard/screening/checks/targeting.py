"""Texts written to be the answer to one question that people ask.

Ingestion has no query; the query bank supplies the questions that were asked or reported. For each chunk the
nearest are compared and the worst counts. An honest passage answers a question among other things; a planted
one is about nothing else: it is nearer to the question than passages are, repeats what the question is about,
and is short. These are FilterRAG's observations (its Freq-Density is high where the words of the question
fill the text), used without the answer, so that no language model is needed.

With an empty bank there are no findings. The bank fills from the retrieval log, so anybody who may ask can
feed it with questions; that only makes the check look at more texts. A question made from a heading of a
trusted document is a weaker sign: honest pages of others are about its subject, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from pydantic import Field

from corpus_guard.domain import Chunk, Finding, Severity, Version
from corpus_guard.screening import learned_scores
from corpus_guard.screening.check import Params, SurveyCheck
from corpus_guard.screening.survey.semantics import NearbyQuestion
from corpus_guard.screening.survey.survey import Survey
from corpus_guard.screening.wording import SENTENCE_END, Wording, prose_share, share_of_weight, split_words

VERSION: Final = "targeting/1"
FEATURES: Final = (
    "cosine",  # of question and chunk
    "cosine_beyond_half",
    "cosine_beyond_65",
    "coverage",  # share of what the question is about that the chunk repeats, by rarity of the words
    "coverage_beyond_60",
    "first_sentence",  # the same of the chunk's first sentence
    "length",  # log of the number of words, 3.2 to 6
    "prose",  # share of letters and spaces
    "both",  # cosine x coverage
)


class TargetingParams(Params):
    """The section ``targeting`` of policy.yaml."""

    score: float = Field(default=0.9, gt=0, le=1)
    """Score from which a chunk counts as written for the question."""


class Targeting(SurveyCheck[TargetingParams]):
    """Chunks compared with the questions near them."""

    name = "targeting"
    params_class = TargetingParams
    code_version = (VERSION, "headings/2")

    def __init__(self, params: TargetingParams, wording: Wording) -> None:
        super().__init__(params)
        self._wording = wording
        self._model = learned_scores.load_score(
            learned_scores.Logistic, learned_scores.PARAMETERS_FOLDER / "targeting.yaml", VERSION, FEATURES
        )

    def resources(self) -> Sequence[str]:
        """Return the digest of the trained weights."""
        return (self._model.digest,)

    def applies_to(self, version: Version) -> bool:
        """Return True for every version with chunks."""
        return bool(version.chunks)

    def judge(self, version: Version, survey: Survey) -> Iterator[Finding]:
        """Score each pair of question and chunk."""
        questions = survey.semantics.questions.get(version.version_id, ())
        for generated in (False, True):
            worst = self._worst([question for question in questions if question.generated is generated], version)
            if worst and worst[0] >= self.params.score:
                score, question, chunk = worst
                yield self._repeats(question, chunk, score) if generated else self._written_for(question, chunk, score)
                break

    def _worst(
        self, questions: Sequence[NearbyQuestion], version: Version
    ) -> tuple[float, NearbyQuestion, Chunk] | None:
        """Return the highest score of a question and its chunk, with both."""
        chunks = {chunk.ordinal: chunk for chunk in version.chunks}
        pairs = [(question, chunks[question.ordinal]) for question in questions if question.ordinal in chunks]
        if not pairs:
            return None
        scores = self._model.score(
            np.array([targeting_features(question, chunk.text, self._wording) for question, chunk in pairs])
        )
        worst = int(np.argmax(scores))
        return float(scores[worst]), *pairs[worst]

    def _repeats(self, question: NearbyQuestion, chunk: Chunk, score: float) -> Finding:
        return self.finding(
            "heading",
            Severity.LOW,
            score,
            "It seems written for the subject of a heading in a trusted document (similarity "
            f"{question.similarity:.2f}): short, and about nothing else. Compare it with that document",
            span=chunk.span,
            tags=("poisoning", "rag_poisoning", "retrieval_content"),
        )

    def _written_for(self, question: NearbyQuestion, chunk: Chunk, score: float) -> Finding:
        return self.finding(
            "question",
            Severity.MEDIUM,
            score,
            f"It seems written for one question that people ask (similarity {question.similarity:.2f}; the question is in "
            "the query bank): short, nearer to it than passages are, and in its own words. Check the answer it gives",
            span=chunk.span,
            tags=("poisoning", "rag_poisoning", "retrieval_content"),
        )


def targeting_features(nearby: NearbyQuestion, text: str, wording: Wording) -> tuple[float, ...]:
    """Return `FEATURES` of one question and one chunk."""
    question, content = wording.content(nearby.question), wording.content(text)
    first = wording.content(SENTENCE_END.split(text.strip(), maxsplit=1)[0])
    cosine, coverage = nearby.similarity, share_of_weight(question, content)
    return (
        cosine,
        max(0.0, cosine - 0.5),
        max(0.0, cosine - 0.65),
        coverage,
        max(0.0, coverage - 0.6),
        share_of_weight(question, first),
        min(6.0, max(3.2, float(np.log(max(1, len(split_words(text))))))),
        prose_share(text),
        cosine * coverage,
    )
