"""Hostile text inside a prompt: between two lines that it cannot contain, and without the signs that a verdict is read by.

The lines carry a code taken from a hash over everything that is quoted, so that no part of it can hold the code, and the same
material makes the same prompt (answers are cached by it).

What it does not do: make a model obey. A model may still follow what it was told to be data; whoever reads its answer must reckon with it.
"""

from __future__ import annotations

from collections.abc import Sequence

from corpus_guard.domain import digest

LONGEST_TEXT = 12_000  # characters shown of one text; a chunk has at most about 8,000
_HEAD = 8_000
_BRACKETS = str.maketrans("[]", "()")  # answers are read by square brackets: nothing quoted may show the reader any


def quoted(parts: Sequence[tuple[str, str]]) -> str:
    """Named texts, each between its lines.

    Args:
        parts: (what it is, in our words; the text).
    """
    code = digest("quoted/v1", [text for _, text in parts])[:16]
    return "\n\n".join(f"=== {code} {what} ===\n{shown(text)}\n=== {code} end ===" for what, text in parts)


def shown(text: str) -> str:
    """A text as a model sees it: without square brackets, and a long one without its middle, for what misleads may stand at either end."""
    if len(text) > LONGEST_TEXT:
        left_out = len(text) - LONGEST_TEXT
        text = f"{text[:_HEAD]}\n({left_out} characters left out)\n{text[_HEAD - LONGEST_TEXT :]}"
    return text.translate(_BRACKETS)


def said(text: str) -> str:
    """What a model says in the end: without what a reasoning model thinks aloud before it. Empty where it did not finish thinking."""
    thought, closed, rest = text.rpartition("</think>")
    if closed:
        return rest.strip()
    return "" if "<think>" in thought or "<think>" in rest else rest.strip()
