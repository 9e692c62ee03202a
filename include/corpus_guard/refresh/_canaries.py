"""Canaries of a run: screened where screening could have changed, and told when one was missed."""

from __future__ import annotations

import logging
from dataclasses import asdict
from typing import Any, TypedDict

from corpus_guard.domain import digest
from corpus_guard.guard import Guard
from corpus_guard.screening.canaries import examine, pack_digest

log = logging.getLogger(__name__)


class Canaries(TypedDict):
    """What became of the canaries; see `corpus_guard.screening.canaries.Caught`."""

    run_id: str  # of the run that screened them
    planted: int
    caught: int
    shadowed: list[str]
    missed: list[str]
    innocent: int
    false_alarms: list[str]
    seen_by: dict[str, list[str]]


def screen_canaries(guard: Guard, run_id: str, *, screened: bool) -> Canaries:
    """Screen the canaries of a run.

    A run that screened nothing takes the last result of the same checks, policy and canaries, so that it loads no model; where there
    is none, or the run screened something, they are screened.

    Args:
        guard: the deployment.
        run_id: fills the slots; the same run finds its result again.
        screened: whether the run screened any document.
    """
    made_from = [guard.screening.digest, guard.chunker.digest, pack_digest()]
    last = f"canaries/last-{digest('canaries/v1', made_from)[:32]}.json"
    own = f"canaries/{digest('canaries/v1', [*made_from, run_id])[:32]}.json"
    for name in (own,) if screened else (own, last):
        if guard.storage.exists(name):
            found: Canaries = guard.storage.read_json(name)
            return found
    result: Any = {"run_id": run_id, **asdict(examine(guard.screening, guard.settings, guard.chunker, run_id))}
    _tell(guard, run_id, result)
    guard.storage.write_json(own, result)
    guard.storage.write_json(last, result)
    read: Canaries = guard.storage.read_json(own)
    return read


def _tell(guard: Guard, run_id: str, result: Canaries) -> None:
    for name in result["missed"]:
        log.warning("canary %s was accepted: the policy in force no longer sees attacks of its kind", name)
    for name in result["false_alarms"]:
        log.warning("canary %s is innocent and was not accepted: documents like it may wait in quarantine", name)
    with guard.ledger.write() as connection:
        for kind, names in (("canary_missed", result["missed"]), ("canary_false_alarm", result["false_alarms"])):
            for name in names:
                guard.ledger.event(connection, kind, name, run_id, policy_digest=guard.screening.digest)
