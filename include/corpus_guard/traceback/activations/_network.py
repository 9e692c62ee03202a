"""The probe's network: ResNet18's shape over one channel, layers by hidden units. Part of `corpus_guard.traceback.activations.probe`.

The paper takes ResNet18 as it is (64 channels, 11 million weights). Over the 31 x 576 states of a small model that is 25 ms a sample on
one core; a quarter of the channels (0.7 million weights) is the default here, and 64 remains to be had.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from corpus_guard.models.weights import quiet

if TYPE_CHECKING:
    import torch

DEPTHS: Final = (2, 2, 2, 2)  # ResNet18
WIDTH: Final = 16  # channels after the stem; ResNet18 has 64
WIDTHS: Final = (8, 64)  # least and most


def build(width: int, seed: int = 0) -> Any:
    """A network with weights drawn by `seed`: [batch, 1, layers, hidden] → [batch, 8 x width], of length one."""
    quiet()
    import torch
    from transformers import ResNetConfig, ResNetModel

    config = ResNetConfig(
        num_channels=1,
        embedding_size=width,
        hidden_sizes=[width, 2 * width, 4 * width, 8 * width],
        depths=list(DEPTHS),
        layer_type="basic",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return ResNetModel(config)


def embed(network: Any, normalised: torch.Tensor) -> torch.Tensor:
    """Embeddings of length one, shape [batch, 8 x width], of normalised states [batch, layers, hidden]."""
    import torch

    pooled = network(pixel_values=normalised[:, None]).pooler_output.flatten(1)
    return torch.nn.functional.normalize(pooled, dim=1)
