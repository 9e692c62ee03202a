"""What makes a weak sign in one text count: something else that points at the same text.

A question near the text is no company: `targeting` weighs it by itself. Counted as company, questions held back
22 more of 2,904 honest web passages that answer them, and caught none of 180 planted answers that `targeting`
had not caught.
"""

from __future__ import annotations

from corpus_guard.claims.comparison import Outcome
from corpus_guard.domain import TrustLevel, Version
from corpus_guard.screening.survey.survey import Survey


def has_company(version: Version, survey: Survey | None) -> bool:
    """Return True for a version of an open source that does not stand alone.

    It agrees with a group of other new texts, or contradicts a text of higher trust.
    """
    if survey is None or version.stamp.trust is not TrustLevel.OPEN:
        return False
    semantics = survey.semantics
    return version.version_id in semantics.agreements or any(
        statement.outcome is Outcome.CONFLICT and statement.trust is not TrustLevel.OPEN
        for statement in semantics.related.get(version.version_id, ())
    )
