"""Interface of the screeners that are compared, and the guard as one of them."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from corpus_guard.detectors.vector_cache import CachingModels
from corpus_guard.domain import Finding, Progress, Severity, TrustLevel, Verdict, no_progress
from corpus_guard.errors import Inconsistent, SettingsError
from corpus_guard.screening.checks.filter_features import FilterFeatures
from corpus_guard.screening.policy import Policy, load_policy
from corpus_guard.screening.standalone import ScreenedDocument, ScreenOptions, screen_input
from corpus_guard.settings import Settings
from corpus_guard.tracking.measures import ScreeningOutcome


def keep_checks(policy: Policy, checks: Sequence[str]) -> Policy:
    """Return the policy with these checks alone, enforced, and without a limit on the pairs that a run reads.

    Raises:
        SettingsError: the policy knows no such check.
    """
    if unknown := sorted(set(checks) - policy.checks.keys()):
        raise SettingsError(
            f"check {unknown[0]!r}: not in policy {policy.name}; expected one of: {', '.join(policy.checks)}"
        )
    sections = {name: {**section, "enabled": name in checks} for name, section in policy.checks.items()}
    if FilterFeatures.name in sections:
        sections[FilterFeatures.name]["max_pairs"] = sys.maxsize
    return policy.without_shadow.model_copy(update={"checks": sections})


class Screener(Protocol):
    """Anything that screens texts."""

    name: str

    def screen(self, texts: Sequence[str], *, one_by_one: bool, bank: Sequence[str]) -> list[ScreeningOutcome]:
        """Return one outcome per text, in order.

        Args:
            texts: arrive together.
            one_by_one: judge each text without regard to the others.
            bank: questions that users are known to ask; empty on day one.
        """


class FindingCache:
    """Results of slow checks in one evaluation: a text in many batches is scored once."""

    def __init__(self) -> None:
        self._results: dict[str, Sequence[Finding]] = {}

    def load(self, keys: Sequence[str]) -> Mapping[str, Sequence[Finding]]:
        """Return the cached results."""
        return {key: self._results[key] for key in keys if key in self._results}

    def save(self, results: Mapping[str, Sequence[Finding]]) -> None:
        """Cache results."""
        self._results.update(results)


class GuardScreener:
    """Screener like `guard screen`, with the settings and the policy of this machine."""

    name = "corpus-guard"

    def __init__(
        self,
        settings: Settings,
        trust: TrustLevel = TrustLevel.OPEN,
        progress: Progress = no_progress,
        checks: Sequence[str] = (),
    ) -> None:
        """
        Args:
            checks: the only checks that judge, shadowed or not, without a limit on what they read; empty: all,
                as the policy has them.

        Raises:
            SettingsError: the policy knows no such check.
        """
        self._settings = settings
        self._policy = keep_checks(load_policy(settings.policy_file), checks) if checks else None
        self._trust = trust
        self._progress = progress
        self._cache = FindingCache()
        self._models = CachingModels(settings)
        self.policy_digest = ""  # of the last verdict

    def screen(self, texts: Sequence[str], *, one_by_one: bool, bank: Sequence[str] = ()) -> list[ScreeningOutcome]:
        """Screen texts as rows of one file from one source.

        Raises:
            Inconsistent: there are not as many verdicts as texts.
        """
        with tempfile.TemporaryDirectory(prefix="corpus-guard-evaluation-") as folder:
            path = Path(folder) / "texts.jsonl"
            with path.open("w", encoding="ascii") as file:  # escaped, because of lone surrogates
                file.writelines(json.dumps({"id": number, "text": text}) + "\n" for number, text in enumerate(texts))
            rows = screen_input(
                self._settings,
                path,
                ScreenOptions(trust=self._trust, one_by_one=one_by_one, bank=bank),
                policy=self._policy,
                cache=self._cache,
                models=self._models,
                progress=self._progress,
            )
            outcomes = [self._outcome(row) for row in rows]
        if len(outcomes) != len(texts):
            raise Inconsistent(f"screening: {len(outcomes)} verdicts for {len(texts)} texts; expected one each")
        return outcomes

    def _outcome(self, row: ScreenedDocument) -> ScreeningOutcome:
        judgement = row.judgement
        self.policy_digest = judgement.policy_digest
        codes = tuple(finding.code for finding in judgement.findings if finding.severity is not Severity.INFO)
        return ScreeningOutcome(judgement.verdict is not Verdict.ACCEPT, judgement.risk, codes)
