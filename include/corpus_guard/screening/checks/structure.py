"""Parsed versions that are incomplete, or beyond the limits that any real document keeps.

An expectation suite over ids, hashes, lengths and ratios: `screening/suites/structure.yaml`. Its limits are
wide: a text that breaks one is damaged, is no prose, or was made to break something. It fails closed: when the
suite gives no clean answer, every version of the batch is unchecked.

What it does not do: compare with other documents (`statistics`), or judge what the text says.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

from pydantic import Field

from corpus_guard.domain import Finding, Severity, Version
from corpus_guard.screening.check import ConfiguredCheck, Hits, Params
from corpus_guard.screening.suites.frame import build_frame, column_meanings
from corpus_guard.screening.suites.suite import Suite, load_suite
from corpus_guard.screening.suites.validation import describe_failure, find_failures
from corpus_guard.screening.survey.survey import Survey
from corpus_guard.screening.tags import tag_ids

log = logging.getLogger(__name__)

SUITE_FILE: Final = Path(__file__).parents[1] / "suites" / "structure.yaml"
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
    """Share of text that a reader does not see in all text. More is a low finding: pages of the web hold menus, texts
    of pictures and comments, none of which is published."""
    min_hidden: int = Field(default=2_000, ge=0)
    """Hidden code points up to which their share says nothing: short pages that a program wrote hold a licence, marks
    of navigation and tooltips. What they say is screened all the same (`instructions`)."""
    max_run: int = Field(default=2_000, ge=100)
    """Longest run without white space; in scripts without spaces a new letter ends a run."""
    media_types: tuple[str, ...] = (
        "application/epub+zip",
        "application/pdf",
        f"{_OFFICE}presentationml.presentation",
        f"{_OFFICE}spreadsheetml.sheet",
        f"{_OFFICE}wordprocessingml.document",
        "application/x-ipynb+json",
        "application/x-row+json",
        "message/rfc822",
        "text/html",
        "text/markdown",
        "text/plain",
    )


class Structure(ConfiguredCheck[StructureParams]):
    """Expectation suite over ids, hashes, lengths and ratios."""

    name = "structure"
    params_class = StructureParams
    code_version = ("structure/5",)

    @cached_property
    def suite(self) -> Suite:
        """The suite, with the limits of the parameters."""
        return load_suite(SUITE_FILE, column_meanings(), self.params.model_dump())

    def resources(self) -> Sequence[str]:
        """Return the digest of the suite."""
        return [self.suite.digest]

    def applies_to(self, version: Version) -> bool:
        """Return True for every version."""
        return True

    def run(self, batch: Sequence[Version], survey: Survey | None) -> Hits:
        """Validate the batch as one frame; a version has at most one finding of each code."""
        if not batch:
            return
        try:
            rows = build_frame(batch, self.suite.columns(column_meanings()))
            failed = {(it.row, it.expectation.rule): it for it in find_failures(rows, self.suite.expectations)}
        except Exception as error:  # whatever it was, nothing was checked
            # The rows hold no text, but an exception of pandas or GX may quote a value: only its type is
            # logged.
            log.warning("structure: %d versions unchecked: %s", len(batch), type(error).__name__)
            yield from ((position, self._unchecked(error)) for position in range(len(batch)))
            return
        for (position, rule), failure in sorted(failed.items(), key=lambda item: item[0]):
            code, tags = f"{self.name}.{rule}", tag_ids(("poisoning",))
            yield position, describe_failure(self.name, code, failure, rows[position], tags)

    def _unchecked(self, error: Exception) -> Finding:
        message = f"The expectation suite gave no clean answer ({type(error).__name__}): not checked is not clean."
        return self.finding("unchecked", Severity.HIGH, 0.5, message)
