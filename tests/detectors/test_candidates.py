"""Candidates of the filter and the judge: measured on what they never saw, kept, registered, and in use only once promoted."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from corpus_guard.airflow import detectors as airflow_detectors
from corpus_guard.corpus.filterrag.features import FeatureExtractor
from corpus_guard.deployment import Deployment
from corpus_guard.detectors import filter_candidate as filtering
from corpus_guard.detectors import judge_candidate as judge
from corpus_guard.detectors.candidates import ComparedFigure, is_better, split_questions
from corpus_guard.detectors.probe_prompts import is_tested
from corpus_guard.detectors.samples import question_key
from corpus_guard.errors import Inconsistent, Misuse, NotEnough
from corpus_guard.models import Models
from corpus_guard.models.champion import (
    Detector,
    detector_folder,
    promote,
    promoted_digest,
    read_detector,
    store_detector,
)
from corpus_guard.settings import PROJECT, Settings
from corpus_guard.tracking import model_registry as registry
from corpus_guard.tracking.measures import CountedShare
from corpus_guard.tracking.mlflow_runs import mlflow_client

sys.path.append(str(Path(__file__).parents[1] / "corpus" / "filterrag"))
from stubs import StubModels, a_row

SAMPLE = PROJECT / "include" / "sample_corpus" / "questions.jsonl"


@pytest.fixture
def guard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    """Whose models follow from the texts."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    file = tmp_path / "targets.jsonl"
    file.write_text(
        "".join(
            json.dumps(a_row(number, id=number, incorrect_answer=["Ben", "Benjamin"])) + "\n" for number in range(30)
        )
    )
    opened = Deployment(Settings(home=tmp_path, detector_questions=str(file)))
    opened.models = StubModels()  # type: ignore[assignment]
    return opened


def test_a_candidate_is_better_if_no_figure_is_worse_and_one_is_better() -> None:
    def two(caught: int, accused: int) -> list[ComparedFigure]:
        return [
            ComparedFigure("caught", True, CountedShare(caught, 10), CountedShare(8, 10)),
            ComparedFigure("accused", False, CountedShare(accused, 10), CountedShare(2, 10)),
        ]

    assert is_better(two(9, 2)) and is_better(two(8, 1)) and is_better(two(9, 1))
    assert not is_better(two(8, 2)), "the same is not asked about"
    assert not is_better(two(10, 3)), "more found for more accused is no progress"
    assert not is_better(two(7, 0))
    assert is_better([*two(9, 2), ComparedFigure("accused", False, CountedShare(8, 160), CountedShare(8, 161))]), (
        "one text less was shown"
    )
    assert is_better(
        [
            ComparedFigure("caught", True, CountedShare(1, 10), None),
            ComparedFigure("accused", False, CountedShare(9, 10), None),
        ]
    )
    assert str(two(9, 2)[0]) == "caught 90.0% (9 of 10), in use 80.0% (8 of 10)"


def test_questions_are_split_by_what_they_ask_and_the_same_each_time(guard: Deployment) -> None:
    training, testing = split_questions(guard.settings, Detector.JUDGE)
    again = split_questions(guard.settings, Detector.FILTER)

    assert [[one.id for one in half] for half in again] == [[one.id for one in half] for half in (training, testing)]
    assert len(training) + len(testing) == 30
    assert all(is_tested(question_key(one.question)) for one in testing)
    assert not any(is_tested(question_key(one.question)) for one in training)


def test_too_few_questions_are_distinguished_from_a_wrong_file(guard: Deployment, tmp_path: Path) -> None:
    with guard, pytest.raises(NotEnough, match=r"filter: \d questions to train on and \d to measure on, of 6 rows"):
        filtering.train_filter_candidate(guard.ledger, guard.storage, guard.models, guard.settings, limit=6)
    (tmp_path / "targets.jsonl").write_text("no row\n")
    with pytest.raises(Misuse, match="not JSON") as raised:
        split_questions(guard.settings, Detector.FILTER)
    assert not isinstance(raised.value, NotEnough)


