"""Several new texts of open sources that answer one question and agree, as a poisoned answer does to fill the
results.

The groups are found once a run, in the space of embeddings and by their words (`corpus_guard.screening.survey.agreement`
and `opposed_groups` say how, and what passes: copies, templates, versions of one manual, passages that merely share a
topic). This check weighs what a group claims.

Rules
- ``opposed``, high: what they state is contradicted by a more trusted document. Two texts are enough.
- ``corroborated``, low: more trusted documents state the claim that the members share, and contradict nothing. True
  sentences beside a claim do not make it true (`corpus_guard.screening.survey.backed_claims`).
- ``independent``, low: three sources or sites at least say it, and none of them most of it. Many hands may agree.
- ``repeated``, low: they say it in the same words. Replies quote each other, mirrors and agencies are copied; planted
  siblings are each written anew, or they would be found as copies.
- ``group``, medium: otherwise. Nobody more trusted says anything about it, one origin says it several times, each time in
  other words.
- ``reopened``, medium: a served text that a later group casts doubt on (`corpus_guard.review.reopening`).

An author whom a document declares is no origin: whoever plants five texts writes five names.

What it does not see: a text that stands alone (`conflict`, `question_led`, `targeting`), and siblings each hidden in a
long document of its own. What it sees and lets pass: siblings that repeat their claim word for word, or that come from
three sources, where nobody more trusted says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Final

from pydantic import Field

from corpus_guard.domain import Chunk, Finding, Severity, TrustLevel, Version
from corpus_guard.screening import learned_scores
from corpus_guard.screening.check import Params, SurveyCheck
from corpus_guard.screening.survey.agreement import FEATURES, VERSION, Agreement, GroupingModel
from corpus_guard.screening.survey.backed_claims import is_claim_backed
from corpus_guard.screening.survey.related_statements import RelatedStatement
from corpus_guard.screening.survey.survey import Survey

_NAMED_DOCUMENTS: Final = 3  # in a message


class _Meaning(StrEnum):
    """Meaning of a group; the code of its finding."""

    OPPOSED = "opposed"
    CORROBORATED = "corroborated"
    INDEPENDENT = "independent"
    REPEATED = "repeated"
    GROUP = "group"


class CoordinationParams(Params):
    """The section ``coordination`` of policy.yaml."""

    seed: float = Field(default=0.975, gt=0, le=1)
    """Score of a chunk that makes a group; two are needed, or one where the texts it agrees with are served
    already."""
    member: float = Field(default=0.8, gt=0, le=1)
    """Score from which a chunk near a seed belongs to its group."""
    repeated: float = Field(default=0.6, gt=0, le=1)
    """Repetition of the members word for word, names aside, from which they quote or copy: most of what each says
    is common, and most of that in runs of three words."""
    origins: int = Field(default=3, ge=2)
    """Sources, or sites of one source, from which a group is no single hand's."""


class Coordination(SurveyCheck[CoordinationParams]):
    """Membership in a group."""

    name = "coordination"
    across_documents = True
    params_class = CoordinationParams
    code_version = (VERSION, "origins/2", "names/1", "opposed/4")

    def __init__(self, params: CoordinationParams | None = None) -> None:
        super().__init__(params)
        self.grouping = GroupingModel(
            learned_scores.load_score(
                learned_scores.Network, learned_scores.PARAMETERS_FOLDER / "coordination.yaml", VERSION, FEATURES
            ),
            self.params.seed,
            self.params.member,
        )

    def resources(self) -> Sequence[str]:
        """Return the digest of the trained weights."""
        return (self.grouping.model.digest,)

    def applies_to(self, version: Version) -> bool:
        """Return True for open documents: in other sources somebody answers for repetitions."""
        return bool(version.chunks) and version.stamp.trust is TrustLevel.OPEN

    def judge(self, version: Version, survey: Survey) -> Iterator[Finding]:
        """Look up a version's groups; the worst counts, of equal ones the largest."""
        higher = [
            statement
            for statement in survey.semantics.related.get(version.version_id, ())
            if statement.trust is not TrustLevel.OPEN
        ]
        weighed = [
            (self._weigh(agreement, version.chunk_at(agreement.ordinal), higher), agreement)
            for agreement in survey.semantics.agreements.get(version.version_id, ())
        ]
        if weighed:
            yield self._describe(version, *max(weighed, key=_rank))

    def _describe(self, version: Version, meaning: _Meaning, agreement: Agreement) -> Finding:
        named = ", ".join(agreement.others[:_NAMED_DOCUMENTS])
        more = agreement.documents - 1 - min(_NAMED_DOCUMENTS, len(agreement.others))
        chunk = version.chunk_at(agreement.ordinal)
        severity, reason = _MEANINGS[meaning]
        return self.finding(
            meaning.value,
            severity,
            agreement.score,
            f"{agreement.documents} documents of open sources say the same "
            f"(cosine {agreement.similarity:.2f}): this one, {named}{f' and {more} more' if more > 0 else ''}. {reason}",
            span=chunk.span if chunk else None,
            tags=("poisoning", "rag_poisoning", "retrieval_content"),
        )

    def _weigh(self, agreement: Agreement, chunk: Chunk | None, higher: Iterable[RelatedStatement]) -> _Meaning:
        higher = [statement for statement in higher if statement.ordinal == agreement.ordinal]
        if agreement.opposed or any(statement.is_contradiction for statement in higher):
            return _Meaning.OPPOSED
        if chunk is not None and is_claim_backed(chunk, agreement.shared, higher):
            return _Meaning.CORROBORATED
        if agreement.origins >= self.params.origins:
            return _Meaning.INDEPENDENT
        if agreement.repeated >= self.params.repeated:
            return _Meaning.REPEATED
        return _Meaning.GROUP


_MEANINGS: Final = {
    _Meaning.OPPOSED: (
        Severity.HIGH,
        "A more trusted document contradicts it: see the finding of the check conflict on one of them",
    ),
    _Meaning.CORROBORATED: (Severity.LOW, "More trusted documents state the same"),
    _Meaning.INDEPENDENT: (
        Severity.LOW,
        "They come from several sources or sites: alone it is no reason to hold them back",
    ),
    _Meaning.REPEATED: (
        Severity.LOW,
        "They say it in the same words, as replies, mirrors and agency news do: alone it is no reason to hold them back",
    ),
    _Meaning.GROUP: (
        Severity.MEDIUM,
        "In different words, from one origin, apart from everything around them: a poisoned answer fills the results in this way",
    ),
}


def _rank(weighed: tuple[_Meaning, Agreement]) -> tuple[int, int, float]:
    meaning, agreement = weighed
    return _MEANINGS[meaning][0].rank, agreement.documents, agreement.score
