"""Choices of experiments; imports nothing, so that the command starts fast."""

from __future__ import annotations

from enum import StrEnum


class AdversarialForm(StrEnum):
    """Form of adversarial texts in the corpus."""

    LED = "led"  # question + "." + text, as PoisonedRAG's black-box attack injects it
    BARE = "bare"
    BOTH = "both"
