"""A reader: the lower layers of the built-in language model, trained to answer one question about a prompt.

The state of the prompt's last token is read by one linear unit with an output for each answer. The layers are changed by
matrices of rank `RANK` (LoRA, Hu et al. 2021, section 4.1); only these are stored, in 255 steps a row, and added to
the language model's own when it is loaded.

Prompts are plain text: nothing in them becomes a control token. A prompt of 60 tokens takes about 60 ms on one core.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from corpus_guard.domain import digest, sha256_bytes
from corpus_guard.errors import SettingsError
from corpus_guard.models.weights import SMOLLM2, SMOLLM2_GGUF, Weights, silence_libraries

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

UNCHANGED: Final = 6
"""The first layers, which stay as they are."""
RANK: Final = 16
SCALE: Final = 2.0
"""Times which the product of two changes is added to a matrix."""
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
BATCH: Final = 16
LEARNED: Final = Path(__file__).parents[1] / "screening" / "learned"
_STEPS: Final = 127
_SIZES: Final = "sizes."
_EPSILON: Final = 1e-6


@dataclass(frozen=True, slots=True)
class ReaderKind:
    """What a reader is made of, and where its weights lie."""

    name: str  # of its file, and of the command that trains it: "contradictions"
    layers: int  # kept, of 30
    outputs: int  # of its unit
    version: str = "v1"  # of the prompt and of what is read beside the weights

    @property
    def file(self) -> Path:
        """Return the weights that ship with the package."""
        return LEARNED / f"{self.name.replace('-', '_')}.npz"

    @property
    def changed(self) -> Iterator[tuple[str, tuple[int, int]]]:
        """Yield the name of each changed matrix, with its outputs and inputs."""
        for layer in range(UNCHANGED, self.layers):
            for name, shape in MATRICES.items():
                yield f"layers.{layer}.{name}", shape

    @property
    def shapes(self) -> dict[str, tuple[int, int]]:
        """Return the shapes of the stored changes, by name: a matrix is changed by `SCALE` times up.T @ down."""
        return {
            f"{name}.{part}": (RANK, width)
            for name, shape in self.changed
            for part, width in zip(("up", "down"), shape, strict=True)
        }

    @property
    def made_for(self) -> dict[str, object]:
        """Return the entries of a data sheet without which weights are refused."""
        return {"language_model": SMOLLM2[SMOLLM2_GGUF], "layers": self.layers, "rank": RANK}

    def digest(self, path: Path | None = None) -> str:
        """Return the digest of the weights' file and of the language model that they change."""
        content = (path or self.file).read_bytes()
        return digest(f"{self.name}/{self.version}", [sha256_bytes(content), *map(str, self.made_for.values())])


@dataclass(frozen=True)
class ReaderWeights:
    """What was trained."""

    kind: ReaderKind
    changes: Mapping[str, NDArray[np.float32]]
    """By the names of `ReaderKind.shapes`."""
    unit: NDArray[np.float32]
    """Shape (outputs, `HIDDEN` + 1); the last column is added."""
    sheet: Mapping[str, Any]
    """Data sheet: what it was trained on."""

    def save(self, path: Path) -> None:
        """Write the weights."""
        sizes = {name: np.abs(rows).max(axis=1, keepdims=True) / _STEPS + 1e-12 for name, rows in self.changes.items()}
        sheet = json.dumps({**self.sheet, **self.kind.made_for}, sort_keys=True)
        with path.open("wb") as stream:
            np.savez_compressed(
                stream,
                allow_pickle=False,
                unit=self.unit,
                sheet=np.array(sheet),
                **{name: np.round(rows / sizes[name]).astype(np.int8) for name, rows in self.changes.items()},
                **{_SIZES + name: size.astype(np.float32) for name, size in sizes.items()},
            )

    @classmethod
    def load(cls, kind: ReaderKind, path: Path | None = None) -> ReaderWeights:
        """Read weights, by default those of the package.

        Raises:
            SettingsError: the file is missing, damaged, or for another language model.
        """
        path = path or kind.file
        again = f"train it again with `guard train {kind.name}`"
        shapes = kind.shapes
        try:
            with np.load(path, allow_pickle=False) as arrays:
                changes = {name: arrays[name] * arrays[_SIZES + name] for name in shapes}
                unit, sheet = arrays["unit"], json.loads(str(arrays["sheet"]))
        except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
            raise SettingsError(f"{path}: not the weights of a reader of {kind.name}; {again}") from error
        if any(sheet.get(key) != value for key, value in kind.made_for.items()):
            raise SettingsError(f"{path}: was trained with another language model; {again}")
        expected = {**shapes, "unit": (kind.outputs, HIDDEN + 1)}
        for name, array in {**changes, "unit": unit}.items():
            if array.shape != expected[name] or not np.isfinite(array).all():
                raise SettingsError(
                    f"{path}: {name} has shape {array.shape}, expected finite {expected[name]}; {again}"
                )
        return cls(kind, changes, unit, sheet)


