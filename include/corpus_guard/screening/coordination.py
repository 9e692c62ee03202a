"""Several new texts of open sources that answer one question and agree: how a poisoned answer is made to fill the results.

The groups are found once a run, in the space of embeddings (`corpus_guard.screening._agreement` says how, and what is let pass:
copies, templates, versions of one manual, passages that merely share a topic). This check says what was found.

What it does not see: a text that stands alone (`question_led`, `targeting`), and siblings each hidden in a long document of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from pydantic import Field

from corpus_guard.domain import Finding, Severity, Span, TrustLevel, Version, digest
from corpus_guard.screening import _logistic
from corpus_guard.screening._agreement import FEATURES, VERSION, Grouping
from corpus_guard.screening.check import Hits, Params
from corpus_guard.screening.semantic import Agreement
from corpus_guard.screening.survey import Survey
from corpus_guard.screening.tags import tags

_NAMED: Final = 3


class CoordinationParams(Params):
    """The section ``coordination`` of policy.yaml."""

    seed: float = Field(default=0.9, gt=0, le=1)
    """Score of a chunk that makes a group; two are needed, or one where its voices are served already."""
    member: float = Field(default=0.7, gt=0, le=1)
    """Score from which a chunk near a seed belongs to its group."""
    flood: int = Field(default=8, ge=3)
    """Documents from which a group is of high severity."""


class Coordination:
    """Membership in a group."""

    name: ClassVar[str] = "coordination"
    across_documents: ClassVar[bool] = True
    second_stage: ClassVar[bool] = False
    Params: ClassVar[type[CoordinationParams]] = CoordinationParams

    def __init__(self, params: CoordinationParams | None = None) -> None:
        self.params = params or CoordinationParams()
        self.grouping = Grouping(
            _logistic.load(_logistic.FOLDER / "coordination.yaml", VERSION, FEATURES),
            self.params.seed,
            self.params.member,
        )

    @property
    def digest(self) -> str:
        """Of the parameters, the trained weights and the code's version."""
        return digest("check/v1", [VERSION, self.params.model_dump_json(), self.grouping.model.digest])

    def applies_to(self, version: Version) -> bool:
        """Open documents: whoever answers for a source may repeat himself."""
        return bool(version.chunks) and version.stamp.trust is TrustLevel.OPEN

    def skips(self, version: Version, survey: Survey) -> str | None:
        """Any number of others will do; too few of them form no group."""
        return None

    def run(self, batch: Sequence[Version], survey: Survey | None) -> Hits:
        """Look up each version's groups; the largest counts."""
        if survey is None:
            return
        for position, version in enumerate(batch):
            found = survey.semantics.agreements.get(version.version_id, ())
            if found:
                yield position, self._finding(version, max(found, key=lambda one: (one.documents, one.score)))

    def _finding(self, version: Version, found: Agreement) -> Finding:
        flood = found.documents >= self.params.flood
        named = ", ".join(found.others[:_NAMED])
        more = found.documents - 1 - min(_NAMED, len(found.others))
        chunk = next((chunk for chunk in version.chunks if chunk.ordinal == found.ordinal), None)
        return Finding(
            check=self.name,
            code="coordination.flood" if flood else "coordination.group",
            severity=Severity.HIGH if flood else Severity.MEDIUM,
            score=found.score,
            message=(
                f"{found.documents} documents of open sources say the same in different words and stand apart from everything around "
                f"them (cosine {found.similarity:.2f}): this one, {named}{f' and {more} more' if more > 0 else ''}. "
                "A poisoned answer is made to fill the results like this"
            ),
            span=Span(chunk.start, chunk.end) if chunk else None,
            tags=tags(("poisoning", "rag_poisoning", "retrieval_content")),
        )