def test_a_filter_is_measured_registered_promoted_and_used(guard: Deployment) -> None:
    guard.settings = guard.settings.model_copy(update={"retrieval_filter": "ml_filterrag"})
    with guard:
        first = filtering.train_filter_candidate(guard.ledger, guard.storage, guard.models, guard.settings)
        client = mlflow_client(guard.settings)
        model = registry.MODEL_NAMES[Detector.FILTER]
        challenger = client.get_model_version_by_alias(model, registry.CHALLENGER_ALIAS)
        artifacts = Path(client.download_artifacts(first.run, registry.ARTIFACT_FOLDERS[Detector.FILTER]))
        kept = read_detector(guard.storage, Detector.FILTER, first.digest)
        assert promoted_digest(guard.ledger, Detector.FILTER) is None
        promote(guard.ledger, Detector.FILTER, first.digest, run_id="r", by="ada")
        registry.set_champion_alias(guard.settings, Detector.FILTER, first.version)
        in_use, against = filtering.current_filter(guard.ledger, guard.storage, guard.models, guard.settings)
        again = filtering.train_filter_candidate(guard.ledger, guard.storage, guard.models, guard.settings)

    assert first.better, "the package's knows another language model: it cannot be used"
    assert "none that can be used" in first.summary
    assert (int(challenger.version), challenger.tags["digest"]) == (first.version, first.digest)
    assert (artifacts / "filter.json").read_bytes() == kept
    assert in_use is not None and in_use.digest == first.digest and against == first.digest[:16]
    assert in_use.feature_version == FeatureExtractor(guard.models).version
    assert again.digest == first.digest
    assert not again.better, "the same classifier is not asked about twice"
    tested = len(split_questions(guard.settings, Detector.FILTER)[1])
    planted = f"({tested * 10} of {tested * 10}), in use 100.0% ({tested * 10} of {tested * 10})"
    assert f"poisoned texts dropped 100.0% {planted}" in again.summary
    assert int(client.get_model_version_by_alias(model, registry.CHAMPION_ALIAS).version) == first.version
    suffixes = {path.suffix for path in guard.settings.home.rglob("*") if path.is_file()}
    assert not suffixes & {".pkl", ".pickle", ".pt", ".joblib"}


@pytest.mark.slow
def test_a_judge_is_trained_measured_beside_the_one_in_use_and_registered(models: Models, tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, detector_questions=str(SAMPLE))
    with Deployment(settings) as guard:
        guard.models = models
        found = judge.train_judge_candidate(guard.ledger, guard.storage, guard.models, guard.settings, limit=14)
        content = read_detector(guard.storage, Detector.JUDGE, found.digest)
        client = mlflow_client(settings)
        version = client.get_model_version_by_alias(registry.MODEL_NAMES[Detector.JUDGE], registry.CHALLENGER_ALIAS)
        in_use, against = judge.current_judge(guard.ledger, guard.models, guard.settings)
        promote(guard.ledger, Detector.JUDGE, found.digest, run_id="r", by="ada")
        crowned, named = judge.current_judge(guard.ledger, guard.models, guard.settings)
        broken = store_detector(guard.storage, Detector.JUDGE, b"{}")
        promote(guard.ledger, Detector.JUDGE, broken, run_id="r", by="ada")
        nothing, why = judge.current_judge(guard.ledger, guard.models, guard.settings)

    assert (int(version.version), version.tags["digest"]) == (found.version, found.digest)
    assert json.loads(content)["trained_on"] in found.summary
    assert in_use is not None and against == in_use.digest, "until somebody approves, that of the package"
    assert (
        crowned is not None and named == crowned.digest != in_use.digest and crowned.digest.endswith(found.digest[:16])
    )
    assert nothing is None and "holds no judge's model" in why
    assert found.figures["candidate/texts_judged_rightly"] > 0.8
    for name in ("texts judged rightly", "honest texts accused", "honest complaints turned against a text"):
        assert f"{name} " in found.summary
    artifacts = Path(client.download_artifacts(found.run, "figures.json"))
    shares = json.loads(artifacts.read_text())
    assert list(shares) == ["texts judged rightly", "honest texts accused", "honest complaints turned against a text"]
    gains = []
    for (name, pair), more_is_better in zip(shares.items(), (True, False, False), strict=True):
        for which, share in pair.items():
            assert found.figures[f"{which}/{name.replace(' ', '_')}"] == pytest.approx(share["hits"] / share["n"])
        gain = pair["candidate"]["hits"] / pair["candidate"]["n"] - pair["in_use"]["hits"] / pair["in_use"]["n"]
        gains.append(gain * pair["candidate"]["n"] * (1 if more_is_better else -1))
    assert found.better is (min(gains) > -0.5 and max(gains) >= 0.5)


