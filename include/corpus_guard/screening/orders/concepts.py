"""Parts of an order in 55 languages: who is told, what, when, about whom.

A sentence is read as the sequence of its concepts ("when", "person", "ask", "tell", "machine"), whatever the
language, so that a model trained on some languages reads the others. The words are in ``concepts.yaml``.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Final, TypeAlias

from corpus_guard.domain import sha256_bytes
from corpus_guard.yaml_text import parse_yaml

CONCEPTS_FILE: Final = Path(__file__).parent / "concepts.yaml"
_Phrase: TypeAlias = tuple[tuple[str, ...], str]  # words after the first, concept
UNSPACED: Final = ("zh", "ja", "th")
"""Languages written without spaces between words."""
_WORD: Final = re.compile(r"[^\W_]+(?:['’.-][^\W_]+)*")
UNSPACED_LETTERS: Final = r"\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff"
"""Letters of such languages, for the brackets of a pattern of `re`."""
_UNSPACED_LETTER: Final = re.compile(f"[{UNSPACED_LETTERS}]")


class Lexicon:
    """Concepts of words, by whole word, by stem, and by phrase."""

    def __init__(self, languages: dict[str, dict[str, str]]) -> None:
        self._entries: dict[str, set[str]] = {}
        self._phrases: dict[str, set[_Phrase]] = {}
        unspaced: dict[str, set[str]] = {}
        for language, concepts in languages.items():
            for concept, entries in concepts.items():
                for entry in normalise(entries).split():
                    first, *rest = entry.split("_")
                    if language in UNSPACED:
                        unspaced.setdefault(entry.replace("_", ""), set()).add(concept)
                    elif rest:
                        self._phrases.setdefault(first, set()).add((tuple(rest), concept))
                    else:
                        self._entries.setdefault(first, set()).add(concept)
        self._unspaced = {text: tuple(sorted(concepts)) for text, concepts in unspaced.items()}
        self._unspaced_pattern = re.compile("|".join(map(re.escape, sorted(self._unspaced, key=len, reverse=True))))
        self._longest = max(map(len, (*self._entries, *self._phrases)))
        self._of_word = lru_cache(maxsize=50_000)(self._look_up)

    def _look_up(self, word: str) -> tuple[tuple[str, ...], tuple[_Phrase, ...]]:
        """Return the concepts of a word, and the phrases that may begin with it."""
        forms = [word, *(f"{word[:size]}*" for size in range(1, min(len(word), self._longest) + 1))]
        concepts = {concept for form in forms for concept in self._entries.get(form, ())}
        phrases = {phrase for form in forms for phrase in self._phrases.get(form, ())}
        return tuple(sorted(concepts)), tuple(sorted(phrases))

    def read(self, words: Sequence[str], text: str) -> Iterator[tuple[str, ...]]:
        """Yield the concepts of each word or phrase that has any, in order."""
        for position, word in enumerate(words):
            concepts, phrases = self._of_word(word)
            if phrases and (
                phrase := {concept for rest, concept in phrases if _follows(rest, words[position + 1 :][: len(rest)])}
            ):
                yield tuple(sorted(phrase))
            elif concepts:
                yield concepts
        if not text.isascii() and _UNSPACED_LETTER.search(text):
            for match in self._unspaced_pattern.finditer(text):
                yield self._unspaced[match[0]]


def _follows(parts: Sequence[str], words: Sequence[str]) -> bool:
    return len(words) == len(parts) and all(
        word.startswith(part[:-1]) if part.endswith("*") else word == part
        for part, word in zip(parts, words, strict=True)
    )


def normalise(text: str) -> str:
    """Return the text in one form of letters, in lower case."""
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()


def split_words(normal: str) -> list[str]:
    """Return the words of normalised text."""
    return _WORD.findall(normal)


@cache
def load_lexicon() -> Lexicon:
    """Read the lexicon of this package."""
    return Lexicon(parse_yaml(CONCEPTS_FILE.read_text("utf-8"), str(CONCEPTS_FILE)))


@cache
def lexicon_digest() -> str:
    """Return the digest of the lexicon's bytes."""
    return sha256_bytes(CONCEPTS_FILE.read_bytes())
