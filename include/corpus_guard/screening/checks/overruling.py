"""Short texts that argue against what their readers know: "contrary to popular belief", "none other than",
"in an alternate universe".

A planted answer has to win over the true one, which the same reader may be shown beside it, so it argues. So do
honest writers, and no attacker has to: the phrases are a hint of low severity.

Rules
- The text is prose of two sentences or so.
- It comes from a source that anybody can write to.
- It holds one of the phrases.

What it does not see: a planted answer that is simply stated. Nothing in such a text shows that it is false.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pydantic import Field

from corpus_guard.domain import Finding, Severity, Span, TrustLevel, Version
from corpus_guard.screening.check import Params, TextCheck
from corpus_guard.screening.wording import prose_share, split_words

_MAX_CHARS: Final = 2_000  # a text of so few words is shorter
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
    """Longest text, in words, that is read."""


class Overruling(TextCheck[OverrulingParams]):
    """Short prose of open sources that argues against a belief."""

    name = "overruling"
    params_class = OverrulingParams
    code_version = ("overruling/2",)

    def applies_to(self, version: Version) -> bool:
        """Return True for open documents of a few sentences."""
        return version.stamp.trust is TrustLevel.OPEN and 0 < len(version.text) <= _MAX_CHARS

    def judge(self, version: Version) -> Iterator[Finding]:
        """Look for the phrases."""
        if len(split_words(version.text)) > self.params.words:
            return
        phrase = _PHRASE.search(version.text)
        if phrase and prose_share(version.text) >= 0.9:
            yield self.finding(
                "belief",
                Severity.LOW,
                0.3,
                "A few sentences that argue against what is believed or known, as a planted answer does to win over "
                "the true one. Check what it claims",
                span=Span(*phrase.span()),
                tags=("misinformation", "poisoning"),
            )
