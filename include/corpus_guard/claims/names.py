"""Proper names and identifiers: "Alice Brown", "Lake Garda", "NASA", "OX-12"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from corpus_guard.claims.units import read_unit
from corpus_guard.claims.value import Kind, Value
from corpus_guard.domain import Span

_IDENTIFIER: Final = re.compile(r"(?<![\w-])(?=[\w.-]{0,20}\d)(?=[\w.-]{0,20}[A-Z])[A-Za-z][\w-]{1,24}(?![\w])")
_RUN: Final = re.compile(
    r"(?<![\w'-])[^\W\d_a-z][\w'-]{0,30}(?:(?: (?:of|de|la|van|von|der|del|di|da|du|bin))? [^\W\d_a-z][\w'-]{0,30}){0,5}"
)
_ARTICLES: Final = frozenset({"the", "a", "an", "i", "it", "in", "this", "that"})
_BEGINNINGS: Final = (
    "a about according after all although an and any anyone are as at because before both but by can company contact could "
    "do does during each every everyone first for from he her his how however i if in is it its last let like many may more "
    "most must my never new next no none nor not note now of old on once one only or our over people please second see she "
    "should since so some such than that the their then there these they this those though three to today two under until "
    "use was we what when where whether which while who why will with without would yes you your "
    "adult ask bring buy call caring cleaning eating feed feeding give growing joining keep keeping leaving living owning paying "
    "planting read running see selling send take using visit visiting wear working write"
)
_COMMON: Final = frozenset(_BEGINNINGS.split())
_TITLES_AND_DAYS: Final = (
    "mr mrs ms dr prof sir january february march april june july august september october november december monday tuesday "
    "wednesday thursday friday saturday sunday mondays tuesdays wednesdays thursdays fridays saturdays sundays"
)
_NO_NAMES: Final = frozenset(_TITLES_AND_DAYS.split())
"""Words with a capital that name nothing by themselves."""
_EDITION: Final = re.compile(
    r"(?<![\w'-])(?P<word>[A-Z][a-z][A-Za-z-]{1,30}) \d{1,3}(?:\.\d{1,2}){0,2}(?![\w%°]|[.,:/-]\d)"
    r"(?=(?P<verb> (?:is|was|has|had|ends?|ended|runs?|requires?|needs?|supports?|will|can|may|must|does|cannot)\b)?)"
)


# One that does not merely begin the sentence, or a digit.
_INNER_CAPITAL: Final = re.compile(r"[ \"'(*#-]*+.?+[\s\S]*?[^\W_a-z]")


def may_hold_name(text: str) -> bool:
    """Return whether a plain sentence may hold a name; False is certain, and cheap."""
    return _INNER_CAPITAL.match(text) is not None


def read_editions(text: str) -> Iterator[Value]:
    """Yield names that end in a number and measure nothing: "Verdant 5", "Python 3.11"."""
    for match in _EDITION.finditer(text):
        is_first = not text[: match.start()].strip(" \"'(*#-")
        followed = text[match.end() : match.end() + 1] == " " and read_unit(text, match.end() + 1) > match.end() + 1
        if match["word"].lower() not in _COMMON and not followed and (match["verb"] or not is_first):
            yield Value(Kind.NAME, Span(*match.span()), match.group().lower())


def read_names(text: str) -> Iterator[Value]:
    """Yield the names of a plain sentence. A capital that merely begins the sentence makes no name."""
    for match in _IDENTIFIER.finditer(text):
        yield Value(Kind.NAME, Span(*match.span()), match.group().lower())
    for match in _RUN.finditer(text):
        words, start = match.group().split(" "), match.start()
        begins = not text[:start].strip(" \"'(*#-")
        empty = _COMMON if begins else _ARTICLES
        while words and words[0].lower().partition("'")[0] in empty:
            start += len(words.pop(0)) + 1
        while words and words[0].lower() in _NO_NAMES:
            start += len(words.pop(0)) + 1
        while words and words[-1].lower() in _COMMON | _NO_NAMES:
            words.pop()
        name = " ".join(words).removesuffix("'s").removesuffix("'")
        is_first = begins and start == match.start()
        if not name or not name[0].isupper() or (is_first and len(words) == 1 and not name.isupper()):
            continue
        if len(name) > 1:
            yield Value(Kind.NAME, Span(start, start + len(name)), name.lower())