class TrainedReader:
    """Answers one question about prompts."""

    def __init__(self, language_model: Callable[[], Weights], weights: Callable[[], ReaderWeights]) -> None:
        """Keep where the models come from: nothing is loaded before something is read.

        Args:
            language_model: returns the built-in one, converted.
            weights: returns what was trained with it.
        """
        self._find_language_model, self._load_weights = language_model, weights

    @cached_property
    def weights(self) -> ReaderWeights:
        """What was trained."""
        return self._load_weights()

    def log_odds(self, prompts: Sequence[str], output: int) -> NDArray[np.float32]:
        """Return the log-odds of an output against all others, shape (prompts,)."""
        if not prompts:
            return np.empty(0, np.float32)
        import torch

        from corpus_guard.models.cpu import release_memory

        tokens = read_tokens(self._tokenizer, prompts)
        others = [number for number in range(self.weights.kind.outputs) if number != output]
        scores = np.empty(len(prompts), np.float32)
        with torch.inference_mode():
            for rows in _by_length([len(ids) for ids in tokens]):
                outputs = self._unit(last_states(self._body, [tokens[row] for row in rows]))
                scores[rows] = (outputs[:, output] - outputs[:, others].logsumexp(1)).numpy()
        release_memory()
        return scores

    def _unit(self, states: torch.Tensor) -> torch.Tensor:
        import torch

        unit = torch.from_numpy(self.weights.unit)
        return states @ unit[:, :-1].T + unit[:, -1]

    @cached_property
    def _folder(self) -> Path:
        return self._find_language_model().folder

    @cached_property
    def _tokenizer(self) -> PreTrainedTokenizerBase:
        return load_tokenizer(self._folder)

    @cached_property
    def _body(self) -> torch.nn.Module:
        import torch

        from corpus_guard.models.cpu import number_format

        body = load_body(self._folder, number_format(), self.weights.kind.layers)
        with torch.no_grad():
            for name, _ in self.weights.kind.changed:
                matrix: Any = body.get_submodule(name)
                up, down = (torch.from_numpy(self.weights.changes[f"{name}.{part}"]) for part in ("up", "down"))
                matrix.weight.copy_(matrix.weight.float() + SCALE * up.T @ down)
        return body


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """Return the language model's tokenizer."""
    silence_libraries()
    from transformers import AutoTokenizer

    tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder)
    return tokenizer


def load_body(folder: Path, number_format: str, layers: int) -> torch.nn.Module:
    """Return embedding and the first layers of the language model, without the norm after them."""
    silence_libraries()
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    # Measured on prompts of 60 tokens: torch's fused attention takes twice as long on the CPU.
    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=getattr(torch, number_format), attn_implementation="eager"
    )
    body: Any = model.model
    body.layers = body.layers[:layers]
    body.norm = torch.nn.Identity()
    frozen: torch.nn.Module = body.eval().requires_grad_(False)
    return frozen


def read_tokens(tokenizer: PreTrainedTokenizerBase, prompts: Sequence[str]) -> list[list[int]]:
    """Return the tokens of each prompt; none of them is a control token."""
    readable = [prompt.encode("utf-8", "replace").decode() for prompt in prompts]
    encoded = tokenizer(readable, add_special_tokens=False, split_special_tokens=True)
    ids: list[list[int]] = encoded["input_ids"]
    return ids


def last_states(body: torch.nn.Module, tokens: Sequence[Sequence[int]]) -> torch.Tensor:
    """Return the state of each prompt's last token, scaled to a mean square of 1; shape (prompts, `HIDDEN`)."""
    import torch

    ids = torch.zeros(len(tokens), max(map(len, tokens)), dtype=torch.long)
    for row, own in enumerate(tokens):
        ids[row, : len(own)] = torch.tensor(own)
    # Each token sees those before it only, so padding behind the last one needs no mask.
    states = body(input_ids=ids, use_cache=False).last_hidden_state
    last = states[torch.arange(len(tokens)), torch.tensor([len(own) - 1 for own in tokens])].float()
    scaled: torch.Tensor = last * torch.rsqrt(last.square().mean(-1, keepdim=True) + _EPSILON)
    return scaled


def _by_length(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield batches of rows of similar length."""
    rows = sorted(range(len(lengths)), key=lengths.__getitem__)
    for start in range(0, len(rows), BATCH):
        yield rows[start : start + BATCH]
