"""A text that would be retrieved for many questions at once, and what the policy makes of it."""

from __future__ import annotations

import pytest
from sample_versions import a_version

from corpus_guard.domain import Finding, Severity, TrustLevel, Verdict, Version
from corpus_guard.screening.checks.hubness import Hubness, HubnessParams
from corpus_guard.screening.policy import load_policy
from corpus_guard.screening.runner import Screening
from corpus_guard.screening.survey.hub_reach import HubReach
from corpus_guard.screening.survey.semantics import Semantics
from corpus_guard.screening.survey.survey import Survey
from corpus_guard.settings import Settings

TEXT = "Everything about harbours, in the order of the alphabet."


def surveyed(version: Version, reach: HubReach) -> Survey:
    return Survey(semantics=Semantics(hubness={version.version_id: reach}))


def found(share: float, usual: float) -> list[Finding]:
    version = a_version(TEXT)
    return [finding for _, finding in Hubness().run([version], surveyed(version, HubReach(share, usual)))]


@pytest.mark.parametrize(
    ("share", "usual", "is_hub"),
    [(0.06, 0.04, True), (0.059, 0.04, False), (0.009, 0.001, False), (0.01, 0.001, True), (0.0, 0.001, False)],
)
def test_a_hub_reaches_more_than_is_usual_and_enough(share: float, usual: float, is_hub: bool) -> None:
    findings = found(share, usual)

    assert [(each.code, each.severity) for each in findings] == ([("hubness.hub", Severity.MEDIUM)] if is_hub else [])


def test_the_finding_points_at_the_chunk_and_says_both_shares() -> None:
    (finding,) = found(0.08, 0.02)

    assert finding.span is not None
    assert (finding.span.start, finding.span.end) == (0, len(TEXT))
    assert "8.0%" in finding.message and "2.0%" in finding.message and "harbours" not in finding.message
    assert found(0.5, 0.02)[0].score == 1 > found(0.04, 0.02)[0].score > 0


def test_where_nothing_could_be_compared_it_is_skipped_with_a_reason() -> None:
    version, check = a_version(TEXT), Hubness()

    assert "too few" in (check.skips(version, Survey()) or "")
    assert check.skips(version, Survey(semantics=Semantics(hubness={}))) is None
    assert list(check.run([version], Survey())) == list(check.run([version], None)) == []


@pytest.mark.parametrize(("trust", "is_judged"), [("open", True), ("reviewed", True), ("trusted", False)])
def test_trusted_sources_may_have_lists_of_contents(trust: str, is_judged: bool) -> None:
    assert Hubness().applies_to(a_version(TEXT, trust=TrustLevel(trust))) is is_judged


def test_it_only_records_until_the_policy_lets_it_count() -> None:
    version, policy = a_version(TEXT), load_policy(Settings().policy_file)
    survey = surveyed(version, HubReach(0.4, 0.02))

    (on_trial,) = Screening(policy, [Hubness()]).judge([version], survey)
    (counting,) = Screening(policy.without_shadow, [Hubness()]).judge([version], survey)

    assert [finding.code for finding in on_trial.findings] == ["hubness.hub"]
    assert (on_trial.verdict, on_trial.shadow_verdict) == (Verdict.ACCEPT, Verdict.QUARANTINE)
    assert counting.verdict is Verdict.QUARANTINE


def test_parameters_are_in_the_digest() -> None:
    digests = {Hubness(HubnessParams(**params)).digest for params in ({}, {"times": 2.0}, {"share": 0.02})}

    assert len(digests) == 3
