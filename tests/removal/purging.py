"""Purges in tests, with one line of code."""

from __future__ import annotations

from corpus_guard.deployment import Deployment
from corpus_guard.removal.purge import PurgeResult
from corpus_guard.removal.purge_plan import PurgePlan, PurgeSelectors, plan_purge

REASON = "asked for by its author"


def plan_for(deployment: Deployment, **selectors: str) -> PurgePlan:
    """Plan a purge of one chunk, document, source or hash: ``documents="keys.md"``."""
    selected = PurgeSelectors(**{name: (value,) for name, value in selectors.items()})
    return plan_purge(deployment.ledger, deployment.storage, deployment.blobs, selected)


def purge_document(deployment: Deployment, uri: str, run_id: str = "p1") -> PurgeResult:
    return deployment.purger.purge(run_id, plan_for(deployment, documents=uri), "ada", REASON)
