"""The frame that suites are validated over: one row for each version, only the columns that a suite names.

It holds no text of a document beyond the short values that its source declared; those are cut at
`DECLARED_CHARS`, so that no expression of a suite runs long over what a stranger wrote.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Final, TypeAlias

from corpus_guard.domain import Finding, Version
from corpus_guard.screening.survey.signals import SIGNALS, measure_values

ROW: Final = "row"
"""The column that names a row: 0, 1, 2, …"""
DECLARED: Final = "declared_"
SCORE: Final = "score_"
DECLARED_CHARS: Final = 200

Value: TypeAlias = str | int | float | None

_MEDIA_TYPE: Final = re.compile(r"[a-z0-9.+-]{1,60}/[a-z0-9.+-]{1,100}")
_LONG_RUN: Final = re.compile("[A-Za-z0-9+/]{40,}")  # PEM lines have 64, MIME lines 76
_DIGIT: Final = re.compile("[0-9]")
_SECONDS_A_DAY: Final = 86_400


@dataclass(frozen=True)
class _Subject:
    """One version, with what its columns are made from."""

    version: Version
    times_in_batch: int
    findings: Sequence[Finding]

    @cached_property
    def measures(self) -> dict[str, float]:
        return measure_values(self.version)

    @cached_property
    def ink(self) -> float:
        """Return the share that is printed: padding and blank cells prove nothing."""
        return max(1.0 - self.measures["white_space"], 1.0 / max(len(self.version.text), 1))

    @property
    def age_days(self) -> float | None:
        stamp = self.version.stamp
        if stamp.modified_at is None:
            return None
        return (stamp.fetched_at - stamp.modified_at).total_seconds() / _SECONDS_A_DAY


_COLUMNS: Final[Mapping[str, tuple[str, Callable[[_Subject], Value]]]] = MappingProxyType(
    {
        "version_id": ("id of the version", lambda it: it.version.version_id),
        "doc_id": ("id of the document", lambda it: it.version.doc_id),
        "times_in_batch": ("how often the version is in the batch", lambda it: it.times_in_batch),
        "content_sha256": ("hash of the bytes", lambda it: it.version.stamp.content_sha256),
        "text_sha256": ("hash of the text", lambda it: it.version.text_sha256),
        "source": ("name of the source", lambda it: it.version.stamp.source),
        "owner": ("who answers for the source", lambda it: it.version.stamp.owner),
        "trust": ("trusted, reviewed or open", lambda it: str(it.version.stamp.trust)),
        "uri": ("place in the source, its last 200 characters", lambda it: it.version.stamp.uri[-DECLARED_CHARS:]),
        "media_type": ("media type, or `malformed`", lambda it: _media_type(it.version)),
        "bytes": ("size as fetched", lambda it: it.version.stamp.size),
        "modified_at": (
            "last change as the source reports it, ISO 8601, UTC; null: not reported",
            lambda it: it.version.stamp.modified_at.isoformat() if it.version.stamp.modified_at else None,
        ),
        "age_days": (
            "days from the last change to the fetch; below 0: changed in the future; null: not reported",
            lambda it: it.age_days,
        ),
        "revision": (
            "commit or object version in the source's history; null: none",
            lambda it: it.version.stamp.revision,
        ),
        "chunks": ("number of chunks", lambda it: len(it.version.chunks)),
        "longest_chunk": (
            "tokens of the longest chunk",
            lambda it: max((c.tokens for c in it.version.chunks), default=0),
        ),
        "misplaced_chunks": (
            "chunks out of order, or unlike the text at their place",
            lambda it: _misplaced(it.version),
        ),
        "legible": (
            "share of letters, marks and digits in what is printed",
            lambda it: min(1.0, (it.measures["letters"] + it.measures["digits"]) / it.ink),
        ),
        "encoded": (
            "share of long runs in both cases with digits (base64) in what is printed",
            lambda it: min(1.0, _encoded(it.version.text) / (it.ink * max(len(it.version.text), 1))),
        ),
        "findings": ("findings of earlier checks that count", lambda it: len(it.findings)),
    }
)
_WHOLE: Final = frozenset({"chars", "words", "tokens", "hidden_chars", "longest_line", "longest_run"})


def column_meanings(checks: Collection[str] = ()) -> dict[str, str]:
    """Return every column with its meaning.

    Args:
        checks: names of the checks that run earlier, for the columns of their scores.
    """
    scores = {f"{SCORE}{name}": f"strongest score of `{name}`, 0..1; 0: no finding that counts" for name in checks}
    return {**{name: meaning for name, (meaning, _) in _COLUMNS.items()}, **SIGNALS, **scores}


def build_frame(
    versions: Sequence[Version],
    columns: Collection[str],
    findings: Mapping[str, Sequence[Finding]] = MappingProxyType({}),
) -> list[dict[str, Value]]:
    """Return a row for each version, with `ROW` and the columns asked for.

    Args:
        columns: of `column_meanings`, or ``declared_`` with the name of a declared value.
        findings: of the checks that ran already, by version id; only those that count.
    """
    times = Counter(version.version_id for version in versions)
    subjects = (_Subject(each, times[each.version_id], findings.get(each.version_id, ())) for each in versions)
    return [
        {ROW: number, **{column: _value(subject, column) for column in columns}}
        for number, subject in enumerate(subjects)
    ]


def _value(subject: _Subject, column: str) -> Value:
    if column in _COLUMNS:
        return _COLUMNS[column][1](subject)
    if column in SIGNALS:
        value = subject.measures[column]
        return int(value) if column in _WHOLE else value
    if column.startswith(SCORE):
        check = column.removeprefix(SCORE)
        return max((finding.score for finding in subject.findings if finding.check == check), default=0.0)
    declared = subject.version.stamp.declared.get(column.removeprefix(DECLARED))
    return None if declared is None else str(declared)[:DECLARED_CHARS]


def _media_type(version: Version) -> str:
    name = version.stamp.media_type
    return name if _MEDIA_TYPE.fullmatch(name) else "malformed"


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
