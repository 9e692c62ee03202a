"""Word changes between two texts, and the kind of fact that a change touches.

A patience diff (Cohen 2003): after what both texts begin and end with, words that stand exactly once in each
are matched in their longest common order, and the words between two of them are compared in the same way.
Where no word stands once, the rest counts as replaced. difflib's matcher needs minutes for two texts of a few
thousand equal words; this one is n log n a level, of at most MAX_DEPTH levels, so that no text can stretch
its time.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from corpus_guard.claims.comparison import CONTACTS
from corpus_guard.claims.value import Kind
from corpus_guard.claims.values import read_values
from corpus_guard.domain import Span

MAX_DEPTH: Final = 24
DOMAINS: Final = "com|net|org|info|biz|io|co|uk|eu|de|fr|ru|cn|gov|edu|app|dev|xyz|top|site|online|shop|example"
"""Top-level domains that tell a host without a scheme from ``config.yaml`` or ``os.path``."""

_TOKEN: Final = re.compile(
    r"https?://[^\s<>\"'()\[\]]+"  # an address is one word
    r"|(?<![\w.+-])[\w.+-]{1,64}@[\w.-]{1,255}"
    rf"|(?<![\w.-])(?:[A-Za-z0-9-]{{1,63}}\.){{1,8}}(?:{DOMAINS})(?![\w-])"
    r"|@\w{3,64}"
    # A number with its sign, its bound, its currency and its percent: "-20", "≥ 5", "$100", "10 %", "60 °C".
    r"|(?:(?<![\w)\]])[-\u2212+±]|[<>≤≥]\s?|[€$£¥]\s?)?\d+(?:[.,:/-]\d+)*(?:\s?(?:[%‰€£¥]|°[CFK]?))?"
    r"|[^\W_]+(?:['’][^\W_]+)*"
    r"|\S"
)


@dataclass(frozen=True, slots=True)
class TokenisedText:
    """Text with its words and their places."""

    text: str
    words: tuple[str, ...]
    places: tuple[tuple[int, int], ...]  # of each word, in code points

    @classmethod
    def of(cls, text: str) -> TokenisedText:
        """Cut a text at white space and punctuation; addresses, dates and decimal numbers are one word."""
        matches = [(match[0], match.span()) for match in _TOKEN.finditer(text)]
        return cls(text, tuple(word for word, _ in matches), tuple(place for _, place in matches))

    def span(self, start: int, end: int) -> Span:
        """Return the place of words [start, end); of an empty range, the place of the word before it."""
        if not self.places:
            return Span(0, 0)
        first = min(start, len(self.places) - 1) if start < end else max(0, min(start, len(self.places)) - 1)
        return Span(self.places[first][0], self.places[max(first, end - 1)][1])


@dataclass(frozen=True, slots=True)
class WordChange:
    """Words [old_start, old_end) of the predecessor became words [new_start, new_end)."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int

    @property
    def size(self) -> int:
        """Return the words on the longer side."""
        return max(self.old_end - self.old_start, self.new_end - self.new_start)


def find_changes(old: Sequence[str], new: Sequence[str]) -> list[WordChange]:
    """Return the changes that turn `old` into `new`, in order; adjacent ones are joined, and those in which words change places."""
    joined: list[WordChange] = []
    for change in _compare(old, new, WordChange(0, len(old), 0, len(new))):
        last = joined[-1] if joined else change
        both = WordChange(last.old_start, change.old_end, last.new_start, change.new_end)
        is_adjacent = (last.old_end, last.new_end) == (change.old_start, change.new_start)
        if joined and (is_adjacent or _swaps(old[both.old_start : both.old_end], new[both.new_start : both.new_end])):
            joined[-1] = both
        else:
            joined.append(change)
    return joined


def _compare(old: Sequence[str], new: Sequence[str], whole: WordChange) -> Iterator[WordChange]:
    """Yield changes depth first, left to right, without recursion: a hostile text chooses the depth."""
    todo = [(whole, 0)]
    while todo:
        part, depth = todo.pop()
        part = _trim(old, new, part)
        if part.size == 0:
            continue
        pairs = _match_unique_words(old, new, part) if depth < MAX_DEPTH else []
        if not pairs:
            yield part
            continue
        starts = [(part.old_start, part.new_start), *((a + 1, b + 1) for a, b in pairs)]
        ends = [*pairs, (part.old_end, part.new_end)]
        between = [(WordChange(a, c, b, d), depth + 1) for (a, b), (c, d) in zip(starts, ends, strict=True)]
        todo.extend(reversed(between))


