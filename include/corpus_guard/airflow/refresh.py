"""Task functions of `corpus_refresh`: each opens a deployment and runs one step of `corpus_guard.pipeline.steps`.

Airflow is imported inside functions, and so is everything heavy: DAG files import this module whenever they are parsed.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from corpus_guard.airflow.context import all_results, asset_event_extra, current_run_id, source_connection

if TYPE_CHECKING:
    from corpus_guard.deployment import Deployment
    from corpus_guard.pipeline.steps import Shard

log = logging.getLogger(__name__)


def discover_sources(names: list[str]) -> list[str]:
    """List the sources into shards, when no other refresh works on them. Returns the storage names of the listings."""
    from corpus_guard.pipeline import steps
    from corpus_guard.pipeline.rebuild import batches_of_outbox, rebuild_lost_batches

    with _working() as deployment:
        rebuild_lost_batches(
            deployment.ledger,
            deployment.storage,
            deployment.blobs,
            deployment.models,
            deployment.settings,
            current_run_id(),
            batches_of_outbox(deployment.ledger),
        )
        return steps.discover(
            deployment.ledger,
            deployment.storage,
            deployment.sources,
            deployment.screening,
            deployment.settings,
            current_run_id(),
            names,
            wait=True,
        )


def intake_shard(listing: str) -> Shard:
    """Fetch the documents of a shard and write a batch of those that changed."""
    from corpus_guard.pipeline import steps

    with _working() as deployment:
        shard = steps.intake(
            deployment.ledger,
            deployment.storage,
            deployment.blobs,
            deployment.chunker,
            deployment.sources,
            deployment.settings,
            current_run_id(),
            listing,
        )
    return _logged(shard)


def changed_shards(shards: Sequence[Shard] | None) -> list[Shard]:
    """Return the shards that hold a changed document."""
    from corpus_guard.pipeline import steps

    return steps.changed_shards(all_results(shards))


def embed_shard(shard: Shard) -> Shard:
    """Embed the chunks of a shard."""
    from corpus_guard.pipeline import steps

    with _working() as deployment:
        return _logged(steps.embed(deployment.ledger, deployment.storage, deployment.models, current_run_id(), shard))


def survey_shards(shards: Sequence[Shard] | None) -> list[Shard]:
    """Compare the documents of all shards with each other and with the ledger's history."""
    from corpus_guard.pipeline import steps

    with _working() as deployment:
        return steps.survey(
            deployment.ledger,
            deployment.storage,
            deployment.store,
            deployment.models,
            deployment.screening,
            current_run_id(),
            all_results(shards),
        )


def screen_shard(shard: Shard) -> Shard:
    """Judge each version of a shard."""
    from corpus_guard.pipeline import steps

    with _working() as deployment:
        return _logged(
            steps.screen(deployment.ledger, deployment.storage, deployment.screening, current_run_id(), shard)
        )


def publish_shard(shard: Shard) -> Shard:
    """Record the verdicts of a shard and write its accepted chunks to Chroma."""
    from corpus_guard.pipeline import steps

    with _working() as deployment:
        return _logged(steps.publish(deployment.ledger, deployment.storage, deployment.store, current_run_id(), shard))


def seal_refresh(
    fetched: Sequence[Shard] | None, published: Sequence[Shard] | None
) -> tuple[dict[str, object], dict[str, object]]:
    """Seal a refresh and report its counts: run note, metrics, lineage.

    Returns:
        Extras of the asset events *corpus* and *quarantine*.

    Raises:
        AirflowFailException: a source could not be listed; the others are sealed, and the note names it. The task is not tried
            again: it would read the same list.
    """
    from airflow.sdk.exceptions import AirflowFailException

    from corpus_guard.airflow.lineage import emit_lineage
    from corpus_guard.airflow.run_notes import write_counts
    from corpus_guard.errors import SourceUnavailable
    from corpus_guard.ledger.runs import run_counts, run_sources
    from corpus_guard.pipeline import steps
    from corpus_guard.pipeline.configuration import loosened_in_run

    run_id = current_run_id()
    with _working() as deployment:
        loosened = loosened_in_run(deployment.ledger, run_id)
        try:
            sealed = steps.seal(
                deployment.ledger,
                deployment.storage,
                deployment.store,
                deployment.chunker,
                deployment.screening,
                deployment.settings,
                run_id,
                all_results(fetched),
                all_results(published),
            )
        except SourceUnavailable as error:
            counts = run_counts(deployment.ledger, run_id)
            write_counts(counts, f"{loosened}could not be listed: {', '.join(counts['unlisted'])}; the others: ")
            raise AirflowFailException(str(error)) from error
        emit_lineage(deployment, sealed, run_sources(deployment.ledger, run_id))
    write_counts(sealed, loosened)
    names = ("documents", "accepted", "unchanged", "vanished", "published", "retired")
    corpus = asset_event_extra(sealed, *names) | {"chunks": sealed["served"]}
    return corpus, asset_event_extra(sealed, "quarantined", "rejected")


def document_expectations() -> None:
    """Write the Data Docs of the run, and their address on its note; nothing if no document was judged."""
    from corpus_guard.airflow.notifications import review_pages
    from corpus_guard.airflow.run_notes import write_note_line
    from corpus_guard.ledger.runs import run_folder
    from corpus_guard.pipeline.data_docs import write_data_docs

    run_id = current_run_id()
    with _open() as deployment:
        docs = write_data_docs(deployment.ledger, deployment.storage, deployment.screening, run_id)
    if docs is None:
        log.info("no document was judged: nothing to document")
        return
    page = run_folder(run_id).replace("runs/", "expectations/")
    write_note_line("Data Docs", f"{docs.summary}, {review_pages(page)}")


@contextlib.contextmanager
def _working() -> Iterator[Deployment]:
    """Open a deployment, and hold the run that this task is a part of."""
    from corpus_guard.ledger.runs import at_work

    with _open() as deployment, at_work(deployment.ledger, current_run_id(), awaits_next=True):
        yield deployment


def _open() -> Deployment:
    from corpus_guard.deployment import Deployment

    return Deployment(connections=source_connection)


def _logged(shard: Shard) -> Shard:
    log.info("%s", {name: value for name, value in shard.items() if isinstance(value, int)})
    return shard
