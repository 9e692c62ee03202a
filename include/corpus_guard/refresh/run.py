"""A refresh in one process: the steps Airflow maps, one shard after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from corpus_guard.guard import Guard
from corpus_guard.refresh import steps
from corpus_guard.refresh.steps import Sealed, Shard

Progress = Callable[[str, int, int], None]
"""(what is being done, documents done, documents in all)."""

STEPS = (("screening", steps.screen), ("embedding", steps.embed), ("publishing", steps.publish))


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
    published: list[Shard] = []
    for shard in waiting:
        done_so_far = shard
        for what, step in STEPS:
            progress(what, done, total)
            done_so_far = step(guard, run_id, done_so_far)
        published.append(done_so_far)
        done += _changed(shard)
    progress("sealing", total, total)
    return steps.seal(guard, run_id, taken, published)


def _changed(shard: Shard) -> int:
    return shard["found"] - shard["unchanged"] - shard["failed"]
