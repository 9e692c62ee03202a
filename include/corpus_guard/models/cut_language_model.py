"""The lower layers of the built-in language model, which readers are trained on.

The state of a prompt's last token is what a reader sees. Prompts are plain text: nothing in them becomes a control token.
A prompt of 60 tokens takes about 60 ms on one core.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from corpus_guard.models.reader_base import OpenFolder, ReaderBase, load_layers, read_plain
from corpus_guard.models.weights import SMOLLM2, SMOLLM2_GGUF, Weights

if TYPE_CHECKING:
    import torch

UNCHANGED: Final = 6
"""The first layers, which stay as they are."""
HIDDEN: Final = 576
INNER: Final = 1536
KEYS: Final = 192
MATRICES: Final = {
    "self_attn.q_proj": (HIDDEN, HIDDEN),
    "self_attn.k_proj": (KEYS, HIDDEN),
    "self_attn.v_proj": (KEYS, HIDDEN),
    "self_attn.o_proj": (HIDDEN, HIDDEN),
    "mlp.gate_proj": (INNER, HIDDEN),
    "mlp.up_proj": (INNER, HIDDEN),
    "mlp.down_proj": (HIDDEN, INNER),
}
"""Changed matrices of a layer → outputs and inputs."""
_EPSILON: Final = 1e-6


@dataclass(frozen=True, slots=True)
class CutLanguageModel(ReaderBase):
    """SmolLM2-135M-Instruct without its last layers."""

    layers: int  # kept, of 30

    @property
    def width(self) -> int:
        """Return the numbers of a state."""
        return HIDDEN

    @property
    def made_for(self) -> dict[str, object]:
        """Return the entries of a data sheet without which weights are refused."""
        return {"language_model": SMOLLM2[SMOLLM2_GGUF], "layers": self.layers}

    @property
    def changed(self) -> Iterator[tuple[str, tuple[int, int]]]:
        """Yield the name of each changed matrix, with its outputs and inputs."""
        for layer in range(UNCHANGED, self.layers):
            for name, shape in MATRICES.items():
                yield f"layers.{layer}.{name}", shape

    def open(self, weights: Weights) -> OpenLanguageModel:
        """Keep where the converted model lies; it is loaded when something is read."""
        return OpenLanguageModel(weights.folder, self.layers)


class OpenLanguageModel(OpenFolder):
    """Tokenizer, embedding and first layers."""

    def __init__(self, folder: Path, layers: int) -> None:
        """Keep where the model lies, and how many layers are kept."""
        super().__init__(folder)
        self._layers = layers

    @cached_property
    def body(self) -> torch.nn.Module:
        """Embedding and the first layers, frozen, without the norm after them."""
        import torch

        # Measured on prompts of 60 tokens: torch's fused attention takes twice as long on the CPU.
        body: Any = load_layers(self._folder, "eager")
        body.layers = body.layers[: self._layers]
        body.norm = torch.nn.Identity()
        layers: torch.nn.Module = body
        return layers

    def read_tokens(self, prompts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of each prompt; none of them is a control token."""
        return read_plain(self.tokenizer, prompts, add_special_tokens=False)

    def read_states(self, tokens: Sequence[Sequence[int]]) -> torch.Tensor:
        """Return the state of each prompt's last token, scaled to a mean square of 1; shape (prompts, `HIDDEN`)."""
        import torch

        ids = torch.zeros(len(tokens), max(map(len, tokens)), dtype=torch.long)
        for row, own in enumerate(tokens):
            ids[row, : len(own)] = torch.tensor(own)
        device = next(self.body.parameters()).device
        # Each token sees those before it only, so padding behind the last one needs no mask.
        states = self.body(input_ids=ids.to(device), use_cache=False).last_hidden_state
        last = states[torch.arange(len(tokens)), torch.tensor([len(own) - 1 for own in tokens])].float()
        scaled: torch.Tensor = last * torch.rsqrt(last.square().mean(-1, keepdim=True) + _EPSILON)
        return scaled
