"""Text a reader does not see, kept apart by what keeps it from them.

Two sorts. *Runs* are text of the document that is not shown (a white word, a deleted sentence): all of it counts. *Asides* are
what formats keep beside their text (alternative texts, titles, properties): they count once each, when they are prose, and when the
document's visible text does not say the same. Both are evidence for screening and are never published.
"""

from __future__ import annotations

from corpus_guard.domain import Finding, Severity
from corpus_guard.intake.parsing.parsed import problem

WAYS = {
    "display": "not displayed",
    "visibility": "invisible",
    "opacity": "transparent",
    "tiny": "too small to read",
    "off_page": "placed off the page",
    "clipped": "clipped away",
    "colour": "in the colour of its background",
    "vanish": "formatted as hidden",
    "render_mode": "drawn invisibly",
    "layer": "in a layer that is off",
    "comment": "comments",
    "deleted": "deleted, and kept as a tracked change",
    "notes": "speaker notes",
    "slide": "hidden slides",
    "sheet": "hidden sheets",
    "cells": "hidden rows or columns",
    "formula": "formulas",
    "name": "defined names",
    "prompt": "prompts of cells",
    "unused": "kept in the file and used nowhere",
    "fallback": "shown only where something else fails",
    "attribute": "alternative texts and tooltips",
    "annotation": "annotations",
    "attachment": "names of attachments",
    "outline": "bookmarks",
    "metadata": "properties",
    "front_matter": "front matter",
    "link_comment": "link definitions",
}
"""What keeps text from a reader, and the words for it; in the order in which hidden text is written down."""
_ASIDES = frozenset({"attribute", "metadata", "name", "attachment", "formula", "outline", "prompt", "unused"})
_WORDS = frozenset({"attribute", "unused"})  # asides whose single words count
_LEAST_WORDS = 3  # of the others: fewer are a label or a value
_COMPARED = 5 * 10**8  # characters searched for repetitions in one document


class Hidden:
    """Collects hidden text. Iterative use, any order; `settle` says what it comes to."""

    def __init__(self) -> None:
        self._runs: dict[str, list[str]] = {}
        self._asides: dict[str, dict[str, None]] = {}

    def add(self, kind: str, text: str) -> None:
        """A piece of its own; `kind` is one of `WAYS`."""
        if kind not in _ASIDES:
            self._runs.setdefault(kind, []).append(f"\n{text}\n")
        elif kind in _WORDS or len(text.split(maxsplit=_LEAST_WORDS)) >= _LEAST_WORDS or len(text) > 80:
            self._asides.setdefault(kind, {})[" ".join(text.split())] = None

    def run(self, kind: str, text: str) -> None:
        """A piece that goes on where the last of its kind ended: words are not torn apart."""
        self._runs.setdefault(kind, []).append(text)

    def update(self, other: Hidden) -> None:
        """Take over what `other` holds."""
        for kind, pieces in other._runs.items():
            self._runs.setdefault(kind, []).extend(["\n", *pieces])
        for kind, asides in other._asides.items():
            self._asides.setdefault(kind, {}).update(asides)

    @property
    def chars(self) -> int:
        """Characters of the runs, white space not counted."""
        return sum(ink("".join(pieces)) for pieces in self._runs.values())

    def settle(self, visible: str) -> tuple[str, tuple[Finding, ...]]:
        """The hidden text, kind after kind, and a finding that says how much of which; nothing where there is none.

        Args:
            visible: the document's visible text; asides that repeat it are dropped.
        """
        said = " ".join(visible.split())
        sections: list[str] = []
        told: list[str] = []
        budget = _COMPARED
        for kind, words in WAYS.items():
            lines = [" ".join(line.split()) for line in "".join(self._runs.get(kind, ())).split("\n")]
            for aside in self._asides.get(kind, ()):
                budget -= len(said)
                if budget < 0 or aside not in said:
                    lines.append(aside)
            if section := "\n".join(line for line in lines if line):
                sections.append(section)
                told.append(f"{words} {len(section):,}")
        if not sections:
            return "", ()
        message = f"characters a reader does not see, in the order of the hidden text: {'; '.join(told)}"
        return "\n".join(sections), (problem("hidden_text", Severity.INFO, message, score=0.1),)


def ink(text: str) -> int:
    """Code points that are not white space."""
    return len(text) - sum(map(text.count, " \n\t\r\f\v\u00a0"))
