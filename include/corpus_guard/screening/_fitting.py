"""Does a sentence belong to the text around it?

A sentence that somebody slipped into a document is about something else: its words stand nowhere near it. An honest question or
step shares words with what follows it: the answer repeats the question's words, a step names what the page is about.

Looked at are the words of three or more letters, less those of any question or request, by their first five letters, so that
"equations" meets "equation". A sentence without such words, or one in too little text, says nothing: it fits.

It does not see: a planted sentence that takes up the words of its surroundings.
"""

from __future__ import annotations

import re
from typing import Final

from corpus_guard.domain import Span

AROUND: Final = 1_500
"""Characters on either side that a sentence is compared with."""
ENOUGH: Final = 100
"""Characters other than white space that must stand around a sentence before it can be foreign to them."""
LONGEST: Final = 300
"""Characters of a sentence; a longer one is a paragraph, and has its own surroundings."""
_STEM: Final = 5  # letters
_WORD: Final = re.compile(r"[^\W\d_]{3,}")

# Words of questions and requests in general: they recur in any text, and say nothing of what it is about.
_ANY_WORDS: Final = (
    "all and any are but can did few for get got had has her him his how its let may new not now off one our out own put say see set "
    "she too two use was way who why you about above after again also always another answer because been before being below between "
    "both could describe does doing done each else every explain following from give given have help here into just kind know like "
    "list long made main make many more most much must name need only other over please provide same should show some such tell than "
    "that their them then there these they thing things this those through under used using very want well were what when where which "
    "while will with without word words work works would write your yours yourself"
)
_ANY: Final = frozenset(word[:_STEM] for word in _ANY_WORDS.split())


def foreign(text: str, span: Span) -> bool:
    """True when fewer than half of the sentence's words occur around it."""
    if span.end - span.start > LONGEST:
        return False
    own = _stems(text[span.start : span.end])
    around = f"{text[max(0, span.start - AROUND) : span.start]} {text[span.end : span.end + AROUND]}"
    if not own or len("".join(around.split())) < ENOUGH:
        return False
    return 2 * len(own & _stems(around)) < len(own)


def _stems(text: str) -> set[str]:
    return {word[:_STEM] for word in _WORD.findall(text.casefold())} - _ANY
