"""Training the embedded judge: what it is shown, and that what comes out judges."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from attacked_questions import QUESTIONS, a_row, write_rows
from corpus_guard.detectors import judge_training
from corpus_guard.detectors.judge_training import TrainingScene, train_judge
from corpus_guard.detectors.target_questions import TargetQuestion, read_targets
from corpus_guard.errors import Misuse
from corpus_guard.ledger.states import Label
from corpus_guard.models import Models
from corpus_guard.traceback.judges.embedded import EmbeddedJudge
from corpus_guard.traceback.judges.evidence import FEATURE_NAMES, evidence_version
from corpus_guard.traceback.retrieval import Complaint, RetrievedText
from siblings import UNRELATED

PLANTED_KINDS = {"led", "bare", "gibberish", "distorted", "order"}


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> tuple[TargetQuestion, ...]:
    path = tmp_path_factory.mktemp("targets") / "targets.jsonl"
    return read_targets(write_rows(path, [a_row(number) for number in range(len(QUESTIONS))])).targets


@pytest.fixture(scope="module")
def scenes(models: Models, targets: tuple[TargetQuestion, ...]) -> list[TrainingScene]:
    chance = random.Random(0)
    return list(judge_training.build_scenes(models, targets, UNRELATED, chance, lambda what, done, total: None))


def test_scenes_are_of_every_kind_and_know_the_truth(
    scenes: list[TrainingScene], targets: tuple[TargetQuestion, ...]
) -> None:
    assert {scene.kind for scene in scenes} == {*PLANTED_KINDS, "honest", "chance"}
    attacked = [any(scene.truth) for scene in scenes if scene.kind in PLANTED_KINDS]
    assert np.mean(attacked) > 0.5  # a planted text that is not retrieved leads to nothing
    assert not any(any(scene.truth) for scene in scenes if scene.kind in {"honest", "chance"})
    clean = {text for target in targets for text in target.clean} | set(UNRELATED)
    poisoned = {one.text for scene in scenes for part in scene.rounds for one, bad in part if bad}
    assert poisoned.isdisjoint(clean)
    for scene in scenes:
        ids = [one.chunk_id for part in scene.rounds for one, _ in part]
        assert len(ids) == len(set(ids))
        assert all(part for part in scene.rounds)


def test_a_distorted_question_stands_in_front_of_planted_texts_and_most_of_it_is_left(
    scenes: list[TrainingScene], targets: tuple[TargetQuestion, ...]
) -> None:
    bodies = {text for target in targets for text in target.adversarial}
    distorted = [
        (scene.key.split(), one.text)
        for scene in scenes
        if scene.kind == "distorted"
        for part in scene.rounds
        for one, bad in part
        if bad and any(one.text.endswith(body) and one.text != body for body in bodies)
    ]

    kept = [len([word for word in asked if word in text.split()]) / len(asked) for asked, text in distorted]
    assert distorted and 0.3 < np.mean(kept) < 0.95


def test_questions_are_asked_as_written_and_with_words_left_out(scenes: list[TrainingScene]) -> None:
    asked = {(scene.key, scene.complaint.query) for scene in scenes}

    assert any(key == query for key, query in asked)
    shorter = [(key.split(), query.split()) for key, query in asked if key != query]
    assert shorter
    for key, query in shorter:
        assert query[0] == key[0] and len(query) >= judge_training.MIN_WORDS
        assert set(query) <= set(key)


def test_what_comes_out_judges_and_can_be_read_again(
    models: Models, targets: tuple[TargetQuestion, ...], tmp_path: Path
) -> None:
    left_out, *shown = targets
    learned = train_judge(models, shown, UNRELATED, trained_on="five questions")
    path = tmp_path / "judge.json"
    path.write_bytes(learned.dumps())
    judge = EmbeddedJudge.from_file(models, path)
    complaint = Complaint(left_out.question, left_out.incorrect[0])
    texts = [*left_out.adversarial, *left_out.clean, *UNRELATED[:4]]
    vectors = models.embedder.embed(texts)
    suspects = [
        RetrievedText(str(n), text, 0.5, vector) for n, (text, vector) in enumerate(zip(texts, vectors, strict=True))
    ]

    opinions = judge.judge(complaint, suspects, suspects)

    assert learned.version == evidence_version(models) and learned.trained_on == "five questions"
    assert f"/{learned.digest[:16]}/" in judge.digest
    assert [one.label for one in opinions[:5]] == [Label.POISONED] * 5
    assert [one.label for one in opinions[5:]] == [Label.BENIGN] * (len(texts) - 5)
    again = judge.conclude(complaint, list(zip(suspects, opinions, strict=True)))
    assert again.probability is not None and 0 <= again.probability <= 1
    assert judge.embedding_seconds > 0


@pytest.mark.slow
def test_the_same_seed_gives_the_same_judge(models: Models, targets: tuple[TargetQuestion, ...]) -> None:
    one, other = (train_judge(models, targets, UNRELATED, trained_on="t", seed=3) for _ in range(2))

    assert one.digest == other.digest


def test_what_teaches_nothing_is_refused(models: Models, targets: tuple[TargetQuestion, ...]) -> None:
    with pytest.raises(Misuse, match="nothing to learn from"):
        train_judge(models, targets[:2], UNRELATED, trained_on="two questions")
    with pytest.raises(Misuse, match="nothing to learn from"):
        train_judge(models, [replace(target, adversarial=()) for target in targets], UNRELATED, trained_on="no attack")


def test_unseen_scores_are_of_trees_that_never_saw_the_question(scenes: list[TrainingScene]) -> None:
    """Rows that name their question: a score that knows it would be sure, one that does not cannot be."""
    keys = sorted({scene.key for scene in scenes})
    secret = {key: number for number, key in enumerate(keys)}
    rows = [np.full((len(scene.truth), len(FEATURE_NAMES)), float(secret[scene.key])) for scene in scenes]
    truths = {scene.key: bool(secret[scene.key] % 2) for scene in scenes}
    told = [
        replace(scene, rounds=tuple(tuple((one, truths[scene.key]) for one, _ in part) for part in scene.rounds))
        for scene in scenes
    ]

    seen = judge_training._first_look(told, rows, 0)
    unseen = judge_training._unseen_scores(told, rows, 0)

    right = [
        abs(float(seen.inplace_predict(row).mean()) - truths[scene.key]) for row, scene in zip(rows, told, strict=True)
    ]  # type: ignore[attr-defined]
    wrong = [abs(float(score.mean()) - truths[scene.key]) for score, scene in zip(unseen, told, strict=True)]
    assert max(right) < 0.3
    assert np.mean(wrong) > 0.4
