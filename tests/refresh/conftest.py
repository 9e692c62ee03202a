from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from corpus_guard.models import Models
from corpus_guard.settings import Settings
from deploying import Deployment, deploy, prepared_models


@pytest.fixture(scope="session")
def models(request: pytest.FixtureRequest) -> Models:
    return Models(Settings(home=prepared_models(request.config.cache)))


@pytest.fixture
def make(tmp_path: Path, chroma_url: str, models: Models) -> Callable[..., Deployment]:
    """A deployment with other settings."""
    home = models.language_model_weights.folder.parents[1]
    return lambda **settings: deploy(
        tmp_path / "deployment", chroma_url=chroma_url, models_home=home, models=models, **settings
    )


@pytest.fixture
def deployment(make: Callable[..., Deployment]) -> Deployment:
    return make()
