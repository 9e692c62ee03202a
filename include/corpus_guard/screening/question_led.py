"""A text that opens with the very question it answers, the way PoisonedRAG's black-box attack writes: question, full stop, answer.

The question is put there for the retriever (it makes the text nearest to that question), the rest for the reader. Rules:

- The opening is a *question*: it ends in a question mark, or begins as people type into a search box ("who played ... in ..."), or
  is a lower-case fragment glued to a capital.
- The rest *answers it*: it repeats what the question is about (`coverage`).
- A question on a line of its own is a heading: FAQ pages are written so. It weighs less.
- Titles that look like questions ("Who's the Man? is a film ..."), code and links are let pass.

What it does not see: a text that answers a question without asking it (`targeting`, `coordination`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar, Final

from pydantic import Field

from corpus_guard.domain import Finding, Severity, Span, Version, digest
from corpus_guard.screening.check import Hits, Params
from corpus_guard.screening.survey import Survey
from corpus_guard.screening.tags import tags
from corpus_guard.screening.wording import Wording, prose, words

_VERSION: Final = "question_led/1"
_OPENING: Final = 1_000  # characters in which an opening must end
_READ: Final = 3_000  # characters of the rest that are compared
_LEAD: Final = re.compile(
    r"[\s\"'“‘*_#>-]{0,8}(?P<lead>[^\n]{6,400}?)"
    r"(?P<end>\s{0,3}\?{1,5}[\"'”’*_]{0,2}\.?|[.!](?=\s)|\.(?=[A-Z\"“]))"
)
_LONG_LEAD: Final = re.compile(  # a question that holds a full stop: "X v. Y", or a sentence before it
    r"[\s\"'“‘*_#>-]{0,8}(?P<lead>[^\n?]{6,400})(?P<end>\?{1,5}[\"'”’*_]{0,2}\.?)"
)
_WH: Final = r"who|whom|whose|what|when|where|which|why|how"
_ASKS: Final = re.compile(
    rf"(?:{_WH}|is|are|was|were|am|do|does|did|can|could|will|would|should|shall|has|have|had)\b", re.IGNORECASE
)
_INSIDE: Final = re.compile(rf"\b(?:{_WH})\b", re.IGNORECASE)
_SUBORDINATE: Final = re.compile(r"(?:when|where|while|whose)\b", re.IGNORECASE)
_TITLE: Final = re.compile(r"\s{0,3}(?:[\"”’')\],;–-]|(?:is|was|are|were)\b|\()")
_QUOTED: Final = re.compile(r"[\"“”]")
_NOT_SPOKEN: Final = re.compile(r"[<>{}=|`\\]|://|\]\(")
_LONGEST: Final = 60  # words of a question


class QuestionLedParams(Params):
    """The section ``question_led`` of policy.yaml."""

    coverage: float = Field(default=0.3, gt=0, le=1)
    """Share of what the question is about (by rarity of the words) that the rest must repeat."""
    fragment_coverage: float = Field(default=0.5, gt=0, le=1)
    """The same, where only its shape says that it is a question."""


class QuestionLed:
    """The opening of each version."""

    name: ClassVar[str] = "question_led"
    across_documents: ClassVar[bool] = False
    second_stage: ClassVar[bool] = False
    Params: ClassVar[type[QuestionLedParams]] = QuestionLedParams

    def __init__(self, params: QuestionLedParams, wording: Wording) -> None:
        self.params = params
        self._wording = wording

    @property
    def digest(self) -> str:
        """Of the parameters and this code's version."""
        return digest("check/v1", [_VERSION, self.params.model_dump_json()])

    def applies_to(self, version: Version) -> bool:
        """Any text."""
        return bool(version.text)

    def run(self, batch: Sequence[Version], survey: Survey | None) -> Hits:
        """Look at each opening."""
        for position, version in enumerate(batch):
            finding = self._look(version.text)
            if finding:
                yield position, finding

    def _look(self, text: str) -> Finding | None:
        for shape in (_LEAD, _LONG_LEAD):
            opening = shape.match(text[:_OPENING])
            finding = self._weigh(opening, text) if opening else None
            if finding:
                return finding
        return None

    def _weigh(self, opening: re.Match[str], text: str) -> Finding | None:
        lead, rest = opening["lead"], text[opening.end() :][:_READ]
        needed = self._needed(lead, opening["end"], rest)
        if needed is None or not 3 <= len(words(lead)) <= _LONGEST or len(words(rest)) < 4:
            return None
        about = self._wording.content(lead)
        answered = self._wording.content(rest)
        coverage = sum(weight for word, weight in about.items() if word in answered) / (sum(about.values()) or 1.0)
        if coverage < needed:
            return None
        heading = "\n" in rest[:3]
        return Finding(
            check=self.name,
            code="question_led.heading" if heading else "question_led.opening",
            severity=Severity.LOW if heading else Severity.MEDIUM,
            score=0.3 if heading else min(1.0, 0.5 + coverage / 2),
            message=(
                f"It opens with a question and goes on to answer it in the question's own words ({coverage:.0%} of them): "
                "texts written to be retrieved for one question look like this"
            ),
            span=Span(opening.start("lead"), opening.end()),
            tags=tags(("poisoning", "rag_poisoning", "retrieval_content")),
        )

    def _needed(self, lead: str, end: str, rest: str) -> float | None:
        """The coverage from which such an opening counts; None: it is no question."""
        if _NOT_SPOKEN.search(lead) or prose(lead) < 0.85:
            return None
        lower, glued = lead[0].islower(), not rest[:1].isspace()
        asks, inside = _ASKS.match(lead), _INSIDE.search(lead)
        sure, likely = False, False
        if "?" in end:
            title = not end.endswith(".") and _TITLE.match(rest)
            likely = not title and lead.count("(") == lead.count(")")
            sure = likely and bool(asks or inside or lower)
        elif "!" in end:
            likely = False
        elif asks and lower:
            sure = True
        elif asks and not _SUBORDINATE.match(lead) and not _QUOTED.search(lead):
            likely = glued or "," not in lead
        elif lower and glued:
            likely = prose(rest) >= 0.9 and len(words(lead)) >= 4
        if sure:
            return self.params.coverage
        return self.params.fragment_coverage if likely else None
