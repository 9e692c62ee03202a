"""Network of the probe: ResNet18's shape over one channel, layers by hidden units.

The paper takes ResNet18 as it is (64 channels, 11 million weights). Over the 31 x 576 states of a small model
that takes 25 ms a sample on one core; the default here is a quarter of the channels (0.7 million weights),
and 64 is possible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from corpus_guard.models.weights import configure_libraries

if TYPE_CHECKING:
    import torch

BLOCKS_PER_STAGE: Final = (2, 2, 2, 2)  # ResNet18
WIDTH: Final = 16  # channels after the stem; ResNet18 has 64


def build_network(width: int, seed: int = 0) -> torch.nn.Module:
    """Build a network with weights drawn by `seed`: [batch, 1, layers, hidden] → [batch, 8 x width]."""
    configure_libraries()
    import torch
    from transformers import ResNetConfig, ResNetModel

    config = ResNetConfig(
        num_channels=1,
        embedding_size=width,
        hidden_sizes=[width, 2 * width, 4 * width, 8 * width],
        depths=list(BLOCKS_PER_STAGE),
        layer_type="basic",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network: torch.nn.Module = ResNetModel(config)
        return network


def embed_states(network: torch.nn.Module, normalised: torch.Tensor) -> torch.Tensor:
    """Return embeddings, shape [batch, 8 x width], length one, of states [batch, layers, hidden]."""
    import torch

    pooled = network(pixel_values=normalised[:, None]).pooler_output.flatten(1)
    return torch.nn.functional.normalize(pooled, dim=1)
