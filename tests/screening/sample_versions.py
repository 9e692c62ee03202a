"""Versions and policies for the tests of screening, with ids that follow from their content unless a test says otherwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

import material
from corpus_guard.domain import Finding, Severity, Version
from corpus_guard.intake.chunking import Chunker
from corpus_guard.screening.policy import Policy, load_policy
from corpus_guard.screening.standalone import ScreenedDocument
from corpus_guard.settings import Settings

Screen = Callable[..., list[ScreenedDocument]]
"""Texts, switched-off checks and fields of `ScreenOptions` in; a row for each text out."""

SHIPPED = load_policy(Settings().policy_file)
FETCHED = material.START


def a_version(
    text: str = "The pump house is inspected every spring, before the first boat is launched at the old quay.",
    *,
    uri: str = "handbook/pumps.md",
    hidden: str = "",
    tokens: int | None = None,
    **stamp: Any,
) -> Version:
    """A whole and honest version of one chunk; `stamp` overrides fields of its stamp."""
    version = material.a_version(uri, [text] if text else [], **{"source": "handbook", "declared": {}, **stamp})
    chunks = version.chunks if tokens is None else tuple(replace(chunk, tokens=tokens) for chunk in version.chunks)
    return replace(version, hidden=hidden, chunks=chunks)


def a_cut_version(chunker: Chunker, text: str, **fields: Any) -> Version:
    """The same in chunks, as a refresh cuts it."""
    whole = a_version(text, **fields)
    return replace(whole, chunks=chunker.cut(whole.doc_id, whole.version_id, text))


def changed(version: Version, **fields: Any) -> Version:
    """The same version with other fields, ids left as they are."""
    return replace(version, **fields)


def stamped(version: Version, **fields: Any) -> Version:
    """The same version with other fields in its stamp, ids left as they are."""
    return replace(version, stamp=replace(version.stamp, **fields))


def a_policy(**changes: Any) -> Policy:
    values: dict[str, Any] = {
        "name": "test",
        "quarantine": {
            "open": {"severity": "medium", "risk": 0.5},
            "reviewed": {"severity": "high", "risk": 0.8},
            "trusted": {"severity": "critical", "risk": 0.9},
        },
        "reject": ["parsing.empty", "parsing.binary"],
        "weights": {"info": 0.0, "low": 0.25, "medium": 0.6, "high": 0.9, "critical": 1.0},
        "retire": {"grace_hours": 72, "max_share": 0.5},
        "checks": {},
    }
    return Policy.model_validate({**values, **changes})


def finding(code: str = "unicode.bidi", severity: str = "low", score: float = 1.0) -> Finding:
    return Finding(code.partition(".")[0], code, Severity(severity), score, "message")


findings = st.builds(
    Finding,
    check=st.just("a"),
    code=st.sampled_from(["a.one", "a.two", "b.three", "b.unchecked", "parsing.empty"]),
    severity=st.sampled_from(Severity),
    score=st.floats(),
    message=st.just(""),
)
