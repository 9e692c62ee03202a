"""Messages between a person and a language model, whether it runs here or behind an endpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: str  # system, user or assistant
    content: str


Conversation: TypeAlias = Sequence[Message]
