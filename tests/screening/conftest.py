"""`guard screen` on a few texts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from sample_versions import Screen

from corpus_guard.models import Models
from corpus_guard.screening.standalone import ScreenedDocument, ScreenOptions, screen_input
from corpus_guard.settings import Settings


@pytest.fixture
def screen(models: Models, models_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Screen:
    """`guard screen` on texts, with the models loaded once; `off` switches checks off."""
    monkeypatch.setattr("corpus_guard.screening.standalone.Models", lambda settings: models)

    def call(texts: Iterable[str], *, off: Sequence[str] = (), **options: Any) -> list[ScreenedDocument]:
        (tmp_path / "in.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        values = yaml.safe_load(Settings().policy_file.read_text())
        values["checks"] |= {name: {"enabled": False} for name in off}
        policy = tmp_path / "policy.yaml"
        policy.write_text(yaml.safe_dump(values))
        return list(
            screen_input(
                Settings(home=models_home, policy_file=policy), tmp_path / "in.jsonl", ScreenOptions(**options)
            )
        )

    return call
