"""The experiment's arithmetic on questions whose outcome can be counted by hand; models that follow from the texts."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from corpus_guard.corpus.filterrag.features import FeatureExtractor
from corpus_guard.corpus.filterrag.kinds import ClassifierKind
from corpus_guard.corpus.filterrag.learned import load
from corpus_guard.detectors.filter_training import FilterQuestion
from corpus_guard.detectors.readings import ReadingCache
from corpus_guard.errors import Misuse
from corpus_guard.evaluation.filter_experiment import (
    EPSILONS,
    TAUS,
    AdversarialForm,
    FilterExperiment,
    contains_answer,
    read_filter_questions,
    separate_questions,
)

sys.path.append(str(Path(__file__).parents[1] / "corpus" / "filterrag"))
from stubs import StubModels, a_row


def a_file(path: Path, numbers: range, **changes: Any) -> Path:
    path.write_text("".join(json.dumps(a_row(number, **changes)) + "\n" for number in numbers))
    return path


@pytest.fixture
def experiment(tmp_path: Path) -> FilterExperiment:
    return FilterExperiment(StubModels(), ReadingCache(tmp_path / "readings.jsonl"))  # type: ignore[arg-type]


def test_the_whole_experiment_where_the_classes_are_far_apart(experiment: FilterExperiment, tmp_path: Path) -> None:
    training = read_filter_questions(a_file(tmp_path / "one.jsonl", range(12)), AdversarialForm.LED)
    testing = read_filter_questions(a_file(tmp_path / "two.jsonl", range(12, 20)), AdversarialForm.LED)

    report = experiment.run(training, testing)

    assert json.loads(json.dumps(report)) == report
    assert report["questions"] == {"train": 12, "test": 8}
    assert report["classifier"]["test_accuracy"] == {"hits": 80, "n": 80, "rate": 1.0, "low": 0.9542, "high": 1.0}
    systems = report["systems"]
    assert (systems["poisonedrag"]["atr"]["hits"], systems["poisonedrag"]["atr"]["n"]) == (40, 40)
    assert (systems["cleanrag"]["atr"]["hits"], systems["cleanrag"]["atr"]["n"]) == (0, 40)
    assert systems["ml_filterrag"]["atr"]["rate"] == systems["ml_filterrag"]["clean_dropped"]["rate"] == 0
    # The stub answers with the last word it is shown: Ben where poisoned texts are served, Ada where they are not.
    assert (systems["poisonedrag"]["asr"]["rate"], systems["poisonedrag"]["accuracy"]["rate"]) == (1, 0)
    assert (systems["ml_filterrag"]["asr"]["rate"], systems["ml_filterrag"]["accuracy"]["rate"]) == (0, 1)
    assert list(report["tau"]) == [f"{tau:g}" for tau in TAUS]
    assert list(report["epsilon"]) == [f"{epsilon:g}" for epsilon in EPSILONS]
    cells = [*report["epsilon"].values(), *(rates for both in report["tau"].values() for rates in both.values())]
    assert all(rates.keys() >= {"atr", "asr", "accuracy", "clean_dropped"} for rates in cells)
    assert "white_box" not in report


def test_texts_that_were_optimised_are_a_slice_of_their_own(experiment: FilterExperiment, tmp_path: Path) -> None:
    training = read_filter_questions(a_file(tmp_path / "one.jsonl", range(12)), AdversarialForm.LED)
    testing = read_filter_questions(a_file(tmp_path / "two.jsonl", range(12, 20)), AdversarialForm.LED)
    white_box = a_file(tmp_path / "three.jsonl", range(14, 16))

    report = experiment.run(training, testing, ablations=False, white_box=white_box)

    assert report["white_box_questions"] == 2
    assert report["white_box"]["poisonedrag"]["atr"] == {"hits": 10, "n": 10, "rate": 1.0, "low": 0.7225, "high": 1.0}
    assert set(report["white_box"]) == {"poisonedrag", "filterrag", "ml_filterrag"}
    with pytest.raises(Misuse, match="holds no text for any of the 8 questions"):
        experiment.run(training, testing, ablations=False, white_box=a_file(tmp_path / "no.jsonl", range(90, 91)))


def test_epsilon_decides_what_filterrag_drops(experiment: FilterExperiment, tmp_path: Path) -> None:
    training = read_filter_questions(a_file(tmp_path / "one.jsonl", range(12)), AdversarialForm.LED)
    testing = read_filter_questions(a_file(tmp_path / "two.jsonl", range(12, 20)), AdversarialForm.LED)

    none, everything = (
        experiment.run(training, testing, answers=False, ablations=False, epsilon=epsilon)["systems"]["filterrag"]
        for epsilon in (1.0, 0.0)
    )

    assert none["clean_dropped"]["hits"] == 0
    assert everything["clean_dropped"]["hits"] > 0


def test_an_ablation_reads_nothing_twice_and_neither_does_a_second_run(
    experiment: FilterExperiment, tmp_path: Path
) -> None:
    questions = read_filter_questions(a_file(tmp_path / "one.jsonl", range(12)), AdversarialForm.LED)
    experiment.run(questions[:8], questions[8:], answers=False)
    models = experiment._models
    assert len(models.language_model.chats) == 12 * 10

    again = StubModels()
    FilterExperiment(again, ReadingCache(tmp_path / "readings.jsonl")).run(  # type: ignore[arg-type]
        questions[:8], questions[8:], answers=False
    )

    assert again.language_model.chats == []


def test_a_torn_line_is_read_again(tmp_path: Path) -> None:
    models, file = StubModels(), tmp_path / "readings.jsonl"
    pairs = [("who", "one Ada"), ("who", "two Ben")]
    first = ReadingCache(file).read(FeatureExtractor(models), pairs)  # type: ignore[arg-type]
    file.write_bytes(file.read_bytes()[:-9])

    second = ReadingCache(file).read(FeatureExtractor(models), pairs)  # type: ignore[arg-type]

    assert second == first
    assert len(models.language_model.chats) == 3
    assert b"one Ada" not in file.read_bytes()  # of a text only its answer is kept


def test_shared_questions_are_never_on_both_sides() -> None:
    questions = [FilterQuestion(f"Who keeps pump {number}?", "a", "b", ("x",), ("y",)) for number in range(60)]
    spelt_otherwise = [FilterQuestion(one.text.upper(), "a", "b", ("x",), ("y",)) for one in questions]
    own = FilterQuestion("Only here", "a", "b", ("x",), ("y",))

    learn, judge = separate_questions([*questions, own], spelt_otherwise)

    assert own in learn
    assert not {one.key for one in learn} & {one.key for one in judge}
    assert len(learn) + len(judge) == 61
    assert 15 < len(judge) < 45


def test_forms_and_limits(tmp_path: Path) -> None:
    path = a_file(tmp_path / "one.jsonl", range(4), clean_texts_contriever=["other"] * 9)

    led, bare, both = (read_filter_questions(path, form, limit=3) for form in AdversarialForm)

    assert (len(led), len(bare), len(both)) == (3, 3, 6)
    assert led[0].adversarial[0] == f"{led[0].text}.{bare[0].adversarial[0]}"
    assert led[0].clean == ("other",) * 5  # as many as there are adversarial ones, of the published retriever
    assert [one.adversarial for one in both[:2]] == [led[0].adversarial, bare[0].adversarial]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "holds no questions"),
        ("not json\n", "one.jsonl:1: not JSON"),
        ('{"question": "who"}\n', "one.jsonl:1: lacks or misuses 'correct_answer'"),
        (json.dumps(a_row(1, adversarial_texts=7)) + "\n", "one.jsonl:1: lacks or misuses"),
    ],
)
def test_another_format_is_refused_by_file_and_line(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "one.jsonl").write_text(content)

    with pytest.raises(Misuse, match=message):
        read_filter_questions(tmp_path / "one.jsonl", AdversarialForm.LED)


def test_nothing_to_learn_from_is_refused(experiment: FilterExperiment, tmp_path: Path) -> None:
    questions = read_filter_questions(a_file(tmp_path / "one.jsonl", range(4), clean_texts=[]), AdversarialForm.LED)

    with pytest.raises(Misuse, match="training set: all 10 texts are adversarial"):
        experiment.run(questions[:2], questions[2:])


@pytest.mark.parametrize("kind", list(ClassifierKind))
def test_a_fitted_model_can_be_kept(experiment: FilterExperiment, tmp_path: Path, kind: ClassifierKind) -> None:
    questions = read_filter_questions(a_file(tmp_path / "one.jsonl", range(12)), AdversarialForm.BOTH)

    model = experiment.fit(questions, kind, threshold=0.5)

    back = load(tmp_path / "model", model.save(tmp_path / "model"))
    assert back.feature_version == FeatureExtractor(StubModels()).version  # type: ignore[arg-type]


def test_an_answer_counts_by_substring() -> None:
    assert contains_answer("It was Ada Moss.", " ada moss ")
    assert not contains_answer("It was Ada.", "Ben")
    assert not contains_answer("anything", " ")
