"""Texts that would be retrieved for many questions at once.

The retrieval watch names such a hub after people retrieved it; this check names it before. For each arriving chunk the
survey counts the questions of the bank for which it would be among the first ten results, and what share of the
questions is usual here (`corpus_guard.screening.survey.hub_reach` says how, and what it cannot see).

A glossary, a list of contents or a page of questions and answers is a natural hub, and no vector tells it from a
planted one: the policy that comes with the guard only records the findings (``shadow``). Its rates are printed by
``guard evaluate hubs``.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from corpus_guard.domain import Finding, Severity, TrustLevel, Version
from corpus_guard.screening.check import Params, SurveyCheck
from corpus_guard.screening.survey.hub_reach import HubReach
from corpus_guard.screening.survey.survey import Survey


class HubnessParams(Params):
    """The section ``hubness`` of policy.yaml."""

    times: float = Field(default=1.5, ge=1)
    """Multiple of the usual share that a chunk must reach; the usual share is what one chunk in a hundred reaches."""
    share: float = Field(default=0.01, gt=0, le=1)
    """Least share of the questions."""


class Hubness(SurveyCheck[HubnessParams]):
    """Chunks that would be among the first results of many questions."""

    name = "hubness"
    across_documents = True
    params_class = HubnessParams
    code_version = ("hubness/1",)

    def applies_to(self, version: Version) -> bool:
        """Return True for every version with chunks, unless its source is trusted."""
        return bool(version.chunks) and version.stamp.trust is not TrustLevel.TRUSTED

    def skips(self, version: Version, survey: Survey) -> str | None:
        """Return the reason why nothing is known of the reach of texts; None: it is."""
        if survey.semantics.hubness is None:
            return "too few questions are known, or too few chunks are there, to say what a hub is"
        return None

    def stands_out(self, reach: HubReach) -> bool:
        """Return whether a chunk with this reach is a hub."""
        return reach.share >= max(self.params.share, self.params.times * reach.usual)

    def judge(self, version: Version, survey: Survey) -> Iterator[Finding]:
        """Yield at most one finding."""
        reach = (survey.semantics.hubness or {}).get(version.version_id)
        if reach is None or not self.stands_out(reach):
            return
        chunk = version.chunk_at(reach.ordinal)
        yield self.finding(
            "hub",
            Severity.MEDIUM,
            min(1.0, 0.5 * reach.share / (self.params.times * reach.usual)),
            f"It would be among the first ten results of {reach.share:.1%} of the questions that are known; one "
            f"text in a hundred reaches {reach.usual:.1%}. Lists of contents and glossaries do so, and texts made "
            "to be retrieved for everything",
            span=chunk.span if chunk else None,
            tags=("poisoning", "rag_poisoning", "retrieval_content", "embedding_weakness"),
        )
