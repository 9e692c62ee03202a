"""Candidates of the filter and the judge: measured on what they never saw, kept, registered, and in use only once promoted."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from corpus_guard import airflow_detectors
from corpus_guard.corpus.filterrag import FeatureExtractor
from corpus_guard.errors import Inconsistent, Misuse, NotEnough
from corpus_guard.evaluation.activations.material import is_tested
from corpus_guard.evaluation.detectors import filtering, judge, registry
from corpus_guard.evaluation.detectors.candidate import Figure, better, questions
from corpus_guard.evaluation.samples import normal
from corpus_guard.evaluation.traceback.figures import Share
from corpus_guard.evaluation.tracking import client_of
from corpus_guard.guard import Guard
from corpus_guard.models import Models
from corpus_guard.models.champion import Detector, folder, keep, promote, promoted, read
from corpus_guard.settings import PROJECT, Settings

sys.path.append(str(Path(__file__).parents[2] / "corpus" / "filterrag"))
from stubs import StubModels

SAMPLE = PROJECT / "include" / "sample_corpus" / "questions.jsonl"
WORDS = ("pump", "quay", "gauge", "crane", "ferry", "mast", "hull", "keel", "winch", "buoy", "light", "chart")


def a_row(number: int) -> dict[str, object]:
    """Planted texts are dense in the question's words, honest ones are not: a classifier can tell them apart."""
    topic = f"{WORDS[number % len(WORDS)]}{number}"
    return {
        "id": number,
        "question": f"who keeps the {topic}",
        "correct_answer": "Ada",
        "incorrect_answer": ["Ben", "Benjamin"],
        "adversarial_texts": [f"{topic} {topic} keeps {topic} for {letter} Ben" for letter in "abcde"],
        "clean_texts": [f"harbours have things such as {one} rope tar sail wood and {topic} Ada" for one in "abcde"],
    }


@pytest.fixture
def guard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Guard:
    """Whose models follow from the texts."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    file = tmp_path / "targets.jsonl"
    file.write_text("".join(json.dumps(a_row(number)) + "\n" for number in range(30)))
    opened = Guard(Settings(home=tmp_path, detector_questions=str(file)))
    opened.models = StubModels()  # type: ignore[assignment]
    return opened


def test_better_is_no_figure_worse_and_one_better() -> None:
    def two(caught: int, accused: int) -> list[Figure]:
        return [
            Figure("caught", True, Share(caught, 10), Share(8, 10)),
            Figure("accused", False, Share(accused, 10), Share(2, 10)),
        ]

    assert better(two(9, 2)) and better(two(8, 1)) and better(two(9, 1))
    assert not better(two(8, 2)), "the same is not asked about"
    assert not better(two(10, 3)), "more found for more accused is no progress"
    assert not better(two(7, 0))
    assert better([*two(9, 2), Figure("accused", False, Share(8, 160), Share(8, 161))]), "one text less was shown"
    assert better([Figure("caught", True, Share(1, 10), None), Figure("accused", False, Share(9, 10), None)])
    assert str(two(9, 2)[0]) == "caught 90.0% (9 of 10), in use 80.0% (8 of 10)"


def test_questions_are_split_by_what_they_ask_and_the_same_each_time(guard: Guard) -> None:
    training, testing = questions(guard, Detector.JUDGE)
    again = questions(guard, Detector.FILTER)

    assert [[one.id for one in half] for half in again] == [[one.id for one in half] for half in (training, testing)]
    assert len(training) + len(testing) == 30
    assert all(is_tested(normal(one.question)) for one in testing)
    assert not any(is_tested(normal(one.question)) for one in training)


def test_too_few_questions_are_told_apart_from_a_wrong_file(guard: Guard, tmp_path: Path) -> None:
    with guard, pytest.raises(NotEnough, match=r"filter: \d questions to train on and \d to measure on, of 6 rows"):
        filtering.prepare(guard, limit=6)
    (tmp_path / "targets.jsonl").write_text("no row\n")
    with pytest.raises(Misuse, match="not JSON") as raised:
        questions(guard, Detector.FILTER)
    assert not isinstance(raised.value, NotEnough)


def test_a_filter_is_measured_registered_promoted_and_used(guard: Guard) -> None:
    guard.settings = guard.settings.model_copy(update={"retrieval_filter": "ml_filterrag"})
    with guard:
        first = filtering.prepare(guard)
        client = client_of(guard.settings)
        model = registry.MODEL[Detector.FILTER]
        challenger = client.get_model_version_by_alias(model, registry.CHALLENGER)
        artifacts = Path(client.download_artifacts(first.run, registry.FOLDER[Detector.FILTER]))
        kept = read(guard.storage, Detector.FILTER, first.digest)
        assert promoted(guard.ledger, Detector.FILTER) is None
        promote(guard.ledger, Detector.FILTER, first.digest, run_id="r", by="ada")
        registry.crown(guard.settings, Detector.FILTER, first.version)
        in_use, against = filtering.current(guard)
        again = filtering.prepare(guard)

    assert first.better, "the package's knows another language model: it cannot be used"
    assert "none that can be used" in first.told
    assert (int(challenger.version), challenger.tags["digest"]) == (first.version, first.digest)
    assert (artifacts / "filter.json").read_bytes() == kept
    assert in_use is not None and in_use.digest == first.digest and against == first.digest[:16]
    assert in_use.feature_version == FeatureExtractor(guard.models).version
    assert again.digest == first.digest
    assert not again.better, "the same classifier is not asked about twice"
    tested = len(questions(guard, Detector.FILTER)[1])
    planted = f"({tested * 10} of {tested * 10}), in use 100.0% ({tested * 10} of {tested * 10})"
    assert f"poisoned texts dropped 100.0% {planted}" in again.told
    assert int(client.get_model_version_by_alias(model, registry.CHAMPION).version) == first.version
    suffixes = {path.suffix for path in guard.settings.home.rglob("*") if path.is_file()}
    assert not suffixes & {".pkl", ".pickle", ".pt", ".joblib"}


def test_a_judge_is_trained_measured_beside_the_one_in_use_and_registered(models: Models, tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, detector_questions=str(SAMPLE))
    with Guard(settings) as guard:
        guard.models = models
        found = judge.prepare(guard, limit=14)
        content = read(guard.storage, Detector.JUDGE, found.digest)
        version = client_of(settings).get_model_version_by_alias(registry.MODEL[Detector.JUDGE], registry.CHALLENGER)
        in_use, against = judge.current(guard)
        promote(guard.ledger, Detector.JUDGE, found.digest, run_id="r", by="ada")
        crowned, named = judge.current(guard)
        broken = keep(guard.storage, Detector.JUDGE, b"{}")
        promote(guard.ledger, Detector.JUDGE, broken, run_id="r", by="ada")
        nothing, why = judge.current(guard)

    assert (int(version.version), version.tags["digest"]) == (found.version, found.digest)
    assert json.loads(content)["trained_on"] in found.told
    assert in_use is not None and against == in_use.digest, "until somebody approves, that of the package"
    assert (
        crowned is not None and named == crowned.digest != in_use.digest and crowned.digest.endswith(found.digest[:16])
    )
    assert nothing is None and "holds no model of a judge" in why
    assert found.figures["candidate/texts_judged_rightly"] > 0.8
    for name in ("texts judged rightly", "honest texts accused", "honest complaints turned against a text"):
        assert f"{name} " in found.told
    gains = []
    for name, more in judge.NAMES:
        own, theirs = (found.figures[f"{whose}/{name.replace(' ', '_')}"] for whose in ("candidate", "in_use"))
        gains.append(own - theirs if more else theirs - own)
    if found.better:
        assert min(gains) > -0.1 and max(gains) > 0
    else:
        assert min(gains) < 0 or max(gains) < 0.1


@pytest.fixture
def notes(guard: Guard, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What Airflow would be told of the run; everything else is real."""
    told: list[str] = []
    monkeypatch.setattr(airflow_detectors, "note_line", lambda name, text: told.append(f"{name}: {text}"))
    monkeypatch.setattr(airflow_detectors, "run_id", lambda: "detector_training/one")
    monkeypatch.setattr("corpus_guard.guard.Guard", lambda: Guard(guard.settings))
    return told


