"""Deciding in one line, for tests of whatever comes after it."""

from __future__ import annotations

from collections.abc import Sequence

from corpus_guard.ledger import Ledger
from corpus_guard.review.decisions import Choice, Decision, decide
from corpus_guard.review.identities import NOBODY, Identities, ReviewAct
from corpus_guard.review.queue import find_item
from corpus_guard.review.records import ItemRevision
from corpus_guard.review.reviewer import Reviewer
from corpus_guard.screening.policy import ReviewRules

ADA = Reviewer("17", "ada", "SomeAuthManager")
MO = Reviewer("mo", "mo", "SomeAuthManager")
ALONE = ReviewRules(two_person_severity=None, two_person_trusts=frozenset())
"""One person suffices for everything."""


def decided(
    ledger: Ledger,
    names: str | Sequence[str],
    choice: Choice = "release",
    *,
    by: Reviewer | str = ADA,
    reason: str = "looked at it",
    rules: ReviewRules = ALONE,
    policy_digest: str = "0" * 64,
    identities: Identities = NOBODY,
) -> list[Decision]:
    """Items decided as they are now; `names` may be the beginnings of ids."""
    found = [find_item(ledger, name) for name in ([names] if isinstance(names, str) else names)]
    return decide(
        ledger,
        rules,
        [ItemRevision(item.version_id, item.revision) for item in found],
        choice,
        ReviewAct(by if isinstance(by, Reviewer) else Reviewer(by, by, "cli"), reason, policy_digest, identities),
    )