def _trim(old: Sequence[str], new: Sequence[str], part: WordChange) -> WordChange:
    a, c, b, d = part.old_start, part.old_end, part.new_start, part.new_end
    while a < c and b < d and old[a] == new[b]:
        a, b = a + 1, b + 1
    while a < c and b < d and old[c - 1] == new[d - 1]:
        c, d = c - 1, d - 1
    return WordChange(a, c, b, d)


def _match_unique_words(old: Sequence[str], new: Sequence[str], part: WordChange) -> list[tuple[int, int]]:
    """Return pairs of words that stand once on each side: a longest increasing subsequence."""
    old_words, new_words = old[part.old_start : part.old_end], new[part.new_start : part.new_end]
    if not old_words or not new_words:
        return []
    unique = {word for word, count in Counter(old_words).items() if count == 1}
    unique &= {word for word, count in Counter(new_words).items() if count == 1}
    new_position = {word: part.new_start + index for index, word in enumerate(new_words) if word in unique}
    pairs = [(part.old_start + index, new_position[word]) for index, word in enumerate(old_words) if word in unique]
    tails: list[int] = []  # smallest last position of an increasing sequence of each length
    chain: list[int] = []  # number of the pair at that position
    before: list[int] = []  # pair → the pair before it
    for number, (_, position) in enumerate(pairs):
        length = bisect_left(tails, position)
        before.append(chain[length - 1] if length else -1)
        if length == len(tails):
            tails.append(position)
            chain.append(number)
        else:
            tails[length], chain[length] = position, number
    longest: list[tuple[int, int]] = []
    number = chain[-1] if chain else -1
    while number >= 0:
        longest.append(pairs[number])
        number = before[number]
    return longest[::-1]


# --- facts --------------------------------------------------------------------------------------------------

ADDRESS: Final = "address"
SENSE: Final = "sense"


@dataclass(frozen=True, slots=True)
class FactKind:
    """Kind of fact that a change touches."""

    name: str  # the last part of a finding's code
    words: str  # for its message


def changed_fact(old: Sequence[str], new: Sequence[str]) -> FactKind | None:
    """Return the gravest kind of fact in which `old` and `new` differ; None: only other words differ.

    A fact that is merely added or removed does not count, so that an appended sentence is an edit, whatever
    numbers it holds. Exceptions: an address, and a negation that comes or goes with hardly a word beside it.
    """
    is_reversed = _swaps(old, new) or _limits_otherwise(old, new)
    # A capital that comes or goes with the beginning of a sentence is no change: "Reports are" and "All
    # reports are".
    recased = set(map(str.lower, old)) & set(map(str.lower, new))
    old, new = ([word for word in side if word.lower() not in recased] for side in (old, new))
    if _differ(_address, old, new):
        return _ADDRESS
    if is_reversed or _reverses(old, new):
        return _SENSE
    for kind, extract in _FACTS:
        if _differ(extract, old, new):
            return kind
    if _periods(old) and _periods(new) and _frequency(old) != _frequency(new):
        return FactKind("number", "A period or frequency")
    if any(map(_address, new)) and not any(map(_address, old)):
        return FactKind("link", "An added address")
    return None


def changed_value(old: str, new: str) -> FactKind | None:
    """Return the gravest kind of value in which two sentences differ; None: they state the same values.

    Values are read whole: a telephone number or an account written in groups, a number with its unit.
    """
    before, after = (Counter((value.kind, value.normal) for value in read_values(text)) for text in (old, new))
    gone, come = ({kind for kind, _ in values} - {Kind.NEGATION} for values in (before - after, after - before))
    if gone & come & CONTACTS:
        return _ADDRESS
    if Kind.DATE in gone & come:
        return _DATE_KIND
    if Kind.NAME in gone & come:
        return _NAME_KIND
    return _NUMBER_KIND if gone & come else None


def _differ(extract: Callable[[str], str], old: Sequence[str], new: Sequence[str]) -> bool:
    """Return whether both sides have what `extract` takes from a word, and not the same."""
    before, after = (Counter(filter(None, map(extract, side))) for side in (old, new))
    return bool(before and after and before != after)


def _address(word: str) -> str:
    """Return the address in a word, "" without one: host, owner on a host of many, e-mail address, account or telephone number."""
    if word.lower().startswith(("http://", "https://")):
        try:
            parts = urlsplit(word)
        except ValueError:  # a broken address
            return word
        host = (parts.hostname or word).removeprefix("www.")
        steps = parts.path.strip("/").split("/")[: _SHARED_HOSTS.get(host, 0)]
        return "/".join((host, *steps))
    compact = re.sub(r"\W", "", word)
    if "@" in word or (len(word) > 3 and _HOST.fullmatch(word)) or _ACCOUNT.fullmatch(compact):
        return word.lower()
    return ""


