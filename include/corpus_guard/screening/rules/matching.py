"""Patterns of a rule pack, searched together with RE2, whose time is linear in the text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final, Protocol

import re2

from corpus_guard.errors import GuardError, SettingsError
from corpus_guard.screening.folding import fold_literals
from corpus_guard.screening.rules.pack import PLACEHOLDER, InstructionRule, load_rules

FOLLOWED_BY_BYTES: Final = 800
"""Bytes after a hit in which a rule's ``followed_by`` must stand."""
_END: Final = b"\nend of the text that is searched"
"""Put behind every text: where it is not found, RE2 ran out of memory."""
_TOKENS: Final = re.compile(r"\\Q.*?(?:\\E|\Z)|\\.|\[\^?\]?(?:\[:\w+:\]|\\.|[^\]\\])*\]|\$", re.DOTALL)
"""Quotations, escapes and classes of a pattern, whole, and `$`: a `$` within them is no end of the text."""
_ANCHOR: Final = re.compile(r"^\(\?:\^\|\[(?:\\.|[^\]\\])*\] \?\)")  # a sentence's beginning: (?:^|[.!?:;] ?)


@dataclass(frozen=True, slots=True)
class PatternHit:
    """Place of a pattern in UTF-8 text."""

    rule: InstructionRule
    start: int  # bytes
    end: int


class Matcher:
    """Patterns compiled together."""

    def __init__(self, patterns: Sequence[tuple[InstructionRule, str]], where: str) -> None:
        """Compile the patterns.

        Raises:
            SettingsError: RE2 refuses a pattern.
        """
        options = re2.Options()
        options.log_errors = False
        self._rules: list[tuple[InstructionRule, _Pattern, _Pattern | None, _Pattern | None]] = []
        # One automaton of all patterns grows with every new text, to hundreds of megabytes; the one of the words that patterns
        # cannot do without does not, and it leaves few patterns open.
        self._filter = re2.Filter()
        for rule, pattern in patterns:
            blame = f"{where}: rule {rule.id}"
            after = _compile(rule.followed_by, blame, options) if rule.followed_by else None
            unless = _compile(rule.unless, blame, options) if rule.unless else None
            self._rules.append((rule, _compile(pattern, blame, options), after, unless))
            self._filter.Add(_before_end(pattern), options)
        # A filter that runs out of memory answers "nothing hits"; words behind every text reveal it.
        self._end = self._filter.Add(_END.decode(), options)
        self._filter.Compile()

    def hits(self, data: bytes) -> Iterator[Iterator[PatternHit | None]]:
        """Yield for every pattern that occurs in UTF-8 text its hits; None for a place that does not count."""
        matched = self._filter.Match(data + _END) or ()
        if self._end not in matched:
            raise GuardError(
                "instruction rules: RE2 ran out of memory on a text, expected an answer; the text counts as unchecked"
            )
        for number in sorted(matched):
            if number != self._end:
                yield self._hits_of(number, data)

    def _hits_of(self, number: int, data: bytes) -> Iterator[PatternHit | None]:
        rule, pattern, after, unless = self._rules[number]
        for match in pattern.finditer(data):
            start, end = match.span()
            followed = after is None or after.search(data[end : end + FOLLOWED_BY_BYTES])
            excuse = unless.search(data[start:end]) if unless is not None else None
            # What hits without the words that excuse it is no less an order for them.
            excluded = excuse is not None and not pattern.search(data[start : start + excuse.span()[0]])
            yield PatternHit(rule, start, end) if followed and not excluded else None


def _before_end(pattern: str) -> str:
    """Return a pattern that takes the end of the text for what it is though `_END` is behind it."""
    return _TOKENS.sub(lambda m: f"(?:{m[0]}|{_END.decode()})" if m[0] in {"$", r"\z"} else m[0], pattern)


class _Match(Protocol):
    """A match as RE2 gives it."""

    def span(self) -> tuple[int, int]:
        """Return start and end, in bytes."""


class _Pattern(Protocol):
    """A compiled RE2 pattern: the library has no types."""

    def search(self, data: bytes) -> _Match | None:
        """Return the first match."""

    def finditer(self, data: bytes) -> Iterator[_Match]:
        """Yield every match."""


def _compile(pattern: str, blame: str, options: re2.Options) -> _Pattern:
    try:
        compiled: _Pattern = re2.compile(pattern.encode(), options)
        return compiled
    except re2.error as error:
        reason = error.args[0].decode("utf-8", "replace") if error.args and isinstance(error.args[0], bytes) else error
        raise SettingsError(
            f"{blame}: RE2 refuses a pattern ({reason}); write it without lookaround and back-references, "
            "and without repetition above 1000"
        ) from error


@lru_cache(maxsize=16)
def compile_matchers(path: Path, _digest: str) -> tuple[Matcher, ...]:
    """Return matchers of a pack that has this digest: for folded text, for text as it stands, and for text without word boundaries."""
    pack = load_rules(path)
    kinds: tuple[list[tuple[InstructionRule, str]], ...] = ([], [], [])
    for rule in pack.rules:
        for pattern in rule.patterns:
            whole = PLACEHOLDER.sub(lambda word: f"(?:{pack.words[word[1]]})", pattern)
            kinds[rule.raw].append((rule, whole if rule.raw else fold_literals(whole)))
            if rule.loose and not rule.raw:
                kinds[2].append((rule, _loosen(fold_literals(whole))))
    return tuple(Matcher(patterns, str(path)) for patterns in kinds)


def _loosen(pattern: str) -> str:
    """Return a pattern for a view without spaces and punctuation, where l looks like i."""
    anywhere = _ANCHOR.sub("", pattern).replace("[,:!] ?", "[,:!]? ?").replace(r"\b", "")
    return re.sub(r"(?<!\\)l", "i", anywhere.replace(" ", " ?"))
