"""all-MiniLM-L6-v2 as what a reader is trained on: six layers, a sixth of the work of a cut language model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from corpus_guard.models.bert import WIDTH, changed_matrices, pool_states
from corpus_guard.models.reader_base import OpenBase, ReaderBase, load_layers, load_tokenizer, read_plain
from corpus_guard.models.weights import MINILM, Weights

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

LAYERS: Final = 6
MAX_TOKENS: Final = 384
"""Read of a text; the model has places for 512."""


class MiniLmEncoder(ReaderBase):
    """The built-in embedder's layers, whatever embedder is configured."""

    width = WIDTH

    @property
    def made_for(self) -> dict[str, object]:
        """Return the entries of a data sheet without which weights are refused."""
        return {"encoder": MINILM["model.safetensors"]}

    @property
    def changed(self) -> Iterator[tuple[str, tuple[int, int]]]:
        """Yield the name of each changed matrix, with its outputs and inputs."""
        return changed_matrices(LAYERS)

    def open(self, weights: Weights) -> OpenMiniLm:
        """Keep where the model lies; it is loaded when something is read."""
        return OpenMiniLm(weights.folder)


class OpenMiniLm(OpenBase):
    """Tokenizer, embedding and layers."""

    def __init__(self, folder: Path) -> None:
        """Keep where the model lies."""
        self._folder = folder

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The embedder's tokenizer."""
        return load_tokenizer(self._folder)

    @cached_property
    def body(self) -> torch.nn.Module:
        """Embedding and layers, frozen, in the CPU's number format."""
        # Measured on one core, texts of 250 tokens: fused attention reads in three quarters of the time, and trains in half as much again.
        return load_layers(self._folder, "sdpa", add_pooling_layer=False)

    def read_tokens(self, prompts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of each text between those for its start and end; `MAX_TOKENS` at most."""
        return read_plain(self.tokenizer, prompts, truncation=True, max_length=MAX_TOKENS)

    def read_states(self, tokens: Sequence[Sequence[int]]) -> torch.Tensor:
        """Return mean and maximum of the states of each text's tokens; shape (texts, `WIDTH`)."""
        import torch

        ids = torch.zeros(len(tokens), max(map(len, tokens)), dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, own in enumerate(tokens):
            ids[row, : len(own)] = torch.tensor(own)
            mask[row, : len(own)] = 1
        device = next(self.body.parameters()).device
        mask = mask.to(device)
        return pool_states(self.body(input_ids=ids.to(device), attention_mask=mask).last_hidden_state, mask)
