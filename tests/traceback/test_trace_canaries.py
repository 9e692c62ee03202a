"""The canaries of a night tell a judge that sees from one that is blind, and from one that accuses everybody."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from corpus_guard.errors import JudgeFailed
from corpus_guard.ledger.states import Label
from corpus_guard.models import Models
from corpus_guard.models.embedder import Embedder
from corpus_guard.traceback.canaries import create_cases, examine_judge
from corpus_guard.traceback.judges import JudgeConclusion, Opinion
from corpus_guard.traceback.retrieval import Complaint, RetrievedText
from material import TextHashes
from trace_cases import Contains


class Acquits(Contains):
    """A judge that is not sure of the whole."""

    def conclude(self, complaint: Complaint, judged: Sequence[tuple[RetrievedText, Opinion]]) -> JudgeConclusion:
        return JudgeConclusion(0.1)


class Remembering:
    """The real embedder; a text is embedded once."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._known: dict[str, NDArray[np.float32]] = {}

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        new = [text for text in texts if text not in self._known]
        self._known.update(zip(new, self._embedder.embed(new), strict=True))
        return np.stack([self._known[text] for text in texts])


@pytest.fixture(scope="module")
def embedder(models: Models) -> Remembering:
    return Remembering(models.embedder)


def test_every_night_has_its_own_texts_and_the_same_night_the_same() -> None:
    one, again, other = create_cases("night-1"), create_cases("night-1"), create_cases("night-2")

    assert one == again
    texts = {text for case in one for text in (*case.poisoned, *case.benign)}
    assert not texts & {text for case in other for text in (*case.poisoned, *case.benign)} or one != other
    assert sum(not case.poisoned for case in one) == 4
    for case in one:
        assert all(case.complaint.output in text for text in case.poisoned)
        assert not any(case.complaint.output in text for text in case.benign)
        assert sum((case.complaint.correct or "") in text for text in case.benign) == 3


def test_a_judge_that_sees_has_no_faults(embedder: Remembering) -> None:
    seen = examine_judge(Contains(), embedder, "night-1")

    assert (seen.dacc, seen.fpr, seen.fnr) == (1.0, 0.0, 0.0)
    assert (seen.poisoned, seen.found, seen.honest, seen.honest_accused) == (24, 24, 4, 0)
    assert seen.benign > 40


def test_a_blind_judge_one_that_accuses_everybody_and_one_that_acquits_are_told(embedder: Remembering) -> None:
    blind = examine_judge(Contains(says=Label.BENIGN), embedder, "night-1")
    accuser = examine_judge(Contains(says=Label.POISONED), embedder, "night-1")
    undecided = examine_judge(Contains(says=Label.UNDECIDED), embedder, "night-1")
    acquitting = examine_judge(Acquits(), embedder, "night-1")

    assert (blind.fnr, blind.fpr) == (1.0, 0.0)
    assert (accuser.fnr, accuser.fpr, accuser.honest_accused) == (0.0, 1.0, 4)
    assert (undecided.dacc, undecided.undecided) == (0.0, undecided.benign)
    assert acquitting.fnr == 1.0


def test_a_judge_that_fails_is_no_blind_judge() -> None:
    with pytest.raises(JudgeFailed):
        examine_judge(Contains(fails_in=1), TextHashes(), "night-1")
