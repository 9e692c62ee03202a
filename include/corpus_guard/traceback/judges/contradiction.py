"""Texts that what people trust contradicts: they state the reported claim, and the right answer or trusted texts say otherwise.

Rules
    * only values are compared, and denied phrases; yes and no are too often said by chance;
    * a text is contradicted by a text of higher trust that states another value about what was asked, or denies the
      answer, where none of higher trust states the claim itself;
    * a text is contradicted by the right answer of a report where that is another value, and the text does not state
      the right answer as well: a table with both misled the model by accident.

Which of two texts may be accused is decided by the conclusion: the least trusted first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from corpus_guard.claims.value import Relation, relate
from corpus_guard.traceback.judges.support_evidence import AskedClaim, SupportEvidence
from corpus_guard.traceback.retrieval import RetrievedText

MIN_STATED: Final = 0.35  # support of the claim, 0..1; less is said of another thing as often as not
MIN_RIVAL: Final = 0.25  # support or opposition of a more trusted text, 0..1
MIN_PHRASE_RIVAL: Final = 0.35  # the same where the answer is a phrase
MAX_STATED_RIGHT: Final = 0.2  # support of the right answer, 0..1
MAX_URI_LENGTH: Final = 200  # characters told of the text that contradicts


def find_contradicted(
    asked_claim: AskedClaim,
    texts: Sequence[RetrievedText],
    supports: Sequence[SupportEvidence],
    right: AskedClaim | None = None,
    right_supports: Sequence[SupportEvidence] = (),
) -> dict[str, str]:
    """Return the texts that are contradicted, by id, with who contradicts them.

    Args:
        supports: what each says about the claim.
        right: the right answer as a claim; None: not known.
    """
    if asked_claim.claim.is_affirmed is not None and not asked_claim.values:
        return {}
    contradicted: dict[str, str] = {}
    for text, read in zip(texts, supports, strict=True):
        least = MIN_RIVAL if asked_claim.values else MIN_PHRASE_RIVAL
        if read.support < MIN_STATED or read.unit < 0.5 or read.disowns:
            continue
        trusted = [
            (other, rival) for other, rival in zip(texts, supports, strict=True) if other.trust.rank > text.trust.rank
        ]
        if any(rival.support >= least for _, rival in trusted):
            continue
        rivals = (other for other, rival in trusted if _says_otherwise(asked_claim, rival, least))
        if rival := next(rivals, None):
            contradicted[text.chunk_id] = f"{rival.uri[-MAX_URI_LENGTH:]} of the {rival.trust} source {rival.source}"
    if right is not None and _differ(asked_claim, right):
        for text, read, right_read in zip(texts, supports, right_supports, strict=True):
            is_wrong = read.support >= MIN_STATED and read.unit >= 0.5 and not read.disowns
            if is_wrong and right_read.support <= MAX_STATED_RIGHT:
                contradicted.setdefault(text.chunk_id, "the right answer of the report")
    return contradicted


def _says_otherwise(asked_claim: AskedClaim, read: SupportEvidence, least: float) -> bool:
    against = max(read.opposition, read.denial) if asked_claim.values else read.denial
    return against >= least and read.support < MIN_RIVAL


def _differ(asked_claim: AskedClaim, right: AskedClaim) -> bool:
    """Return whether two answers are values of one kind, all different."""
    relations = [relate(value, other) for value in asked_claim.values for other in right.values]
    compared = [relation for relation in relations if relation is not None]
    return bool(compared) and all(relation is Relation.DIFFERENT for relation in compared)
