"""A night's work: which reports are traced, in what portions, and that none was lost.

Rules
    * open reports come first, the heaviest before the others; then those whose judge failed the last time. What is over the bound of one
      night waits for the next, and how much that is is said;
    * a portion may be killed and run again: what is finished is read, what is not goes on;
    * a report that cannot be traced does not keep the others of its portion from it, and fails the portion in the end; a server that does
      not answer fails it at once;
    * every report that was picked has ended exactly once, or the night does not balance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, NotRequired, TypedDict

from corpus_guard.errors import GuardError, Inconsistent, Infrastructure
from corpus_guard.traceback.reports import find_report, listed
from corpus_guard.traceback.running import trace

if TYPE_CHECKING:
    from corpus_guard.guard import Guard
    from corpus_guard.ledger import Ledger
    from corpus_guard.traceback.asking import Answers
    from corpus_guard.traceback.judges import Judge
    from corpus_guard.traceback.suspects import Embeds

MOST = 1_000  # reports a night
PORTION = 25  # reports a task: loading the models costs as much as some of them


class Done(TypedDict):
    """How one report ended."""

    report_id: str
    trace_id: str
    outcome: str
    used: NotRequired[dict[str, float]]  # of the judge's endpoint, as `Usage` counts; missing where the judge asks none


@dataclass(frozen=True, slots=True)
class Picked:
    """What is traced tonight."""

    portions: list[list[str]]  # report ids
    left: int  # reports that wait for another night


def pick(ledger: Ledger, most: int = MOST, portion: int = PORTION) -> Picked:
    """The reports of tonight, in portions."""
    fresh, waiting = listed(ledger, state="open", limit=most)
    failed, again = listed(ledger, state="judge_failed", limit=most)
    ids = [one.report_id for one in (*fresh, *failed)][:most]
    portions = [ids[start : start + portion] for start in range(0, len(ids), portion)]
    return Picked(portions, waiting + again - len(ids))


def trace_portion(
    guard: Guard,
    run_id: str,
    report_ids: Sequence[str],
    *,
    judge: Judge,
    answers: Answers | None,
    embedder: Embeds | None = None,
) -> list[Done]:
    """Trace reports one after the other.

    Args:
        guard: the deployment.
        run_id: of the night; the same night goes on with the same traces.
        report_ids: whole ids.
        judge: says of each text whether it leads to the output.
        answers: the RAG model; None: nothing is asked again.
        embedder: of the questions; the deployment's own unless given.

    Raises:
        Infrastructure: a server does not answer; running again goes on.
        GuardError: the first report that could not be traced, after the others were.
    """
    done: list[Done] = []
    failed: list[GuardError] = []
    before = used_by(judge)
    for name in report_ids:
        try:
            complaint = find_report(guard.ledger, name).complaint
            ended = trace(guard, complaint, run_id, judge=judge, answers=answers, embedder=embedder, hear_always=True)
        except Infrastructure:
            raise
        except GuardError as error:
            failed.append(error)
            continue
        one = Done(report_id=name, trace_id=ended.trace_id, outcome=str(ended.outcome))
        if after := used_by(judge):
            one["used"] = {what: count - before[what] for what, count in after.items()}
            before = after
        done.append(one)
    if failed:
        raise failed[0]
    return done


def balanced(portions: Sequence[Sequence[str]], results: Sequence[Sequence[Done]]) -> Counter[str]:
    """Outcome → reports.

    Raises:
        Inconsistent: a report was picked and has not ended, or ended twice.
    """
    picked = Counter(report for portion in portions for report in portion)
    ended = Counter(one["report_id"] for result in results for one in result)
    if picked != ended:
        raise Inconsistent(
            f"{picked.total():,} reports were picked and {ended.total():,} ended, {len((picked - ended) + (ended - picked)):,} of them "
            "otherwise than once; clear the tasks that trace, they go on where they were"
        )
    return Counter(one["outcome"] for result in results for one in result)


def used_by(judge: Judge) -> dict[str, float]:
    """What the judge's endpoint was asked so far, and what it took (requests, tokens, seconds); empty where it asks none."""
    usage = getattr(judge, "usage", None)
    return asdict(usage) if usage is not None else {}


def used(results: Sequence[Sequence[Done]], *more: Mapping[str, float]) -> dict[str, float]:
    """The sum over a night and `more`; empty where no judge asked an endpoint.

    What an attempt used that was killed is not in it: the one that went on counts its own.
    """
    total: Counter[str] = Counter()
    for one in (*(one.get("used", {}) for result in results for one in result), *more):
        for what, count in one.items():
            total[what] += count  # type: ignore[assignment]  # seconds are no whole number
    return dict(total)
