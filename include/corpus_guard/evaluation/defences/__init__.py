"""Defences against poisoned texts, as the RAG application would run them: Table 6 of the traceback paper, and two more.

A *defence* is a callable ``(played, answers) -> answer``: it retrieves what it wants through `Played.retrieve`, asks the RAG model what it
wants, and gives the answer that a user would see. `DEFENCES` maps a name to what builds one from `Means` (models and thresholds);
`build` makes them all. `corpus_guard.evaluation.defences.table` plays rows under each and counts.

======================  =============================================================================================
none                    the K nearest texts
ppl-90, ppl-100         texts more perplexing than 90 % / all of the corpus's own are removed
robustrag               an answer from each text alone, and one from the words that enough of them share
ke-10, ke-20, ke-50     more texts are retrieved (knowledge expansion)
filterrag,              texts that the filters of the guarded retriever take for poisoned are dropped
ml-filterrag
ptr                     the texts that a traceback accused are removed
bte                     the right answer, wrapped in the trigger, stands behind the question
ptr+bte                 both
======================  =============================================================================================

Importing this imports no model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from corpus_guard.evaluation.defences.bte import BenignText
from corpus_guard.evaluation.defences.defence import Defence, Means, Played, Retrieve
from corpus_guard.evaluation.defences.filtering import Filtering
from corpus_guard.evaluation.defences.more_texts import MoreTexts
from corpus_guard.evaluation.defences.none import NoDefence
from corpus_guard.evaluation.defences.perplexity import PerplexityRemoval
from corpus_guard.evaluation.defences.ptr import Removal
from corpus_guard.evaluation.defences.robustrag import RobustRAG

__all__ = ["DEFENCES", "Defence", "Means", "Played", "Retrieve", "build"]

DEFENCES: Mapping[str, Callable[[Means], Defence]] = {
    "none": lambda means: NoDefence(),
    "ppl-90": partial(PerplexityRemoval.beyond, 90),
    "ppl-100": partial(PerplexityRemoval.beyond, 100),
    "robustrag": lambda means: RobustRAG(),
    "ke-10": lambda means: MoreTexts(10),
    "ke-20": lambda means: MoreTexts(20),
    "ke-50": lambda means: MoreTexts(50),
    "filterrag": lambda means: Filtering(means.filterrag),
    "ml-filterrag": lambda means: Filtering(means.ml_filterrag),
    "ptr": lambda means: Removal(),
    "bte": lambda means: BenignText(means.prompted),
    "ptr+bte": lambda means: BenignText(means.prompted, remove=True),
}
"""Name → how it is built, in the order of the paper's table."""


def build(means: Means, names: tuple[str, ...] = tuple(DEFENCES)) -> dict[str, Defence]:
    """The defences of these names, in their order.

    Raises:
        KeyError: no such defence.
        Misuse: the means hold no texts to take a threshold from.
    """
    return {name: DEFENCES[name](means) for name in names}