@pytest.fixture
def notes(guard: Deployment, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What Airflow would be told of the run; everything else is real."""
    told: list[str] = []
    monkeypatch.setattr(airflow_detectors, "write_note_line", lambda name, text: told.append(f"{name}: {text}"))
    monkeypatch.setattr(airflow_detectors, "current_run_id", lambda: "detector_training/one")
    monkeypatch.setattr("corpus_guard.deployment.Deployment", lambda: Deployment(guard.settings))
    return told


def test_what_cannot_be_trained_is_noted_and_asks_nobody(guard: Deployment, notes: list[str], tmp_path: Path) -> None:
    lines = (tmp_path / "targets.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "targets.jsonl").write_text("".join(lines[:5]))

    assert [airflow_detectors.train_detector(name) for name in ("judge", "filter")] == [{}, {}]
    guard.settings = guard.settings.model_copy(update={"detector_questions": "", "sources_file": tmp_path / "own.yaml"})
    guard.settings.__dict__.pop("detector_files", None)
    assert airflow_detectors.train_detector("probe") == {}

    assert [note.partition(": not trained: ")[0] for note in notes] == ["judge", "filter", "probe"]
    assert all("questions to train on" in note and "of 5 rows" in note for note in notes[:2])
    assert notes[2] == "probe: not trained: set CORPUS_GUARD_DETECTOR_QUESTIONS"


def test_only_what_was_approved_and_measured_is_promoted(guard: Deployment, notes: list[str]) -> None:
    with Deployment(guard.settings) as opened:
        opened.models = guard.models
        found = filtering.train_filter_candidate(
            opened.ledger, opened.storage, opened.models, opened.settings
        ).as_dict()
    by = {"responded_by_user": {"id": "1", "name": "ada"}}

    airflow_detectors.promote_detector("filter", found, {**by, "chosen_options": ["Reject"]})
    with Deployment(guard.settings) as opened:
        assert promoted_digest(opened.ledger, Detector.FILTER) is None
    for _ in range(2):  # the task is cleared, and runs again
        airflow_detectors.promote_detector("filter", found, {**by, "chosen_options": ["Approve"]})
    with Deployment(guard.settings) as opened:
        assert promoted_digest(opened.ledger, Detector.FILTER) == found["digest"]
        place = f"{detector_folder(Detector.FILTER, found['digest'])}/filter.json"
        opened.storage.write(place, opened.storage.read(place) + b" ")
    with pytest.raises(Inconsistent, match=r"SHA-256 is .*, the ledger has"):
        airflow_detectors.promote_detector("filter", found, {**by, "chosen_options": ["Approve"]})

    short = found["digest"][:16]
    assert notes == [
        f"filter: {short} was not promoted: refused by ada",
        *[f"filter: {short}, version {found['version']}, is in use: approved by ada"] * 2,
    ]
