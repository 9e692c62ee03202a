"""A refresh in one process: the steps Airflow maps, one shard after the other."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

from corpus_guard.batches import Storage
from corpus_guard.corpus.store import Store
from corpus_guard.domain import Progress, no_progress
from corpus_guard.intake.blobs import BlobStore
from corpus_guard.intake.chunking import Chunker
from corpus_guard.intake.sources import Sources
from corpus_guard.ledger import Ledger
from corpus_guard.models import Models
from corpus_guard.pipeline import steps
from corpus_guard.pipeline.data_docs import write_data_docs
from corpus_guard.pipeline.rebuild import batches_of_outbox, rebuild_lost_batches
from corpus_guard.pipeline.steps import RefreshResult, Shard
from corpus_guard.screening.runner import Screening
from corpus_guard.settings import Settings


def refresh(
    ledger: Ledger,
    storage: Storage,
    store: Store,
    blobs: BlobStore,
    models: Models,
    chunker: Chunker,
    sources: Sources,
    screening: Screening,
    settings: Settings,
    run_id: str,
    source_names: Sequence[str] = (),
    progress: Progress = no_progress,
    *,
    wait: bool = False,
) -> RefreshResult:
    """Run every step. `Deployment.refresh` calls it with its parts.

    Raises:
        AlreadyAtWork: another refresh is at work on one of the sources, and `wait` is not set.
        GuardError: what a step raises; running again converges.
    """
    fetch = partial(steps.intake, ledger, storage, blobs, chunker, sources, settings, run_id)
    screen = partial(steps.screen, ledger, storage, screening, run_id)
    publish = partial(steps.publish, ledger, storage, store, run_id)
    rebuild_lost_batches(ledger, storage, blobs, models, settings, run_id, batches_of_outbox(ledger))
    progress("listing sources", 0, 0)
    listings = steps.discover(ledger, storage, sources, screening, settings, run_id, source_names, wait=wait)
    total = steps.documents_found(storage, run_id)
    # While one shard is embedded the next is fetched, and while one is screened the last is published: a model computes outside
    # Python's lock. One thread a stage, so that every stage sees the shards in order.
    fetching, publishing = (ThreadPoolExecutor(1, name) for name in ("fetching", "publishing"))
    fetched: list[Shard] = []
    embedded: list[Shard] = []
    pending: list[Future[Shard]] = []
    done = 0
    try:
        for future in [fetching.submit(fetch, listing) for listing in listings]:
            progress("fetching and parsing", done, total)
            shard = future.result()
            fetched.append(shard)
            done += shard["listed"]
            if shard["batch"]:
                embedded.append(steps.embed(ledger, storage, models, run_id, shard, progress))
        done = total - sum(_changed_documents(shard) for shard in embedded)
        if embedded:
            store.open()  # in this thread: a server that had to be started dies with the thread that started it
            progress("comparing", done, total)
        for shard in steps.survey(ledger, storage, store, models, screening, run_id, embedded):
            progress("screening", done, total)
            pending.append(publishing.submit(publish, screen(shard)))
            done += _changed_documents(shard)
            _raise_early(pending)
        progress("publishing", done, total)
        published = [future.result() for future in pending]
    finally:
        for stage in (fetching, publishing):
            stage.shutdown(cancel_futures=True)
    progress("sealing", total, total)
    sealed = steps.seal(ledger, storage, store, chunker, screening, settings, run_id, fetched, published)
    write_data_docs(ledger, storage, screening, run_id)
    return sealed


def _raise_early(futures: Sequence[Future[Shard]]) -> None:
    for future in futures:
        if future.done():
            future.result()


def _changed_documents(shard: Shard) -> int:
    return shard["listed"] - shard["unchanged"] - shard["failed"]
