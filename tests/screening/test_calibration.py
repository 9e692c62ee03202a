"""Forecasts from recorded findings, and thresholds that keep false alarms rare."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_versions import SHIPPED, a_policy, finding, findings

from corpus_guard.domain import Finding, Severity, TrustLevel, Verdict
from corpus_guard.screening.calibration import (
    MIN_RISK,
    JudgedDocument,
    VersionOutcome,
    allowed_alarms,
    documents_needed,
    forecast_sources,
    propose_threshold,
    wilson_interval,
)
from corpus_guard.screening.policy import Policy, Threshold

OPEN = TrustLevel.OPEN
NOW = Threshold(severity=Severity.MEDIUM, risk=0.5)
CLEAN = (-1, 0.0)


def a_version(
    *codes: tuple[str, str, float], outcome: VersionOutcome = VersionOutcome.ACCEPTED, **fields: Any
) -> JudgedDocument:
    found = tuple(finding(code, severity, score) for code, severity, score in codes)
    return JudgedDocument(**{"source": "wiki", "trust": OPEN, "findings": found, "outcome": outcome, **fields})


def only(policy: Policy, *recorded: JudgedDocument, target: float = 0.01) -> Any:
    (one,) = forecast_sources(policy, recorded, target)
    return one


def binomial_tail(count: int, of: int, share: float) -> float:
    """P(X <= count), summed the plain way."""
    return sum(math.comb(of, k) * share**k * (1 - share) ** (of - k) for k in range(count + 1))


@pytest.mark.parametrize(
    ("count", "of", "low", "high"),
    [
        (0, 10, 0.0, 0.2775),
        (5, 10, 0.2366, 0.7634),
        (10, 10, 0.7225, 1.0),
        (1, 100, 0.0018, 0.0545),
        (81, 263, 0.2553, 0.3662),  # Newcombe 1998, table I, method 3
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (20, 20, 0.8389, 1.0),
        (0, 0, 0.0, 1.0),
    ],
)
def test_wilson_intervals_are_those_of_the_textbook(count: int, of: int, low: float, high: float) -> None:
    assert wilson_interval(count, of) == pytest.approx((low, high), abs=5e-5)


@given(st.integers(1, 5_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_interval_holds_the_rate_and_stays_within_bounds(counts: tuple[int, int]) -> None:
    hits, n = counts
    low, high = wilson_interval(hits, n)

    assert 0 <= low <= hits / n <= high <= 1
    assert wilson_interval(n - hits, n) == pytest.approx((1 - high, 1 - low))


@given(st.integers(1, 400), st.floats(0.005, 0.3))
def test_allowed_alarms_is_the_largest_count_that_is_unlikely_above_the_target(documents: int, target: float) -> None:
    allowed = allowed_alarms(documents, target)

    if allowed is None:
        assert binomial_tail(0, documents, target) > 0.05 - 1e-9
    else:
        assert binomial_tail(allowed, documents, target) <= 0.05 + 1e-9
        assert binomial_tail(allowed + 1, documents, target) > 0.05 - 1e-9


def test_a_million_documents_do_not_underflow() -> None:
    assert 9_800 < (allowed_alarms(1_000_000, 0.01) or 0) < 10_000


@given(st.floats(0.001, 0.3))
def test_the_documents_needed_are_enough_and_one_fewer_is_not(target: float) -> None:
    needed = documents_needed(target)

    assert allowed_alarms(needed, target) is not None
    assert allowed_alarms(needed - 1, target) is None


def test_a_small_source_is_told_how_many_documents_it_lacks() -> None:
    proposal = propose_threshold(NOW, [CLEAN] * 298, 0, 0.01)

    assert proposal.threshold is None
    assert proposal.reason == "too few documents: 298, 299 are needed"
    assert propose_threshold(NOW, [CLEAN] * 299, 0, 0.01).threshold == Threshold(
        severity=Severity.MEDIUM, risk=MIN_RISK
    )


def test_undecided_documents_come_first() -> None:
    assert propose_threshold(NOW, [CLEAN] * 1000, 4, 0.01).threshold is not None
    refused = propose_threshold(NOW, [CLEAN] * 1000, 5, 0.01)

    assert refused.threshold is None
    assert refused.reason == "5 undecided, at most 4 allowed: decide on them first"


def test_the_threshold_lies_just_above_the_risk_that_must_pass() -> None:
    honest = [CLEAN] * 990 + [(1, 0.30)] * 6 + [(1, 0.41)] * 4  # four alarms are allowed in a thousand

    proposal = propose_threshold(NOW, honest, 0, 0.01)

    assert proposal.threshold == Threshold(severity=Severity.MEDIUM, risk=0.31)
    assert proposal.false_alarms == 4


def test_the_severity_is_raised_only_where_it_alone_alarms_too_often() -> None:
    few = [CLEAN] * 996 + [(2, 0.3)] * 4
    many = [CLEAN] * 995 + [(2, 0.3)] * 5

    assert propose_threshold(NOW, few, 0, 0.01).threshold == Threshold(severity=Severity.MEDIUM, risk=MIN_RISK)
    raised = propose_threshold(NOW, many, 0, 0.01)
    assert raised.threshold == Threshold(severity=Severity.HIGH, risk=0.31)
    assert raised.false_alarms == 0


@pytest.mark.parametrize("code", ["unicode.unchecked", "parsing.empty"])
def test_a_released_document_that_no_threshold_lets_pass_counts_against_all(code: str) -> None:
    released = a_version((code, "info", 0.0), outcome=VersionOutcome.RELEASED)

    one = only(a_policy(), *[a_version()] * 995, *[released] * 5)
    other = only(a_policy(), *[a_version()] * 996, *[released] * 4)

    assert (one.false_alarms.count, one.proposal.threshold) == (5, None)
    assert other.proposal.threshold is not None
    assert other.proposal.false_alarms == 4


def test_what_no_threshold_lets_pass_is_told() -> None:
    stopped_by_a_failed_check = [(len(Severity), 0.5)] * 5

    proposal = propose_threshold(NOW, [*stopped_by_a_failed_check, *[CLEAN] * 995], 0, 0.01)

    assert proposal.threshold is None
    assert "any threshold stops" in proposal.reason


strengths = st.tuples(st.integers(-1, 4), st.floats(0, 1).map(lambda risk: round(risk, 4)))


@settings(max_examples=200)
@given(
    st.lists(strengths, min_size=1, max_size=40),
    st.integers(1, 40),
    st.sampled_from([0.01, 0.05, 0.2]),
    st.sampled_from(Severity),
)
def test_a_proposal_keeps_the_false_alarms_of_its_own_data_below_the_target(
    drawn: list[tuple[int, float]], times: int, target: float, severity: Severity
) -> None:
    honest = drawn * times

    proposal = propose_threshold(Threshold(severity=severity, risk=0.5), honest, 0, target)

    if proposal.threshold is not None:
        risk, rank = proposal.threshold.risk, proposal.threshold.severity.rank
        stopped = sum(worst >= rank or value >= risk for worst, value in honest)
        assert stopped == proposal.false_alarms <= target * len(honest)
        assert rank >= severity.rank
        lower = risk - 0.01  # the next lower one a person could write stops too many, or is no threshold
        if lower >= MIN_RISK:
            more = sum(worst >= rank or value >= round(lower, 2) for worst, value in honest)
            assert more > (allowed_alarms(len(honest), target) or 0)


@settings(max_examples=50)
@given(
    st.lists(
        st.lists(
            st.tuples(
                st.sampled_from(["a.x", "b.y", "c.unchecked"]),
                st.sampled_from(["info", "low", "medium", "high", "critical"]),
                st.floats(0, 1),
            ),
            max_size=3,
        ),
        min_size=1,
        max_size=30,
    ),
    st.integers(1, 30),
)
def test_a_policy_with_the_proposal_stops_what_was_forecast(
    drawn: list[list[tuple[str, str, float]]], times: int
) -> None:
    recorded = [a_version(*codes) for codes in drawn] * times
    one = only(a_policy(), *recorded, target=0.05)

    if one.proposal.threshold is not None:
        tuned = a_policy(sources={"wiki": one.proposal.threshold.model_dump(mode="json")})
        stopped = sum(tuned.verdict(OPEN, version.findings, "wiki") is not Verdict.ACCEPT for version in recorded)
        assert stopped == one.proposal.false_alarms <= 0.05 * len(recorded)


def test_a_forecast_counts_what_the_policy_would_stop_and_what_became_of_it() -> None:
    bad = ("unicode.bidi", "medium", 0.9)
    one = only(
        a_policy(),
        *[a_version()] * 5,
        a_version(bad, outcome=VersionOutcome.RELEASED),
        a_version(bad, outcome=VersionOutcome.REJECTED),
        a_version(("parsing.empty", "info", 0.1), outcome=VersionOutcome.REFUSED),
        a_version(bad, outcome=VersionOutcome.WAITING),
        a_version(outcome=VersionOutcome.REJECTED),
    )

    assert (one.source, one.trust, one.documents) == ("wiki", OPEN, 10)
    assert (one.stopped.count, one.stopped.of) == (4, 10)
    assert (one.false_alarms.count, one.false_alarms.of) == (1, 6)
    assert (one.attacks_stopped.count, one.attacks_stopped.of) == (1, 2)
    assert (one.released.count, one.released.of) == (1, 3)
    (code,) = [alarm for alarm in one.codes if alarm.name == "unicode.bidi"]
    assert (code.documents, code.stopped.count, code.stopped.of, code.alone) == (3, 3, 10, 3)
    assert (code.released, code.rejected) == (1, 1)


def test_what_two_codes_stop_together_neither_stops_alone() -> None:
    both = (("a.x", "low", 1.0), ("a.y", "low", 1.0), ("b.z", "low", 1.0))
    one = only(a_policy(), a_version(*both), a_version(*both, ("b.bad", "high", 1.0)))

    assert {alarm.name: (alarm.stopped.count, alarm.alone) for alarm in one.codes} == {
        "a.x": (2, 1), "a.y": (2, 1), "b.z": (2, 1), "b.bad": (1, 0),
    }  # fmt: skip
    assert {alarm.name: (alarm.documents, alarm.alone) for alarm in one.checks} == {"a": (2, 1), "b": (2, 2)}


def test_a_shadowed_check_is_forecast_as_if_it_were_enforced() -> None:
    policy = a_policy(shadow=["unicode"])
    one = only(policy, *[a_version()] * 9, a_version(("unicode.bidi", "medium", 0.9)))

    assert one.stopped.count == 0
    assert one.stopped_without_shadow.count == 1
    (code,) = one.codes
    assert (code.shadowed, code.stopped.count, code.alone) == (True, 1, 1)


def test_a_check_that_is_switched_off_finds_nothing() -> None:
    policy = a_policy(checks={"unicode": {"enabled": False}})

    assert only(policy, a_version(("unicode.bidi", "high", 1.0))).stopped.count == 0


def test_what_a_slow_check_never_saw_is_counted_where_it_would_pass() -> None:
    loose = a_policy(sources={"wiki": {"severity": "critical", "risk": 1.0}})
    seen = a_version(("unicode.bidi", "medium", 0.9), outcome=VersionOutcome.WAITING, unseen=True)

    assert only(a_policy(), seen).unseen == 0
    assert only(loose, seen).unseen == 1


def test_sources_are_told_apart_with_their_own_thresholds() -> None:
    policy = a_policy(sources={"mail": {"severity": "critical", "risk": 1.0}})
    bad = ("unicode.bidi", "medium", 0.9)

    mail, wiki = forecast_sources(policy, [a_version(bad), a_version(bad, source="mail")], 0.01)

    assert (mail.source, mail.stopped.count, wiki.source, wiki.stopped.count) == ("mail", 0, "wiki", 1)


@given(st.lists(findings, max_size=5), st.sampled_from(TrustLevel))
def test_a_forecast_is_the_policys_own_verdict(found: list[Finding], trust: TrustLevel) -> None:
    one = only(SHIPPED, JudgedDocument("wiki", trust, tuple(found), VersionOutcome.ACCEPTED))

    assert one.stopped.count == (SHIPPED.verdict(trust, found, "wiki") is not Verdict.ACCEPT)
