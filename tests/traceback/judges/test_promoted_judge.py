"""Which embedded judge is asked: the one that a setting names, else the one that was promoted, else that of the package."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from corpus_guard.batches import Storage
from corpus_guard.errors import Inconsistent, SettingsError
from corpus_guard.ledger import Ledger
from corpus_guard.models import Models
from corpus_guard.models.champion import Detector, detector_folder, promote, store_detector
from corpus_guard.settings import Settings
from corpus_guard.traceback.judge_selection import create_judge
from corpus_guard.traceback.judges.embedded import RULES_VERSION, SHIPPED_MODEL, JudgeModel, load_model
from corpus_guard.traceback.judges.evidence import evidence_version


@pytest.fixture
def learned(models: Models) -> JudgeModel:
    """A judge of its own: that of the package with another word about its training."""
    return replace(load_model(SHIPPED_MODEL, evidence_version(models)), trained_on="elsewhere")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, storage_url=str(tmp_path / "storage"))


def test_the_promoted_one_is_asked_and_a_setting_wins(
    models: Models, learned: JudgeModel, settings: Settings, sqlite_ledger: Ledger, tmp_path: Path
) -> None:
    shipped = create_judge(settings, models, sqlite_ledger).digest
    digest = store_detector(Storage(settings.storage), Detector.JUDGE, learned.dumps())
    assert create_judge(settings, models, sqlite_ledger).digest == shipped, "kept is not promoted"

    promote(sqlite_ledger, Detector.JUDGE, digest, run_id="r", by="ada")

    judge = create_judge(settings, models, sqlite_ledger)
    assert judge.digest == f"embedded/{evidence_version(models)}/{digest[:16]}/{RULES_VERSION}" != shipped
    assert create_judge(settings, models).digest == shipped, "without a ledger nothing was promoted"
    own = tmp_path / "own.json"
    own.write_bytes(replace(learned, trained_on="here").dumps())
    named = settings.model_copy(update={"judge_model": own})
    assert create_judge(named, models, sqlite_ledger).digest not in {judge.digest, shipped}


def test_one_that_cannot_be_used_is_an_error_and_not_another_judge(
    models: Models, learned: JudgeModel, settings: Settings, sqlite_ledger: Ledger
) -> None:
    storage = Storage(settings.storage)
    old = store_detector(storage, Detector.JUDGE, replace(learned, version="0/feedfeedfeed").dumps())
    promote(sqlite_ledger, Detector.JUDGE, old, run_id="r", by="ada")
    with pytest.raises(SettingsError, match=rf"{old[:16]}, promoted: got evidence version '0/feedfeedfeed'"):
        create_judge(settings, models, sqlite_ledger)

    broken = store_detector(storage, Detector.JUDGE, b"{}")
    promote(sqlite_ledger, Detector.JUDGE, broken, run_id="r", by="ada")
    with pytest.raises(SettingsError, match="holds no judge's model"):
        create_judge(settings, models, sqlite_ledger)

    storage.write(f"{detector_folder(Detector.JUDGE, broken)}/judge.json", learned.dumps())
    with pytest.raises(Inconsistent, match="SHA-256 is"):
        create_judge(settings, models, sqlite_ledger)
