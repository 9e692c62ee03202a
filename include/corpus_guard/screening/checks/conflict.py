"""Statements that contradict what a more trusted document states about the same thing.

The pairs of sentences are found once a run (`corpus_guard.screening.survey.statement_search`): another value,
date, name or unit, a denial, another contact or account. This check turns them into findings.

Rules
- A statement against a *trusted* document is of high severity: it waits, whatever source it comes from.
- Where a trained reader is sure that an open document contradicts nothing there, it is of low severity: `doubted`.
- Where trusted documents disagree themselves, in the eyes of the rules or of the reader, it is of low severity, too: `disputed`.
- Against a *reviewed* one it is of medium severity.
- A *near copy* with something changed is of high severity: nobody copies a manual and changes one number by
  accident.
- Against a document of the same trust level it is a note: nobody knows which of the two is right.
- What the rules leave open in a chunk of an open source, a trained reader reads beside trusted chunks
  (`corpus_guard.screening.survey.likely_contradictions`). What it takes for a contradiction is of medium severity: it errs more often.
- A document that was not compared with all that is near, because the budget of the run was reached, is unchecked; so is
  a trusted one that was not compared with what is served: it might contradict some of it.

Findings name places, never words: what is purged elsewhere must not live on here.

What it does not do: decide which statement is right, or see a contradiction that takes two documents to see.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pydantic import Field

from corpus_guard.claims.comparison import CONTACTS
from corpus_guard.claims.outcome import Outcome
from corpus_guard.claims.value import Kind
from corpus_guard.domain import Counterstatement, Finding, Severity, TrustLevel, Version, first_of_each
from corpus_guard.models import Models
from corpus_guard.models.chat_cache import AnswerCache
from corpus_guard.models.contradiction_judge import ContradictionJudge
from corpus_guard.models.contradiction_reader import KINDS
from corpus_guard.screening.check import Params, SurveyCheck
from corpus_guard.screening.policy import UNCHECKED_SUFFIX
from corpus_guard.screening.survey.likely_contradictions import LikelyContradictions
from corpus_guard.screening.survey.related_statements import RelatedStatement
from corpus_guard.screening.survey.survey import Survey

_WORDS: Final = {
    Kind.PHONE: "telephone number",
    Kind.IBAN: "account",
    Kind.EMAIL: "e-mail address",
    Kind.DOMAIN: "internet address",
    Kind.COUNT: "number",
    Kind.MONEY: "amount",
    Kind.ORDER: "order of steps",
}


class ConflictParams(Params):
    """The section ``conflict`` of policy.yaml."""

    comparisons: int = Field(default=2_000_000, ge=0)
    """Most pairs of chunks that are compared in a run. Documents beyond it are unchecked and wait."""
    pairs_read: int = Field(default=4, ge=0, le=20)
    """Posts of an open chunk that the trained reader sees, beside excerpts of as many trusted chunks at most. Its sieve takes 6 to 15 ms
    for each, what it keeps 60 to 130 ms more. 0: none."""
    likely_log_odds: float = 1.25
    """Log-odds of the trained reader that a post contradicts at least one trusted chunk, at or above which that is a finding."""
    doubted_log_odds: float = -1.0
    """Log-odds of the trained reader below which a contradiction that the rules found in an open chunk is noted only."""
    asked_model: str = Field(default="", max_length=200)
    """Name of a model at ``CORPUS_GUARD_CHAT_URL`` that is asked about each pair that the sieve keeps. Empty: the trained reader
    decides."""
    asked_pairs: int = Field(default=2_000, ge=1)
    """Most pairs that this model is asked about in a run. The trained reader decides about the others."""
    findings: int = Field(default=5, ge=1)
    """Most sentences of a document that are reported."""


class Conflict(SurveyCheck[ConflictParams]):
    """Contradictions of more trusted documents."""

    name = "conflict"
    across_documents = True
    params_class = ConflictParams
    code_version = ("conflict", "20")

    def resources(self) -> Sequence[str]:
        """Return the digests of the trained reader, and of what a model is asked."""
        if not self.params.pairs_read:
            return ()
        prompt_digests = [ContradictionJudge.prompt_digest()] if self.params.asked_model else []
        return [*(kind.digest() for kind in KINDS), *prompt_digests]

    def likely(
        self, models: Models, cache: AnswerCache | None = None, *, may_ask: bool = True
    ) -> LikelyContradictions | None:
        """Return what reads the pairs that the rules leave open; None where the policy has none read.

        Args:
            cache: of the answers of a model that is asked; None: they are kept as long as the process runs.
            may_ask: a model is asked, where the policy names one.

        Raises:
            SettingsError: a model is to be asked, and the endpoint's address is missing.
        """
        params = self.params
        if not params.pairs_read:
            return None
        return LikelyContradictions(
            models.contradiction_reader,
            params.pairs_read,
            params.likely_log_odds,
            params.doubted_log_odds,
            models.contradiction_judge(params.asked_model, params.asked_pairs, cache)
            if params.asked_model and may_ask
            else None,
        )

    def applies_to(self, version: Version) -> bool:
        """Return True for documents with text: open ones may contradict trusted ones, trusted ones what is served."""
        return bool(version.chunks)

    def judge(self, version: Version, survey: Survey) -> Iterator[Finding]:
        """Look up what contradicts a version."""
        yield from self._describe(version, survey.semantics.related.get(version.version_id, ()))
        if missing := survey.semantics.not_compared.get(version.version_id, 0):
            chunks = "1 chunk was" if missing == 1 else f"{missing:,} chunks were"
            is_trusted = version.stamp.trust is TrustLevel.TRUSTED
            others = "the served documents near it" if is_trusted else "what trusted documents state"
            yield self.finding(
                UNCHECKED_SUFFIX.removeprefix("."),
                Severity.HIGH,
                0.5,
                f"{chunks} not compared with {others}: the run reached its budget of "
                f"{self.params.comparisons:,} comparisons. Not checked is not clean",
            )

    def _describe(self, version: Version, related: Sequence[RelatedStatement]) -> Iterator[Finding]:
        contradicted = [each for each in related if each.outcome in {Outcome.CONFLICT, Outcome.LIKELY}]
        worst = first_of_each(contradicted, lambda each: (each.span.start, each.span.end))  # the worst stand first
        for statement in list(worst.values())[: self.params.findings]:
            is_peer = statement.trust is version.stamp.trust
            code, what = _nature(statement)
            severity, score = _weight(statement, is_peer=is_peer)
            yield self.finding(
                "peer" if is_peer else code,
                severity,
                score,
                f"{what} a {'document of the same trust level' if is_peer else f'{statement.trust.value} document'} about the "
                f"same thing: document {statement.other.doc_id}, version {statement.other.version_id}{_dispute(statement)}",
                span=statement.span,
                tags=() if is_peer else ("poisoning", "misinformation"),
                counterstatement=Counterstatement(
                    statement.other.doc_id,
                    statement.other.version_id,
                    statement.other.span,
                    statement.span,
                    statement.other.values,
                    statement.values,
                ),
            )


def _nature(statement: RelatedStatement) -> tuple[str, str]:
    """Return the code of a contradiction, and its description up to "a trusted document"."""
    kind = statement.kind
    if statement.is_doubted:
        return "doubted", "A trained reader sees no contradiction, but the values differ from those in"
    if statement.outcome is Outcome.LIKELY:
        code = "disputed" if statement.is_disputed else "likely"
        return code, "It seems to contradict what is said, in other words, in"
    if kind is Kind.NEGATION:
        code, what = "denial", "It denies what is stated in"
    elif kind in CONTACTS:
        code, what = "contact", f"Another {_WORDS[kind]} is given than in"
    else:
        code, what = "value", f"Another {_WORDS.get(kind, kind.value) if kind else 'value'} is stated than in"
    if statement.is_disputed:
        return "disputed", what
    if statement.is_near_copy:
        return "near_copy", f"Nearly a copy of a passage, with a change: {what[0].lower()}{what[1:]}"
    return code, what


def _dispute(statement: RelatedStatement) -> str:
    """Return the end of a message: which document disagrees with the one that is contradicted, if one does."""
    if not statement.is_disputed:
        return ""
    does = "seems to contradict" if statement.outcome is Outcome.LIKELY else "contradicts"
    return f". {statement.trust.value.capitalize()} documents disagree: document {statement.disputed_by} {does} it, too"


def _weight(statement: RelatedStatement, *, is_peer: bool) -> tuple[Severity, float]:
    if is_peer:
        return Severity.INFO, 0.1
    if statement.is_noted_only:
        return Severity.LOW, 0.2
    if statement.outcome is Outcome.LIKELY:
        return Severity.MEDIUM, 0.5
    if statement.is_near_copy:
        return Severity.HIGH, 0.9
    return (Severity.HIGH, 0.8) if statement.trust is TrustLevel.TRUSTED else (Severity.MEDIUM, 0.6)
