"""PoisonedRAG, black box: the question, followed by a text that leads to a wrong answer.

Source: "PoisonedRAG: Knowledge Corruption Attacks to Retrieval-Augmented Generation of Large Language Models"
(Zou and others, 2025), as section 5.1.2 of RAGForensics plays it: a poisoned text is S and I together; S is
the question, I was written by a language model.
"""

from __future__ import annotations

from collections.abc import Sequence

from corpus_guard.attacks.rewriting import rewrite

REWRITINGS_PER_TEXT = 20  # attempts to find a new rewriting: a text of one word has few


def lead_with_question(question: str, text: str) -> str:
    """Return the form that is planted: ``question + "." + text``."""
    return f"{question}.{text}"


def make_different_texts(texts: Sequence[str], count: int, seed: str) -> list[str]:
    """Return different texts: the first of `texts`, and rewritings of them if there are too few.

    Returns:
        At most `count` texts, all different; fewer if the texts are too short to be rewritten in that many
        ways.
    """
    chosen = list(dict.fromkeys(texts))[:count]
    originals = tuple(chosen)
    number = 0
    while len(chosen) < count and number < REWRITINGS_PER_TEXT * count:
        text = rewrite(originals[number % len(originals)], number // len(originals), f"{seed} {number}")
        number += 1
        if text.strip() and text not in chosen:
            chosen.append(text)
    return chosen
