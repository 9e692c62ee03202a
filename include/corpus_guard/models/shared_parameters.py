"""Parameters that several models of a process have in common lie in memory once.

Readers change some matrices of a built-in model and leave the others, its table of words most of all, as they are.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from corpus_guard.models.weights import Weights

if TYPE_CHECKING:
    import torch


def share_parameters(body: torch.nn.Module, weights: Weights, changed: Collection[str] = ()) -> None:
    """Use the frozen parameters of a model in memory that was loaded from the same files, where there is one.

    Args:
        body: as `corpus_guard.models.reader_base.load_layers` returns it.
        changed: names of modules whose parameters are its own.
    """
    for name, parameter in body.named_parameters():
        if name.rpartition(".")[0] not in changed:
            parameter.data = _parameters.setdefault((weights.digest, name, str(parameter.dtype)), parameter).data


_parameters: Final[WeakValueDictionary[tuple[str, str, str], torch.nn.Parameter]] = WeakValueDictionary()
"""(digest of the files, name, number format) → the parameter, as long as its model lives."""
