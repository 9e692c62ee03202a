"""Negation: whether a sentence says that something is so, or that it is not.

Words that hold a negation of their own are taken apart: "forbidden" is "not allowed".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

OPPOSITES: Final = {
    **dict.fromkeys(("forbidden", "prohibited", "banned", "disallowed", "forbids", "prohibits", "impermissible"), "allowed"),
    "unsafe": "safe", "dangerous": "safe", "disabled": "enabled", "incompatible": "compatible",
    "unsupported": "supported", "impossible": "possible", "ineffective": "effective", "invalid": "valid",
    "illegal": "legal", "unlawful": "legal", "unable": "able", "unavailable": "available", "excluded": "included",
    "excludes": "includes", "optional": "required", "unnecessary": "required", "false": "true",
    "incorrect": "correct", "wrong": "correct", "insecure": "secure", "unlimited": "limited", "inactive": "active",
    "unsuitable": "suitable", "untrue": "true", "unreliable": "reliable", "impermeable": "permeable",
    "susceptible": "resistant", "refuses": "accepts", "refused": "accepted", "rejects": "accepts", "rejected": "accepted",
    "irreversible": "reversible", "nontoxic": "toxic", "non-toxic": "toxic", "inedible": "edible",
}  # fmt: skip
"""Word that holds a negation → the word it negates."""
SAME_WORDS: Final = {
    "permitted": "allowed", "permits": "allowed", "mandatory": "required", "compulsory": "required",
    "obligatory": "required", "necessary": "required", "lawful": "legal",
}  # fmt: skip

NOT: Final = "not"
WITHOUT: Final = "without"
"""Normal forms: a negation of the sentence, and one of the words that follow it alone."""

_PLAIN: Final = ("not", "cannot", "never", "no", "neither", "nor", "none", "nobody", "nothing", "without")
_NEGATION: Final = re.compile(
    rf"\b(?:{'|'.join(_PLAIN)}"
    rf"|\w+n't|fails? to|failed to|lacks?|(?:{'|'.join(OPPOSITES)}))(?![\w-])",
    re.IGNORECASE,
)
_BOUND: Final = (
    "they|it|you|we|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty(?:-?\\w+)?|first|second|third|next|last|end"
    "|age|year|month|week|day|hour|morning|evening|noon|midnight|night|dawn|dusk|sunrise|sunset|spring|summer|autumn|winter"
)
"""Words that begin a time, or a clause that tells of one: "before ten", "before they are called"."""
# What looks like a negation and bounds, lists or numbers something instead.
_NO_NEGATION: Final = re.compile(
    r"\b(?:no|not) (?:more|less|fewer|later|earlier|longer than|only|least|just|matter|doubt)\b|\bwhether or not\b|\bif not\b"
    # What is not so before a time, or until something happens, is so from then on: "does not open before 10". "Must not be open
    # before the start" says the opposite of "must be open before the start".
    r"|\b(?:not|cannot|\w+n't) (?:\w+ ){1,3}(?:until|till) (?=\w)"
    r"|(?<!\bmust )(?<!\bshall )(?<!\bshould )(?<!\bmay )\b(?:not|cannot|(?!mustn|shouldn)\w+n't) (?:\w+ ){1,3}before (?=\w)"
    rf"|\b(?:(?:must|shall|should|may) not|(?:must|should)n't) (?:\w+ ){{1,3}}before (?=(?:the )?(?:\d|(?-i:[A-Z])|(?:{_BOUND})\b))"
    r"|\bno wonder\b|\bnot (?:to )?exceed(?:ing)?\b|\bno\. ?\d|\bwithout (?:doubt|question)\b|\bwhy not\b",
    re.IGNORECASE,
)
_FIRST_WORDS: Final = frozenset(
    (*_PLAIN, "fail", "fails", "failed", "lack", "lacks", *(word.partition("-")[0] for word in OPPOSITES))
)
"""Words with which a negation begins that does not end in "n't"."""
_WORD: Final = re.compile(r"\w+")
_LEADING: Final = re.compile(r"(?i)(?:no|yes|nope|yep)\b[,.:;!]")


def read_negations(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each negation in a plain sentence.

    A leading "No," answers a question, and the words after it say the same again: it counts only where they do
    not.
    """
    folded = text.casefold()
    if "n't" not in folded and _FIRST_WORDS.isdisjoint(_WORD.findall(folded)):
        return
    other = [match.span() for match in _NO_NEGATION.finditer(text)]
    spans = [
        match.span()
        for match in _NEGATION.finditer(text)
        if not any(start <= match.start() < end for start, end in other)
    ]
    leading = _LEADING.match(text)
    if leading and len(spans) > 1 and spans[0][0] == 0:
        spans = spans[1:]
    yield from spans
