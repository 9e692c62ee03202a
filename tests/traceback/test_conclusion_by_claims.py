"""What texts state, and who answers for them, decides before any score does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from corpus_guard.domain import Span
from corpus_guard.ledger.states import Label, TraceOutcome
from corpus_guard.traceback.conclusion import Prior, decide
from corpus_guard.traceback.judges import Opinion
from corpus_guard.traceback.judges.support_evidence import SupportEvidence
from corpus_guard.traceback.loop import JudgedText, LoopResult, StopReason
from corpus_guard.traceback.retrieval import Complaint, RetrievedText
from trace_cases import Concluding

COMPLAINT = Complaint("How often is the pump greased?", "every nine years")
STATES = SupportEvidence(0.8, 0.0, 0.0, 0.5, 1.0, 1.0, Span(0, 4))
OPPOSES = SupportEvidence(0.0, 0.8, 0.0, 0.5, 1.0, 0.0, None)
WARNS = SupportEvidence(0.8, 0.0, 0.0, 0.5, 1.0, 1.0, Span(0, 4), disowns=True)
SILENT = SupportEvidence(0.0, 0.0, 0.0, 0.0, 0.5, 0.0, None)


def accusing(**trust: str) -> LoopResult:
    texts = [
        RetrievedText(name, name, 0.5, np.ones(1, np.float32), f"corpus-{level}", "v", "source", name)
        for name, level in trust.items()
    ]
    judged = tuple(JudgedText(text, Opinion(Label.POISONED, 0.9, "seen"), 1) for text in texts)
    return LoopResult(judged, tuple(texts), tuple(texts), 1, StopReason.STANDS)


def accused(loop: LoopResult, judge: Concluding, **priors: Prior) -> list[str]:
    hashes = {
        text.suspect.text_sha256: priors[text.suspect.chunk_id]
        for text in loop.judged
        if text.suspect.chunk_id in priors
    }
    return [text.suspect.chunk_id for text in decide(COMPLAINT, loop, judge, priors=hashes).accused]


def test_a_text_that_states_something_else_is_innocent() -> None:
    assert accused(accusing(page="open", lie="open"), Concluding(0.99, page=OPPOSES, lie=STATES)) == ["lie"]


def test_a_text_that_warns_of_the_claim_is_innocent_and_says_why() -> None:
    conclusion = decide(COMPLAINT, accusing(page="open", lie="open"), Concluding(0.99, page=WARNS, lie=STATES))

    assert [text.suspect.chunk_id for text in conclusion.accused] == ["lie"]
    assert conclusion.judged[0].opinion.explanation.startswith("it denies the reported claim")
    assert decide(COMPLAINT, accusing(page="open"), Concluding(0.3, page=WARNS)).outcome is TraceOutcome.NOT_POISONING


def test_a_trusted_text_is_never_accused_on_overlap_alone() -> None:
    loop = accusing(manual="trusted", guide="reviewed", note="open")

    assert accused(loop, Concluding(0.99, manual=SILENT, guide=SILENT, note=SILENT)) == ["note"]


def test_a_trusted_text_is_accused_only_where_no_text_of_lower_trust_states_the_claim() -> None:
    assert accused(accusing(manual="trusted", lie="open"), Concluding(0.99, manual=STATES, lie=STATES)) == ["lie"]
    assert accused(accusing(manual="trusted", page="open"), Concluding(0.99, manual=STATES, page=SILENT)) == [
        "manual",
        "page",
    ]


def test_what_people_restored_counts_as_reviewed() -> None:
    judge = Concluding(0.99, page=STATES, lie=STATES)

    assert accused(accusing(page="open", lie="open"), judge) == ["page", "lie"]
    assert accused(accusing(page="open", lie="open"), judge, page=Prior(restored=True)) == ["lie"]


def test_what_people_withdrew_is_accused_again() -> None:
    assert accused(accusing(lie="open"), Concluding(0.1, ["lie"], lie=STATES)) == []
    assert accused(accusing(lie="open"), Concluding(0.1, ["lie"], lie=STATES), lie=Prior(withdrawn=True)) == ["lie"]


def test_texts_that_state_the_claim_below_every_threshold_are_named_and_not_accused() -> None:
    conclusion = decide(COMPLAINT, accusing(page="open", other="open"), Concluding(0.3, page=STATES, other=SILENT))

    assert conclusion.outcome is TraceOutcome.UNDECIDED
    assert [text.opinion.label for text in conclusion.judged] == [Label.UNDECIDED, Label.BENIGN]
    assert (list(conclusion.carriers), conclusion.accused) == (["page"], ())


def test_masking_the_sentence_tells_whether_the_answer_changes() -> None:
    class Quoting:
        name = "quoting"

        def answer(self, question: str, texts: Sequence[str]) -> str:
            return "every nine years" if "lies" in texts else "every year"

    loop = accusing(lies="open")
    conclusion = decide(
        COMPLAINT, loop, Concluding(0.99, lies=STATES), Quoting(), ask_always=True, mask=lambda text, k: [text]
    )

    assert conclusion.reproduced is True
    assert conclusion.carriers["lies"].changes_answer is True, "without its first four letters nothing is left of it"