def _reverses(old: Sequence[str], new: Sequence[str]) -> bool:
    """Return whether a change says the opposite: by a negation, by a word with or without "un-", by a word and its opposite."""
    if len(old) + len(new) <= _MAX_NEGATION_WORDS and sum(map(_negates, old)) != sum(map(_negates, new)):
        return True
    before, after = ({word.lower() for word in side} for side in (old, new))
    if any(_is_negated(word, before) for word in after) or any(_is_negated(word, after) for word in before):
        return True
    for sides in _OPPOSITES:
        old_sides, new_sides = ([not words.isdisjoint(side) for side in sides] for words in (before, after))
        if any(old_sides) and any(new_sides) and old_sides != new_sides:
            return True
    return False


def _swaps(old: Sequence[str], new: Sequence[str]) -> bool:
    """Return whether two parts change places around a third: "acid into water" and "water into acid", not "A and B"."""
    if len(old) != len(new) or not _MIN_SWAPPED_WORDS <= len(old) <= _MAX_SWAPPED_WORDS:
        return False
    if not (old[0][0].isalnum() and old[-1][0].isalnum()):
        return False
    return any(
        [*old[-last:], *old[first:-last], *old[:first]] == list(new) and not _LISTING.issuperset(old[first:-last])
        for first in range(1, len(old) - 1)
        for last in range(1, len(old) - first)
    )


def _limits_otherwise(old: Sequence[str], new: Sequence[str]) -> bool:
    """Return whether "only" comes or goes, and nothing else changes."""
    before, after = ([word.lower() for word in side if word.lower() not in _LIMITS] for side in (old, new))
    return before == after and sum(word.lower() in _LIMITS for word in old) != sum(
        word.lower() in _LIMITS for word in new
    )


def _is_negated(word: str, words: Collection[str]) -> bool:
    """Return whether a word is one of others with a prefix that negates it."""
    match = _NEGATED.fullmatch(word)
    return match is not None and (match[1] or match[2]) in words


def _negates(word: str) -> bool:
    plain = word.lower().replace("’", "'")
    return plain in _NEGATIONS or plain.endswith("n't")


def _date(word: str) -> str:
    return word.lower() if _DATE.fullmatch(word) or word.lower() in _MONTHS else ""


def _number(word: str) -> str:
    is_figure = not word[0].isalpha() and any(map(str.isdigit, word))
    return re.sub(r"\s", "", word).lower() if is_figure or word.lower() in _NUMBERS else ""


def _periods(words: Iterable[str]) -> Counter[str]:
    return Counter(_PERIODS[word.lower()] for word in words if word.lower() in _PERIODS)


def _frequency(words: Sequence[str]) -> tuple[Counter[str], Counter[str]]:
    """Return the units of time and the numbers in words: "once a month" and "every nine weeks" differ in both."""
    return _periods(words), Counter(filter(None, map(_number, words)))


def _name(word: str) -> str:
    return word if word[0].isupper() and len(word) > 1 and word.lower() not in _STARTERS else ""


