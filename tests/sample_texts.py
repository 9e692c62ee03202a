"""Texts of the sample corpus as an application is served them, chunked and embedded like a refresh does it, without a store."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from corpus_guard.domain import sha256_text
from corpus_guard.intake.chunking import Chunker
from corpus_guard.intake.parsing import ParsingSandbox
from corpus_guard.intake.sources.source import Fetched
from corpus_guard.intake.sources.sources_file import load_sources
from corpus_guard.models import Models
from corpus_guard.settings import Settings
from corpus_guard.traceback.retrieval import InMemoryCorpus, RetrievedText

PROJECT = Path(__file__).parent.parent


def sample_corpus(
    models: Models, settings: Settings, leave_out: Collection[str] = (), only: Collection[str] = ()
) -> InMemoryCorpus:
    """Return the corpus, without the documents of `leave_out`; with only those of `only`, if it names any."""
    texts = list(_texts(models, settings, leave_out, only))
    vectors = models.embedder.embed([text.text for text in texts])
    found = [replace(text, vector=vector) for text, vector in zip(texts, vectors, strict=True)]
    return InMemoryCorpus(found, vectors, models.embedder)


def _texts(
    models: Models, settings: Settings, leave_out: Collection[str], only: Collection[str]
) -> Iterator[RetrievedText]:
    chunker = Chunker(models.tokenizer_file, settings.chunk_tokens)
    with ParsingSandbox(settings) as sandbox:
        for source in load_sources(PROJECT / "include" / "sources.yaml"):
            places = {f"{source.name}/{_place(item.uri, source.name)}": item for item in source.list()}
            wanted = [item for name, item in places.items() if name not in leave_out and (not only or name in only)]
            for outcome in source.fetch(wanted):
                assert isinstance(outcome, Fetched)
                name = f"{source.name}/{_place(outcome.item.uri, source.name)}"
                parsed = sandbox.parse(outcome.content, outcome.media_type, outcome.item.uri)
                version_id = sha256_text(name)[:32]
                for chunk in chunker.cut(name, version_id, parsed.text):
                    yield RetrievedText(
                        chunk_id=chunk.chunk_id,
                        text=chunk.text,
                        similarity=0.0,
                        vector=np.empty(0, np.float32),
                        collection=f"corpus-{source.trust.value}",
                        version_id=version_id,
                        source=source.name,
                        uri=name,
                    )


def _place(uri: str, source: str) -> str:
    """Return what the answer sheet calls a document: its path in the source's folder, or a ticket's key."""
    return uri.rpartition(f"/{source}/")[2] or uri
