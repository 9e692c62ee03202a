"""Which checks there are, and how each is built from its section of policy.yaml.

A new check is one file and one line here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from corpus_guard.errors import SettingsError
from corpus_guard.models import Models
from corpus_guard.screening import check
from corpus_guard.screening.coordination import Coordination
from corpus_guard.screening.duplicates import Duplicates
from corpus_guard.screening.instructions import Instructions
from corpus_guard.screening.modification import Modification
from corpus_guard.screening.overruling import Overruling
from corpus_guard.screening.perplexity import Perplexity
from corpus_guard.screening.policy import Policy
from corpus_guard.screening.provenance import Provenance
from corpus_guard.screening.question_led import QuestionLed
from corpus_guard.screening.runner import Mutes, ResultCache, Screening
from corpus_guard.screening.statistics import Statistics
from corpus_guard.screening.structure import Structure
from corpus_guard.screening.targeting import Targeting
from corpus_guard.screening.typos import Typos
from corpus_guard.screening.unicode_tricks import UnicodeTricks
from corpus_guard.screening.wording import wording_of
from corpus_guard.settings import validate


def _perplexity(params: Any, models: Models) -> check.Check:
    return Perplexity(params, models.frequency_vocabulary, models.language_model_digest, lambda: models.language_model)


CHECKS: Mapping[str, tuple[type[check.Params], Callable[[Any, Models], check.Check]]] = {
    "structure": (Structure.Params, lambda params, models: Structure(params)),
    "unicode": (UnicodeTricks.Params, lambda params, models: UnicodeTricks(params)),
    "instructions": (Instructions.Params, lambda params, models: Instructions(params)),
    "typos": (Typos.Params, lambda params, models: Typos(params, models.frequency_vocabulary)),
    "question_led": (
        QuestionLed.Params,
        lambda params, models: QuestionLed(params, wording_of(models.frequency_vocabulary)),
    ),
    "overruling": (Overruling.Params, lambda params, models: Overruling(params)),
    "provenance": (Provenance.Params, lambda params, models: Provenance(params)),
    "modification": (Modification.Params, lambda params, models: Modification(params, Instructions())),
    "duplicates": (Duplicates.Params, lambda params, models: Duplicates(params)),
    "coordination": (Coordination.Params, lambda params, models: Coordination(params)),
    "targeting": (Targeting.Params, lambda params, models: Targeting(params, wording_of(models.frequency_vocabulary))),
    "statistics": (Statistics.Params, lambda params, models: Statistics(params)),
    "perplexity": (Perplexity.Params, _perplexity),
}
"""Name → (parameters, how to build), in the order they run."""


def build_screening(
    policy: Policy, models: Models, cache: ResultCache | None = None, mutes: Mutes = MappingProxyType({})
) -> Screening:
    """The checks a policy asks for; loads no model.

    Raises:
        SettingsError: a section names an unknown check, or a parameter is wrong.
    """
    unknown = sorted(set(policy.checks) - set(CHECKS))
    if unknown:
        raise SettingsError(f"policy {policy.name}: checks.{unknown[0]}: no such check; known: {', '.join(CHECKS)}")
    missing = sorted(set(CHECKS) - set(policy.checks))
    if missing:
        raise SettingsError(
            f"policy {policy.name}: checks.{missing[0]}: missing; add it, or switch it off with `{missing[0]}: {{enabled: false}}`"
        )
    stray = sorted(name for name in policy.shadow if name.partition(".")[0] not in CHECKS)
    if stray:
        raise SettingsError(
            f"policy {policy.name}: shadow: {stray[0]}: neither a check nor the code of one; known checks: {', '.join(CHECKS)}"
        )
    checks = []
    for name, (model, build) in CHECKS.items():
        params = validate(dict(policy.checks[name]), model, where=f"policy {policy.name}: checks.{name}")
        if params.enabled:
            checks.append(build(params, models))
    return Screening(policy, checks, cache, mutes)
