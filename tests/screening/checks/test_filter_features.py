"""ML-FilterRAG at ingestion: what it reads, what it finds, what it leaves unread, and that it only records."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sample_versions import Screen, a_version

from corpus_guard.corpus.filterrag.filters import SHIPPED_CLASSIFIER, ClassifierInUse
from corpus_guard.corpus.filterrag.learned import LearnedModel, load_shipped
from corpus_guard.domain import Finding, Severity, TrustLevel, Verdict, Version
from corpus_guard.models import Models
from corpus_guard.screening.checks.filter_features import FilterFeatures, FilterFeaturesParams
from corpus_guard.screening.policy import load_policy
from corpus_guard.screening.runner import Screening
from corpus_guard.screening.survey.semantics import NearbyQuestion, Semantics
from corpus_guard.screening.survey.survey import Survey
from corpus_guard.settings import Settings
from siblings import QUESTION, SIBLINGS, UNRELATED

LED = f"{QUESTION} {SIBLINGS[0]}"
ASKED = NearbyQuestion(0, QUESTION, 0.87, rank=0)


class NoLanguageModel(Models):
    """Models that fail the test when the language model is loaded."""

    @property
    def language_model(self) -> None:  # type: ignore[override]
        raise AssertionError("the language model was loaded")


@pytest.fixture(scope="module")
def check(models: Models) -> FilterFeatures:
    return FilterFeatures(FilterFeaturesParams(), models)


@pytest.fixture
def blind(models_home: object) -> FilterFeatures:
    """A check that may not read anything."""
    return FilterFeatures(FilterFeaturesParams(max_pairs=2), NoLanguageModel(Settings(home=models_home)))  # type: ignore[arg-type]


def surveyed(version: Version, *questions: NearbyQuestion) -> Survey:
    return Survey(semantics=Semantics(questions={version.version_id: questions}))


def found(check: FilterFeatures, version: Version, *questions: NearbyQuestion) -> list[Finding]:
    return [finding for _, finding in check.run([version], surveyed(version, *questions))]


def test_a_text_written_to_answer_a_question_is_found(check: FilterFeatures) -> None:
    version = a_version(LED)

    (finding,) = found(check, version, ASKED)

    assert (finding.code, finding.severity) == ("filter_features.poisoned", Severity.MEDIUM)
    assert finding.score >= load_shipped().threshold
    assert finding.span is not None
    assert (finding.span.start, finding.span.end) == (0, len(LED))
    assert not any(word in finding.message for word in ("Aldermere", "Calloway", "library"))


def test_a_text_about_something_else_passes(check: FilterFeatures) -> None:
    assert found(check, a_version(UNRELATED[4]), replace(ASKED, similarity=0.56)) == []


def test_versions_of_a_batch_keep_their_own_findings(check: FilterFeatures) -> None:
    versions = [a_version(UNRELATED[4], uri="a.md"), a_version(LED, uri="b.md")]
    survey = Survey(semantics=Semantics(questions={version.version_id: (ASKED,) for version in versions}))

    assert [(place, one.code) for place, one in check.run(versions, survey)] == [(1, "filter_features.poisoned")]


def test_what_is_beyond_the_cap_is_told_and_nothing_is_loaded_for_it(blind: FilterFeatures) -> None:
    version = a_version(LED)
    questions = [replace(ASKED, question=f"Question {rank}?", rank=rank) for rank in (2, 3)]

    (finding,) = found(blind, version, *questions)

    assert (finding.code, finding.severity) == ("filter_features.unread", Severity.MEDIUM)
    assert "2 of the 2 questions" in finding.message


def test_one_read_and_one_left_over_are_both_told(check: FilterFeatures) -> None:
    few = FilterFeatures(FilterFeaturesParams(max_pairs=1), check._models)
    version = a_version(LED)

    codes = {one.code for one in found(few, version, ASKED, replace(ASKED, question="Where is it moored?", rank=1))}

    assert codes == {"filter_features.poisoned", "filter_features.unread"}


def test_nothing_is_read_without_a_close_question(blind: FilterFeatures) -> None:
    version = a_version(LED)
    for survey in (
        None,
        Survey(),
        surveyed(version, replace(ASKED, rank=None)),
        surveyed(version, replace(ASKED, ordinal=7)),
    ):
        assert "no question" in (blind.wants(version, [], survey) or "")
        assert list(blind.run([version], survey)) == []
    assert blind.wants(version, [], surveyed(version, ASKED)) is None


@pytest.mark.parametrize("trust", TrustLevel)
def test_only_open_sources_are_read(blind: FilterFeatures, trust: TrustLevel) -> None:
    assert blind.applies_to(a_version(LED, trust=trust)) is (trust is TrustLevel.OPEN)
    assert not blind.applies_to(a_version(""))


def test_the_shipped_policy_records_and_holds_nothing_back(check: FilterFeatures) -> None:
    version = a_version(LED)

    (judgement,) = Screening(load_policy(Settings().policy_file), [check]).judge([version], surveyed(version, ASKED))

    assert [one.code for one in judgement.findings] == ["filter_features.poisoned"]
    assert judgement.verdict is Verdict.ACCEPT
    assert judgement.shadow_verdict is Verdict.QUARANTINE


def test_a_classifier_of_other_features_checks_nothing_and_says_so(check: FilterFeatures) -> None:
    other = ClassifierInUse("0" * 64, lambda: replace(load_shipped(), feature_version="of another language model"))
    version = a_version(LED)
    policy = load_policy(Settings().policy_file)
    wrong = FilterFeatures(FilterFeaturesParams(), check._models, other)

    (judgement,) = Screening(policy, [wrong]).judge([version], surveyed(version, ASKED))

    assert [one.code for one in judgement.findings] == ["filter_features.unchecked"]
    assert judgement.verdict is Verdict.ACCEPT
    assert (
        Screening(policy.without_shadow, [wrong]).judge([version], surveyed(version, ASKED))[0].verdict
        is Verdict.QUARANTINE
    )


def test_a_score_that_is_no_number_does_not_acquit(check: FilterFeatures, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LearnedModel, "probabilities", lambda self, matrix: np.full(len(matrix), np.nan))

    (finding,) = found(check, a_version(LED), ASKED)

    assert (finding.code, finding.score) == ("filter_features.poisoned", 1.0)


def test_classifier_language_model_and_cap_are_in_the_digest(check: FilterFeatures, models_home: object) -> None:
    class OtherModel(Models):
        language_model_digest = "another"  # type: ignore[assignment]

    models = check._models
    assert check.digest == FilterFeatures(FilterFeaturesParams(), models, SHIPPED_CLASSIFIER).digest
    digests = {
        check.digest,
        FilterFeatures(FilterFeaturesParams(max_pairs=1), models).digest,
        FilterFeatures(FilterFeaturesParams(), models, ClassifierInUse("1" * 64, load_shipped)).digest,
        FilterFeatures(FilterFeaturesParams(), OtherModel(Settings(home=models_home))).digest,  # type: ignore[arg-type]
    }
    assert len(digests) == 4


def test_the_evidence_names_questions_and_whether_they_are_read(check: FilterFeatures) -> None:
    version = a_version(LED)
    evidence = [
        tuple(check.evidence(version, surveyed(version, question)))
        for question in (ASKED, replace(ASKED, rank=5), replace(ASKED, question="Who?"), replace(ASKED, rank=100))
    ]

    assert evidence[0] == evidence[1]  # another place in the order, still read
    assert len(set(evidence)) == 3
    assert check.evidence(version, None) == []


def test_texts_are_read_for_the_questions_of_the_bank(screen: Screen) -> None:
    (planted, other) = screen([LED, UNRELATED[0]], bank=[QUESTION], off=["targeting", "question_led"], one_by_one=True)

    assert "filter_features.poisoned" in {finding.code for finding in planted.judgement.findings}
    assert other.judgement.findings == ()
