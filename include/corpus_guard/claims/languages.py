"""Languages other than English: which one a text is written in, its words, and whether two of them are forms of one.

`languages.yaml` holds the small words of each language. A language in letters of its own is known by them, one in Latin letters
by its small words. Texts in any other language are read as English ones are.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any, Final

from resiliparse.parse.lang import detect_fast

from corpus_guard.yaml_text import parse_yaml

LANGUAGES_FILE: Final = Path(__file__).with_name("languages.yaml")
FEWEST_SMALL_WORDS: Final = 2  # of a language in Latin letters, by which a text is taken to be written in it
FEWEST_WORDS: Final = 4  # of a text without small words whose language is told by its letters
SHORTEST_ROOT: Final = 4  # letters that two forms of one word share, unless one of them is shorter
LONGEST_ENDING: Final = 4  # letters in which two forms of one word may differ
SHORT_ENDING: Final = 2  # letters that one form has more than the other, however short this is
LONGEST_PARTICLE: Final = 3  # syllables after a Korean noun
KEPT_OF_WORD: Final = 0.6  # share of the longer form that both have, 0..1
KEPT_OF_NAME: Final = 0.75  # the same of a name
SHORTEST_NAME: Final = 3  # kana that begin a clause and may be a name
FAR: Final = 1_000  # distance, as resiliparse counts it, from which a text shows no language
_UNREAD: Final = frozenset({"sv", "da", "no", "fi", "hu", "ro", "vi", "id"})
_UNREAD_LETTER: Final = re.compile("[åøæőűșțăđươ]")
MARKS: Final = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2"
    "\u064b-\u065f\u0670\u0900-\u0903\u093a-\u094f\u0951-\u0957\u0962\u0963"
)
"""Inside of a character class: vowels and accents that are characters of their own and belong to the word."""
IDEOGRAPHS: Final = "\u3005\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_KANA: Final = "\u3041-\u309f\u30a0-\u30ff"
_JOINED: Final = frozenset({"zh", "ja"})
_ENDS_ANYWHERE: Final = frozenset({"zh", "ja", "ko"})
_SCRIPTS: Final = (
    ("ja", re.compile("[\u3041-\u309f\u30a1-\u30fa]")),
    ("ko", re.compile("[\uac00-\ud7a3]")),
    ("zh", re.compile(f"[{IDEOGRAPHS}]")),
    ("uk", re.compile("[іїєґІЇЄҐ]")),
    ("ru", re.compile("[\u0410-\u044f]")),
    ("el", re.compile("[\u0391-\u03c9]")),
    ("ar", re.compile("[\u0621-\u064a]")),
    ("hi", re.compile("[\u0904-\u0939]")),
)
"""Code of a language and a letter of it, the more telling ones first."""
_OTHER_LETTERS: Final = re.compile(
    "[\u0370-\u03ff\u0400-\u052f\u0600-\u06ff\u0900-\u097f\u3041-\u30ff\u3400-\u9fff\uac00-\ud7a3]"
)
_PERSIAN: Final = re.compile("[پچژگ]")  # letters of Persian and Urdu, which are not read
_WORD: Final = re.compile(rf"[^\W_][\w{MARKS}]*")
_RUN: Final = re.compile(rf"[{IDEOGRAPHS}]+|[\u3041-\u309f]+|[\u30a0-\u30ff]+|[^\W_{IDEOGRAPHS}{_KANA}]+")
_KATAKANA: Final = re.compile("[\u30a0-\u30ff]+")
_STRIPPED: Final = re.compile("[\u0300-\u036f\u064b-\u065f\u0670\u0640]")
_SAME: Final = str.maketrans({"ı": "i", "ł": "l", "ى": "ي", "ة": "ه", "đ": "d", "ø": "o"})
_ARTICLE: Final = re.compile("^(?:و|ف)?(?:ال|بال|كال|لل)(?=...)")
_SMALL_ENGLISH: Final = (
    "the of and to is are was were be been for with this that these from by at it its an or as not have has may must can will "
    "you your they if when which there than"
)
_ENGLISH: Final = dict.fromkeys(_SMALL_ENGLISH.split(), 1.0) | dict.fromkeys(
    ["a", "in", "on", "one", "no", "do", "so", "we", "he", "me", "up"], 0.5
)
"""Small words of English → how surely they tell of it: some are words of other languages, too."""


@dataclass(frozen=True)
class Language:
    """A language, and its small words, folded."""

    code: str
    letters: re.Pattern[str] | None  # of which only this language has one, among those in Latin letters
    function: frozenset[str]
    negation: frozenset[str]
    negative_endings: tuple[str, ...]
    without: frozenset[str]
    forbidden: frozenset[str]
    allowed: frozenset[str]
    more: frozenset[str]
    bounds: Mapping[
        str, tuple[frozenset[str], frozenset[str]]
    ]  # "least", "most", "about" → words before a number, and after it
    every: tuple[frozenset[str], frozenset[str]]  # before a period, and after it
    often: Mapping[str, str]  # word → period in English
    scale: Mapping[str, float]
    unit: Mapping[str, str]  # word → unit in English
    money: Mapping[str, str]  # word → code of a currency
    year: tuple[frozenset[str], frozenset[str]]
    since: tuple[frozenset[str], frozenset[str]]
    percent: tuple[frozenset[str], frozenset[str]]

    @property
    def is_in_latin_letters(self) -> bool:
        """Return whether it is told from others by its words."""
        return self.code in _in_latin_letters()

    @property
    def is_joined(self) -> bool:
        """Return whether it is written without spaces."""
        return self.code in _JOINED

    @property
    def ends_anywhere(self) -> bool:
        """Return whether a unit need not be followed by a space."""
        return self.code in _ENDS_ANYWHERE

    @cached_property
    def empty(self) -> frozenset[str]:
        """Return the words that say nothing of a subject."""
        return self.function | self.negation | self.without | self.forbidden | self.allowed

    def negative_ending(self, word: str) -> str:
        """Return the ending by which a folded word denies; empty: it has none."""
        return next((end for end in self.negative_endings if word.endswith(end) and len(word) - len(end) > 1), "")


@lru_cache(maxsize=50_000)
def fold(word: str) -> str:
    """Return a word in lower case, without accents and an Arabic article."""
    if word.isascii():
        return word.lower()
    plain = _STRIPPED.sub("", unicodedata.normalize("NFD", word.casefold()))
    return _ARTICLE.sub("", unicodedata.normalize("NFC", plain).translate(_SAME))


def root(word: str) -> str:
    """Return what all forms of a folded word begin with."""
    return word[:SHORTEST_ROOT] if word[:1] < "\u2e80" else word[:2]


@lru_cache(maxsize=50_000)
def is_same_word(word: str, other: str, least: float = KEPT_OF_WORD) -> bool:
    """Return whether two folded words are forms of one: they begin with the same letters and differ in a short ending.

    Args:
        least: share of the longer form that both have, 0..1.
    """
    if word == other:
        return True
    shorter, longer = sorted((word, other), key=len)
    if word[:1] >= "\u2e80":  # a Korean noun is followed by a particle; ideographs are not inflected
        is_noun = "\uac00" <= word[:1] <= "\ud7a3" and len(shorter) > 1
        return is_noun and longer.startswith(shorter) and len(longer) - len(shorter) <= LONGEST_PARTICLE
    common = next((n for n, (a, b) in enumerate(zip(shorter, longer, strict=False)) if a != b), len(shorter))
    if any(map(str.isdigit, word + other)):
        return False
    if common == len(shorter) in {SHORTEST_ROOT - 1, SHORTEST_ROOT} and len(longer) - common <= SHORT_ENDING:
        return True
    return common >= SHORTEST_ROOT and len(longer) - common <= LONGEST_ENDING and common >= least * len(longer)


def find_language(text: str, around: Language | None = None) -> Language | None:
    """Return the language of a plain text; None: English, or one that is not known.

    Args:
        around: of the text in which it stands, for a text that does not show it.
    """
    if _OTHER_LETTERS.search(text):
        return _by_letters(text)
    words = [match.group() for match in _WORD.finditer(text.lower())]
    english = sum(_ENGLISH.get(word, 0.0) for word in words)
    if around is None and (english * 4 >= len(words) or (english >= FEWEST_SMALL_WORDS and english * 8 >= len(words))):
        return None
    counts = Counter(code for word in words for code in _telling(word))
    if around and around.is_in_latin_letters and counts[around.code] + (english < FEWEST_SMALL_WORDS) > english:
        return around
    languages = _in_latin_letters()
    most = max(counts.values(), default=0)
    best = [code for code in languages if counts[code] == most]
    is_told = len(best) == 1 and most >= FEWEST_SMALL_WORDS and most > 2 * english and most * 6 >= len(words)
    if is_told and not _is_in_unread_language(text):
        return languages[best[0]]
    if english >= 1 or not most or len(words) < FEWEST_WORDS or text.isascii() or _is_in_unread_language(text):
        return None
    return languages[best[0]] if len(best) == 1 else languages.get(detect_fast(text, langs=best)[0])


def _is_in_unread_language(text: str) -> bool:
    """Return whether a text is rather in a language that shares its letters and small words with one that is read."""
    code, distance = detect_fast(text)
    return bool(_UNREAD_LETTER.search(text)) or (code in _UNREAD and distance < FAR)


@lru_cache(maxsize=50_000)
def _telling(word: str) -> tuple[str, ...]:
    """Return the codes of the languages in Latin letters that a lower-case word tells of."""
    folded = fold(word)
    return tuple(
        code
        for code, language in _in_latin_letters().items()
        if folded in language.function or (language.letters is not None and language.letters.search(word))
    )


def _by_letters(text: str) -> Language | None:
    code = next((code for code, letter in _SCRIPTS if letter.search(text)), "")
    latin = len(re.findall("[A-Za-z]", text))
    own = sum(1 for character in text if character > "\u0370" and character.isalpha())
    if not code or (code == "ar" and _PERSIAN.search(text)) or latin > 3 * own:
        return None
    return load_languages()[code]


@cache
def _in_latin_letters() -> Mapping[str, Language]:
    other = {code for code, _ in _SCRIPTS}
    return {code: language for code, language in load_languages().items() if code not in other}


@cache
def load_languages() -> Mapping[str, Language]:
    """Return code → language."""
    rows = parse_yaml(LANGUAGES_FILE.read_text(encoding="utf-8"), str(LANGUAGES_FILE))
    return {code: _read(code, words) for code, words in rows.items()}


def _read(code: str, words: Mapping[str, Any]) -> Language:
    negation = words["negation"].split()
    return Language(
        code,
        re.compile(f"[{words['letters']}]") if "letters" in words else None,
        _folded(words["function"].split()),
        _folded(word for word in negation if not word.startswith("-")),
        tuple(fold(word[1:]) for word in negation if word.startswith("-")),
        _folded(words["without"].split()),
        _folded(words["forbidden"].split()),
        _folded(words["allowed"].split()),
        _folded(words["more"].split()),
        {name: _sides(words[name]) for name in ("least", "most", "about")},
        _sides(words["every"]),
        {fold(word): period for period, each in words["often"].items() for word in each.split()},
        {fold(word): float(factor) for factor, each in words["scale"].items() for word in each.split()},
        {fold(word): unit for unit, each in words["unit"].items() for word in each.split()},
        {fold(word): money for money, each in words["money"].items() for word in each.split()},
        _sides(words["year"]),
        _sides(words["since"]),
        _sides(words["percent"]),
    )


def _folded(words: Iterable[str]) -> frozenset[str]:
    return frozenset(map(fold, words))


def _sides(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the words that stand before something, and those that stand after it, folded."""
    before, _, after = f" {text}".partition(" -")
    return _folded(before.split()), _folded(filter(None, map(str.strip, after.split(" -"))))


