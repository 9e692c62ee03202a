"""Is a parsed version whole, and within the limits that any real document keeps?

An expectation suite over ids, hashes, lengths and ratios (`corpus_guard.screening.expectations`). Its limits are wide:
what breaks one is damaged, is no prose, or was made to break something. Fails closed: when the suite gives no clean
answer, every version of the batch is unchecked.

What it does not do: compare with other documents (`statistics`), or read what the text says.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final

from pydantic import Field

from corpus_guard.domain import Finding, Severity, TrustLevel, Version, digest
from corpus_guard.screening.check import Hits, Params
from corpus_guard.screening.expectations import ROW, Rule, failures
from corpus_guard.screening.survey import Survey
from corpus_guard.screening.tags import tags

log = logging.getLogger(__name__)

_VERSION: Final = "structure/2"
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
    """What the embedder reads; the rest of a longer chunk would be served unseen."""
    max_control: float = Field(default=0.01, ge=0, le=1)
    """Control, private-use, unassigned and replacement characters: a decoder's damage."""
    min_legible: float = Field(default=0.1, ge=0, le=1)
    """Letters, marks and digits of any script, in all that is not white space: a table of numbers is legible, line noise is not."""
    max_encoded: float = Field(default=0.9, ge=0, le=1)
    """Long runs of letters in both cases and digits (base64), in all that is not white space."""
    max_hidden: float = Field(default=0.5, ge=0, le=1)
    """Text that a reader does not see, in all text."""
    max_run: int = Field(default=2_000, ge=100)
    """Without white space; in scripts without spaces a new letter ends a run."""
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


class Structure:
    """The expectation suite."""

    name: ClassVar[str] = "structure"
    across_documents: ClassVar[bool] = False
    second_stage: ClassVar[bool] = False
    Params: ClassVar[type[StructureParams]] = StructureParams

    def __init__(self, params: StructureParams | None = None) -> None:
        self.params = params or StructureParams()
        self.rules = _rules(self.params)

    @property
    def digest(self) -> str:
        """Of the parameters and this code's version."""
        return digest("check/v1", [_VERSION, self.params.model_dump_json()])

    def applies_to(self, version: Version) -> bool:
        """Every version."""
        return True

    def run(self, batch: Sequence[Version], survey: Survey | None) -> Hits:
        """Validate the batch as one frame; a version has at most one finding of each code."""
        if not batch:
            return
        try:
            rows = [_row(number, version) for number, version in enumerate(batch)]
            found = {(failure.row, failure.rule.code): failure.rule for failure in failures(rows, self.rules)}
        except Exception as error:  # whatever it was, nothing was checked
            # The rows hold no text, but an exception of pandas or GX may quote a value: only its type is told.
            log.warning("structure: %d versions unchecked: %s", len(batch), type(error).__name__)
            yield from ((position, self._unchecked(error)) for position in range(len(batch)))
            return
        for (position, _), rule in sorted(found.items(), key=lambda item: item[0]):
            yield position, _finding(self.name, rule, rows[position][rule.column])

    def _unchecked(self, error: Exception) -> Finding:
        message = f"The expectation suite gave no clean answer ({type(error).__name__}): not checked is not clean."
        return Finding(self.name, "structure.unchecked", Severity.HIGH, 0.5, message)


def _finding(name: str, rule: Rule, found: Any) -> Finding:
    shown = f"{found:,.4g}" if isinstance(found, float) else f"{found:,}" if isinstance(found, int) else "none"
    message = rule.message.replace("{found}", shown)
    keys = ["poisoning"] if rule.severity.rank >= Severity.MEDIUM.rank else []
    return Finding(name, rule.code, rule.severity, rule.score, message, tags=tags(keys))


def _row(number: int, version: Version) -> dict[str, Any]:
    from corpus_guard.screening.signals import values_of  # numpy and pyarrow; not needed to build the check

    values, media_type = values_of(version), version.stamp.media_type
    # Padding and blank cells say nothing either way: shares are of what is printed.
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
    """Characters in long runs that mix cases and digits as base64 does, and as names, paths and checksums do not."""
    return sum(
        len(run) for run in _LONG_RUN.findall(text) if _DIGIT.search(run) and not run.isupper() and not run.islower()
    )


