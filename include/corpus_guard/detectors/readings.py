"""Cache of the language model's readings, by content: an ablation or a second run reads nothing twice."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

import orjson

from corpus_guard.batches.tables import in_batches
from corpus_guard.corpus.filterrag.features import FeatureExtractor, Reading
from corpus_guard.domain import Progress, digest, no_progress

Item = TypeVar("Item")
PAIRS_PER_WRITE = 64  # a run that is stopped loses half a minute


class ReadingCache:
    """Readings in a JSONL file, one per line, by the digest of feature version, question and texts.

    Only answers are stored, no text.
    """

    def __init__(self, file: Path | None) -> None:
        """Store readings in `file`; None keeps them in memory only."""
        self._file = file
        self._readings: dict[str, Reading] = {}
        if file is not None and file.exists():
            for line in file.read_bytes().splitlines():
                try:
                    row = orjson.loads(line)
                    key = row.pop("key")
                    self._readings[key] = Reading(**row)
                except (orjson.JSONDecodeError, KeyError, TypeError):
                    continue  # the last line of a killed run; that pair is read again

    def read(
        self, extractor: FeatureExtractor, pairs: Sequence[tuple[str, str]], progress: Progress = no_progress
    ) -> list[Reading]:
        """Return the readings of (question, text) pairs; new ones are made and stored."""
        keys = [digest("reading/v1", [extractor.version, *pair]) for pair in pairs]
        return self._complete(keys, pairs, extractor.read, progress)

    def answers(self, extractor: FeatureExtractor, prompts: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
        """Return the language model's answer to each question from several texts."""

        def answer(part: Sequence[tuple[str, Sequence[str]]]) -> list[Reading]:
            return [Reading(answer.text, answer.log_probability, 1.0) for answer in extractor.answer(part)]

        keys = [digest("answer/v1", [extractor.version, question, *texts]) for question, texts in prompts]
        return [reading.answer for reading in self._complete(keys, prompts, answer, no_progress)]

    def _complete(
        self,
        keys: Sequence[str],
        items: Sequence[Item],
        read: Callable[[Sequence[Item]], list[Reading]],
        progress: Progress,
    ) -> list[Reading]:
        new = {key: item for key, item in zip(keys, items, strict=True) if key not in self._readings}
        for part in in_batches(new, PAIRS_PER_WRITE):
            made = dict(zip(part, read([new[key] for key in part]), strict=True))
            self._readings.update(made)
            self._append(made)
            progress("reading", sum(key in self._readings for key in keys), len(keys))
        return [self._readings[key] for key in keys]

    def _append(self, made: dict[str, Reading]) -> None:
        if self._file is None:
            return
        self._file.parent.mkdir(parents=True, exist_ok=True)
        lines = b"".join(orjson.dumps({"key": key, **asdict(reading)}) + b"\n" for key, reading in made.items())
        # One write of whole lines at the end of the file, so that two concurrent runs do not mix their lines.
        descriptor = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, lines)
        finally:
            os.close(descriptor)
