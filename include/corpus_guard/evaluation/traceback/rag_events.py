"""Attacks that succeed against the RAG model: what its users would report, in its own words.

As in the paper, the RAG model is asked every question with the planted corpus. Only an answer that holds the attacker's
(`evaluation.defences.table.contains_any`) is reported, and it is reported as the model gave it. A question without an
answer, or with another one, is no event.

How many attacks succeed depends on the model. The embedded one has 135 million parameters: it repeats what it reads
where it answers at all, and says little about models of the paper's size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from corpus_guard.detectors.attack_simulation import AttackReport, PoisonedCorpus
from corpus_guard.detectors.target_questions import TargetQuestion
from corpus_guard.domain import Progress, no_progress
from corpus_guard.errors import JudgeFailed
from corpus_guard.evaluation.defences.table import contains_any
from corpus_guard.traceback.rag_model import RagModel
from corpus_guard.traceback.retrieval import Complaint


@dataclass(frozen=True, slots=True)
class RagEvents:
    """Answers of the RAG model under attack."""

    rag_model: str  # its name
    questions: int
    succeeded: tuple[AttackReport, ...]  # questions whose answer was the attacker's
    failed: int  # questions without an answer

    def as_dict(self) -> dict[str, object]:
        """Return the counts for JSON."""
        return {
            "rag_model": self.rag_model,
            "attacks": self.questions,
            "attacks_succeeded": len(self.succeeded),
            "attacks_without_an_answer": self.failed,
        }


def observe_events(
    poisoned: PoisonedCorpus,
    k: int,
    rag_model: RagModel,
    targets: Sequence[TargetQuestion] | None = None,
    progress: Progress = no_progress,
) -> RagEvents:
    """Ask the RAG model every question of a poisoned corpus.

    Args:
        targets: the questions; None: all of the corpus.
    """
    targets = poisoned.targets if targets is None else targets
    succeeded: list[AttackReport] = []
    failed = 0
    for done, target in enumerate(targets):
        progress("asking the RAG model", done, len(targets))
        texts = [text.text for text in poisoned.corpus.retrieve(target.question, k)]
        try:
            answer = rag_model.answer(target.question, texts)
        except JudgeFailed:
            failed += 1
            continue
        if contains_any(answer, target.incorrect):
            succeeded.append((target, Complaint(target.question, answer)))
    return RagEvents(rag_model.name, len(targets), tuple(succeeded), failed)
