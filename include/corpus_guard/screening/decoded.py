"""Evidence of findings, for a reviewer: what the machine read where a document holds something else, and where
it stands in text that a reader does not see.

Ledgers keep where a finding's evidence stands in the text, not what it says; the rest is found again when it is
looked at. Nothing here decides anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from corpus_guard.domain import Finding, Span
from corpus_guard.errors import GuardError
from corpus_guard.screening.checks._views import decode_views
from corpus_guard.screening.checks.instructions import SPEECH_ACT, Instructions
from corpus_guard.screening.folding import fold

if TYPE_CHECKING:
    from corpus_guard.screening.runner import Screening

MAX_LAYERS: Final = 6
"""Decoded texts of one finding."""
MAX_DEPTH: Final = 4
"""Encodings inside encodings."""
MAX_CHARS: Final = 1_000
"""Characters of one decoded text."""
MAX_SOURCE_CHARS: Final = 50_000
"""Characters of a text that are decoded for one finding."""
CONTEXT_CHARS: Final = 300
"""Characters on either side of a finding that are decoded with it, where it alone is too short to tell how."""


@dataclass(frozen=True, slots=True)
class DecodedLayer:
    """Text that evidence stands for."""

    kinds: tuple[str, ...]
    """Encodings, the outermost first: ("base64", "rot13")."""
    text: str
    """At most `MAX_CHARS` characters; hostile."""


def decode_finding(finding: Finding, text: str, hidden: str) -> tuple[DecodedLayer, ...]:
    """Return what the evidence of a finding stands for, layer by layer; empty where it is not encoded.

    Args:
        finding: of the check `instructions`; its message names the encoding.
    """
    if finding.span is None:
        sources = [hidden[:MAX_SOURCE_CHARS]] if finding.code.endswith(".hidden") else []
    else:
        start, end = finding.span.start, min(finding.span.end, finding.span.start + MAX_SOURCE_CHARS)
        sources = [text[start:end], text[max(0, start - CONTEXT_CHARS) : end + CONTEXT_CHARS]]
    if "written in " not in finding.message:
        return ()
    for source in sources:
        try:
            layers = tuple(islice(_layers(source, (), finding.message), MAX_LAYERS))
        except GuardError:  # RE2 ran out of memory: the evidence is shown as it stands
            continue
        if layers:
            return layers
    return ()


def locate_hidden(screening: Screening, findings: Sequence[Finding], hidden: str) -> list[Span | None]:
    """Return where in the hidden text the evidence of each finding stands; None where it stands elsewhere.

    Args:
        screening: has the check that reads the hidden text again.
        hidden: the document's hidden text; its first `MAX_SOURCE_CHARS` characters are read.
    """
    check = screening.check(Instructions.name)
    codes = {finding.code for finding in findings if finding.span is None and finding.code.endswith(".hidden")}
    places: dict[str, Span | None] = {}
    if codes and isinstance(check, Instructions):
        if f"{check.name}.{SPEECH_ACT.id}.hidden" not in codes:
            check = check.rules_alone()  # the encoders of the others take seconds to load
        with suppress(GuardError):  # RE2 ran out of memory: nothing is marked
            places = {each.code: each.span for each in check.read(hidden[:MAX_SOURCE_CHARS], hidden=True)}
    return [places.get(finding.code) if finding.code in codes else None for finding in findings]


def _layers(text: str, kinds: tuple[str, ...], message: str) -> Iterator[DecodedLayer]:
    for view in decode_views(fold(text), without=kinds):
        if not kinds and f"written in {view.kind}" not in message:
            continue
        inner = (*kinds, view.kind)
        yield DecodedLayer(inner, view.text[:MAX_CHARS])
        if len(inner) < MAX_DEPTH and not view.loose:
            yield from _layers(view.text[:MAX_SOURCE_CHARS], inner, message)
