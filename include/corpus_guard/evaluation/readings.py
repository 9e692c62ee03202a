"""What the language model read, kept by content: an ablation, or a second run, reads nothing twice."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

import orjson

from corpus_guard.batches.tables import split
from corpus_guard.corpus.filterrag import FeatureExtractor, Reading
from corpus_guard.domain import digest

Item = TypeVar("Item")
Progress = Callable[[str, int, int | None], object]
NOBODY: Progress = lambda what, done, total: None  # noqa: E731 - a progress that nobody watches
AT_ONCE = 64  # pairs read between two writes: a run that is stopped loses half a minute


class Readings:
    """Readings in a JSONL file, one a line, by the digest of feature version, question and texts. Of a text only its answer is kept."""

    def __init__(self, file: Path | None) -> None:
        """Keep readings in `file`; None keeps them in memory only."""
        self._file = file
        self._known: dict[str, Reading] = {}
        if file is not None and file.exists():
            for line in file.read_bytes().splitlines():
                try:
                    row = orjson.loads(line)
                    key = row.pop("key")
                    self._known[key] = Reading(**row)
                except (orjson.JSONDecodeError, KeyError, TypeError):
                    continue  # the last line of a run that was killed; it is read again

    def of(
        self,
        extractor: FeatureExtractor,
        pairs: Sequence[tuple[str, str]],
        progress: Progress = NOBODY,
    ) -> list[Reading]:
        """The readings of (question, text) pairs; new ones are made and kept.

        Args:
            extractor: reads what is new.
            pairs: what to read.
            progress: is told what is done, how much of it, and of how much.
        """
        keys = [digest("reading/v1", [extractor.version, *pair]) for pair in pairs]
        return self._made(keys, pairs, extractor.read, progress)

    def answers(self, extractor: FeatureExtractor, asked: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
        """What the language model answers to each question from several texts."""

        def read(part: Sequence[tuple[str, Sequence[str]]]) -> list[Reading]:
            return [Reading(one.text, one.log_probability, 1.0) for one in extractor.answer(part)]

        keys = [digest("answer/v1", [extractor.version, question, *texts]) for question, texts in asked]
        return [reading.answer for reading in self._made(keys, asked, read, NOBODY)]

    def _made(
        self,
        keys: Sequence[str],
        items: Sequence[Item],
        read: Callable[[Sequence[Item]], list[Reading]],
        progress: Progress,
    ) -> list[Reading]:
        new = {key: item for key, item in zip(keys, items, strict=True) if key not in self._known}
        for part in split(new, AT_ONCE):
            made = dict(zip(part, read([new[key] for key in part]), strict=True))
            self._known.update(made)
            self._keep(made)
            progress("reading", sum(key in self._known for key in keys), len(keys))
        return [self._known[key] for key in keys]

    def _keep(self, made: dict[str, Reading]) -> None:
        if self._file is None:
            return
        self._file.parent.mkdir(parents=True, exist_ok=True)
        lines = b"".join(orjson.dumps({"key": key, **asdict(one)}) + b"\n" for key, one in made.items())
        # One write of whole lines at the end of the file: two runs at once do not tear each other's.
        descriptor = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, lines)
        finally:
            os.close(descriptor)
