"""Texts that begin with the question they answer. PoisonedRAG's black-box attack pastes the question and a full stop in front
of a text.

The question is put there for the retriever (it makes the text nearest to that question), the rest for the
reader. FAQ pages, catalogues and forums open with questions too: a well-written one is no offence.

Rules
- The opening is a *question*: it ends in a question mark, or begins as people type into a search box ("who
  played ... in ..."), or is a lower-case fragment glued to a capital.
- The rest *answers it*: it repeats what the question is about (`coverage`).
- Medium (`typed`): the question stands there as it was typed into a search box, or with a full stop after
  its question mark. Programs that paste a question in front of an answer write so, authors hardly ever do.
- Low (`opening`): a well-written question. Low (`heading`): one on a line of its own. Such a text waits for what
  surrounds it: a group that agrees (`coordination`), a question that people ask (`targeting`), a more trusted
  text that it contradicts (`conflict`).
- Titles that look like questions ("Who's the Man? is a film ..."), code and links pass.

What it does not see: a text that answers a question without asking it. What it sees and lets pass: a planted
answer behind a well-written question, alone, on which nothing else is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from pydantic import Field

from corpus_guard.domain import Finding, Severity, Span, Version
from corpus_guard.screening.check import Params, TextCheck
from corpus_guard.screening.wording import Wording, prose_share, share_of_weight, split_words

_MAX_OPENING_CHARS: Final = 1_000  # in which an opening must end
_MAX_REST_CHARS: Final = 3_000  # of the rest, that are compared
_MAX_QUESTION_WORDS: Final = 60
_PREDICATE: Final = re.compile(
    r"(?:is|was|are|were) (?:\w{3,}ed|born|built|made|held|known|set|given|taken|written|chosen) "
    r"(?:in|on|at|by|to|as|from|with|for|after|before|during|of)\b"
)
"""The rest of a sentence whose first word, a logo perhaps, parsing lost: "was founded in 1990 to protect …"."""
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


class _Opening(StrEnum):
    """Way in which a text opens with a question; the code of its finding."""

    TYPED = "typed"
    WRITTEN = "opening"
    HEADING = "heading"


class QuestionLedParams(Params):
    """The section ``question_led`` of policy.yaml."""

    coverage: float = Field(default=0.3, gt=0, le=1)
    """Share of what the question is about (by rarity of the words) that the rest must repeat."""
    fragment_coverage: float = Field(default=0.5, gt=0, le=1)
    """The same for an opening that only its shape marks as a question."""


class QuestionLed(TextCheck[QuestionLedParams]):
    """Openings that are answered by the rest of their text."""

    name = "question_led"
    params_class = QuestionLedParams
    code_version = ("question_led/3",)

    def __init__(self, params: QuestionLedParams, wording: Wording) -> None:
        super().__init__(params)
        self._wording = wording

    def judge(self, version: Version) -> Iterator[Finding]:
        """Look at the opening."""
        for shape in (_LEAD, _LONG_LEAD):
            match = shape.match(version.text[:_MAX_OPENING_CHARS])
            answered = self._find_answered(match, version.text) if match else None
            if match and answered:
                yield self._describe(match, *answered)
                return

    def _find_answered(self, match: re.Match[str], text: str) -> tuple[_Opening, float] | None:
        """Return how the text opens, and the share of the question that the rest repeats; None: it does not."""
        lead, rest = match["lead"], text[match.end() :][:_MAX_REST_CHARS]
        required = self._required_coverage(lead, match["end"], rest)
        if required is None or not 3 <= len(split_words(lead)) <= _MAX_QUESTION_WORDS or len(split_words(rest)) < 4:
            return None
        coverage = share_of_weight(self._wording.content(lead), self._wording.content(rest))
        if coverage < required:
            return None
        if "\n" in rest[:3]:
            return _Opening.HEADING, coverage
        return (_Opening.TYPED if _is_typed(lead, match["end"], rest) else _Opening.WRITTEN), coverage

    def _describe(self, match: re.Match[str], opening: _Opening, coverage: float) -> Finding:
        is_typed = opening is _Opening.TYPED
        return self.finding(
            opening.value,
            Severity.MEDIUM if is_typed else Severity.LOW,
            min(1.0, 0.5 + coverage / 2) if is_typed else 0.3,
            f"It opens with a question and answers it in the question's own words ({coverage:.0%} of them). {_REASONS[opening]}",
            span=Span(match.start("lead"), match.end()),
            tags=("poisoning", "rag_poisoning", "retrieval_content"),
        )

    def _required_coverage(self, lead: str, end: str, rest: str) -> float | None:
        """Return the coverage from which such an opening counts; None: it is no question."""
        if _NOT_SPOKEN.search(lead) or prose_share(lead) < 0.85:
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
            sure = not _PREDICATE.match(lead)
        elif asks and not _SUBORDINATE.match(lead) and not _QUOTED.search(lead):
            likely = glued or "," not in lead
        elif lower and glued:
            likely = prose_share(rest) >= 0.9 and len(split_words(lead)) >= 4
        if sure:
            return self.params.coverage
        return self.params.fragment_coverage if likely else None


_REASONS: Final = {
    _Opening.TYPED: "The question stands there as somebody typed it into a search box: programs that paste it in front of an "
    "answer, to have the text retrieved for it, write so",
    _Opening.WRITTEN: "Pages of frequent questions do so too: alone it is no reason to hold the text back",
    _Opening.HEADING: "The question is a heading, as on pages of frequent questions",
}


def _is_typed(lead: str, end: str, rest: str) -> bool:
    """Return True for a question that is followed by its answer as no author writes it."""
    if "?" in end:
        return end.endswith(".")
    return lead[0].islower() or not rest[:1].isspace()
