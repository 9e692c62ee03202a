"""A guard opens what it is asked for, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from corpus_guard.corpus.server import is_answering
from corpus_guard.deployment import Deployment
from corpus_guard.domain import TrustLevel
from corpus_guard.errors import SettingsError, UnknownSubject
from corpus_guard.settings import Settings
from postgres import free_port

HEAVY = ("torch", "transformers", "sentence_transformers", "chromadb", "great_expectations", "mlflow", "airflow")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    sources = tmp_path / "sources.yaml"
    sources.write_text(
        "sources:\n  - name: handbook\n    kind: folder\n    owner: harbour office\n    trust: trusted\n"
        f"    url: {tmp_path}\n"
    )
    return Settings(home=tmp_path / "home", sources_file=sources, chroma_url=f"http://127.0.0.1:{free_port()}")


def test_a_guard_that_is_not_asked_opens_nothing(settings: Settings) -> None:
    with Deployment(settings) as guard:
        assert guard.store.collection_name(TrustLevel.TRUSTED) == "corpus-trusted"

    assert not settings.home.exists()


def test_hash_comparisons_import_nothing_heavy(settings: Settings) -> None:
    script = f"""
import sys
from corpus_guard.deployment import Deployment
from corpus_guard.settings import Settings
import corpus_guard.pipeline.steps, corpus_guard.review.decisions, corpus_guard.proof.manifest
with Deployment(Settings(home={str(settings.home)!r}, sources_file={str(settings.sources_file)!r})) as guard:
    guard.ledger, guard.storage, guard.blobs, guard.sources, guard.policy
print([name for name in {HEAVY!r} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)

    assert done.stdout.strip() == "[]"


def test_a_source_is_found_by_its_name(settings: Settings) -> None:
    with Deployment(settings) as guard:
        assert guard.sources.named("handbook").owner == "harbour office"
        with pytest.raises(UnknownSubject, match=r"source 'handbok' is not in .*sources\.yaml; known: handbook"):
            guard.sources.named("handbok")


def test_a_server_that_was_started_is_stopped_at_the_end(settings: Settings) -> None:
    with Deployment(settings) as guard:
        url = guard.store.url
        assert is_answering(url)
        assert guard.store is guard.store

    assert not is_answering(url)


def test_names_of_collections_agree_with_the_stores(settings: Settings, chroma_url: str) -> None:
    told = settings.model_copy(update={"chroma_url": chroma_url, "collection_prefix": "elsewhere"})
    with Deployment(told) as guard:
        for trust in TrustLevel:
            assert guard.store.collection_name(trust) == guard.store.collection_name(trust) == f"elsewhere-{trust}"
    assert is_answering(chroma_url)  # it was there before


def test_storage_of_an_unknown_kind_is_a_setting_to_correct(settings: Settings) -> None:
    with (
        Deployment(settings.model_copy(update={"storage_url": "carrier-pigeon://x"})) as guard,
        pytest.raises(SettingsError, match="CORPUS_GUARD_STORAGE_URL"),
    ):
        guard.storage.exists("x")


def test_what_is_written_lies_in_the_home_unless_a_url_says_otherwise(settings: Settings) -> None:
    with Deployment(settings) as guard:
        guard.storage.write("a/b", b"")
        guard.ledger.close()

    assert (settings.home / "storage" / "a" / "b").is_file()
    assert (settings.home / "ledger.sqlite").is_file()
