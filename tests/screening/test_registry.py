"""Which checks there are."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from corpus_guard.corpus.filterrag.filters import ClassifierInUse
from corpus_guard.corpus.filterrag.learned import load_shipped
from corpus_guard.errors import SettingsError
from corpus_guard.models import Models
from corpus_guard.screening.policy import Policy, load_policy
from corpus_guard.screening.registry import CHECKS, build_screening
from corpus_guard.settings import Settings


@pytest.fixture(scope="module")
def models() -> Models:
    return Models(Settings())


def with_checks(**sections: Any) -> Policy:
    policy = load_policy(Settings().policy_file)
    return policy.model_copy(update={"checks": {**policy.checks, **sections}})


@pytest.mark.parametrize("name", CHECKS)
def test_a_check_carries_the_name_of_its_section(name: str, models: Models) -> None:
    params, build = CHECKS[name]
    check = build(params(), models)

    assert check.name == name
    assert isinstance(check.across_documents, bool)
    assert isinstance(check.second_stage, bool)
    assert check.second_stage == hasattr(check, "wants")


@pytest.mark.parametrize("name", CHECKS)
def test_a_check_can_be_switched_off_and_that_is_in_the_digest(name: str, models: Models) -> None:
    whole = build_screening(with_checks(), models)
    less = build_screening(with_checks(**{name: {"enabled": False}}), models)

    assert [check.name for check in whole._checks if check.name != name] == [check.name for check in less._checks]
    assert whole.digest != less.digest


def test_checks_have_digests_of_their_own(models: Models) -> None:
    digests = [check.digest for check in build_screening(with_checks(), models)._checks]

    assert len(set(digests)) == len(CHECKS)


def test_the_classifier_in_use_is_in_the_digest_of_its_check_alone(models: Models) -> None:
    shipped = build_screening(with_checks(), models).check_digests()
    promoted = build_screening(
        with_checks(), models, classifier=ClassifierInUse("f" * 64, load_shipped)
    ).check_digests()

    assert {name for name in shipped if shipped[name] != promoted[name]} == {"filter_features"}


def test_another_language_model_is_another_policy_digest(models: Models) -> None:
    other = Models(Settings())
    other.__dict__["language_model_digest"] = "f" * 64

    assert build_screening(with_checks(), other).digest != build_screening(with_checks(), models).digest


@pytest.mark.parametrize(
    ("sections", "says"),
    [
        ({"perplexty": {}}, "checks.perplexty: no such check; expected one of: structure"),
        ({"statistics": {"madness": 3}}, r"checks\.statistics: madness: unknown key"),
    ],
)
def test_a_wrong_section_is_named(sections: dict[str, Any], says: str, models: Models) -> None:
    with pytest.raises(SettingsError, match=says):
        build_screening(with_checks(**sections), models)


def test_building_loads_no_model_and_no_suite() -> None:
    code = (
        "import sys; from corpus_guard.settings import Settings; from corpus_guard.models import Models;"
        "from corpus_guard.screening.policy import load_policy; from corpus_guard.screening.registry import build_screening;"
        "s = Settings(); build_screening(load_policy(s.policy_file), Models(s));"
        "print([m for m in ('torch', 'transformers', 'great_expectations', 'pandas', 'chromadb') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