def _misplaced(version: Version) -> int:
    """Chunks out of order, without a text of their own, or whose text is not what stands at their place."""
    wrong, before = 0, 0
    for ordinal, chunk in enumerate(version.chunks):
        inside = before <= chunk.start < chunk.end <= len(version.text)
        if not inside or chunk.ordinal != ordinal or version.text[chunk.start : chunk.end] != chunk.text:
            wrong += 1
        before = max(before, chunk.start)
    return wrong


def _rules(params: StructureParams) -> tuple[Rule, ...]:
    return (*_integrity(), *_limits(params))


def _integrity() -> Iterator[Rule]:
    # \Z, because $ lets a line feed follow; pandas 3 reads it with either of its regex engines.
    hexadecimal = {32: r"\A[0-9a-f]{32}\Z", 64: r"\A[0-9a-f]{64}\Z"}
    message = "An id is not 32 hexadecimal digits."
    yield Rule("structure.id", "version_id", "MatchRegex", {"regex": hexadecimal[32]}, message=message)
    yield Rule("structure.id", "doc_id", "MatchRegex", {"regex": hexadecimal[32]}, message=message)
    message = "The same version stands twice in one batch."
    yield Rule("structure.twice", "version_id", "BeUnique", message=message)
    message = "A digest is not 64 hexadecimal digits."
    yield Rule("structure.digest", "content_sha256", "MatchRegex", {"regex": hexadecimal[64]}, message=message)
    yield Rule("structure.digest", "text_sha256", "MatchRegex", {"regex": hexadecimal[64]}, message=message)
    message = "The trust level is none of trusted, reviewed, open."
    yield Rule(
        "structure.trust", "trust", "BeInSet", {"value_set": [str(level) for level in TrustLevel]}, message=message
    )
    message = "{found} chunks are out of order or do not say what the text says at their place."
    yield Rule("structure.chunks", "misplaced_chunks", "BeBetween", {"min_value": 0, "max_value": 0}, message=message)
    message = "The bytes are counted as {found}."
    yield Rule("structure.bytes", "bytes", "BeBetween", {"min_value": 1}, Severity.MEDIUM, 0.5, message)


def _limits(params: StructureParams) -> Iterator[Rule]:
    medium, low = Severity.MEDIUM, Severity.LOW
    limit: dict[str, float]
    known = {"value_set": list(params.media_types)}
    yield Rule(
        "structure.media_type", "media_type", "BeInSet", known, medium, 0.5, "The media type is not a known one."
    )
    message = f"The text has {{found}} characters; {params.min_chars:,} or more are expected."
    yield Rule("structure.too_short", "chars", "BeBetween", {"min_value": params.min_chars}, low, 0.2, message)
    message = f"The text has {{found}} characters; at most {params.max_chars:,} are expected."
    yield Rule("structure.too_long", "chars", "BeBetween", {"max_value": params.max_chars}, medium, 0.5, message)
    message = f"A chunk has {{found}} tokens; the embedder is shown at most {params.max_chunk_tokens:,}."
    limit = {"min_value": 0, "max_value": params.max_chunk_tokens}
    yield Rule("structure.chunk_tokens", "longest_chunk", "BeBetween", limit, medium, 0.5, message)
    message = (
        f"Control and replacement characters make up {{found}} of the text; at most {params.max_control} is expected."
    )
    limit = {"min_value": 0, "max_value": params.max_control}
    yield Rule("structure.control", "control", "BeBetween", limit, medium, 0.5, message)
    message = f"Letters and digits make up {{found}} of what is printed; at least {params.min_legible} is expected."
    limit = {"min_value": params.min_legible, "max_value": 1}
    yield Rule("structure.illegible", "legible", "BeBetween", limit, medium, 0.4, message)
    message = f"Encoded runs make up {{found}} of what is printed; at most {params.max_encoded} is expected."
    limit = {"min_value": 0, "max_value": params.max_encoded}
    yield Rule("structure.encoded", "encoded", "BeBetween", limit, medium, 0.4, message)
    message = f"Hidden text makes up {{found}} of all text; at most {params.max_hidden} is expected."
    limit = {"min_value": 0, "max_value": params.max_hidden}
    yield Rule("structure.hidden", "hidden", "BeBetween", limit, medium, 0.5, message)
    message = f"{{found}} characters stand without white space; at most {params.max_run:,} are expected."
    limit = {"min_value": 0, "max_value": params.max_run}
    yield Rule("structure.longest_run", "longest_run", "BeBetween", limit, medium, 0.5, message)
