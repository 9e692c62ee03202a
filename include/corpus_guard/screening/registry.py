"""Registry of checks, and their construction from the sections of policy.yaml.

A new check is one file in `checks/` and one line here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from corpus_guard.corpus.filterrag.filters import SHIPPED_CLASSIFIER, ClassifierInUse
from corpus_guard.errors import SettingsError
from corpus_guard.models import Models
from corpus_guard.screening.check import Check, Params
from corpus_guard.screening.checks.conflict import Conflict, ConflictParams
from corpus_guard.screening.checks.coordination import Coordination, CoordinationParams
from corpus_guard.screening.checks.duplicates import Duplicates, DuplicatesParams
from corpus_guard.screening.checks.expectation import ExpectationParams, Expectations
from corpus_guard.screening.checks.filter_features import FilterFeatures, FilterFeaturesParams
from corpus_guard.screening.checks.hubness import Hubness, HubnessParams
from corpus_guard.screening.checks.instructions import Instructions, InstructionsParams
from corpus_guard.screening.checks.modification import Modification, ModificationParams
from corpus_guard.screening.checks.overruling import Overruling, OverrulingParams
from corpus_guard.screening.checks.perplexity import Perplexity, PerplexityParams
from corpus_guard.screening.checks.provenance import Provenance, ProvenanceParams
from corpus_guard.screening.checks.question_led import QuestionLed, QuestionLedParams
from corpus_guard.screening.checks.statistics import Statistics, StatisticsParams
from corpus_guard.screening.checks.structure import Structure, StructureParams
from corpus_guard.screening.checks.targeting import Targeting, TargetingParams
from corpus_guard.screening.checks.typos import Typos, TyposParams
from corpus_guard.screening.checks.unicode_tricks import UnicodeParams, UnicodeTricks
from corpus_guard.screening.extensions import NO_EXTENSIONS, Extensions
from corpus_guard.screening.orders.classifier import load_classifier
from corpus_guard.screening.policy import Policy, load_policy
from corpus_guard.screening.runner import MutedCodes, ResultCache, Screening
from corpus_guard.screening.suites.frame import column_meanings
from corpus_guard.screening.wording import Wording, load_wording
from corpus_guard.settings import PACKAGE, validate

SURELY_MISTYPED: Final = 0.9  # likeness of a code to one that the shipped policy rejects


def _instructions(params: InstructionsParams, models: Models) -> Instructions:
    return Instructions(params, classifier=lambda: load_classifier(lambda: models.pair_encoder_weights))


CHECKS: Final[Mapping[str, tuple[type[Params], Callable[[Any, Models], Check]]]] = MappingProxyType(
    {
        "structure": (StructureParams, lambda params, models: Structure(params)),
        "unicode": (UnicodeParams, lambda params, models: UnicodeTricks(params)),
        "instructions": (InstructionsParams, _instructions),
        "typos": (TyposParams, lambda params, models: Typos(params, models.frequency_vocabulary)),
        "question_led": (QuestionLedParams, lambda params, models: QuestionLed(params, _wording(models))),
        "overruling": (OverrulingParams, lambda params, models: Overruling(params)),
        "provenance": (ProvenanceParams, lambda params, models: Provenance(params)),
        "modification": (
            ModificationParams,
            lambda params, models: Modification(params, _instructions(InstructionsParams(), models)),
        ),
        "duplicates": (DuplicatesParams, lambda params, models: Duplicates(params)),
        "conflict": (ConflictParams, lambda params, models: Conflict(params)),
        "coordination": (CoordinationParams, lambda params, models: Coordination(params)),
        "targeting": (TargetingParams, lambda params, models: Targeting(params, _wording(models))),
        "hubness": (HubnessParams, lambda params, models: Hubness(params)),
        "statistics": (StatisticsParams, lambda params, models: Statistics(params)),
        "expectation": (ExpectationParams, lambda params, models: Expectations(params)),
        "filter_features": (FilterFeaturesParams, FilterFeatures),
        "perplexity": (
            PerplexityParams,
            lambda params, models: Perplexity(
                params, models.frequency_vocabulary, models.language_model_digest, lambda: models.language_model
            ),
        ),
    }
)
"""Name → (parameters, constructor), in the order the checks run."""


BEFORE_CHECKS: Final = ("intake", "parsing")
"""First parts of the codes of findings that no check makes."""


def _refuse_mistyped_rejections(policy: Policy, names: Sequence[str]) -> None:
    """Raise SettingsError on a code that no finding can have: it would reject nothing, unseen."""
    shipped = _shipped_rejections()
    for code in sorted(policy.reject - shipped):
        where = f"policy {policy.name}: reject: {code}"
        check, _, rest = code.partition(".")
        if check not in names or not rest:
            raise SettingsError(
                f"{where}: expected a code, such as parsing.empty; codes begin with: {', '.join(names)}"
            )
        if near := get_close_matches(code, shipped, 1, SURELY_MISTYPED):
            raise SettingsError(f"{where}: no such code; correct it to {near[0]}")


@cache
def _shipped_rejections() -> frozenset[str]:
    return load_policy(PACKAGE / "policy.yaml").reject


def _wording(models: Models) -> Wording:
    return load_wording(models.frequency_vocabulary)


def build_screening(
    policy: Policy,
    models: Models,
    cache: ResultCache | None = None,
    mutes: MutedCodes = MappingProxyType({}),
    classifier: ClassifierInUse = SHIPPED_CLASSIFIER,
    extensions: Extensions = NO_EXTENSIONS,
) -> Screening:
    """Build the checks that a policy enables; loads no model.

    A check of one's own that the policy has no section for is on trial: the policy of the result shadows it.

    Args:
        models: opened when a check first needs one.
        mutes: source → finding codes that two people muted.

    Raises:
        SettingsError: a section, a shadowed or a rejected code names an unknown check, or a parameter is wrong.
    """
    own = extensions.checks
    names = (*CHECKS, *own)
    unknown = sorted(set(policy.checks) - set(names))
    if unknown:
        raise SettingsError(
            f"policy {policy.name}: checks.{unknown[0]}: no such check; expected one of: {', '.join(names)}"
        )
    missing = sorted(set(CHECKS) - set(policy.checks))
    if missing:
        raise SettingsError(
            f"policy {policy.name}: checks.{missing[0]}: missing; add it, or switch it off with "
            f"`{missing[0]}: {{enabled: false}}`"
        )
    unknown = sorted(name for name in policy.shadow if name.partition(".")[0] not in names)
    if unknown:
        raise SettingsError(
            f"policy {policy.name}: shadow: {unknown[0]}: neither a check nor a code of a check; "
            f"checks are: {', '.join(names)}"
        )
    _refuse_mistyped_rejections(policy, (*BEFORE_CHECKS, *names))
    if trial := set(own) - set(policy.checks):
        policy = policy.model_copy(update={"shadow": policy.shadow | trial})
    checks: list[Check] = []
    for name, (model, build) in CHECKS.items():
        params = validate(dict(policy.checks[name]), model, where=f"policy {policy.name}: checks.{name}")
        if params.enabled and isinstance(params, FilterFeaturesParams):
            checks.append(FilterFeatures(params, models, classifier))
        elif params.enabled and isinstance(params, ExpectationParams):
            columns = column_meanings(("parsing", *names))
            checks.append(Expectations(params, extensions.suites, tuple(columns)))
        elif params.enabled:
            checks.append(build(params, models))
    for name, kind in own.items():
        params = validate(
            dict(policy.checks.get(name, {})), kind.params_class, where=f"policy {policy.name}: checks.{name}"
        )
        if params.enabled:
            checks.append(kind.build(params))
    return Screening(policy, checks, cache, mutes)
