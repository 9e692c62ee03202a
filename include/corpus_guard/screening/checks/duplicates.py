"""Copies and near copies of other documents.

Rules
- An exact copy is worth a note and nothing more; most are honest.
- A text that was stopped under one document is stopped under the next, unless the next comes from a more
  trusted source: otherwise anybody who may write to an open source could block a trusted document by handing
  in a copy of it.
- Several new, slightly different texts of open sources are a burst: a poisoned answer fills the results in
  this way. Texts that differ in a few words are one voice, as exact copies are: mirrors of one page state nothing new,
  and are a note. Very short texts pass ("X is a village in Y" is how stubs are written), and so do trusted and
  reviewed sources, which may hold yearly reports and one manual for each release. Menus, labels and headings do
  not count: all pages of a site share them.
- An open document that is nearly a more trusted one is an imitation: a copy with one quiet change.

What it does not see: texts that say the same in other words, a copied part of a longer document, or a burst of
texts in lines of fewer than eight words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pydantic import Field

from corpus_guard.domain import Finding, Severity, TrustLevel, Version
from corpus_guard.screening.check import Params, SurveyCheck
from corpus_guard.screening.survey.resemblance import MIRROR_SIMILARITY, SimilarDocument, Standing
from corpus_guard.screening.survey.signals import running_words
from corpus_guard.screening.survey.survey import Survey

_BAD: Final = frozenset({Standing.QUARANTINED, Standing.REJECTED})
_NAMED_DOCUMENTS: Final = 3  # in a message


class DuplicatesParams(Params):
    """The section ``duplicates`` of policy.yaml."""

    burst: int = Field(default=4, ge=3)
    """New near-identical documents of open sources in one run, this one included, that make a burst."""
    large_burst: int = Field(default=8, ge=3, le=12)
    """The same for a burst of high severity."""
    burst_words: int = Field(default=60, ge=0)
    """Fewest words of a text in a burst, in lines of eight words or more: of 42,697 encyclopedia paragraphs
    taken as one open source, 918 are in one without this limit, 252 at 30 words and 58 at 60."""
    known_bad: float = Field(default=0.8, ge=0.5, le=1.0)
    """Similarity from which a text counts as one that was stopped: releases of one manual may be alike by
    0.7."""
    imitation: float = Field(default=0.9, ge=0.5, le=1.0)
    """Similarity from which an imitation is of medium severity."""


class Duplicates(SurveyCheck[DuplicatesParams]):
    """Copies and near copies of other documents."""

    name = "duplicates"
    across_documents = True
    params_class = DuplicatesParams
    code_version = ("duplicates/4",)

    def judge(self, version: Version, survey: Survey) -> Iterator[Finding]:
        """Look up a version's neighbours."""
        neighbours = survey.neighbours.get(version.version_id, ())
        for look in (self._same_text, self._known_bad, self._burst, self._imitation):
            finding = look(version, neighbours) if neighbours else None
            if finding:
                yield finding

    def _same_text(self, version: Version, neighbours: Sequence[SimilarDocument]) -> Finding | None:
        copies = [n for n in neighbours if n.similarity == 1.0 and n.standing not in _BAD]
        if not copies:
            return None
        return self.finding("same_text", Severity.INFO, 0.05, f"The same text stands in {_list_documents(copies)}.")

    def _known_bad(self, version: Version, neighbours: Sequence[SimilarDocument]) -> Finding | None:
        trust = version.stamp.trust
        bad = [n for n in neighbours if n.standing in _BAD and n.similarity >= self.params.known_bad]
        peers = [n for n in bad if n.trust.rank >= trust.rank]
        if not bad:
            return None
        same, note = any(n.similarity == 1.0 for n in peers), ""
        if not peers:
            note = " It came from a less trusted source, perhaps as a copy of this document."
            severity, score = Severity.LOW, 0.2
        elif same or trust is TrustLevel.OPEN:
            severity, score = Severity.HIGH, 0.9 if same else 0.8
        else:
            severity, score = Severity.MEDIUM, 0.5
        evidence = peers or bad
        extent = "The same text" if any(n.similarity == 1.0 for n in evidence) else "Nearly the same text"
        standings = " and ".join(sorted({n.standing.value for n in evidence}))
        message = f"{extent} is {standings} under {_list_documents(evidence)}.{note}"
        return self.finding("known_bad", severity, score, message, tags=("poisoning", "rag_poisoning"))

    def _burst(self, version: Version, neighbours: Sequence[SimilarDocument]) -> Finding | None:
        if version.stamp.trust is not TrustLevel.OPEN:
            return None
        alike = [
            n for n in neighbours if n.standing is Standing.NEW and n.similarity < 1.0 and n.trust is TrustLevel.OPEN
        ]
        documents = len({n.doc_id for n in alike}) + 1
        if documents < self.params.burst or len(running_words(version.text)) < self.params.burst_words:
            return None
        is_mirror = any(n.mirrored and n.similarity >= MIRROR_SIMILARITY for n in alike)
        count = len({n.mirrored or n.doc_id for n in alike}) + (not is_mirror)
        if count < self.params.burst:
            return self.finding(
                "mirrored",
                Severity.LOW,
                0.2,
                f"{documents} new documents of open sources hold {count} text{'s' if count > 1 else ''} with a few words changed, as "
                f"mirrors and yearly editions do: this one and {_list_documents(alike)}.",
            )
        large = count >= self.params.large_burst
        return self.finding(
            "burst",
            Severity.HIGH if large else Severity.MEDIUM,
            0.8 if large else 0.5,
            f"At least {count} new documents of open sources are nearly the same: this one and {_list_documents(alike)}.",
            tags=("poisoning", "rag_poisoning", "retrieval_content"),
        )

    def _imitation(self, version: Version, neighbours: Sequence[SimilarDocument]) -> Finding | None:
        trust = version.stamp.trust
        if trust is not TrustLevel.OPEN:
            return None
        originals = [
            n for n in neighbours if n.standing not in _BAD and n.similarity < 1.0 and n.trust.rank > trust.rank
        ]
        if not originals:
            return None
        nearest = max(n.similarity for n in originals)
        close = nearest >= self.params.imitation
        message = (
            f"Nearly the text of {_list_documents(originals)}, from a more trusted source, but not the same "
            f"(similarity {nearest:.2f}): compare the two for a quiet change."
        )
        return self.finding(
            "imitation",
            Severity.MEDIUM if close else Severity.LOW,
            0.5 if close else 0.3,
            message,
            tags=("poisoning", "misinformation"),
        )


def _list_documents(neighbours: Sequence[SimilarDocument]) -> str:
    documents = list(dict.fromkeys(n.doc_id for n in neighbours))
    named = ", ".join(documents[:_NAMED_DOCUMENTS])
    more = len(documents) - _NAMED_DOCUMENTS
    return f"document{'s' if len(documents) > 1 else ''} {named}" + (f" and {more} more" if more > 0 else "")