def test_what_cannot_be_trained_is_noted_and_asks_nobody(guard: Guard, notes: list[str], tmp_path: Path) -> None:
    lines = (tmp_path / "targets.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "targets.jsonl").write_text("".join(lines[:5]))

    assert [airflow_detectors.train_detector(name) for name in ("judge", "filter")] == [{}, {}]
    guard.settings = guard.settings.model_copy(update={"detector_questions": "", "sources_file": tmp_path / "own.yaml"})
    guard.settings.__dict__.pop("detector_files", None)
    assert airflow_detectors.train_detector("probe") == {}

    assert [note.partition(": not trained: ")[0] for note in notes] == ["judge", "filter", "probe"]
    assert all("questions to train on" in note and "of 5 rows" in note for note in notes[:2])
    assert notes[2] == "probe: not trained: set CORPUS_GUARD_DETECTOR_QUESTIONS"


def test_only_what_was_approved_and_measured_is_promoted(guard: Guard, notes: list[str]) -> None:
    with Guard(guard.settings) as opened:
        opened.models = guard.models
        found = filtering.prepare(opened).as_dict()
    by = {"responded_by_user": {"id": "1", "name": "ada"}}

    airflow_detectors.promote_detector("filter", found, {**by, "chosen_options": ["Reject"]})
    with Guard(guard.settings) as opened:
        assert promoted(opened.ledger, Detector.FILTER) is None
    for _ in range(2):  # the task is cleared, and runs again
        airflow_detectors.promote_detector("filter", found, {**by, "chosen_options": ["Approve"]})
    with Guard(guard.settings) as opened:
        assert promoted(opened.ledger, Detector.FILTER) == found["digest"]
        place = f"{folder(Detector.FILTER, found['digest'])}/filter.json"
        opened.storage.write(place, opened.storage.read(place) + b" ")
    with pytest.raises(Inconsistent, match="its SHA-256 is"):
        airflow_detectors.promote_detector("filter", found, {**by, "chosen_options": ["Approve"]})

    short = found["digest"][:16]
    assert notes == [
        f"filter: {short} was not promoted: refused by ada",
        *[f"filter: {short}, version {found['version']}, is in use: approved by ada"] * 2,
    ]
