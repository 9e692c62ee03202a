"""Every check has a stopwatch, and the proof sees a difference where there is one."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from corpus_guard.errors import Misuse
from corpus_guard.evaluation.screening.throughput import RULE_TIER_CHECKS, measure_throughput, prove_cascade
from corpus_guard.screening.registry import CHECKS
from corpus_guard.settings import PACKAGE, Settings

PROSE = [
    f"The tide gauge on pier {number} is read at noon, and the value is entered in the book." for number in range(6)
]
RARE = "zvxq krlbt whtsnopr gjklmwq vbnaxz trqplkw hgfdsnb mqwzrty plokijuh xcvbnmas qazwsxed rfvtgby hnujmik opzlaks"


def policy(tmp_path: Path, **perplexity: float | bool) -> Path:
    values = yaml.safe_load((PACKAGE / "policy.yaml").read_text(encoding="utf-8"))
    values["checks"]["perplexity"] = {**values["checks"]["perplexity"], **perplexity}
    path = tmp_path / "policy.yaml"
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    return path


def test_every_check_that_is_on_is_timed_and_the_model_sees_what_is_left_open(models_home: Path) -> None:
    found = measure_throughput(Settings(home=models_home), [*PROSE, RARE])

    assert [cost.check for cost in found.costs] == list(CHECKS)
    assert found.documents == 7
    assert found.scored <= 1
    assert sum(cost.share for cost in found.costs) == pytest.approx(1)
    timed = {cost.check: cost for cost in found.costs}
    assert all(timed[name].chunks == found.chunks and timed[name].seconds > 0 for name in RULE_TIER_CHECKS)
    assert found.rule_tier < min(timed[name].chunks_per_second for name in RULE_TIER_CHECKS)
    assert found.as_dict()["scored_share"] == pytest.approx(found.scored / found.chunks, abs=1e-5)


def test_without_texts_there_is_nothing_to_time(models_home: Path) -> None:
    with pytest.raises(Misuse, match="no clean text"):
        measure_throughput(Settings(home=models_home), [])


def test_the_proof_counts_what_the_model_was_spared_and_finds_the_verdict_it_missed(
    models_home: Path, tmp_path: Path
) -> None:
    # Nothing is rare enough to be shown to the model, which would find all of it too surprising.
    blind = Settings(home=models_home, policy_file=policy(tmp_path, rarity_bits=15.0, gibberish_nats=1.0))

    proof = prove_cascade(blind, PROSE)

    assert proof.scored == 0
    assert proof.scored_without == 2 * len(PROSE)  # each is suspect, and read again among its figures
    assert proof.differing == {"accept → quarantine": len(PROSE)}
    assert not proof.equal


def test_the_proof_holds_where_the_model_has_nothing_to_add(models_home: Path) -> None:
    proof = prove_cascade(Settings(home=models_home), PROSE)

    assert (proof.equal, proof.documents) == (True, len(PROSE))
    assert proof.scored < proof.scored_without


def test_there_is_no_cascade_without_the_check(models_home: Path, tmp_path: Path) -> None:
    with pytest.raises(Misuse, match="perplexity is switched off"):
        prove_cascade(Settings(home=models_home, policy_file=policy(tmp_path, enabled=False)), PROSE)
