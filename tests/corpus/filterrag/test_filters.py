"""Two filters over the same features, and the settings that choose between them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from stubs import StubModels
from test_features import LIE, PAGE, QUESTION
from test_learned import some_texts

from corpus_guard.batches import Storage
from corpus_guard.corpus.filterrag.features import FeatureExtractor
from corpus_guard.corpus.filterrag.filters import (
    FilterRAG,
    MLFilterRAG,
    RetrievalFilter,
    classifier_in_use,
    make_filter,
)
from corpus_guard.corpus.filterrag.learned import SHIPPED_MODEL, SHIPPED_SHA256, LearnedModel, train
from corpus_guard.errors import Inconsistent, SettingsError
from corpus_guard.ledger import Ledger
from corpus_guard.models import Models
from corpus_guard.models.champion import Detector, detector_folder, promote, store_detector
from corpus_guard.settings import Settings

DENSE, THIN = "pump pump pump quay", "quay gauge crane ferry office mast hull keel"  # of "pump quay"/"…keel"


@pytest.fixture
def extractor() -> FeatureExtractor:
    return FeatureExtractor(StubModels())  # type: ignore[arg-type]


@pytest.fixture
def model(extractor: FeatureExtractor) -> LearnedModel:
    return train(*some_texts(), feature_version=extractor.version, threshold=0.5)


def test_filterrag_drops_what_is_denser_than_epsilon(extractor: FeatureExtractor) -> None:
    dense, thin = FilterRAG(extractor, epsilon=0.5).judge("pump", [DENSE, THIN])

    assert (dense.poisoned, thin.poisoned) == (True, False)
    assert dense.score == dense.features.freq_density == 2.0
    assert dense.reason == "Freq-Density 2.000 is above 0.5"
    assert thin.reason == "Freq-Density 0.125 is not above 0.5"


def test_exactly_epsilon_is_kept(extractor: FeatureExtractor) -> None:
    (thin,) = FilterRAG(extractor, epsilon=0.125).judge("pump", [THIN])

    assert not thin.poisoned


def test_tau_is_what_filterrag_matches_with(extractor: FeatureExtractor) -> None:
    loose, strict = (FilterRAG(extractor, tau=tau).judge("pump", ["pumped mast"])[0] for tau in (0.6, 0.9))

    assert loose.features.frequencies == 2 > strict.features.frequencies == 1


def test_ml_filterrag_asks_the_model_and_its_threshold(extractor: FeatureExtractor, model: LearnedModel) -> None:
    dense, thin = MLFilterRAG(extractor, model).judge("pump", [DENSE, THIN])
    assert dense.score > thin.score

    between = replace(model, threshold=(dense.score + thin.score) / 2)
    assert [one.poisoned for one in MLFilterRAG(extractor, between).judge("pump", [DENSE, THIN])] == [True, False]
    exactly = replace(model, threshold=thin.score)
    assert all(one.poisoned for one in MLFilterRAG(extractor, exactly).judge("pump", [DENSE, THIN]))
    assert MLFilterRAG(extractor, model).judge("pump", []) == []


def test_a_score_that_is_no_number_is_no_acquittal(extractor: FeatureExtractor, model: LearnedModel) -> None:
    class Broken(LearnedModel):
        def probabilities(self, matrix: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
            return np.full(len(matrix), np.nan)

    broken = Broken(model.kind, model.feature_version, model.tau, 0.5, None)

    assert MLFilterRAG(extractor, broken).judge("pump", [THIN])[0].poisoned


def test_a_model_of_other_features_is_refused(extractor: FeatureExtractor, model: LearnedModel) -> None:
    stranger = replace(model, feature_version="7/words-x/slm-y")

    with pytest.raises(SettingsError, match=r"trained on features '7/words-x/slm-y', this release computes '1/words-0"):
        MLFilterRAG(extractor, stranger)


def test_settings_choose_the_filter(models: Models, tmp_path: Path, model: LearnedModel) -> None:
    digest = replace(model, feature_version=FeatureExtractor(models).version).save(tmp_path / "own.json")
    own = Settings(retrieval_filter="ml_filterrag", filter_model=tmp_path / "own.json", filter_model_sha256=digest)

    assert make_filter(Settings(), models) is None
    made = make_filter(Settings(retrieval_filter="filterrag", filter_epsilon=0.3, filter_tau=0.7), models)
    assert isinstance(made, FilterRAG)
    assert (made.epsilon, made.tau) == (0.3, 0.7)
    assert isinstance(make_filter(Settings(retrieval_filter="ml_filterrag"), models), MLFilterRAG)
    assert isinstance(make_filter(own, models), MLFilterRAG)
    with pytest.raises(SettingsError, match="SHA-256 is"):
        make_filter(own.model_copy(update={"filter_model_sha256": "0" * 64}), models)


def test_the_shipped_model_drops_a_lie_and_keeps_a_page(models: Models) -> None:
    shipped = make_filter(Settings(retrieval_filter="ml_filterrag"), models)
    assert shipped is not None

    lie, page = shipped.judge(QUESTION, [LIE, PAGE])

    assert lie.poisoned
    assert not page.poisoned
    assert "Ben Ray" not in lie.reason


def test_the_promoted_model_is_used_a_setting_wins_and_another_file_filters_nothing(
    models: Models, tmp_path: Path, model: LearnedModel, sqlite_ledger: Ledger, storage: Storage
) -> None:
    settings = Settings(retrieval_filter="ml_filterrag")
    shipped = digest_of(make_filter(settings, models, sqlite_ledger, storage))
    content = replace(model, feature_version=FeatureExtractor(models).version).dumps()
    digest = store_detector(storage, Detector.FILTER, content)
    assert shipped == SHIPPED_SHA256 == digest_of(make_filter(settings, models, sqlite_ledger, storage))

    promote(sqlite_ledger, Detector.FILTER, digest, run_id="r", by="ada")

    assert digest_of(make_filter(settings, models, sqlite_ledger, storage)) == digest
    assert digest_of(make_filter(settings, models)) == shipped, "without a ledger nothing was promoted"
    assert make_filter(Settings(), models, sqlite_ledger, storage) is None
    named = {"filter_model": SHIPPED_MODEL, "filter_model_sha256": SHIPPED_SHA256}
    assert digest_of(make_filter(settings.model_copy(update=named), models, sqlite_ledger, storage)) == shipped

    storage.write(f"{detector_folder(Detector.FILTER, digest)}/filter.json", content + b" ")
    with pytest.raises(Inconsistent, match="SHA-256 is"):
        make_filter(settings, models, sqlite_ledger, storage)

    promote(sqlite_ledger, Detector.FILTER, store_detector(storage, Detector.FILTER, b"{}"), run_id="r", by="ada")
    with pytest.raises(SettingsError, match=r"promoted: not a filter model"):
        make_filter(settings, models, sqlite_ledger, storage)


def digest_of(found: RetrievalFilter | None) -> str:
    assert found is not None
    return found.digest


def test_the_classifier_in_use_is_known_without_opening_anything(
    sqlite_ledger: Ledger, storage: Storage, model: LearnedModel, tmp_path: Path
) -> None:
    """Screening names it in every verdict, whatever filters retrieval."""

    def closed() -> Storage:
        raise AssertionError("the storage was opened")

    digest = store_detector(storage, Detector.FILTER, model.dumps())
    assert classifier_in_use(Settings(), sqlite_ledger, closed).digest == SHIPPED_SHA256

    promote(sqlite_ledger, Detector.FILTER, digest, run_id="r", by="ada")

    assert classifier_in_use(Settings(), sqlite_ledger, closed).digest == digest
    assert classifier_in_use(Settings(), sqlite_ledger, lambda: storage).load().digest == digest
    assert classifier_in_use(Settings()).digest == SHIPPED_SHA256
    named = Settings(filter_model=tmp_path / "gone.json", filter_model_sha256="A" * 64)
    assert classifier_in_use(named, sqlite_ledger, closed).digest == "a" * 64
