"""The real screening behind the one door."""

from __future__ import annotations

import pytest

from corpus_guard.attacks.overrides import CARRIERS, PHRASES, plant_phrase
from corpus_guard.domain import TrustLevel
from corpus_guard.errors import SettingsError
from corpus_guard.evaluation.screening.own_texts import JOINERS
from corpus_guard.evaluation.screening.screener import GuardScreener, keep_checks
from corpus_guard.screening.policy import load_policy
from corpus_guard.settings import Settings
from siblings import QUESTION, SIBLINGS, UNRELATED


@pytest.fixture
def guard(models_home: object) -> GuardScreener:
    return GuardScreener(Settings(home=models_home))


def test_a_plain_override_is_caught_with_its_code_and_an_honest_page_is_not(guard: GuardScreener) -> None:
    attack, honest, odd = guard.screen(
        [plant_phrase(PHRASES[0], CARRIERS[0]), CARRIERS[0].format(""), "lone \ud800 surrogate in a letter"],
        one_by_one=True,
    )

    assert (attack.caught, honest.caught) == (True, False)
    assert any(code.startswith("instructions.") for code in attack.codes)
    assert attack.risk > honest.risk
    assert 0 <= odd.risk <= 1
    assert len(guard.policy_digest) == 64


def test_a_check_is_measured_alone_enforced_and_without_its_cap(models_home: object) -> None:
    text = f"{QUESTION} {SIBLINGS[0]}"
    settings = Settings(home=models_home)
    alone = GuardScreener(settings, checks=["filter_features"])

    planted, other = alone.screen([text, UNRELATED[4]], one_by_one=True, bank=[QUESTION])
    (override,) = alone.screen([plant_phrase(PHRASES[0], CARRIERS[0])], one_by_one=True)

    assert (planted.caught, planted.codes) == (True, ("filter_features.poisoned",))
    assert (other.caught, override.caught) == (False, False)
    capped = keep_checks(load_policy(settings.policy_file), ["filter_features"])
    assert capped.checks["filter_features"]["max_pairs"] > 1_000_000
    assert not capped.shadow
    with pytest.raises(SettingsError, match=r"check 'fliter': not in policy default; expected one of: structure, .*"):
        GuardScreener(settings, checks=["fliter"])


def test_no_joiner_is_held_back(guard: GuardScreener) -> None:
    outcomes = guard.screen(list(JOINERS.values()), one_by_one=True)

    assert [name for name, outcome in zip(JOINERS, outcomes, strict=True) if outcome.caught] == []


def test_trust_decides(models_home: object) -> None:
    text = plant_phrase(PHRASES[3], CARRIERS[1])
    settings = Settings(home=models_home)

    risks = {trust: GuardScreener(settings, trust).screen([text], one_by_one=True)[0].risk for trust in TrustLevel}

    assert len(risks) == 3
    assert risks[TrustLevel.OPEN] >= risks[TrustLevel.TRUSTED]
