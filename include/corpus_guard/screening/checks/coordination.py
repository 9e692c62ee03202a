"""Several new texts of open sources that answer one question and agree, as a poisoned answer does to fill the
results.

The groups are found once a run, in the space of embeddings and by their words (`corpus_guard.screening.survey.agreement`
and `opposed_groups` say how, and what passes: copies, templates, versions of one manual, passages that merely share a
topic). This check weighs what a group claims.

Rules
- ``opposed``, high: what they state is contradicted by a more trusted document. Two texts are enough.
- ``corroborated``, low: most of what the text says is also stated by a more trusted document, which contradicts none of
  it. Agreement with the truth is no attack.
- ``group``, medium: nobody more trusted says anything about it.
- ``reopened``, medium: a served text that a later group casts doubt on (`corpus_guard.review.reopening`).

What it does not see: a text that stands alone (`conflict`, `question_led`, `targeting`), and siblings each hidden in a
long document of its own. What it cannot tell: whether honest short texts that agree in a vacuum are honest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pydantic import Field

from corpus_guard.claims.comparison import Outcome
from corpus_guard.domain import Chunk, Finding, Severity, Span, TrustLevel, Version
from corpus_guard.screening import logistic
from corpus_guard.screening.check import ConfiguredCheck, Hits, Params
from corpus_guard.screening.survey.agreement import FEATURES, VERSION, Agreement, GroupingModel
from corpus_guard.screening.survey.related_statements import RelatedStatement
from corpus_guard.screening.survey.survey import Survey

_NAMED_DOCUMENTS: Final = 3  # in a message


class CoordinationParams(Params):
    """The section ``coordination`` of policy.yaml."""

    seed: float = Field(default=0.95, gt=0, le=1)
    """Score of a chunk that makes a group; two are needed, or one where the texts it agrees with are served
    already."""
    member: float = Field(default=0.65, gt=0, le=1)
    """Score from which a chunk near a seed belongs to its group."""
    corroborated: float = Field(default=0.5, gt=0, le=1)
    """Share of a chunk that more trusted documents state too, from which its group is harmless."""


class Coordination(ConfiguredCheck[CoordinationParams]):
    """Membership in a group."""

    name = "coordination"
    across_documents = True
    params_class = CoordinationParams
    code_version = (VERSION,)

    def __init__(self, params: CoordinationParams | None = None) -> None:
        super().__init__(params)
        self.grouping = GroupingModel(
            logistic.load_logistic(logistic.PARAMETERS_FOLDER / "coordination.yaml", VERSION, FEATURES),
            self.params.seed,
            self.params.member,
        )

    def resources(self) -> Sequence[str]:
        """Return the digest of the trained weights."""
        return (self.grouping.model.digest,)

    def applies_to(self, version: Version) -> bool:
        """Return True for open documents: in other sources somebody answers for repetitions."""
        return bool(version.chunks) and version.stamp.trust is TrustLevel.OPEN

    def skips(self, version: Version, survey: Survey) -> str | None:
        """Return None: any number of other documents is enough, and too few form no group."""
        return None

    def run(self, batch: Sequence[Version], survey: Survey | None) -> Hits:
        """Look up each version's groups; the largest counts."""
        if survey is None:
            return
        for position, version in enumerate(batch):
            agreements = survey.semantics.agreements.get(version.version_id, ())
            if agreements:
                worst = max(agreements, key=lambda agreement: (agreement.opposed, agreement.documents, agreement.score))
                higher = [
                    statement
                    for statement in survey.semantics.related.get(version.version_id, ())
                    if statement.ordinal == worst.ordinal and statement.trust is not TrustLevel.OPEN
                ]
                yield position, self._describe(version, worst, higher)

    def _describe(self, version: Version, agreement: Agreement, higher: Sequence[RelatedStatement]) -> Finding:
        named = ", ".join(agreement.others[:_NAMED_DOCUMENTS])
        more = agreement.documents - 1 - min(_NAMED_DOCUMENTS, len(agreement.others))
        chunk = next((chunk for chunk in version.chunks if chunk.ordinal == agreement.ordinal), None)
        if agreement.opposed or any(statement.outcome is Outcome.CONFLICT for statement in higher):
            code, severity = "opposed", Severity.HIGH
            meaning = "A more trusted document contradicts it: see the finding of the check conflict here or there"
        elif chunk is not None and _stated_share(chunk, higher) >= self.params.corroborated:
            code, severity = "corroborated", Severity.LOW
            meaning = "More trusted documents state the same"
        else:
            code, severity = "group", Severity.MEDIUM
            meaning = "They stand apart from everything around them; a poisoned answer fills the results in this way"
        return self.finding(
            code,
            severity,
            agreement.score,
            f"{agreement.documents} documents of open sources say the same in different words "
            f"(cosine {agreement.similarity:.2f}): this one, {named}{f' and {more} more' if more > 0 else ''}. {meaning}",
            span=Span(chunk.start, chunk.end) if chunk else None,
            tags=("poisoning", "rag_poisoning", "retrieval_content"),
        )


def _stated_share(chunk: Chunk, statements: Sequence[RelatedStatement]) -> float:
    """Return the share of a chunk's characters that lies in sentences with which more trusted documents agree."""
    stated = set[int]()
    for statement in statements:
        stated.update(range(max(chunk.start, statement.span.start), min(chunk.end, statement.span.end)))
    return len(stated) / max(1, chunk.end - chunk.start)
