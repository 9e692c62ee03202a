"""Kinds of things whose exposure is measured; imports nothing, so that the command starts fast."""

from __future__ import annotations

from enum import StrEnum


class SubjectKind(StrEnum):
    """Kind of thing whose exposure is measured; each stands for a set of chunks."""

    CHUNK = "chunk"
    DOCUMENT = "document"  # every version of it
    TRACE = "trace"  # the texts it accuses
    SOURCE = "source"
    RUN = "run"  # what it took in
    PRINCIPAL = "principal"  # who stands behind documents: `versions.principal`
    PURGE = "purge"  # what it erased; the log keeps the ids
