"""A refresh in one process: the steps Airflow maps, one shard after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from corpus_guard.guard import Guard
from corpus_guard.refresh import steps
from corpus_guard.refresh.steps import Sealed, Shard

Progress = Callable[[str, int, int], None]
"""(what is being done, documents done, documents in all)."""


def refresh(
    guard: Guard, run_id: str, sources: Sequence[str] = (), progress: Progress = lambda what, done, total: None
) -> Sealed:
    """Run every step. Raises what the steps raise; running again converges."""
    progress("listing sources", 0, 0)
    listings = steps.discover(guard, run_id, sources)
    total = steps.documents_found(guard, run_id)
    # While one shard is embedded the next is fetched, and while one is screened the last is published: a model computes outside
    # Python's lock. One thread a stage, so that every stage sees the shards in order.
    ahead, behind = (ThreadPoolExecutor(1, name) for name in ("fetching", "publishing"))
    taken: list[Shard] = []
    embedded: list[Shard] = []
    publishing: list[Future[Shard]] = []
    done = 0
    try:
        for fetched in [ahead.submit(steps.intake, guard, run_id, listing) for listing in listings]:
            progress("fetching and parsing", done, total)
            taken.append(fetched.result())
            done += taken[-1]["found"]
            for shard in steps.changed(guard, run_id, taken[-1:]):
                progress("embedding", done, total)
                embedded.append(steps.embed(guard, run_id, shard))
        done = total - sum(_changed(shard) for shard in embedded)
        if embedded:
            _ = guard.store  # by this thread: a server that had to be started dies with the thread that started it
            progress("comparing", done, total)
        for shard in steps.survey(guard, run_id, embedded):
            progress("screening", done, total)
            publishing.append(behind.submit(steps.publish, guard, run_id, steps.screen(guard, run_id, shard)))
            done += _changed(shard)
            _raise_early(publishing)
        progress("publishing", done, total)
        published = [future.result() for future in publishing]
    finally:
        for stage in (ahead, behind):
            stage.shutdown(cancel_futures=True)
    progress("sealing", total, total)
    return steps.seal(guard, run_id, taken, published)


def _raise_early(futures: Sequence[Future[Shard]]) -> None:
    for future in futures:
        if future.done():
            future.result()


def _changed(shard: Shard) -> int:
    return shard["found"] - shard["unchanged"] - shard["failed"]
