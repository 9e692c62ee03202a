"""What makes a hint about one text count: something else that points at the same text."""

from __future__ import annotations

from corpus_guard.claims.comparison import Outcome
from corpus_guard.domain import TrustLevel, Version
from corpus_guard.screening.survey.survey import Survey

TARGETED_COSINE = 0.6
"""Of a question and a text written to answer it: nine of ten planted answers lie above, honest passages that
answer it between 0.3 and 0.8."""


def has_company(version: Version, survey: Survey | None) -> bool:
    """Return True for a version of an open source that does not stand alone.

    It agrees with a group of other new texts, lies near a question that people ask, or contradicts a text of
    higher trust.
    """
    if survey is None or version.stamp.trust is not TrustLevel.OPEN:
        return False
    semantics = survey.semantics
    return (
        version.version_id in semantics.agreements
        or any(q.similarity >= TARGETED_COSINE for q in semantics.questions.get(version.version_id, ()))
        or any(
            statement.outcome is Outcome.CONFLICT and statement.trust is not TrustLevel.OPEN
            for statement in semantics.related.get(version.version_id, ())
        )
    )
