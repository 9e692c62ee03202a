"""From findings to a verdict, rule by rule."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from sample_versions import SHIPPED, a_policy, finding, findings

from corpus_guard.domain import Finding, TrustLevel, Verdict
from corpus_guard.errors import SettingsError
from corpus_guard.models import Models
from corpus_guard.screening.policy import Policy
from corpus_guard.screening.registry import build_screening
from corpus_guard.settings import Settings

ORDER = [Verdict.ACCEPT, Verdict.QUARANTINE, Verdict.REJECT]


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


@given(
    st.lists(findings, max_size=8),
    st.sets(st.sampled_from(["a", "a.one", "b", "b.unchecked"])),
    st.sampled_from(TrustLevel),
)
def test_what_is_shadowed_changes_no_verdict_and_no_risk(
    seen: list[Finding], shadow: set[str], trust: TrustLevel
) -> None:
    named = [replace(finding, check=finding.code.partition(".")[0]) for finding in seen]
    others = [finding for finding in named if not {finding.check, finding.code} & shadow]
    policy, plain = a_policy(shadow=sorted(shadow)), a_policy()

    assert policy.verdict(trust, named) is plain.verdict(trust, others)
    assert policy.risk(named) == plain.risk(others)
    assert (policy.shadow_verdict(trust, named) or policy.verdict(trust, named)) is plain.verdict(trust, named)


def test_a_shadowed_check_that_fails_stops_nothing_and_tells_what_it_would_have_done() -> None:
    policy = a_policy(shadow=["perplexity"])
    seen = [finding("perplexity.unchecked", "high")]

    assert policy.verdict(TrustLevel.OPEN, seen) is Verdict.ACCEPT
    assert policy.shadow_verdict(TrustLevel.OPEN, seen) is Verdict.QUARANTINE
    assert a_policy(shadow=["perplexity.gibberish"]).verdict(TrustLevel.OPEN, seen) is Verdict.QUARANTINE


def test_there_is_no_shadow_verdict_where_it_would_be_the_same() -> None:
    policy = a_policy(shadow=["unicode"])

    assert policy.shadow_verdict(TrustLevel.OPEN, [finding(severity="low")]) is None
    assert policy.shadow_verdict(TrustLevel.OPEN, [finding(severity="high"), finding("a.b", "high")]) is None


@pytest.mark.parametrize("shadow", ["parsing.empty", "parsing"])
def test_what_is_rejected_cannot_be_shadowed(shadow: str) -> None:
    with pytest.raises(ValueError, match=r"parsing\.\w+ is under reject and under shadow; keep one"):
        a_policy(shadow=[shadow])


@pytest.mark.parametrize(
    ("stray", "says"),
    [
        ("parsing.emptyy", "no such code; correct it to parsing.empty"),
        ("pasring.macros", "expected a code, such as parsing.empty; codes begin with: intake, parsing, structure"),
        ("perplexity", "expected a code"),
        ("", "expected a code"),
    ],
)
def test_only_codes_can_be_rejected(stray: str, says: str) -> None:
    values = yaml.safe_load(Settings().policy_file.read_text())
    codes = [*values["reject"], "parsing.macros", "intake.gone", "instructions.override"]
    build_screening(Policy.model_validate({**values, "reject": codes}), Models(Settings()))

    with pytest.raises(SettingsError, match=f"reject: {stray}: {says}"):
        build_screening(Policy.model_validate({**values, "reject": [*codes, stray]}), Models(Settings()))


@pytest.mark.parametrize("stray", ["perplexitee", "parsing.no_text", "statistic.length", ""])
def test_only_checks_and_their_codes_can_be_shadowed(stray: str) -> None:
    settings = Settings()
    values = yaml.safe_load(settings.policy_file.read_text())
    policy = Policy.model_validate({**values, "shadow": ["perplexity", "instructions.override", stray]})

    with pytest.raises(
        SettingsError, match=f"shadow: {stray}: neither a check nor a code of a check; checks are: .*perplexity"
    ):
        build_screening(policy, Models(settings))


def test_a_source_may_have_a_threshold_of_its_own_whatever_its_trust() -> None:
    policy = a_policy(
        sources={"wiki": {"severity": "critical", "risk": 0.7}, "drop box": {"severity": "low", "risk": 0.1}}
    )
    seen = [finding(severity="medium")]

    assert policy.verdict(TrustLevel.OPEN, seen, "wiki") is Verdict.ACCEPT
    assert policy.verdict(TrustLevel.OPEN, seen, "mail") is policy.verdict(TrustLevel.OPEN, seen) is Verdict.QUARANTINE
    assert policy.verdict(TrustLevel.TRUSTED, [finding(severity="low")], "drop box") is Verdict.QUARANTINE
    assert policy.verdict(TrustLevel.OPEN, [finding(severity="high", score=0.8)], "wiki") is Verdict.QUARANTINE


def test_no_source_is_loose_enough_for_what_was_not_checked() -> None:
    policy = a_policy(sources={"wiki": {"severity": "critical", "risk": 1.0}})

    assert policy.verdict(TrustLevel.OPEN, [finding("a.unchecked", "info")], "wiki") is Verdict.QUARANTINE
    assert policy.verdict(TrustLevel.OPEN, [finding("parsing.empty", "info")], "wiki") is Verdict.REJECT


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other"},
        {"shadow": ["unicode"]},
        {"sources": {"wiki": {"severity": "medium", "risk": 0.5}}},
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
    assert a_policy(shadow=["b", "a"]).digest([]) == a_policy(shadow=["a", "b"]).digest([])


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
        "from pathlib import Path; from corpus_guard.screening.checks.instructions import Instructions;"
        "packs = sorted(Path(corpus_guard.__file__).parent.glob('screening/rules/*.yaml')); assert packs;"
        "print(Instructions(Instructions.params_class()).digest)\n"
        "for pack in packs:\n"
        "    whole = pack.read_bytes(); pack.write_bytes(whole + b'#\\n');"
        "    print(Instructions(Instructions.params_class()).digest); pack.write_bytes(whole)\n"
        "print(Instructions(Instructions.params_class()).digest)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first, *changed, last = done.stdout.split()

    assert first == last
    assert len({first, *changed}) == 1 + len(changed)
