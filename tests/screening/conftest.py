from __future__ import annotations

from pathlib import Path

import pytest

from corpus_guard.models import Models
from corpus_guard.settings import Settings
from deploying import prepared_models


@pytest.fixture(scope="session")
def models_home(request: pytest.FixtureRequest) -> Path:
    return prepared_models(request.config.cache)


@pytest.fixture(scope="session")
def models(models_home: Path) -> Models:
    return Models(Settings(home=models_home))
