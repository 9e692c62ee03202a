"""Swarms of misspelt words, typical of attacks on retrieval (GARAG, Cho et al. 2024, arXiv:2404.13948).

A word in lower case is

- *known* if it is a whole word of a vocabulary that is ordered by frequency (BERT's);
- *misspelt* if it is not known, no inflection of a known word, stands at most twice in the text (names, terms
  and the author's own habits come back), and is one edit (a letter lost, added, replaced, or two exchanged)
  from one of the most frequent words;
- *strange* otherwise: a term, or a word of another language. The commonest words of six other languages are strange,
  too, though the vocabulary knows them.

Addresses of pages are left out.

A window of 40 words is a swarm if it holds enough different misspelt words, and if between the first and the
last of them misspelt and English words clearly outnumber strange ones. That keeps other languages out: many
words of a French sentence are one edit from an English one, but hardly any is English and the others are
strange.

What it does not see: typos in capitalised words, real words in the wrong place, other languages' typos, and
errors that are no more frequent than in a hasty e-mail. Text spelt as before 1700 and badly scanned text look
like typos, because they are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Final, Literal

import orjson
from pydantic import Field

from corpus_guard.domain import Finding, Severity, Span, Version
from corpus_guard.screening.check import Params, TextCheck

WINDOW: Final = 40  # words in lower case
STEP: Final = 20
FREQUENT: Final = 12_000  # entries of the vocabulary that count as frequent
MAX_WORD_LETTERS: Final = 24  # letters of a word that is looked up
MAX_REPEATS: Final = 2  # occurrences of a misspelt word in a text

WordKind = Literal["known", "english", "misspelt", "strange", "short"]

_NO_WORDS: Final = re.compile(r"\bhttps?://[^\s)]+|\\[A-Za-z@]+")  # addresses, and commands of TeX
_LETTERS: Final = re.compile(rf"\b[^\W\d_]{{2,{MAX_WORD_LETTERS}}}\b")
_SEPARATORS_TO_SPACE: Final = bytes(
    byte if byte >= 0x80 or chr(byte).isalnum() or chr(byte) == "_" else 0x20 for byte in range(256)
)


class TyposParams(Params):
    """The section ``typos`` of policy.yaml."""

    misspelt: int = Field(default=5, ge=3)
    """Different misspelt words in a window of 40 that make a swarm. Of 21,000 encyclopedia paragraphs none
    has five, and one has four."""
    english: int = Field(default=7, ge=0)
    """By how much known English and misspelt words must outnumber strange ones."""


class Typos(TextCheck[TyposParams]):
    """Swarms of misspelt words."""

    name = "typos"
    params_class = TyposParams
    code_version = ("typos", "3")

    def __init__(self, params: TyposParams, vocabulary: Path) -> None:
        """Keep the parameters; loads nothing.

        Args:
            vocabulary: ``tokenizer.json`` of a WordPiece model whose vocabulary is ordered by frequency
                (BERT's are).
        """
        super().__init__(params)
        self._spelling = _spelling(vocabulary)

    def judge(self, version: Version) -> Iterator[Finding]:
        """Yield the worst window of a text that has a swarm."""
        worst = max(self._swarms(version.text), key=lambda swarm: swarm.misspelt, default=None)
        if worst is not None:
            yield self._describe(worst)

    def _swarms(self, text: str) -> Iterator[_Swarm]:
        spelling = self._spelling
        if sum(spelling.kind(word) == "misspelt" for word in spelling.unknown(text)) < self.params.misspelt:
            return  # nearly all texts end here, after 10 µs for 100 words
        text = _NO_WORDS.sub(lambda match: " " * len(match[0]), text)
        words = [match for match in _LETTERS.finditer(text) if match[0].islower()]
        counts = Counter(match[0] for match in words)
        kinds = {word: spelling.kind(word) for word in counts}
        misspelt = {word for word, kind in kinds.items() if kind == "misspelt" and counts[word] <= MAX_REPEATS}
        if len(misspelt) < self.params.misspelt:
            return
        for first in range(0, max(1, len(words) - STEP), STEP):
            window = words[first : first + WINDOW]
            wrong = [index for index, match in enumerate(window) if match[0] in misspelt]
            if len(wrong) < self.params.misspelt:
                continue
            # Only between the first and the last of them: the English around a foreign quotation proves
            # nothing.
            run = window[wrong[0] : wrong[-1] + 1]
            different = {match[0] for match in run}
            count = len(different & misspelt)
            kinds_of_run = Counter(kinds[word] for word in different)
            evidence = count + kinds_of_run["english"] - kinds_of_run["strange"]
            if count >= self.params.misspelt and evidence >= self.params.english:
                yield _Swarm(count, len(different), Span(run[0].start(), run[-1].end()))

    def _describe(self, swarm: _Swarm) -> Finding:
        return self.finding(
            "swarm",
            Severity.MEDIUM,
            min(0.95, 0.5 + 0.03 * (swarm.misspelt - self.params.misspelt)),
            f"{swarm.misspelt} of {swarm.words} different words in one place are common English words with a letter lost, "
            "added, replaced or exchanged. Texts perturbed to mislead a retriever look like this",
            span=swarm.span,
            tags=("poisoning", "obfuscation"),
        )


@dataclass(frozen=True, slots=True)
class _Swarm:
    """A window with many misspelt words."""

    misspelt: int
    words: int  # different words from the first misspelt to the last
    span: Span  # from the first misspelt to the last


class Spelling:
    """Classification of words: known, or one edit from a frequent word."""

    def __init__(self, vocabulary: Path) -> None:
        self._vocabulary = vocabulary
        self.kind = lru_cache(maxsize=1 << 16)(self._kind)

    def unknown(self, text: str) -> Iterator[str]:
        """Return the different words of a-z alone that are not in the vocabulary."""
        words = set(text.encode("utf-8", "replace").translate(_SEPARATORS_TO_SPACE).split()) - self._known_bytes
        return (word.decode() for word in words if len(word) <= MAX_WORD_LETTERS and word.isalpha() and word.islower())

    def _kind(self, word: str) -> WordKind:
        if word in self._known or word in _FOREIGN:
            return self._known_kind(word)
        if 3 <= len(word) <= 5 and self._function_words.near(word):
            return "misspelt"
        if len(word) < 4 and word.isascii():
            return "short"  # abbreviations, and too few letters to tell
        if len(word) >= 5 and word.isascii():
            if self._inflected(word):
                return "known"
            if self._frequent_words.near(word):
                return "misspelt"
        return "strange"

    def _known_kind(self, word: str) -> WordKind:
        if word in _FOREIGN:
            return "strange"
        return "english" if word in _ENGLISH or (len(word) >= 5 and word in self._frequent) else "known"

    def _inflected(self, word: str) -> bool:
        """Return True for a known word with an ending or a prefix: most words that the vocabulary lacks."""
        for ending in _ENDINGS:
            stem = word.removesuffix(ending)
            if stem != word and len(stem) >= 3:
                forms = [stem, stem + "e"]
                if stem[-1] == stem[-2]:
                    forms.append(stem[:-1])
                if stem[-1] == "i":
                    forms.append(stem[:-1] + "y")
                if not self._known.isdisjoint(forms):
                    return True
        return any(word.startswith(prefix) and word[len(prefix) :] in self._known for prefix in _PREFIXES)

    @cached_property
    def _ranks(self) -> dict[str, int]:
        entries: dict[str, int] = orjson.loads(self._vocabulary.read_bytes())["model"]["vocab"]
        return {word: rank for word, rank in entries.items() if word.isascii() and word.isalpha() and word.islower()}

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self._ranks)

    @cached_property
    def _known_bytes(self) -> frozenset[bytes]:
        return frozenset(word.encode() for word in self._ranks)

    @cached_property
    def _frequent(self) -> frozenset[str]:
        return frozenset(word for word, rank in self._ranks.items() if rank < FREQUENT and len(word) >= 4)

    @cached_property
    def _frequent_words(self) -> _Neighbourhood:
        return _Neighbourhood(self._frequent)

    @cached_property
    def _function_words(self) -> _Neighbourhood:
        return _Neighbourhood(frozenset(_FUNCTION_WORDS.split()))


@cache
def _spelling(vocabulary: Path) -> Spelling:
    """Return the spelling of a vocabulary, read once a process; weights never change in their place."""
    return Spelling(vocabulary)


class _Neighbourhood:
    """Words and their spellings with one letter replaced by a joker, to find what lies one edit away."""

    def __init__(self, words: frozenset[str]) -> None:
        self._words = words
        self._jokers = {f"{word[:index]}*{word[index + 1 :]}" for word in words for index in range(len(word))}

    def near(self, word: str) -> bool:
        """Return True at an optimal string alignment distance of 1 from one of the words."""
        for index in range(len(word)):
            before, letter, after = word[:index], word[index], word[index + 1 :]
            if before + after in self._words or f"{before}*{after}" in self._jokers:  # added, replaced
                return True
            if f"{before}*{letter}{after}" in self._jokers:  # lost
                return True
            if after and f"{before}{after[0]}{letter}{after[1:]}" in self._words:  # exchanged
                return True
        return f"{word}*" in self._jokers


_FUNCTION_WORDS: Final = (
    "the and was for that with his from were are which this had they their have not but has its one also after she her "
    "been who when him all can you would will there into more other than then some only about these may out what"
)
_ALSO_FOREIGN: Final = "was for has its one her all can will into more than then some only about may out what"
_ENGLISH: Final = frozenset(_FUNCTION_WORDS.split()) - frozenset(_ALSO_FOREIGN.split())
_FOREIGN_WORDS: Final = (
    "de la le les une que qui dans der und nicht mit von eine auf el las por para del una di il che sono een niet "
    "zijn uma"
)
_FOREIGN: Final = frozenset(_FOREIGN_WORDS.split())
"""Words of French, German, Spanish, Italian, Dutch and Portuguese that English sentences hold in names at most."""
_ENDINGS: Final = ("s", "es", "d", "ed", "ing", "er", "ers", "ly", "al", "able", "less", "ness")
_PREFIXES: Final = ("un", "re", "non", "pre", "over", "sub")
