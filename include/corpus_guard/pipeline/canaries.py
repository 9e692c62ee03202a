"""Canaries of a run: screened when screening could have changed; a missed one is logged."""

from __future__ import annotations

import logging

import orjson

from corpus_guard.batches import Storage
from corpus_guard.batches.logged_files import log_files
from corpus_guard.domain import digest, sha256_bytes
from corpus_guard.intake.chunking import Chunker
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.event_log import append_event
from corpus_guard.screening.canaries import CanaryReport, canaries_digest, screen_pack
from corpus_guard.screening.runner import Screening
from corpus_guard.settings import Settings

log = logging.getLogger(__name__)


class CanaryResults(CanaryReport):
    """Results of the canaries, as they are stored."""

    run_id: str  # of the run that screened them


def screen_canaries(
    ledger: Ledger,
    storage: Storage,
    chunker: Chunker,
    screening: Screening,
    settings: Settings,
    run_id: str,
    *,
    screened: bool,
) -> CanaryResults:
    """Screen the canaries of a run.

    A run that screened no document reuses the last result of the same checks, policy and canaries, so that it loads no model.

    Args:
        run_id: fills the slots; the same run finds its result again.
        screened: whether the run screened any document.
    """
    made_from = [screening.digest, chunker.digest, canaries_digest()]
    last = f"canaries/last-{digest('canaries/v1', made_from)[:32]}.json"
    own = f"canaries/{digest('canaries/v1', [*made_from, run_id])[:32]}.json"
    for name in (own,) if screened else (own, last):
        if storage.exists(name):
            stored: CanaryResults = storage.read_json(name)
            return stored
    result: CanaryResults = {"run_id": run_id, **screen_pack(screening, settings, chunker, run_id)}
    content = orjson.dumps(result)
    _log_result(ledger, screening, run_id, result, dict.fromkeys((own, last), sha256_bytes(content)))
    storage.write(own, content)
    storage.write(last, content)
    return result


def _log_result(
    ledger: Ledger, screening: Screening, run_id: str, result: CanaryResults, hashes: dict[str, str]
) -> None:
    for name in result["missed"]:
        log.warning("canary %s was accepted: the current policy misses attacks of this kind", name)
    for name in result["false_alarms"]:
        log.warning("canary %s is honest and was not accepted: documents like it may be held in quarantine", name)
    with ledger.write() as connection:
        log_files(connection, run_id, hashes)
        for kind, names in (("canary_missed", result["missed"]), ("canary_false_alarm", result["false_alarms"])):
            for name in names:
                append_event(connection, kind, name, run_id, policy_digest=screening.digest)
