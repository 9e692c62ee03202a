"""The one door to what is measured: texts in, outcomes out."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from corpus_guard.domain import Finding, Severity, TrustLevel, Verdict
from corpus_guard.errors import Inconsistent
from corpus_guard.evaluation.measures import Outcome
from corpus_guard.evaluation.vectors import RememberingModels
from corpus_guard.screening.standalone import Row, screen_input
from corpus_guard.settings import Settings

Progress = Callable[[str, int, int | None], None]


class Screener(Protocol):
    """Anything that can be put to the same test."""

    name: str

    def screen(self, texts: Sequence[str], *, one_by_one: bool, bank: Sequence[str]) -> list[Outcome]:
        """One outcome for every text, in order.

        Args:
            texts: that arrive together.
            one_by_one: each is to be judged without looking at the others.
            bank: the questions that users are known to ask; empty on day one.
        """


class Remembered:
    """What slow checks found, for the length of one evaluation: a text in many batches is scored once."""

    def __init__(self) -> None:
        self._results: dict[str, Sequence[Finding]] = {}

    def load(self, keys: Sequence[str]) -> Mapping[str, Sequence[Finding]]:
        """Known results."""
        return {key: self._results[key] for key in keys if key in self._results}

    def save(self, results: Mapping[str, Sequence[Finding]]) -> None:
        """Remember."""
        self._results.update(results)


class CorpusGuard:
    """`guard screen`, with the settings and the policy of this machine."""

    name = "corpus-guard"

    def __init__(
        self,
        settings: Settings,
        trust: TrustLevel = TrustLevel.OPEN,
        progress: Progress = lambda what, done, total: None,
    ) -> None:
        self._settings = settings
        self._trust = trust
        self._progress = progress
        self._cache = Remembered()
        self._models = RememberingModels(settings)
        self.policy_digest = ""  # of the last verdict

    def screen(self, texts: Sequence[str], *, one_by_one: bool, bank: Sequence[str] = ()) -> list[Outcome]:
        """Every text is a row of one file from one source.

        Raises:
            Inconsistent: there are not as many verdicts as texts.
        """
        with tempfile.TemporaryDirectory(prefix="corpus-guard-evaluation-") as folder:
            path = Path(folder) / "texts.jsonl"
            with path.open("w", encoding="ascii") as file:  # escaped, so that a lone surrogate can travel
                file.writelines(json.dumps({"id": number, "text": text}) + "\n" for number, text in enumerate(texts))
            rows = screen_input(
                self._settings,
                path,
                trust=self._trust,
                one_by_one=one_by_one,
                bank=bank,
                cache=self._cache,
                models=self._models,
                progress=self._progress,
            )
            outcomes = [self._outcome(row) for row in rows]
        if len(outcomes) != len(texts):
            raise Inconsistent(f"screening: {len(outcomes)} verdicts for {len(texts)} texts; expected one each")
        return outcomes

    def _outcome(self, row: Row) -> Outcome:
        judgement = row.judgement
        self.policy_digest = judgement.policy_digest
        codes = tuple(finding.code for finding in judgement.findings if finding.severity is not Severity.INFO)
        return Outcome(judgement.verdict is not Verdict.ACCEPT, judgement.risk, codes)
