"""The classifier: what is learned, what is written, and which files are not read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from corpus_guard.corpus.filterrag import learned
from corpus_guard.corpus.filterrag.kinds import ClassifierKind
from corpus_guard.corpus.filterrag.learned import LearnedModel, load, load_shipped, train
from corpus_guard.domain import sha256_bytes
from corpus_guard.errors import Misuse, SettingsError

VERSION = "1/words-test/slm-test"


def some_texts(questions: int = 40, each: int = 4) -> tuple[NDArray[np.float64], list[bool], list[int]]:
    """Adversarial texts are denser; one clean text in forty looks like them."""
    random = np.random.default_rng(1)
    rows, labels, owners = [], [], []
    for question in range(questions):
        for number in range(2 * each):
            poisoned = number < each
            dense = poisoned or (number == each and question % 5 == 0)
            density = random.normal(0.6 if dense else 0.2, 0.05)
            rows.append([density, random.uniform(10, 60), -random.uniform(1, 9), round(30 * density)])
            labels.append(poisoned)
            owners.append(question)
    return np.array(rows), labels, owners


@pytest.fixture(scope="module", params=list(ClassifierKind))
def model(request: pytest.FixtureRequest) -> LearnedModel:
    matrix, labels, owners = some_texts()
    return train(matrix, labels, owners, feature_version=VERSION, kind=request.param, threshold=0.5, tau=0.7)


def test_what_is_dense_is_taken_for_poisoned(model: LearnedModel) -> None:
    scores = model.probabilities(np.array([[0.6, 30, -4, 18], [0.2, 30, -4, 6]]))

    assert scores.shape == (2,)
    assert scores[0] > 0.8 and scores[1] < 0.2
    assert model.probabilities(np.empty((0, 4))).shape == (0,)


def test_a_saved_model_says_the_same(model: LearnedModel, tmp_path: Path) -> None:
    matrix, _, _ = some_texts()
    digest = model.save(tmp_path / "deep" / "model")

    back = load(tmp_path / "deep" / "model", digest)

    assert (back.kind, back.feature_version, back.tau, back.threshold) == (model.kind, VERSION, 0.7, 0.5)
    assert np.array_equal(back.probabilities(matrix), model.probabilities(matrix))
    again = train(*some_texts(), feature_version=VERSION, kind=model.kind, threshold=0.5, tau=0.7)
    assert np.array_equal(again.probabilities(matrix), model.probabilities(matrix))  # the same every time


def test_one_byte_changed_is_another_model(model: LearnedModel, tmp_path: Path) -> None:
    digest = model.save(tmp_path / "model")
    content = bytearray((tmp_path / "model").read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "model").write_bytes(content)

    with pytest.raises(
        SettingsError, match=r"filter model .*model: SHA-256 is \w{16}…, expected \w{16}…; it was altered"
    ):
        load(tmp_path / "model", digest)


def test_a_digest_that_nobody_set_opens_nothing(model: LearnedModel, tmp_path: Path) -> None:
    model.save(tmp_path / "model")

    with pytest.raises(SettingsError, match=r"expected \(none is set\)"):
        load(tmp_path / "model", "")


@pytest.mark.parametrize("content", [b"", b"{}", b'{"learner": 3}', b"PK\x03\x04", b"\x80\x04N."])
def test_a_file_that_holds_no_model_is_refused_by_name(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "model").write_bytes(content)

    with pytest.raises(SettingsError, match="not a filter model"):
        load(tmp_path / "model", sha256_bytes(content))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"filter model .*gone: cannot be read \(No such file"):
        load(tmp_path / "gone", "0" * 64)


@pytest.mark.parametrize("kind", list(ClassifierKind))
def test_the_threshold_keeps_false_alarms_to_the_share_asked_for(kind: ClassifierKind) -> None:
    matrix, labels, owners = some_texts(questions=100)
    strict, loose = (
        train(matrix, labels, owners, feature_version=VERSION, kind=kind, false_alarm_rate=share)
        for share in (0.01, 0.2)
    )

    assert strict.threshold > loose.threshold
    fresh, truth, _ = some_texts(questions=60, each=5)
    dropped = strict.probabilities(fresh)[~np.array(truth)] >= strict.threshold
    assert dropped.mean() <= 0.05


@pytest.mark.parametrize(
    ("matrix", "labels", "owners", "message"),
    [
        (np.empty((0, 4)), [], [], "is empty"),
        (np.ones((3, 4)), [True] * 3, [1, 2, 3], "all 3 texts are adversarial; expected both"),
        (np.ones((3, 4)), [False] * 3, [1, 2, 3], "all 3 texts are clean; expected both"),
        (np.ones((3, 3)), [True, False, True], [1, 2, 3], r"\(3, 3\) features"),
        (np.ones((3, 4)), [True, False], [1, 2, 3], "2 labels and 3 questions"),
        (
            np.array([[1.0] * 4, [1, np.nan, 1, 1]]),
            [True, False],
            [1, 2],
            "row 1 holds a feature that is not a finite number",
        ),
        (np.ones((4, 4)), [True, False, True, False], [1, 1, 1, 1], "1 questions are too few"),
    ],
)
@pytest.mark.parametrize("kind", list(ClassifierKind))
def test_what_cannot_be_learned_from_is_refused(
    kind: ClassifierKind, matrix: NDArray[np.float64], labels: list[bool], owners: list[int], message: str
) -> None:
    with pytest.raises(Misuse, match=f"training set:? .*{message}"):
        train(matrix, labels, owners, feature_version=VERSION, kind=kind)


def test_the_shipped_model_is_the_pinned_one() -> None:
    model = load_shipped()

    assert model.kind is ClassifierKind.XGBOOST
    assert 0 < model.threshold < 1
    dense, thin = model.probabilities(np.array([[0.7, 40.0, -3.0, 22], [0.08, 40.0, -3.0, 6]]))
    assert dense > thin


def test_a_shipped_model_that_was_altered_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = learned.SHIPPED_MODEL.read_bytes()
    (tmp_path / "model.json").write_bytes(content.replace(b"threshold", b"thresh0ld", 1))
    monkeypatch.setattr(learned, "SHIPPED_MODEL", tmp_path / "model.json")

    with pytest.raises(SettingsError, match="it was altered"):
        load_shipped()
