"""Parsed versions that are incomplete, or beyond the limits that any real document keeps.

An expectation suite over ids, hashes, lengths and ratios. Its limits are wide: a text that breaks one is
damaged, is no prose, or was made to break something. It fails closed: when the suite gives no clean answer,
every version of the batch is unchecked.

What it does not do: compare with other documents (`statistics`), or judge what the text says.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from typing import Final

from pydantic import Field

from corpus_guard.domain import Finding, Severity, TrustLevel, Version
from corpus_guard.screening.check import ConfiguredCheck, Hits, Params
from corpus_guard.screening.checks._expectations import ROW, Expectation, Value, find_failures
from corpus_guard.screening.survey.signals import measure_values
from corpus_guard.screening.survey.survey import Survey

log = logging.getLogger(__name__)

_MEDIA_TYPE: Final = re.compile(r"[a-z0-9.+-]{1,60}/[a-z0-9.+-]{1,100}")
_LONG_RUN: Final = re.compile("[A-Za-z0-9+/]{40,}")  # PEM lines have 64, MIME lines 76
_DIGIT: Final = re.compile("[0-9]")
_OFFICE: Final = "application/vnd.openxmlformats-officedocument."


class StructureParams(Params):
    """The section ``structure`` of policy.yaml. Lengths in code points, shares 0..1."""

    min_chars: int = Field(default=20, ge=1)
    """A shorter text says nothing."""
    max_chars: int = Field(default=4_000_000, ge=1)
    max_chunk_tokens: int = Field(default=512, ge=32)
    """Tokens that the embedder reads; the rest of a longer chunk would be served unseen."""
    max_control: float = Field(default=0.01, ge=0, le=1)
    """Control, private-use, unassigned and replacement characters: damage by a decoder."""
    min_legible: float = Field(default=0.1, ge=0, le=1)
    """Share of letters, marks and digits of any script in all that is not white space: a table of numbers is
    legible, noise is not."""
    max_encoded: float = Field(default=0.9, ge=0, le=1)
    """Share of long runs of letters in both cases and digits (base64) in all that is not white space."""
    max_hidden: float = Field(default=0.5, ge=0, le=1)
    """Share of text that a reader does not see in all text."""
    max_run: int = Field(default=2_000, ge=100)
    """Longest run without white space; in scripts without spaces a new letter ends a run."""
    media_types: tuple[str, ...] = (
        "application/epub+zip",
        "application/pdf",
        f"{_OFFICE}presentationml.presentation",
        f"{_OFFICE}spreadsheetml.sheet",
        f"{_OFFICE}wordprocessingml.document",
        "application/x-row+json",
        "text/html",
        "text/markdown",
        "text/plain",
    )


class Structure(ConfiguredCheck[StructureParams]):
    """Expectation suite over ids, hashes, lengths and ratios."""

    name = "structure"
    params_class = StructureParams
    code_version = ("structure/2",)

    def __init__(self, params: StructureParams | None = None) -> None:
        super().__init__(params)
        self.suite = (*_integrity(), *_limits(self.params))

    def applies_to(self, version: Version) -> bool:
        """Return True for every version."""
        return True

    def run(self, batch: Sequence[Version], survey: Survey | None) -> Hits:
        """Validate the batch as one frame; a version has at most one finding of each code."""
        if not batch:
            return
        try:
            rows = [_row(number, version) for number, version in enumerate(batch)]
            failures = find_failures(rows, self.suite)
            failed = {(failure.row, failure.expectation.code): failure.expectation for failure in failures}
        except Exception as error:  # whatever it was, nothing was checked
            # The rows hold no text, but an exception of pandas or GX may quote a value: only its type is
            # logged.
            log.warning("structure: %d versions unchecked: %s", len(batch), type(error).__name__)
            yield from ((position, self._unchecked(error)) for position in range(len(batch)))
            return
        for (position, _), expectation in sorted(failed.items(), key=lambda item: item[0]):
            yield position, self._describe(expectation, rows[position][expectation.column])

    def _unchecked(self, error: Exception) -> Finding:
        message = f"The expectation suite gave no clean answer ({type(error).__name__}): not checked is not clean."
        return self.finding("unchecked", Severity.HIGH, 0.5, message)

    def _describe(self, expectation: Expectation, value: Value) -> Finding:
        message = expectation.message.replace("{value}", _format(value))
        tags = ("poisoning",) if expectation.severity.rank >= Severity.MEDIUM.rank else ()
        return self.finding(expectation.code, expectation.severity, expectation.score, message, tags=tags)


def _format(value: Value) -> str:
    if isinstance(value, float):
        return f"{value:,.4g}"
    return f"{value:,}" if isinstance(value, int) else "none"


def _row(number: int, version: Version) -> dict[str, Value]:
    values, media_type = measure_values(version), version.stamp.media_type
    # Padding and blank cells prove nothing: shares are of what is printed.
    ink = max(1.0 - values["white_space"], 1.0 / max(len(version.text), 1))
    return {
        ROW: number,
        "version_id": version.version_id,
        "doc_id": version.doc_id,
        "content_sha256": version.stamp.content_sha256,
        "text_sha256": version.text_sha256,
        "trust": str(version.stamp.trust),
        "media_type": media_type if _MEDIA_TYPE.fullmatch(media_type) else "malformed",
        "bytes": version.stamp.size,
        "chars": len(version.text),
        "longest_chunk": max((chunk.tokens for chunk in version.chunks), default=0),
        "misplaced_chunks": _misplaced(version),
        "control": values["control"],
        "legible": min(1.0, (values["letters"] + values["digits"]) / ink),
        "encoded": min(1.0, _encoded(version.text) / (ink * max(len(version.text), 1))),
        "hidden": values["hidden"],
        "longest_run": int(values["longest_run"]),
    }


def _encoded(text: str) -> int:
    """Return the characters in long runs that mix cases and digits, unlike names, paths and checksums."""
    return sum(
        len(run) for run in _LONG_RUN.findall(text) if _DIGIT.search(run) and not run.isupper() and not run.islower()
    )


def _misplaced(version: Version) -> int:
    """Count the chunks that are out of order, or differ from the text at their place."""
    wrong, before = 0, 0
    for ordinal, chunk in enumerate(version.chunks):
        inside = before <= chunk.start < chunk.end <= len(version.text)
        if not inside or chunk.ordinal != ordinal or version.text[chunk.start : chunk.end] != chunk.text:
            wrong += 1
        before = max(before, chunk.start)
    return wrong


def _integrity() -> Iterator[Expectation]:
    # \Z, because $ lets a line feed follow; pandas 3 reads it with either of its regex engines.
    hexadecimal = {32: r"\A[0-9a-f]{32}\Z", 64: r"\A[0-9a-f]{64}\Z"}
    message = "An id is not 32 hexadecimal digits."
    yield Expectation("id", "version_id", "MatchRegex", {"regex": hexadecimal[32]}, message=message)
    yield Expectation("id", "doc_id", "MatchRegex", {"regex": hexadecimal[32]}, message=message)
    yield Expectation("twice", "version_id", "BeUnique", message="The same version is in the batch twice.")
    message = "A digest is not 64 hexadecimal digits."
    yield Expectation("digest", "content_sha256", "MatchRegex", {"regex": hexadecimal[64]}, message=message)
    yield Expectation("digest", "text_sha256", "MatchRegex", {"regex": hexadecimal[64]}, message=message)
    levels = [str(level) for level in TrustLevel]
    message = f"The trust level is none of {', '.join(levels)}."
    yield Expectation("trust", "trust", "BeInSet", {"value_set": levels}, message=message)
    message = "Chunks that are out of order or differ from the text at their place: {value}."
    yield Expectation("chunks", "misplaced_chunks", "BeBetween", {"min_value": 0, "max_value": 0}, message=message)
    message = "The stamp counts {value} bytes; 1 or more are expected."
    yield Expectation("bytes", "bytes", "BeBetween", {"min_value": 1}, Severity.MEDIUM, 0.5, message)


def _limits(params: StructureParams) -> Iterator[Expectation]:
    medium, low = Severity.MEDIUM, Severity.LOW
    limit: dict[str, float]
    allowed = {"value_set": list(params.media_types)}
    message = "The media type is not one of those expected."
    yield Expectation("media_type", "media_type", "BeInSet", allowed, medium, 0.5, message)
    message = f"The text has {{value}} characters; {params.min_chars:,} or more are expected."
    yield Expectation("too_short", "chars", "BeBetween", {"min_value": params.min_chars}, low, 0.2, message)
    message = f"The text has {{value}} characters; at most {params.max_chars:,} are expected."
    yield Expectation("too_long", "chars", "BeBetween", {"max_value": params.max_chars}, medium, 0.5, message)
    message = f"A chunk has {{value}} tokens; the embedder reads at most {params.max_chunk_tokens:,}."
    limit = {"min_value": 0, "max_value": params.max_chunk_tokens}
    yield Expectation("chunk_tokens", "longest_chunk", "BeBetween", limit, medium, 0.5, message)
    message = f"Control and replacement characters are {{value}} of the text; at most {params.max_control} is expected."
    limit = {"min_value": 0, "max_value": params.max_control}
    yield Expectation("control", "control", "BeBetween", limit, medium, 0.5, message)
    message = f"Letters and digits are {{value}} of what is printed; at least {params.min_legible} is expected."
    limit = {"min_value": params.min_legible, "max_value": 1}
    yield Expectation("illegible", "legible", "BeBetween", limit, medium, 0.4, message)
    message = f"Encoded runs are {{value}} of what is printed; at most {params.max_encoded} is expected."
    limit = {"min_value": 0, "max_value": params.max_encoded}
    yield Expectation("encoded", "encoded", "BeBetween", limit, medium, 0.4, message)
    message = f"Hidden text is {{value}} of all text; at most {params.max_hidden} is expected."
    limit = {"min_value": 0, "max_value": params.max_hidden}
    yield Expectation("hidden", "hidden", "BeBetween", limit, medium, 0.5, message)
    message = f"{{value}} characters in a row are without white space; at most {params.max_run:,} are expected."
    limit = {"min_value": 0, "max_value": params.max_run}
    yield Expectation("longest_run", "longest_run", "BeBetween", limit, medium, 0.5, message)
