"""The built-in encoders as what readers are trained on: all-MiniLM-L6-v2, and all-mpnet-base-v2 with five times its weights.

A reader's unit sees mean and maximum of the states of a text's tokens. Texts are plain: nothing in them becomes a control token.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from corpus_guard.models.bert import HIDDEN, MATRICES, changed_matrices, pool_states
from corpus_guard.models.reader_base import OpenFolder, ReaderBase, load_layers, read_plain
from corpus_guard.models.weights import MINILM, MPNET, Weights

if TYPE_CHECKING:
    import torch

MAX_TOKENS: Final = 384
"""Read of a text or of a pair; the models have places for 512."""


@dataclass(frozen=True)
class Encoder(ReaderBase):
    """An encoder of BERT's build, with all its layers or the first ones."""

    files: Mapping[str, str]
    """Its file of weights, or the parts of it → SHA-256."""
    layers: int
    hidden: int
    """Numbers of a state."""
    matrices: Mapping[str, tuple[int, int]] = field(default_factory=lambda: MATRICES)
    """Matrices of a layer, by their names in transformers → outputs and inputs."""
    attention: str = "sdpa"
    """Name of its implementation in transformers."""
    reads_pairs: bool = False
    """True if a text's first line and what follows are told apart, as in the model's own training on pairs."""

    @property
    def width(self) -> int:
        """Return the numbers that a reader's unit sees."""
        return 2 * self.hidden

    @property
    def made_for(self) -> dict[str, object]:
        """Return the entries of a data sheet without which weights are refused."""
        return {"encoder": " ".join(self.files.values()), "layers": self.layers}

    @property
    def changed(self) -> Iterator[tuple[str, tuple[int, int]]]:
        """Yield the name of each changed matrix, with its outputs and inputs."""
        return changed_matrices(self.layers, self.matrices)

    def open(self, weights: Weights) -> OpenEncoder:
        """Keep where the model lies; it is loaded when something is read."""
        return OpenEncoder(self, weights.folder)


class OpenEncoder(OpenFolder):
    """Tokenizer, embedding and layers."""

    def __init__(self, encoder: Encoder, folder: Path) -> None:
        """Keep what is opened, and where the model lies."""
        super().__init__(folder)
        self._encoder = encoder

    @cached_property
    def body(self) -> torch.nn.Module:
        """Embedding and layers, frozen, in the CPU's number format."""
        body: Any = load_layers(self._folder, self._encoder.attention, add_pooling_layer=False)
        body.encoder.layer = body.encoder.layer[: self._encoder.layers]
        layers: torch.nn.Module = body
        return layers

    def read_tokens(self, prompts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of each text between those for its start and end; `MAX_TOKENS` at most."""
        cut: dict[str, Any] = {"truncation": True, "max_length": MAX_TOKENS}
        if not self._encoder.reads_pairs:
            return read_plain(self.tokenizer, prompts, **cut)
        pairs = [prompt.partition("\n") for prompt in prompts]
        firsts, seconds = [first for first, _, _ in pairs], [second for _, _, second in pairs]
        return read_plain(self.tokenizer, firsts, seconds, **cut)

    def read_states(self, tokens: Sequence[Sequence[int]]) -> torch.Tensor:
        """Return mean and maximum of the states of each text's tokens; shape (texts, `Encoder.width`)."""
        import torch

        ids = torch.zeros(len(tokens), max(map(len, tokens)), dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, own in enumerate(tokens):
            ids[row, : len(own)] = torch.tensor(own)
            mask[row, : len(own)] = 1
        device = next(self.body.parameters()).device
        mask = mask.to(device)
        return pool_states(self.body(input_ids=ids.to(device), attention_mask=mask).last_hidden_state, mask)


# Measured on one core, texts of 250 tokens: fused attention reads in three quarters of the time, and trains in half as much again.
MINILM_ENCODER: Final = Encoder({"model.safetensors": MINILM["model.safetensors"]}, layers=6, hidden=HIDDEN)
MPNET_HIDDEN: Final = 768
MPNET_INNER: Final = 3072
MPNET_ENCODER: Final = Encoder(
    MPNET,
    layers=12,
    hidden=MPNET_HIDDEN,
    matrices={
        **{f"attention.attn.{part}": (MPNET_HIDDEN, MPNET_HIDDEN) for part in "qkvo"},
        "intermediate.dense": (MPNET_INNER, MPNET_HIDDEN),
        "output.dense": (MPNET_HIDDEN, MPNET_INNER),
    },
    attention="eager",  # the only one of this build
    reads_pairs=True,
)
MPNET_TEXT_ENCODER: Final = replace(MPNET_ENCODER, reads_pairs=False)
