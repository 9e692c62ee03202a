"""A text written to be the answer to a question that people ask.

Ingestion has no query; the query bank supplies those that were asked or reported. For each chunk the nearest are compared and the worst
counts. An honest passage answers a question among other things; a planted one is about nothing else: it is nearer to the question than
passages are, repeats what the question is about, and is short. These are FilterRAG's observations (its Freq-Density is high where the
words of the question fill the text), taken without the answer, so that no language model is needed.

An empty bank says nothing. A bank fills with the retrieval log, so it can be fed with questions by whoever may ask; that only
makes more texts be looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

import numpy as np
from pydantic import Field

from corpus_guard.domain import Chunk, Finding, Severity, Span, Version, digest
from corpus_guard.screening import _logistic
from corpus_guard.screening.check import Hits, Params
from corpus_guard.screening.semantic import Asked
from corpus_guard.screening.survey import Survey
from corpus_guard.screening.tags import tags
from corpus_guard.screening.wording import Wording, prose, words

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
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s")
_REACHES: Final = ("poisoning", "rag_poisoning", "retrieval_content")


class TargetingParams(Params):
    """The section ``targeting`` of policy.yaml."""

    score: float = Field(default=0.6, gt=0, le=1)
    """From which a chunk is taken for one that was written for the question."""
    reach: float = Field(default=0.2, gt=0, le=1)
    """Share of the bank's questions near one chunk from which it is a hub: a text made to be retrieved for everything."""


class Targeting:
    """Each chunk against the questions near it."""

    name: ClassVar[str] = "targeting"
    across_documents: ClassVar[bool] = False
    second_stage: ClassVar[bool] = False
    Params: ClassVar[type[TargetingParams]] = TargetingParams

    def __init__(self, params: TargetingParams, wording: Wording) -> None:
        self.params = params
        self._wording = wording
        self._model = _logistic.load(_logistic.FOLDER / "targeting.yaml", VERSION, FEATURES)

    @property
    def digest(self) -> str:
        """Of the parameters, the trained weights and this code's version."""
        return digest("check/v1", [VERSION, self.params.model_dump_json(), self._model.digest])

    def applies_to(self, version: Version) -> bool:
        """Anything with text."""
        return bool(version.chunks)

    def run(self, batch: Sequence[Version], survey: Survey | None) -> Hits:
        """Weigh each pair."""
        if survey is None:
            return
        for position, version in enumerate(batch):
            for finding in self._look(version, survey):
                yield position, finding

    def _look(self, version: Version, survey: Survey) -> Iterator[Finding]:
        asked = survey.semantics.questions.get(version.version_id, ())
        chunks = {chunk.ordinal: chunk for chunk in version.chunks}
        pairs = [(question, chunks[question.ordinal]) for question in asked if question.ordinal in chunks]
        if pairs:
            scores = self._model.score(
                np.array([features(question, chunk.text, self._wording) for question, chunk in pairs])
            )
            worst = int(np.argmax(scores))
            if scores[worst] >= self.params.score:
                yield self._written_for(*pairs[worst], float(scores[worst]))
        reach = survey.semantics.reach.get(version.version_id, 0.0)
        if reach >= self.params.reach:
            yield Finding(
                self.name,
                "targeting.hub",
                Severity.LOW,
                min(1.0, reach),
                f"It lies near {reach:.0%} of all questions that people asked: a text made to be retrieved for everything does.",
                tags=tags(("retrieval_content",)),
            )

    def _written_for(self, question: Asked, chunk: Chunk, score: float) -> Finding:
        return Finding(
            check=self.name,
            code="targeting.question",
            severity=Severity.MEDIUM,
            score=score,
            message=(
                f"It seems written for one question that people ask (similarity {question.similarity:.2f}; the question is in "
                "the query bank): short, nearer to it than passages are, and in its own words. Check the answer it gives"
            ),
            span=Span(chunk.start, chunk.end),
            tags=tags(_REACHES),
        )


def features(asked: Asked, text: str, wording: Wording) -> tuple[float, ...]:
    """`FEATURES` of one question and one chunk."""
    question, content = wording.content(asked.question), wording.content(text)
    first = wording.content(_SENTENCE.split(text.strip(), maxsplit=1)[0])
    cosine, coverage = asked.similarity, _share(question, content)
    return (
        cosine,
        max(0.0, cosine - 0.5),
        max(0.0, cosine - 0.65),
        coverage,
        max(0.0, coverage - 0.6),
        _share(question, first),
        min(6.0, max(3.2, float(np.log(max(1, len(words(text))))))),
        prose(text),
        cosine * coverage,
    )


def _share(question: dict[str, float], content: dict[str, float]) -> float:
    return sum(weight for word, weight in question.items() if word in content) / (sum(question.values()) or 1.0)
