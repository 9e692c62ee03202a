"""Interface of the models that readers are trained on: a body of layers, some of whose matrices a reader changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from corpus_guard.models.weights import Weights, configure_libraries

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """Return the tokenizer of a model in transformers' format."""
    configure_libraries()
    from transformers import AutoTokenizer

    tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder)
    return tokenizer


class OpenBase(Protocol):
    """A model whose files are read."""

    @property
    def body(self) -> torch.nn.Module:
        """Return its layers, frozen; loaded once."""

    def read_tokens(self, prompts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of each prompt; none of them is a control token."""

    def read_states(self, tokens: Sequence[Sequence[int]]) -> torch.Tensor:
        """Return what a reader's unit sees of each prompt, shape (prompts, `ReaderBase.width`)."""


class ReaderBase(Protocol):
    """A model before its files are read."""

    @property
    def width(self) -> int:
        """Return the numbers that a reader's unit sees."""

    @property
    def made_for(self) -> dict[str, object]:
        """Return the entries of a data sheet without which weights are refused."""

    @property
    def changed(self) -> Iterator[tuple[str, tuple[int, int]]]:
        """Yield the name of each changed matrix, with its outputs and inputs."""

    def open(self, weights: Weights) -> OpenBase:
        """Read the model's files."""
