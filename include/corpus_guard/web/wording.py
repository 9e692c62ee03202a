"""Texts of the review pages that are chosen, not typed: common reasons, keyboard shortcuts, and what an undone act leads to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

REASON_TEMPLATES: Final[Mapping[str, tuple[str, ...]]] = {
    "release": (
        "False alarm: the text is honest.",
        "Checked with the owner of the source.",
        "The quoted attack is an example; it orders nothing.",
        "The new value is right; the trusted document is out of date.",
    ),
    "reject": (
        "Contradicts a trusted document.",
        "Gives orders to a model.",
        "One of several texts that push the same answer.",
        "Hidden text.",
        "The author or the date is forged.",
    ),
    "escalate": ("Needs somebody who knows the subject.", "May be part of an attack; security should look at it."),
}
"""Reasons that reviewers give often: decision → texts."""

SHORTCUTS: Final[Mapping[str, tuple[tuple[tuple[str, ...], str], ...]]] = {
    "queue": (
        (("j", "k"), "next, previous document"),
        (("Enter",), "open it"),
        (("s",), "select it, or no longer"),
        (("a",), "select all on this page"),
        (("r", "x", "e"), "release, reject, escalate what is selected, or the document in focus"),
        (("Ctrl+Enter",), "preview, then decide"),
        (("?",), "this list"),
    ),
    "item": (
        (("r", "x", "e"), "release, reject, escalate: then write the reason"),
        (("Ctrl+Enter",), "decide"),
        (("j", "k"), "next, previous finding in the text"),
        (("n",), "next document that waits"),
        (("u",), "back to the queue"),
        (("?",), "this list"),
    ),
}
"""Page → (keys, effect)."""

UNDONE: Final[Mapping[str, str]] = {
    "release": "Undone. The item is waiting again.",
    "reject": "Undone. The item is waiting again.",
    "escalate": "Undone. The item is no longer escalated.",
    "withdraw": "Undone. The document stays in service.",
    "restore": "Undone. The document stays withdrawn.",
}
"""Action → what a person reads who has undone it."""