def split_local_words(text: str, language: Language) -> Iterator[tuple[int, str]]:
    """Yield the folded words of a plain text that say what it is about, with their places; pairs of characters in Chinese and Japanese."""
    if language.is_joined:
        yield from _pairs(text, language)
        return
    for match in _WORD.finditer(text):
        if language.code == "tr" and text[match.start() - 1 : match.start()] == "'":
            continue  # an ending of a name: "Bank'ın"
        word = fold(match.group())
        if (
            word not in language.empty
            and (len(word) > 1 or word.isdigit())
            and (affirmed := _without_negation(word, language))
        ):
            yield match.start(), affirmed


def _without_negation(word: str, language: Language) -> str:
    if language.code == "ko":
        return word[
            : min(
                (word.find(denial) for denial in language.negation | language.without if denial in word),
                default=len(word),
            )
        ]
    return word.removesuffix(language.negative_ending(word))


def _pairs(text: str, language: Language) -> Iterator[tuple[int, str]]:
    for run in _RUN.finditer(text):
        start, characters = run.start(), run.group()
        if re.match(f"[{IDEOGRAPHS}]", characters):
            yield from _pairs_of_ideographs(start, characters, language.code)
        elif not re.match(f"[{_KANA}]", characters):
            yield start, fold(characters)
        elif (_KATAKANA.fullmatch(characters) and len(characters) > 1) or (
            len(characters) >= SHORTEST_NAME and text[start - 1 : start] in {"", "「", "『", "、", "。"}
        ):
            yield start, characters


