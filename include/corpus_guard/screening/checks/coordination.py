"""Several new texts of open sources that answer one question and agree, as a poisoned answer does to fill the
results.

The groups are found once a run, in the space of embeddings (`corpus_guard.screening.survey.agreement` says
how, and what passes: copies, templates, versions of one manual, passages that merely share a topic). This
check turns them into findings.

What it does not see: a text that stands alone (`question_led`, `targeting`), and siblings each hidden in a
long document of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pydantic import Field

from corpus_guard.domain import Finding, Severity, Span, TrustLevel, Version
from corpus_guard.screening import logistic
from corpus_guard.screening.check import ConfiguredCheck, Hits, Params
from corpus_guard.screening.survey.agreement import FEATURES, VERSION, Agreement, GroupingModel
from corpus_guard.screening.survey.survey import Survey

_NAMED_DOCUMENTS: Final = 3  # in a message


class CoordinationParams(Params):
    """The section ``coordination`` of policy.yaml."""

    seed: float = Field(default=0.9, gt=0, le=1)
    """Score of a chunk that makes a group; two are needed, or one where the texts it agrees with are served
    already."""
    member: float = Field(default=0.7, gt=0, le=1)
    """Score from which a chunk near a seed belongs to its group."""
    flood: int = Field(default=8, ge=3)
    """Documents from which a group is of high severity."""


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
                largest = max(agreements, key=lambda agreement: (agreement.documents, agreement.score))
                yield position, self._describe(version, largest)

    def _describe(self, version: Version, agreement: Agreement) -> Finding:
        flood = agreement.documents >= self.params.flood
        named = ", ".join(agreement.others[:_NAMED_DOCUMENTS])
        more = agreement.documents - 1 - min(_NAMED_DOCUMENTS, len(agreement.others))
        chunk = next((chunk for chunk in version.chunks if chunk.ordinal == agreement.ordinal), None)
        return self.finding(
            "flood" if flood else "group",
            Severity.HIGH if flood else Severity.MEDIUM,
            agreement.score,
            f"{agreement.documents} documents of open sources say the same in different words and stand apart from everything "
            f"around them (cosine {agreement.similarity:.2f}): this one, {named}{f' and {more} more' if more > 0 else ''}. "
            "A poisoned answer fills the results in this way",
            span=Span(chunk.start, chunk.end) if chunk else None,
            tags=("poisoning", "rag_poisoning", "retrieval_content"),
        )
