"""Whole evaluations over a real Chroma and the real embedder, with a judge whose opinions follow from the texts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attacked_questions import QUESTIONS, Containing, a_row, write_rows
from corpus_guard.detectors.attack_simulation import attack_simulation
from corpus_guard.detectors.planting import Attack, Planting
from corpus_guard.detectors.target_questions import read_targets
from corpus_guard.detectors.trace_figures import count_figures
from corpus_guard.errors import Misuse
from corpus_guard.evaluation.traceback.evaluated_judges import EvaluatedJudge
from corpus_guard.evaluation.traceback.experiment import TracebackRequest, TracebackResult, evaluate_traceback
from corpus_guard.evaluation.traceback.judge_factory import JudgeFactories
from corpus_guard.evaluation.traceback.mlflow_log import EXPERIMENT, log_traceback
from corpus_guard.models import Models
from corpus_guard.settings import Settings

Play = Callable[..., TracebackResult]


@pytest.fixture
def targets(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "targets.jsonl", [a_row(number) for number in range(len(QUESTIONS))])


@pytest.fixture
def play(settings: Settings, models: Models, targets: Path) -> Play:
    def run(attack: Attack, path: Path = targets, **options: Any) -> TracebackResult:
        request = TracebackRequest(path, Planting(attack, m=options.pop("m", 5)), **options)
        return evaluate_traceback(settings, request, models=models, make=lambda factory, name: Containing())

    return run


def test_every_planted_text_is_found_and_the_figures_follow_from_the_lines(play: Play) -> None:
    result = play(Attack.POISONEDRAG_B)
    found, lines = result.as_dict(), list(result.rows())

    truth = {f"{a_row(n)['question']}.{text}" for n in range(6) for text in a_row(n)["adversarial_texts"]}
    counted = Counter((line["text"] in truth, line["label"]) for line in lines)
    assert counted == {(True, "poisoned"): 30, (False, "benign"): found["benign"]}
    assert (found["dacc"], found["fpr"], found["fnr"]) == (1.0, 0.0, 0.0)
    assert (found["judged"], found["poisoned"]) == (len(lines), 30)
    assert found["outcomes"]["traced"] == found["queries"] == 6
    assert found["queries_still_reached"] == 0
    assert list(dict.fromkeys(line["query_id"] for line in lines)) == [f"q{n}" for n in range(6)]
    assert all(len({line["text"] for line in lines if line["query_id"] == f"q{n}"}) >= 10 for n in range(6))
    json.dumps(found)


def test_forty_texts_a_question_are_all_found_and_none_is_judged_twice(play: Play, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "two.jsonl", [a_row(0), a_row(1)])
    targets = read_targets(path).targets
    planted = {one.id: set(Planting(Attack.POISONEDRAG_B, m=40).texts(one)) for one in targets}
    saying = {one.id: {text for text in planted[one.id] if one.incorrect[0] in text} for one in targets}

    lines = list(play(Attack.POISONEDRAG_B, path, m=40).rows())

    assert max(Counter((line["query_id"], line["text"]) for line in lines).values()) == 1
    for target in targets:
        accused = {line["text"] for line in lines if line["query_id"] == target.id and line["label"] == "poisoned"}
        assert len(planted[target.id]) == 40
        assert accused == saying[target.id]
        assert len(accused) > 30


def test_an_honest_complaint_is_played_over_clean_texts_alone(play: Play) -> None:
    found = play(Attack.NONE).as_dict()

    assert found["honest_reports"] == {"reports": 6, "accused": 0}
    assert (found["poisoned"], found["planted_texts"], found["corpus_texts"]) == (0, 0, 36)
    assert found["outcomes"]["not_poisoning"] == 6


def test_an_honest_complaint_that_accuses_is_counted(play: Play, tmp_path: Path) -> None:
    page = "The {} of the north pier was painted violet in its first year, says page {}."
    row = a_row(0, clean_texts=[page.format("lamp", number) for number in range(8)])

    found = play(Attack.NONE, write_rows(tmp_path / "one.jsonl", [row])).as_dict()

    assert found["honest_reports"] == {"reports": 1, "accused": 1}
    assert found["fpr"] == 1.0


def test_the_same_text_in_two_rows_is_one_record_and_poisons_only_its_own_question(play: Play, tmp_path: Path) -> None:
    shared = "The lamp of the north pier shines violet, and Piet Holm has run the harbour office."
    lies = [shared, *a_row(0)["adversarial_texts"][:3]]
    rows = [a_row(0, adversarial_texts=lies), a_row(1, clean_texts=[shared])]

    found = play(Attack.HOTFLIP, write_rows(tmp_path / "two.jsonl", rows), k=12)

    assert found.as_dict()["corpus_texts"] == 4 + 6 + 5
    judged = {(line["query_id"], line["text"]): line["label"] for line in found.rows()}
    assert judged["q0", shared] == judged["q1", shared] == "poisoned"
    counts = found.as_dict()["counts"]
    assert (counts["tp"], counts["fp"], counts["fn"]) == (
        4 + 5,
        1,
        0,
    )  # for the second question it is a false accusation


def test_one_row_without_clean_texts_runs_dry_and_no_row_with_any_is_refused(play: Play, tmp_path: Path) -> None:
    alone = write_rows(tmp_path / "alone.jsonl", [a_row(0, clean_texts=[])])

    assert play(Attack.BARE, alone).as_dict()["outcomes"]["exhausted"] == 1
    with pytest.raises(Misuse, match="the corpus is empty"):
        play(Attack.NONE, alone)


def test_the_same_run_twice_gives_the_same_lines(play: Play) -> None:
    one, again = (list(play(Attack.INSTRUINJECT, limit=2).rows()) for _ in range(2))

    assert one == again
    assert len(one) >= 15


def test_asr_falls_when_what_was_traced_is_removed(play: Play) -> None:
    asked = play(Attack.POISONEDRAG_B, asr=True, defences=("none", "ptr")).as_dict()["defences"]

    assert set(asked) == {"none", "ptr"}
    assert asked["none"]["queries"] == len(QUESTIONS)
    assert asked["none"]["asr"] > asked["ptr"]["asr"] == 0.0, (
        "which of them a small model repeats differs with the processor"
    )


def test_accuracy_needs_right_answers_and_unknown_defences_are_refused(play: Play, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "one.jsonl", [a_row(0, correct_answer=None)])

    with pytest.raises(Misuse, match=":1: 'correct_answer' is missing"):
        play(Attack.BARE, path, asr=True)
    with pytest.raises(Misuse, match="--defence 'prayer': unknown; expected one of none, "):
        play(Attack.BARE, asr=True, defences=("prayer",))


def test_another_judge_sees_the_same_scene(settings: Settings, models: Models, targets: Path) -> None:
    with attack_simulation(settings, models, read_targets(targets)) as simulation:
        corpus = simulation.poison(Planting(Attack.POISONEDRAG_B))
        one, other = (simulation.trace(corpus, judge, 5) for judge in (Containing(), Containing()))

    assert count_figures(one).labels == count_figures(other).labels
    assert count_figures(one).labels.total() >= 60


@pytest.mark.parametrize("name", [EvaluatedJudge.PPL_90, EvaluatedJudge.TKM])
def test_baselines_are_made_from_texts_that_nobody_planted(
    settings: Settings, models: Models, targets: Path, name: EvaluatedJudge
) -> None:
    with attack_simulation(settings, models, read_targets(targets, limit=1)) as simulation:
        corpus = simulation.poison(Planting(Attack.BARE))
        assert set(corpus.ordinary) == set(a_row(0)["clean_texts"])
        judge = JudgeFactories(settings, models).factory_for(corpus).judge(name)
        traced = simulation.trace(corpus, judge, 5)

    assert judge.name == name.value
    assert count_figures(traced).judged


def test_a_judge_behind_an_endpoint_needs_one(settings: Settings, models: Models, targets: Path) -> None:
    request = TracebackRequest(targets, Planting(Attack.BARE), EvaluatedJudge.LLM)

    with pytest.raises(Misuse, match="--judge llm: needs an endpoint; set CORPUS_GUARD_CHAT_URL"):
        evaluate_traceback(settings, request, models=models)


def test_a_run_is_kept_with_its_figures_and_without_any_text(settings: Settings, play: Play) -> None:
    from mlflow import MlflowClient

    result = play(Attack.POISONEDRAG_B)

    run = MlflowClient(f"sqlite:///{settings.home / 'mlflow' / 'mlflow.db'}").get_run(log_traceback(settings, result))
    client = MlflowClient(f"sqlite:///{settings.home / 'mlflow' / 'mlflow.db'}")
    assert client.get_experiment(run.info.experiment_id).name == EXPERIMENT
    assert run.data.metrics["dacc"] == result.figures.dacc.rate
    assert run.data.metrics["outcome/traced"] == 6
    assert run.data.params["judge_digest"] == Containing.digest
    assert sorted(file.path for file in client.list_artifacts(run.info.run_id)) == ["evaluation.json", "scores.png"]
    kept = next((settings.home / "mlflow").rglob("evaluation.json")).read_text()
    assert "harbour" not in kept
    assert "violet" not in kept


def test_attacks_share_what_is_learned_of_ordinary_texts(settings: Settings, models: Models, targets: Path) -> None:
    factories = JudgeFactories(settings, models)
    with attack_simulation(settings, models, read_targets(targets, limit=1)) as simulation:
        bare, orders = (simulation.poison(Planting(attack)) for attack in (Attack.BARE, Attack.INSTRUINJECT))

    assert factories.factory_for(bare) is factories.factory_for(orders)
