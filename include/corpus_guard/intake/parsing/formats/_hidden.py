"""Text a reader does not see, sorted by what hides it.

There are two sorts. *Runs* are text of the document that is not shown (a white word, a deleted sentence): all
of it counts, but of comments that repeat each other one, such as the licence within each icon of a page. *Asides*
are texts that formats keep beside the document's own (alternative texts, titles, properties): each counts once, if
it is prose and the visible text does not repeat it. Both are evidence for screening and are never published.
"""

from __future__ import annotations

from corpus_guard.domain import Finding, Severity
from corpus_guard.intake.parsing.document import make_problem

HIDING_REASONS = {
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
    "ligature": "lines with ligatures, read without these",
    "comment": "comments",
    "deleted": "deleted, and kept as a tracked change",
    "notes": "speaker notes",
    "covered": "covered, or drawn without a trace",
    "replaced": "replaced by what another part of the file holds",
    "slide": "hidden slides",
    "sheet": "hidden sheets",
    "cells": "hidden rows or columns",
    "formula": "formulas and codes of fields",
    "name": "defined names",
    "prompt": "prompts of cells",
    "unused": "kept in the file and used nowhere",
    "fallback": "shown only where something else fails",
    "alternative": "other versions of the same text",
    "attribute": "alternative texts and tooltips",
    "annotation": "annotations",
    "attachment": "names of attachments",
    "outline": "bookmarks",
    "metadata": "properties",
    "front_matter": "front matter",
    "link_comment": "link definitions",
}
"""Reasons for text to be hidden, with their wording; hidden text is written down in this order."""
FALLBACK_TAGS = frozenset(
    {"noscript", "noframes", "noembed", "iframe", "video", "audio", "canvas", "object", "datalist", "template"}
    | {"progress", "meter"}
)
"""Elements of HTML whose content is shown where something else fails, or never."""
_ASIDES = frozenset(
    {"alternative", "annotation", "attribute", "metadata", "name", "attachment", "formula", "outline", "prompt"}
    | {"unused"}
)
_SINGLE_WORDS = frozenset({"alternative", "annotation", "attribute", "unused"})  # asides whose single words count
_MIN_WORDS = 3  # of the others: fewer are a label or a value
_MAX_SEARCHED_CHARS = 5 * 10**8  # searched for repetitions in one document


class HiddenText:
    """Collector of hidden text, in any order; `summarize` gives the result."""

    def __init__(self) -> None:
        self._runs: dict[str, list[str]] = {}
        self._asides: dict[str, dict[str, None]] = {}
        self._comments: set[str] = set()

    def add(self, reason: str, text: str) -> None:
        """Add a separate piece; `reason` is a key of `HIDING_REASONS`."""
        if reason == "comment":
            if text in self._comments:
                return
            self._comments.add(text)
        if reason not in _ASIDES:
            self._runs.setdefault(reason, []).append(f"\n{text}\n")
        elif reason in _SINGLE_WORDS or len(text.split(maxsplit=_MIN_WORDS)) >= _MIN_WORDS or len(text) > 80:
            self._asides.setdefault(reason, {})[" ".join(text.split())] = None

    def extend(self, reason: str, text: str) -> None:
        """Continue the last piece of the same `reason`, so that words are not torn apart."""
        self._runs.setdefault(reason, []).append(text)

    def update(self, other: HiddenText) -> None:
        """Add everything that `other` holds."""
        for reason, pieces in other._runs.items():
            self._runs.setdefault(reason, []).extend(["\n", *pieces])
        for reason, asides in other._asides.items():
            self._asides.setdefault(reason, {}).update(asides)

    @property
    def chars(self) -> int:
        """Number of characters in the runs, white space not counted."""
        return sum(count_non_space("".join(pieces)) for pieces in self._runs.values())

    @property
    def first_reason(self) -> str:
        """A reason that hides some run; empty where there is none."""
        return next(iter(self._runs), "")

    def summarize(self, visible: str) -> tuple[str, tuple[Finding, ...]]:
        """Return the hidden text, reason after reason, and a finding with the amount of each; nothing without any.

        Args:
            visible: the document's visible text; asides that repeat it are dropped.
        """
        visible_words = " ".join(visible.split())
        sections: list[str] = []
        amounts: list[str] = []
        budget = _MAX_SEARCHED_CHARS
        for reason, wording in HIDING_REASONS.items():
            lines = [" ".join(line.split()) for line in "".join(self._runs.get(reason, ())).split("\n")]
            for aside in self._asides.get(reason, ()):
                budget -= len(visible_words)
                if budget < 0 or aside not in visible_words:
                    lines.append(aside)
            if section := "\n".join(line for line in lines if line):
                sections.append(section)
                amounts.append(f"{wording} {len(section):,}")
        if not sections:
            return "", ()
        message = f"characters a reader does not see, in the order of the hidden text: {'; '.join(amounts)}"
        return "\n".join(sections), (make_problem("hidden_text", Severity.INFO, message, score=0.1),)


def count_non_space(text: str) -> int:
    """Return the number of code points that are not white space."""
    return len(text) - sum(map(text.count, " \n\t\r\f\v\u00a0"))
