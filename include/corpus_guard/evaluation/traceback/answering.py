"""ASR and ACC: what the RAG model answers before and after each defence.

How answers are counted is said in `corpus_guard.evaluation.defences.table`. The defences are those of `corpus_guard.evaluation.defences`;
one that is added there can be named here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from corpus_guard.evaluation.defences import Defence
from corpus_guard.evaluation.defences import Played as Defended
from corpus_guard.evaluation.defences.table import Line, table6
from corpus_guard.evaluation.traceback.corpus import AttackedCorpus, Progress
from corpus_guard.evaluation.traceback.playing import Played, accused
from corpus_guard.traceback.asking import Answers

OWN = ("none", "ptr", "bte", "ptr+bte")
"""Before, and after what a traceback makes possible. The others are asked for by name: some take minutes a hundred questions."""


def answered(
    played: Sequence[Played],
    corpus: AttackedCorpus,
    k: int,
    answers: Answers,
    defences: Mapping[str, Defence],
    progress: Progress = lambda what, done, total: None,
) -> dict[str, Line]:
    """Ask every question under every defence.

    Args:
        played: questions, traced; each with a right answer.
        corpus: they were asked of.
        k: texts the RAG application retrieves.
        answers: the RAG model.
        defences: by name.
        progress: told what is being done.
    """
    rows = [
        Defended(
            one.target.question,
            one.target.correct,
            one.target.incorrect,
            partial(corpus.retrieve, one.target.question),
            frozenset(accused(one.verdict.judged)),
            k,
        )
        for one in played
    ]
    lines = table6(rows, answers, defences, lambda what, done, total: progress(f"defence {what}", done, total))
    return {line.defence: line for line in lines}
