"""Which kind of fact a few changed words touch."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from corpus_guard.screening._changes import DOMAINS

ADDRESS: Final = "address"
SENSE: Final = "sense"


@dataclass(frozen=True, slots=True)
class Kind:
    """What changed."""

    name: str  # the last part of a finding's code
    words: str  # for its message


def kind_of(old: Sequence[str], new: Sequence[str]) -> Kind | None:
    """The gravest kind of fact in which `old` and `new` differ; None: only other words do.

    A fact that is merely added or taken away is none, so that an appended sentence is an edit, whatever numbers it holds.
    Two are: an address, and a negation that comes or goes with hardly a word beside it.
    """
    # A capital that comes or goes with the beginning of a sentence is no change: "Reports are" and "All reports are".
    recased = set(map(str.lower, old)) & set(map(str.lower, new))
    old, new = ([word for word in side if word.lower() not in recased] for side in (old, new))
    for kind, facts in _KINDS:
        before, after = (Counter(filter(None, map(facts, side))) for side in (old, new))
        if before and after and before != after:
            return kind
    if len(old) + len(new) <= _FLIP and sum(map(_negates, old)) != sum(map(_negates, new)):
        return Kind(SENSE, "The sense")
    if any(map(_address, new)) and not any(map(_address, old)):
        return Kind("link", "An added address")
    return None


def _address(word: str) -> str:
    """Where something is fetched from or sent to: host, e-mail address, account or telephone number."""
    if word.lower().startswith(("http://", "https://")):
        try:
            return (urlsplit(word).hostname or word).removeprefix("www.")
        except ValueError:  # a broken one
            return word
    compact = re.sub(r"\W", "", word)
    if "@" in word or (len(word) > 3 and _HOST.fullmatch(word)) or _ACCOUNT.fullmatch(compact):
        return word.lower()
    return ""


def _negates(word: str) -> bool:
    plain = word.lower().replace("’", "'")
    return plain in _NEGATIONS or plain.endswith("n't")


def _opposite(word: str) -> str:
    return word.lower() if word.lower() in _OPPOSITES else ""


def _date(word: str) -> str:
    return word.lower() if _DATE.fullmatch(word) or word.lower() in _MONTHS else ""


def _number(word: str) -> str:
    return word.lower() if word[0].isdigit() or word.lower() in _NUMBERS else ""


def _name(word: str) -> str:
    return word if word[0].isupper() and len(word) > 1 and word.lower() not in _STARTERS else ""


def _words(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


_HOST: Final = re.compile(rf"(?:[A-Za-z0-9-]+\.)+(?:{DOMAINS})")
_ACCOUNT: Final = re.compile(r"\d{9,}|[A-Z]{2}\d{2}[A-Z0-9]{10,30}|0x[0-9a-fA-F]{8,}|[13][1-9A-HJ-NP-Za-km-z]{25,34}")
_DATE: Final = re.compile(r"(?:1[5-9]|20)\d\d|\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}")
_FLIP: Final = 4  # words, old and new together, up to which a negation turns what was said

_MONTHS: Final = _words(
    "january february march april may june july august september october november december "
    "monday tuesday wednesday thursday friday saturday sunday"
)
_NUMBERS: Final = _words(
    "one two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty sixty seventy eighty ninety "
    "hundred thousand million billion half once twice first second third fourth fifth"
)
_NEGATIONS: Final = _words(
    "not no never none neither nor cannot without nicht kein keine keinen nie ohne pas jamais sans non nunca jamás sin não "
    "niet geen nooit zonder değil bez tidak bukan не нет никогда"
)
_OPPOSITES: Final = _words(
    "allow deny allowed forbidden permitted prohibited must may required optional enable disable enabled disabled true "
    "false yes safe unsafe dangerous always seldom maximum minimum most least increase decrease increases decreases above "
    "below before after accept reject legal illegal valid invalid secure insecure recommended discouraged guilty innocent "
    "won lost higher lower"
)
_STARTERS: Final = _words(
    "the a an this that these those it he she they we you in on at by for from with as and but or if when while there its "
    "his her their our"
)
_KINDS: Final[tuple[tuple[Kind, Callable[[str], str]], ...]] = (
    (Kind(ADDRESS, "An address or account"), _address),
    (Kind(SENSE, "The sense"), _opposite),
    (Kind("date", "A date"), _date),
    (Kind("number", "A number"), _number),
    (Kind("name", "A name"), _name),
)
"""The gravest first."""
