"""Defences against poisoned texts, as a RAG application would run them.

They are those of Table 6 of the traceback paper, and two more.

A *defence* is a callable ``(attacked, rag_model) -> answer``: it retrieves texts through
`AttackedQuestion.retrieve`, asks the RAG model, and returns the answer that a user would see. `DEFENCES` maps
a name to a function that builds the defence from `DefenceResources`; `build_defences` builds several.
`corpus_guard.evaluation.defences.table` measures them.

======================  =============================================================================================
none                    the K nearest texts
ppl-90, ppl-100         texts with more perplexity than 90 % / all of the corpus's own texts are removed
robustrag               an answer from each text alone, then one from the words that enough of the answers share
ke-10, ke-20, ke-50     more texts are retrieved (knowledge expansion)
filterrag,              texts that a filter of the guarded retriever considers poisoned are dropped
ml-filterrag
ptr                     the texts that a traceback accused are removed
bte                     the right answer, wrapped in the trigger, is retrieved with the question
ptr+bte                 both
======================  =============================================================================================

Importing this module imports no model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from corpus_guard.evaluation.defences.enhancement import enhance
from corpus_guard.evaluation.defences.interface import AttackedQuestion, Defence, DefenceResources, Retrieve
from corpus_guard.evaluation.defences.retrieval import (
    answer_from_nearest,
    expand_knowledge,
    filter_texts,
    perplexity_removal,
    remove_traced,
)
from corpus_guard.evaluation.defences.robustrag import answer_from_shared_words

__all__ = ["DEFENCES", "AttackedQuestion", "Defence", "DefenceResources", "Retrieve", "build_defences"]

DEFENCES: Mapping[str, Callable[[DefenceResources], Defence]] = {
    "none": lambda resources: answer_from_nearest,
    "ppl-90": partial(perplexity_removal, 90),
    "ppl-100": partial(perplexity_removal, 100),
    "robustrag": lambda resources: answer_from_shared_words,
    "ke-10": lambda resources: partial(expand_knowledge, 10),
    "ke-20": lambda resources: partial(expand_knowledge, 20),
    "ke-50": lambda resources: partial(expand_knowledge, 50),
    "filterrag": lambda resources: partial(filter_texts, resources.filterrag),
    "ml-filterrag": lambda resources: partial(filter_texts, resources.ml_filterrag),
    "ptr": lambda resources: remove_traced,
    "bte": lambda resources: partial(enhance, resources.prompted),
    "ptr+bte": lambda resources: partial(enhance, resources.prompted, remove=True),
}
"""Name → how to build it, in the order of the paper's table."""


def build_defences(resources: DefenceResources, names: tuple[str, ...] = tuple(DEFENCES)) -> dict[str, Defence]:
    """Build the defences of these names, in this order.

    Raises:
        KeyError: no such defence.
        Misuse: a threshold needs ordinary texts, and there are none.
    """
    return {name: DEFENCES[name](resources) for name in names}
