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
    taken: list[Shard] = []
    done = 0
    for listing in listings:
        progress("fetching and parsing", done, total)
        taken.append(steps.intake(guard, run_id, listing))
        done += taken[-1]["found"]
    waiting = steps.survey(guard, run_id, taken)
    done = total - sum(_changed(shard) for shard in waiting)
    # While one shard is embedded the next is screened and the last is published: a model computes outside Python's lock. One thread
    # a stage, so that every stage sees the shards in order.
    ahead, behind = (ThreadPoolExecutor(1, name) for name in ("screening", "publishing"))
    publishing: list[Future[Shard]] = []
    try:
        screening = [ahead.submit(steps.screen, guard, run_id, shard) for shard in waiting]
        if screening:
            _ = guard.store  # by this thread: a server that had to be started dies with the thread that started it
        for screened in screening:
            progress("screening", done, total)
            shard = screened.result()
            progress("embedding", done, total)
            publishing.append(behind.submit(steps.publish, guard, run_id, steps.embed(guard, run_id, shard)))
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
