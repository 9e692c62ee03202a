"""Interface of the models that readers are trained on: a body of layers, some of whose matrices a reader changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from corpus_guard.domain import replace_surrogates
from corpus_guard.models.weights import Weights, configure_libraries

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase


def load_layers(folder: Path, attention: str, **options: bool) -> torch.nn.Module:
    """Return embedding and layers of a model in transformers' format, frozen, in the CPU's number format.

    Args:
        attention: name of its implementation in transformers.
        options: of the model's class.
    """
    configure_libraries()
    import torch
    from transformers import AutoModel
    from transformers.utils import logging

    from corpus_guard.models.cpu import number_format

    logging.disable_progress_bar()
    layers: torch.nn.Module = AutoModel.from_pretrained(
        folder, dtype=getattr(torch, number_format()), attn_implementation=attention, **options
    )
    return layers.eval().requires_grad_(False)


def read_plain(tokenizer: PreTrainedTokenizerBase, *texts: Sequence[str], **options: bool | int) -> list[list[int]]:
    """Return the tokens of texts, or of pairs of texts; nothing in a text becomes a control token.

    Args:
        texts: the texts; of pairs the first ones, and the second ones.
        options: of the tokenizer.
    """
    readable = [[replace_surrogates(text) for text in side] for side in texts]
    ids: list[list[int]] = tokenizer(*readable, split_special_tokens=True, **options)["input_ids"]
    return ids


class OpenBase(Protocol):
    """A model whose files are read."""

    @property
    def body(self) -> torch.nn.Module:
        """Return its layers, frozen; loaded once."""

    def read_tokens(self, prompts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of each prompt; none of them is a control token."""

    def read_states(self, tokens: Sequence[Sequence[int]]) -> torch.Tensor:
        """Return what a reader's unit sees of each prompt, shape (prompts, `ReaderBase.width`)."""


class OpenFolder(OpenBase):
    """A model in a folder that transformers can load."""

    def __init__(self, folder: Path) -> None:
        """Keep where the model lies; nothing is loaded yet."""
        self._folder = folder

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The model's tokenizer."""
        configure_libraries()
        from transformers import AutoTokenizer

        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(self._folder)
        return tokenizer


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
