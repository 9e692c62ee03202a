"""Counting: by slice, half and screener, each text once, targets met or missed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from corpus_guard.detectors.samples import Family, Half, Sample, TextForm
from corpus_guard.evaluation.screening import report
from corpus_guard.evaluation.screening.experiment import (
    ScreeningPlan,
    ScreeningResult,
    SliceFigure,
    run_trials,
    slice_title,
)
from corpus_guard.evaluation.screening.protocols import ArrivalProtocol
from corpus_guard.evaluation.screening.targets import CATCH_TARGETS, find_target
from corpus_guard.tracking.measures import ScreeningOutcome
from labelled import clean_samples, sibling_samples


class Words:
    """Catches what has one of some words in it; in company, anything that is there five times."""

    def __init__(self, name: str, *words: str) -> None:
        self.name, self.words = name, words
        self.banks: list[Sequence[str]] = []

    def screen(self, texts: Sequence[str], *, one_by_one: bool, bank: Sequence[str]) -> list[ScreeningOutcome]:
        self.banks.append(bank)
        hits = [any(word in text for word in self.words) for text in texts]
        return [ScreeningOutcome(hit, 0.9 if hit else 0.1, ("words.found",) if hit else ()) for hit in hits]


SAMPLES = [*sibling_samples(4), *sibling_samples(6, half=Half.TUNING)[20:], *clean_samples(30)]


def figure(result: ScreeningResult, protocol: ArrivalProtocol, attack: bool) -> SliceFigure:
    (found,) = [
        one
        for one in result.figures
        if one.protocol is protocol
        and one.slice_key.attack is attack
        and "," not in one.slice_key.slice
        and one.slice_key.form is not TextForm.ASKED
    ]
    return found


def test_each_half_and_screener_is_counted_apart() -> None:
    ours, peer = Words("ours", "nine metres"), Words("peer", "measured 2 times")

    found = figure(run_trials(SAMPLES, ScreeningPlan(), [ours, peer]), ArrivalProtocol.SINGLE, attack=True)

    assert {half: (t.caught, t.n) for half, t in found.tallies["ours"].items()} == {
        Half.VALIDATION: (20, 20),
        Half.TUNING: (10, 10),
    }
    assert (found.headline("peer").caught, found.headline("peer").n) == (4, 20)  # type: ignore[union-attr]
    assert found.met("ours") is True
    assert found.met("peer") is False
    assert found.headline("ours").codes == {"words.found": 20}  # type: ignore[union-attr]


def test_a_clean_text_in_many_batches_counts_once_and_as_held_back_if_any_batch_did() -> None:
    class SecondTime(Words):
        def screen(self, texts: Sequence[str], *, one_by_one: bool, bank: Sequence[str]) -> list[ScreeningOutcome]:
            super().screen(texts, one_by_one=one_by_one, bank=bank)
            return [ScreeningOutcome("week 7." in text and len(self.banks) == 2, 0.5) for text in texts]

    plan = ScreeningPlan((ArrivalProtocol.SIBLINGS,), (Half.VALIDATION,))
    many = [*sibling_samples(25), *clean_samples(30)]

    found = figure(run_trials(many, plan, [SecondTime("ours")]), ArrivalProtocol.SIBLINGS, attack=False)

    assert (found.headline("ours").caught, found.headline("ours").n) == (1, 30)  # type: ignore[union-attr]


def test_rewritten_siblings_are_run_beside_the_others_and_have_their_own_target() -> None:
    result = run_trials(SAMPLES, ScreeningPlan((ArrivalProtocol.SIBLINGS,)), [Words("ours", "?")])

    rewritten = [one for one in result.figures if one.family is Family.REWRITTEN]

    assert {slice_title(one.slice_key) for one in rewritten} == {
        "lies, rewritten · bare",
        "lies, rewritten · question + text",
    }
    assert {str(one.target) for one in rewritten} == {"≥ 70%"}


def test_the_bank_reaches_the_screener() -> None:
    ours = Words("ours", "x")

    run_trials(SAMPLES, ScreeningPlan((ArrivalProtocol.BANK,), bank=("Who?",)), [ours])

    assert "Who?" in ours.banks[0]


def test_the_risk_of_each_attack_is_held_against_all_honest_documents() -> None:
    prompts = [
        replace(sample, family=Family.PROMPT, slice="prompts", text=sample.text + " nine metres")
        for sample in clean_samples(9)
    ]

    curves = run_trials(
        [*SAMPLES, *prompts], ScreeningPlan((ArrivalProtocol.SINGLE,)), [Words("ours", "nine metres")]
    ).curves("ours")

    assert {name: curve.auc for name, curve in curves.items()} == {"lies · bare": 1.0, "lies · Question? + text": 1.0}


@pytest.mark.parametrize(
    ("family", "protocol", "form", "target"),
    [
        (Family.KNOWLEDGE, ArrivalProtocol.SIBLINGS, TextForm.LED, "≥ 98%"),
        (Family.KNOWLEDGE, ArrivalProtocol.SIBLINGS, TextForm.BARE, "≥ 85%"),
        (Family.KNOWLEDGE, ArrivalProtocol.SINGLE, TextForm.LED, "≥ 90%"),
        (Family.KNOWLEDGE, ArrivalProtocol.SINGLE, TextForm.BARE, "≥ 50%"),
        (Family.KNOWLEDGE, ArrivalProtocol.BANK, TextForm.BARE, "≥ 90%"),
        (Family.HOTFLIP, ArrivalProtocol.SINGLE, TextForm.AS_IS, "≥ 99%"),
        (Family.ORDINARY, ArrivalProtocol.SINGLE, TextForm.AS_IS, "≤ 0.5%"),
        (Family.ORDINARY, ArrivalProtocol.TOGETHER, TextForm.AS_IS, "≤ 1%"),
        (Family.ORDINARY, ArrivalProtocol.ANSWERS, TextForm.AS_IS, "≤ 1%"),
        (Family.ORDINARY, ArrivalProtocol.ATTACKED_ANSWERS, TextForm.AS_IS, "≤ 2%"),
        (Family.HARD_NEGATIVE, ArrivalProtocol.SINGLE, TextForm.AS_IS, "≤ 3%"),
        (Family.JOINERS, ArrivalProtocol.SINGLE, TextForm.AS_IS, "0"),
        (Family.ATTACK, ArrivalProtocol.SINGLE, TextForm.AS_IS, "None"),
    ],
)
def test_what_is_asked_of_what(family: Family, protocol: ArrivalProtocol, form: TextForm, target: str) -> None:
    assert str(find_target(family, protocol, form)) == target


def test_a_target_is_met_at_its_bound_and_on_the_right_side_of_it() -> None:
    for target in CATCH_TARGETS:
        assert target.met(target.bound)
        assert target.met(target.bound - 0.01) is not target.attack
        assert target.met(target.bound + 0.01) is target.attack


def test_tables_show_counts_intervals_both_halves_and_the_peers() -> None:
    result = run_trials(
        SAMPLES, ScreeningPlan((ArrivalProtocol.SINGLE,)), [Words("ours", "nine"), Words("peer", "never")]
    )

    attacks, clean = report.report_tables(result, ("ours", "peer"))

    assert attacks.columns == ("slice", "caught", "rate", "95 %", "tuning", "peer", "target", "")
    counts = ("20 / 20", "100.0 %", "83.9–100.0", "100.0 %", "0.0 %")
    assert attacks.rows == (("lies · bare", *counts, "≥ 50%", "met"), ("lies · Question? + text", *counts, "", ""))
    assert clean.rows == (("tides", "0 / 30", "0.0 %", "0.0–11.4", "", "0.0 %", "≤ 0.5%", "met"),)


def test_the_record_holds_no_text_and_names_for_mlflow_are_plain() -> None:
    sample = Sample("a secret sentence", True, "strange: <slice> é", Family.ATTACK, "k", half=Half.VALIDATION)
    result = run_trials(
        [sample, *clean_samples(2)], ScreeningPlan((ArrivalProtocol.SINGLE,), seed=3), [Words("ours", "secret")]
    )

    record = report.as_dict(result, ScreeningPlan(seed=3), ["ours"], policy="abc")

    assert "secret" not in str(record)
    assert (record["seed"], record["policy"]) == (3, "abc")
    assert record["lines"][0]["screeners"]["ours"]["halves"]["validation"]["caught"] == 1
    assert report.report_metrics(result, "ours")["single/strange_slice/as_is/recall/validation"] == 1.0
