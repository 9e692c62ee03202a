"""From findings to a verdict, rule by rule."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from corpus_guard.domain import Finding, Severity, TrustLevel, Verdict
from corpus_guard.models import Models
from corpus_guard.screening.policy import Policy, load_policy
from corpus_guard.screening.registry import build_screening
from corpus_guard.settings import Settings

SHIPPED = load_policy(Settings().policy_file)
ORDER = [Verdict.ACCEPT, Verdict.QUARANTINE, Verdict.REJECT]


def a_policy(**changes: Any) -> Policy:
    values: dict[str, Any] = {
        "name": "test",
        "quarantine": {
            "open": {"severity": "medium", "risk": 0.5},
            "reviewed": {"severity": "high", "risk": 0.8},
            "trusted": {"severity": "critical", "risk": 0.9},
        },
        "reject": ["parsing.empty", "parsing.binary"],
        "weights": {"info": 0.0, "low": 0.25, "medium": 0.6, "high": 0.9, "critical": 1.0},
        "retire": {"grace_hours": 72, "max_share": 0.5},
        "checks": {},
    }
    return Policy.model_validate({**values, **changes})


def finding(code: str = "unicode.bidi", severity: str = "low", score: float = 1.0) -> Finding:
    return Finding(code.partition(".")[0], code, Severity(severity), score, "message")


findings = st.builds(
    Finding,
    check=st.just("a"),
    code=st.sampled_from(["a.one", "a.two", "b.three", "b.unchecked", "parsing.empty"]),
    severity=st.sampled_from(Severity),
    score=st.floats(),
    message=st.just(""),
)


@pytest.mark.parametrize("trust", TrustLevel)
@pytest.mark.parametrize("code", ["parsing.empty", "parsing.binary"])
def test_a_listed_code_rejects_however_mild_and_whoever_wrote_it(trust: TrustLevel, code: str) -> None:
    assert a_policy().verdict(trust, [finding(code, "info", 0.0)]) is Verdict.REJECT


def test_rejection_goes_before_not_checked() -> None:
    both = [finding("parsing.empty"), finding("structure.unchecked", "high")]

    assert a_policy().verdict(TrustLevel.OPEN, both) is Verdict.REJECT


@pytest.mark.parametrize("trust", TrustLevel)
def test_not_checked_waits_for_a_person_even_from_a_trusted_source(trust: TrustLevel) -> None:
    assert a_policy().verdict(trust, [finding("anything.unchecked", "info", 0.0)]) is Verdict.QUARANTINE


def test_only_the_end_of_a_code_means_not_checked() -> None:
    assert a_policy().verdict(TrustLevel.OPEN, [finding("unchecked.info", "info")]) is Verdict.ACCEPT


@pytest.mark.parametrize(
    ("trust", "below", "at"),
    [("open", "low", "medium"), ("reviewed", "medium", "high"), ("trusted", "high", "critical")],
)
def test_the_worst_finding_counts_by_trust(trust: str, below: str, at: str) -> None:
    policy = a_policy()

    assert policy.verdict(TrustLevel(trust), [finding(severity=below, score=0.1)]) is Verdict.ACCEPT
    assert policy.verdict(TrustLevel(trust), [finding(severity=at, score=0.0)]) is Verdict.QUARANTINE


@pytest.mark.parametrize(("trust", "enough"), [("open", 3), ("reviewed", 6), ("trusted", 9)])
def test_small_signs_add_up_to_the_risk_of_a_trust_level(trust: str, enough: int) -> None:
    policy = a_policy()
    signs = [finding(f"a.{number}", "low") for number in range(enough)]

    assert policy.verdict(TrustLevel(trust), signs[:-1]) is Verdict.ACCEPT
    assert policy.verdict(TrustLevel(trust), signs) is Verdict.QUARANTINE


def test_nothing_found_is_accepted_with_no_risk() -> None:
    assert a_policy().risk([]) == 0.0
    assert all(a_policy().verdict(trust, []) is Verdict.ACCEPT for trust in TrustLevel)


def test_risk_is_one_minus_the_product_over_codes() -> None:
    seen = [finding("a.x", "medium", 0.5), finding("b.y", "low", 0.8), finding("c.z", "high", 0.1)]

    assert a_policy().risk(seen) == pytest.approx(1 - (1 - 0.6 * 0.5) * (1 - 0.25 * 0.8) * (1 - 0.9 * 0.1), abs=1e-4)


def test_the_same_sign_twice_counts_once_and_at_its_strongest() -> None:
    policy = a_policy()
    strong = finding(severity="medium", score=0.9)

    assert policy.risk([strong, finding(severity="medium", score=0.2), strong]) == policy.risk([strong])
    assert policy.risk([finding(severity="low"), finding(severity="medium")]) == 0.6


@pytest.mark.parametrize("score", [math.nan, math.inf, 17.0])
def test_a_score_out_of_range_counts_in_full(score: float) -> None:
    assert a_policy().risk([finding(severity="medium", score=score)]) == 0.6


@given(st.lists(findings, max_size=8), findings, st.sampled_from(TrustLevel))
def test_one_more_finding_never_lowers_the_risk_or_the_verdict(
    before: list[Finding], more: Finding, trust: TrustLevel
) -> None:
    for policy in (a_policy(), SHIPPED):
        after = [*before, more]
        assert 0.0 <= policy.risk(before) <= policy.risk(after) <= 1.0
        assert ORDER.index(policy.verdict(trust, after)) >= ORDER.index(policy.verdict(trust, before))


@given(st.lists(findings, max_size=8), st.randoms(use_true_random=False), st.sampled_from(TrustLevel))
def test_the_order_of_findings_does_not_matter(before: list[Finding], random: Any, trust: TrustLevel) -> None:
    mixed = random.sample(before, len(before))

    assert SHIPPED.risk(mixed) == pytest.approx(SHIPPED.risk(before), abs=1e-4)
    assert SHIPPED.verdict(trust, mixed) is SHIPPED.verdict(trust, before)


@given(st.lists(findings, max_size=8))
def test_less_trust_is_never_milder_under_the_shipped_policy(seen: list[Finding]) -> None:
    trusted, reviewed, open_ = (ORDER.index(SHIPPED.verdict(trust, seen)) for trust in TrustLevel)

    assert trusted <= reviewed <= open_


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other"},
        {"reject": ["parsing.empty"]},
        {"reject": ["parsing.empty", "parsing.binary", "x.y"]},
        {"retire": {"grace_hours": 73, "max_share": 0.5}},
        {"retire": {"grace_hours": 72, "max_share": 0.6}},
        {"weights": {"info": 0.0, "low": 0.25, "medium": 0.6, "high": 0.9, "critical": 0.99}},
        {"checks": {"unicode": {"enabled": False}}},
        *(
            {
                "quarantine": {
                    **{level: {"severity": "high", "risk": 0.8} for level in TrustLevel if level is not trust},
                    trust: {"severity": "high", "risk": 0.81},
                }
            }
            for trust in TrustLevel
        ),
    ],
    ids=str,
)
def test_every_value_is_in_the_digest(change: dict[str, Any]) -> None:
    assert a_policy(**change).digest(["one"]) != a_policy().digest(["one"])


def test_the_digest_holds_every_check_and_not_their_order() -> None:
    policy = a_policy()

    assert policy.digest(["one", "two"]) == policy.digest(["two", "one"])
    assert len({policy.digest(checks) for checks in (["one"], ["two"], ["one", "two"], [])}) == 4


def test_the_order_of_the_file_is_not_in_the_digest() -> None:
    assert a_policy(reject=["parsing.binary", "parsing.empty"]).digest([]) == a_policy().digest([])


def test_every_process_gives_the_same_digest() -> None:
    code = (
        "from corpus_guard.settings import Settings; from corpus_guard.models import Models;"
        "from corpus_guard.screening.policy import load_policy; from corpus_guard.screening.registry import build_screening;"
        "s = Settings(); print(build_screening(load_policy(s.policy_file), Models(s)).digest)"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }

    assert len(digests) == 1


def test_every_threshold_of_every_check_is_in_the_digest(tmp_path: Path) -> None:
    from corpus_guard.screening.registry import CHECKS

    settings = Settings()
    models = Models(settings)
    values = yaml.safe_load(settings.policy_file.read_text())
    digests = {build_screening(Policy.model_validate(values), models).digest}
    count = 1
    for name, (params, _) in CHECKS.items():
        for key, field in params.model_fields.items():
            default = values["checks"][name].get(key, field.get_default(call_default_factory=True))
            if isinstance(default, bool):
                other: Any = not default
            elif isinstance(default, int):
                other = default + 1
            elif isinstance(default, float):
                other = default * 0.99 if default else 0.01
            else:
                continue
            changed = {**values, "checks": {**values["checks"], name: {**values["checks"][name], key: other}}}
            digests.add(build_screening(Policy.model_validate(changed), models).digest)
            count += 1

    assert count > 20
    assert len(digests) == count


def test_every_byte_of_the_rule_packs_is_in_the_digest(tmp_path: Path) -> None:
    import corpus_guard

    package = Path(corpus_guard.__file__).parent
    shutil.copytree(package, tmp_path / "corpus_guard", ignore=shutil.ignore_patterns("__pycache__"))
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import corpus_guard; assert corpus_guard.__file__.startswith(sys.argv[1]);"
        "from pathlib import Path; from corpus_guard.screening.instructions import Instructions;"
        "packs = sorted(Path(corpus_guard.__file__).parent.glob('screening/rules/*.yaml')); assert packs;"
        "print(Instructions(Instructions.Params()).digest)\n"
        "for pack in packs:\n"
        "    whole = pack.read_bytes(); pack.write_bytes(whole + b'#\\n');"
        "    print(Instructions(Instructions.Params()).digest); pack.write_bytes(whole)\n"
        "print(Instructions(Instructions.Params()).digest)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first, *changed, last = done.stdout.split()

    assert first == last
    assert len({first, *changed}) == 1 + len(changed)
