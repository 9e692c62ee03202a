"""A short text that sets itself against what its readers know: "contrary to popular belief", "none other than", "in an alternate universe".

A planted answer has to win over the true one, which the same reader may be shown beside it, so it argues. In a long text such words are
ordinary (one honest passage in a hundred has some); a text that is little else is worth a look. Rules: two sentences or so of prose,
from a source anybody can write to, with one of the phrases.

What it does not see: a planted answer that is simply stated. Nothing in such a text tells that it is false.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar, Final

from pydantic import Field

from corpus_guard.domain import Finding, Severity, Span, TrustLevel, Version, digest
from corpus_guard.screening.check import Hits, Params
from corpus_guard.screening.survey import Survey
from corpus_guard.screening.tags import tags
from corpus_guard.screening.wording import prose, words

_VERSION: Final = "overruling/1"
_READ: Final = 2_000  # characters; a text of so few words is shorter
_WRONGLY: Final = r"(?:mistakenly|erroneously|wrongly|incorrectly|falsely)"
_STRANGE: Final = (
    r"(?:surprising|unexpected|shocking|astonishing|remarkable|intriguing|little[- ]known|lesser[- ]known)"
)
_PHRASE: Final = re.compile(
    r"\b(?:"
    r"(?:contrary to|despite) (?:the )?(?:popular|common|general|widespread|traditional|conventional)\b"
    r"|(?:popular|common|general|widespread) (?:belief|misconception|misbelief|assumption)\b"
    rf"|{_WRONGLY} (?:believed|thought|assumed|credited|attributed|associated|identified|cited|named|remembered|labell?ed)\b"
    rf"|(?:many|most|some|often|people) (?:people )?{_WRONGLY}\b"
    r"|is none other than\b|was none other than\b"
    rf"|{_STRANGE}(?:ly)? (?:twist|turn|revelation|deviation|development)\b"
    r"|(?:alternate|alternative|parallel) (?:universe|reality|timeline|version of (?:history|reality))\b"
    r"|the (?:correct|right|true) answer (?:is|was|to)\b"
    r"|(?:undeniably|undoubtedly|unquestionably|indisputably|unequivocally|definitively)\b"
    r"|(?:is|was|are|were|has|have) (?:indeed|actually|in fact|in reality|truly|surprisingly)\b"
    r"|(?:recent|new|latest) (?:studies|study|research|findings|discoveries|evidence|revelations?)\b"
    r"|(?:many|most|some) (?:people |fans |scholars |historians )?(?:may |might |often )?(?:believe|think|assume)\b"
    r"|often (?:thought|believed|assumed|mistaken|confused|overlooked)\b"
    r")"
    r"|(?:^|[.!?]\s+)[\"“]?(?:surprisingly|remarkably|unexpectedly|astonishingly|ironically|intriguingly|in fact|in reality)\b",
    re.IGNORECASE,
)


class OverrulingParams(Params):
    """The section ``overruling`` of policy.yaml."""

    words: int = Field(default=60, ge=1)
    """Longest text, in words, that is looked at."""


class Overruling:
    """Short prose of open sources that argues against a belief."""

    name: ClassVar[str] = "overruling"
    across_documents: ClassVar[bool] = False
    second_stage: ClassVar[bool] = False
    Params: ClassVar[type[OverrulingParams]] = OverrulingParams

    def __init__(self, params: OverrulingParams | None = None) -> None:
        self.params = params or OverrulingParams()

    @property
    def digest(self) -> str:
        """Of the parameters and this code's version."""
        return digest("check/v1", [_VERSION, self.params.model_dump_json()])

    def applies_to(self, version: Version) -> bool:
        """Open documents of a few sentences."""
        return version.stamp.trust is TrustLevel.OPEN and 0 < len(version.text) <= _READ

    def run(self, batch: Sequence[Version], survey: Survey | None) -> Hits:
        """Look for the phrases."""
        for position, version in enumerate(batch):
            if len(words(version.text)) > self.params.words:
                continue
            found = _PHRASE.search(version.text)
            if found and prose(version.text) >= 0.9:
                yield (
                    position,
                    Finding(
                        check=self.name,
                        code="overruling.belief",
                        severity=Severity.MEDIUM,
                        score=0.6,
                        message=(
                            "A text of a few sentences that argues against what is believed or known: a planted answer "
                            "has to win over the true one. Check what it claims"
                        ),
                        span=Span(found.start(), found.end()),
                        tags=tags(("misinformation", "poisoning")),
                    ),
                )
