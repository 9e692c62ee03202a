from __future__ import annotations

from collections.abc import Iterator

import pytest

from corpus_guard.deployment import Deployment
from deploying import BAD, Workspace


@pytest.fixture
def guard(deployment: Workspace) -> Iterator[Deployment]:
    """A corpus of an accepted and a waiting document."""
    deployment.page("good.md")
    deployment.page("bad.md", BAD)
    with deployment.guard() as made:
        made.refresh("r1")
        yield made