def _pairs_of_ideographs(start: int, characters: str, code: str) -> Iterator[tuple[int, str]]:
    place = 0
    for part in _small_words(code).split(characters):
        at = start + characters.index(part, place)
        place = at - start + len(part)
        if len(part) == 1:
            yield at, part
        for number in range(len(part) - 1):
            yield at + number, part[number : number + 2]


@cache
def _small_words(code: str) -> re.Pattern[str]:
    return re.compile(any_of(load_languages()[code].empty))


def any_of(words: Iterable[str]) -> str:
    """Return a pattern of any of some words, the longest first."""
    return "|".join(sorted(map(re.escape, words), key=len, reverse=True))


class Words:
    """Folded words, in which a form of a word is looked up."""

    def __init__(self, words: Iterable[str]) -> None:
        """Keep the words."""
        self._by_root: dict[str, set[str]] = {}
        self._words = frozenset(words)
        for word in self._words:
            self._by_root.setdefault(root(word), set()).add(word)
            if len(word) >= SHORTEST_ROOT:
                self._by_root.setdefault(word[: SHORTEST_ROOT - 1], set()).add(word)

    def __len__(self) -> int:
        """Return the number of words."""
        return len(self._words)

    def __contains__(self, word: str) -> bool:
        """Return whether a form of a word is among them."""
        return self._holds(word, KEPT_OF_WORD)

    def holds_name(self, name: str, language: Language) -> bool:
        """Return whether a form of a name in a language is among them; Turkish puts several endings behind one."""
        return self._holds(name, KEPT_OF_WORD if language.code == "tr" else KEPT_OF_NAME)

    def __iter__(self) -> Iterator[str]:
        """Yield the words."""
        return iter(self._words)

    def meets(self, others: Words) -> bool:
        """Return whether a form of one of the words is among others."""
        return any(word in others for word in self._words)

    def _holds(self, word: str, least: float) -> bool:
        return any(is_same_word(word, own, least) for own in self._by_root.get(root(word), ()))
