"""Judges: classifiers of retrieved texts by whether they lead to the reported output.

Every text is hostile, above all to its judge. An opinion that cannot be read counts as *undecided*, never as
benign.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from corpus_guard.errors import GuardError, JudgeFailed
from corpus_guard.ledger.states import Label
from corpus_guard.traceback.judges.support_evidence import SupportEvidence
from corpus_guard.traceback.retrieval import Complaint, RetrievedText


@dataclass(frozen=True, slots=True)
class Opinion:
    """Label of one text, with its score and reason."""

    label: Label
    score: float  # how likely the text is poisoned, 0..1
    explanation: str  # for people; what a model wrote is shortened and never trusted


@dataclass(frozen=True, slots=True)
class JudgeConclusion:
    """Second look of a judge, at everything that a complaint retrieved."""

    probability: float | None = None  # that the complaint is an attack, 0..1, calibrated; None: this judge cannot say
    acquitted: frozenset[str] = frozenset()  # ids of texts that looked poisoned only on their own
    # Ids of texts whose statement more trusted texts or the right answer contradict.
    accused: frozenset[str] = frozenset()
    support: Mapping[str, SupportEvidence] = field(default_factory=dict)  # by id, what texts say; none: not read


class Judge(Protocol):
    """Judge of the texts that one complaint retrieves."""

    @property
    def name(self) -> str:
        """Name in settings and on the command line."""

    @property
    def digest(self) -> str:
        """Everything its opinions depend on: model, prompt, thresholds. At most 200 characters."""

    def judge(
        self, complaint: Complaint, new: Sequence[RetrievedText], retrieved: Sequence[RetrievedText]
    ) -> list[Opinion]:
        """Return an opinion of each new text, in their order.

        Args:
            new: texts that were not judged yet.
            retrieved: all texts retrieved for this complaint so far, including the new ones, in the order of
                retrieval.

        Raises:
            JudgeFailed: the judge cannot give an opinion.
        """

    def conclude(self, complaint: Complaint, judged: Sequence[tuple[RetrievedText, Opinion]]) -> JudgeConclusion:
        """Weigh all opinions together. May acquit single texts, never accuses further ones."""


@contextlib.contextmanager
def report_as_judge_failure(subject: str) -> Iterator[None]:
    """Turn whatever a model or its library raises into `JudgeFailed`, after which a trace can be resumed.

    Args:
        subject: the part that fails, for the message.
    """
    try:
        yield
    except GuardError:
        raise
    except Exception as error:  # its own message may quote a text
        raise JudgeFailed(
            f"{subject}: {type(error).__name__}; run `guard models prepare`, check the free memory, then trace again"
        ) from error
