"""PoisonedRAG, black box: the question leads a text that makes its answer wrong.

Source: "PoisonedRAG: Knowledge Corruption Attacks to Retrieval-Augmented Generation of Large Language Models" (Zou and others, 2025), as
section 5.1.2 of RAGForensics plays it: a poisoned text is S and I together; S is the question, I was written by a language model.
"""

from __future__ import annotations

from collections.abc import Sequence

from corpus_guard.evaluation.attacks.rewriting import rewritten

TRIES = 20  # rewritings of one text before the next is taken: a text of one word has few


def led(question: str, text: str) -> str:
    """The form that is planted: ``question + "." + text``."""
    return f"{question}.{text}"


def enough(texts: Sequence[str], wanted: int, seed: str) -> list[str]:
    """So many different texts: the first of `texts`, and where there are too few, these rewritten.

    Args:
        texts: what the attacker has; at least one.
        wanted: how many.
        seed: another one gives other rewritings.

    Returns:
        At most `wanted` texts, all different; fewer where the texts are too short to be rewritten in so many ways.
    """
    made = list(dict.fromkeys(texts))[:wanted]
    begun = tuple(made)
    number = 0
    while len(made) < wanted and number < TRIES * wanted:
        text = rewritten(begun[number % len(begun)], number // len(begun), f"{seed} {number}")
        number += 1
        if text.strip() and text not in made:
            made.append(text)
    return made