def _words(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


_HOST: Final = re.compile(rf"(?:[A-Za-z0-9-]+\.)+(?:{DOMAINS})")
_ACCOUNT: Final = re.compile(
    r"\d{9,}|[A-Z]{2}\d{2}[A-Z0-9]{10,30}|0x[0-9a-fA-F]{8,}|[13][1-9A-HJ-NP-Za-km-z]{25,34}|(?:bc1|ltc1|addr1)[a-z0-9]{25,100}"
)
_SHARED_HOSTS: Final = dict.fromkeys(
    _words(
        "github.com gitlab.com bitbucket.org codeberg.org raw.githubusercontent.com gist.github.com huggingface.co x.com twitter.com "
        "facebook.com instagram.com t.me wa.me telegram.me paypal.me patreon.com medium.com"
    ),
    1,
) | dict.fromkeys(
    _words(
        "pypi.org npmjs.com hub.docker.com bit.ly tinyurl.com t.co goo.gl is.gd forms.gle discord.gg docs.google.com drive.google.com "
        "sites.google.com dropbox.com linkedin.com"
    ),
    4,
)
"""Hosts on which everybody may have a page, with the steps of a path that tell whose it is, or which one."""
_NEGATED: Final = re.compile(
    r"(?:un|dis|non)-?([a-z]{4,})|(?:in|im|il|ir)([a-z]{2,}(?:[ai]ble|ent|ant|ive|al|ate|ete|ect|id|ar|ure|ite|ous))"
)
_DATE: Final = re.compile(r"(?:1[5-9]|20)\d\d|\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}")
_MAX_NEGATION_WORDS: Final = 4  # old and new together, up to which a negation reverses the statement

_MONTHS: Final = _words(
    "january february march april may june july august september october november december "
    "monday tuesday wednesday thursday friday saturday sunday"
)
_NUMBERS: Final = _words(
    "one two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty sixty seventy eighty ninety "
    "hundred thousand million billion half once twice first second third fourth fifth"
)
_PERIODS: Final = {
    form: unit
    for unit, forms in {
        "minute": "minutes minutely",
        "hour": "hours hourly",
        "day": "days daily nightly",
        "week": "weeks weekly",
        "fortnight": "fortnights fortnightly",
        "month": "months monthly",
        "quarter": "quarters quarterly",
        "year": "years yearly annually annual",
        "decade": "decades",
    }.items()
    for form in (unit, *forms.split())
}
_NEGATIONS: Final = _words(
    "not no never none neither nor cannot without nicht kein keine keinen nie ohne pas jamais sans non nunca jamás sin não "
    "niet geen nooit zonder değil bez tidak bukan не нет никогда"
)
_LIMITS: Final = _words(
    "only solely exclusively nur ausschließlich seulement uniquement solo solamente únicamente apenas somente alleen"
)
_MIN_SWAPPED_WORDS: Final = 3
_MAX_SWAPPED_WORDS: Final = 8  # a longer change is no quiet one
_LISTING: Final = _words(
    "and or nor und oder et ou y o e , ; / & | - : the a an is are"
)  # between parts of which any may come first
_OPPOSITES: Final = tuple(
    tuple(map(_words, sides.split("|")))
    for sides in (
        "allow allows allowed permit permits permitted may | deny denies denied forbid forbids forbidden prohibit prohibits prohibited"
        " | must required mandatory | optional | recommended | discouraged",
        "enable enables enabled | disable disables disabled",
        "activate activates activated | deactivate deactivates deactivated",
        "true | false",
        "yes | no",
        "safe harmless | unsafe dangerous harmful",
        "secure | insecure",
        "always | seldom rarely | sometimes | never",
        "maximum | minimum",
        "most | least",
        "more | less fewer",
        "increase increases increased raise raises raised | decrease decreases decreased lower lowers lowered reduce reduces reduced",
        "above over | below under",
        "before | after",
        "accept accepts accepted | reject rejects rejected refuse refuses refused",
        "legal | illegal",
        "valid | invalid",
        "guilty | innocent",
        "won | lost",
        "higher | lower",
        "left | right",
        "open opens opened | close closes closed shut locked",
        "on | off",
        "up | down",
        "clockwise | counterclockwise anticlockwise",
        "positive | negative",
        "include includes included including | exclude excludes excluded excluding",
        "inside | outside",
        "hot | cold",
        "full | empty",
        "push pushes | pull pulls",
        "start starts started | stop stops stopped",
        "add adds added | remove removes removed",
        "buy buys | sell sells",
        "public | private",
        "offen geöffnet | geschlossen gesperrt",
        "erlaubt | verboten",
        "links | rechts",
        "ouvert ouverte ouverts ouvertes | fermé fermée fermés fermées",
        "autorisé autorisée | interdit interdite",
        "gauche | droite",
        "abierto abierta abiertos abiertas | cerrado cerrada cerrados cerradas",
        "permitido permitida | prohibido prohibida",
        "izquierda | derecha",
    )
)
"""Groups of words, by what they say: one in the place of another side's changes what a sentence says."""
_STARTERS: Final = _words(
    "the a an this that these those it he she they we you in on at by for from with as and but or if when while there its "
    "his her their our"
)
_ADDRESS, _SENSE = FactKind(ADDRESS, "An address or account"), FactKind(SENSE, "The sense")
_DATE_KIND, _NUMBER_KIND, _NAME_KIND = (
    FactKind("date", "A date"),
    FactKind("number", "A number"),
    FactKind("name", "A name"),
)
_FACTS: Final[tuple[tuple[FactKind, Callable[[str], str]], ...]] = (
    (_DATE_KIND, _date),
    (_NUMBER_KIND, _number),
    (_NAME_KIND, _name),
)
"""The gravest first."""
