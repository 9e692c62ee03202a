"""A reader of contradictions: the lower layers of the built-in language model, trained to say whether a post contradicts a page.

The state of the last token of a prompt that shows both is read by one linear unit with three outputs. The layers are changed
by matrices of rank `RANK` (LoRA, Hu et al. 2021, section 4.1); only these are stored, in 255 steps a row, and added to
the language model's own when it is loaded.

A pair takes about 60 ms on one core. The prompt is plain text: nothing in a page or a post becomes a control token.
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

LAYERS: Final = 18
"""Layers that are kept, of 30."""
UNCHANGED: Final = 6
"""The first of them, which stay as they are."""
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
SHAPES: Final = {
    f"layers.{layer}.{name}.{part}": (RANK, width)
    for layer in range(UNCHANGED, LAYERS)
    for name, shape in MATRICES.items()
    for part, width in zip(("up", "down"), shape, strict=True)
}
"""Shapes of the stored changes, by their names: a matrix is changed by `SCALE` times up.T @ down."""
CLASSES: Final = 3
CONTRADICTS: Final = 0
"""Output of the unit that says so, before those for the same and for something other."""
TITLE_CHARS: Final = 120
SENTENCE_CHARS: Final = 400
"""Read of a title, and of a sentence or a post."""
BATCH: Final = 16
_STEPS: Final = 127
_SIZES: Final = "sizes."
_EPSILON: Final = 1e-6
READER_FILE: Final = Path(__file__).parents[1] / "screening" / "learned" / "contradictions.npz"


@dataclass(frozen=True, slots=True)
class PagePost:
    """A sentence of a page, and what somebody else wrote."""

    title: str
    sentence: str
    post: str

    @property
    def prompt(self) -> str:
        """What the model reads."""
        page = f"{' '.join(self.title.split())[:TITLE_CHARS]}: {self.sentence[:SENTENCE_CHARS]}"
        prompt = f"Page: {page}\nPost: {self.post[:SENTENCE_CHARS]}\nDoes the post contradict the page? Answer:"
        return prompt.encode("utf-8", "replace").decode()


@dataclass(frozen=True)
class ReaderWeights:
    """What was trained."""

    changes: Mapping[str, NDArray[np.float32]]
    """By the names of `SHAPES`."""
    unit: NDArray[np.float32]
    """Shape (`CLASSES`, `HIDDEN` + 1); the last column is added."""
    sheet: Mapping[str, Any]
    """Data sheet: what it was trained on."""

    def save(self, path: Path) -> None:
        """Write the weights."""
        sizes = {name: np.abs(rows).max(axis=1, keepdims=True) / _STEPS + 1e-12 for name, rows in self.changes.items()}
        sheet = json.dumps({**self.sheet, **_MADE_FOR}, sort_keys=True)
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
    def load(cls, path: Path = READER_FILE) -> ReaderWeights:
        """Read weights.

        Raises:
            SettingsError: the file is missing, damaged, or for another language model.
        """
        again = "train it again with `guard train contradictions`"
        try:
            with np.load(path, allow_pickle=False) as arrays:
                changes = {name: arrays[name] * arrays[_SIZES + name] for name in SHAPES}
                unit, sheet = arrays["unit"], json.loads(str(arrays["sheet"]))
        except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
            raise SettingsError(f"{path}: not the weights of a reader of contradictions; {again}") from error
        if any(sheet.get(key) != value for key, value in _MADE_FOR.items()):
            raise SettingsError(f"{path}: was trained with another language model; {again}")
        arrays_read = {**changes, "unit": unit}
        expected = {**SHAPES, "unit": (CLASSES, HIDDEN + 1)}
        for name, array in arrays_read.items():
            if array.shape != expected[name] or not np.isfinite(array).all():
                raise SettingsError(
                    f"{path}: {name} has shape {array.shape}, expected finite {expected[name]}; {again}"
                )
        return cls(changes, unit, sheet)


_MADE_FOR: Final = {"language_model": SMOLLM2[SMOLLM2_GGUF], "layers": LAYERS, "rank": RANK}


def reader_digest(path: Path = READER_FILE) -> str:
    """Return the digest of the weights' file and of the language model that they change."""
    return digest("contradictions/v1", [sha256_bytes(path.read_bytes()), *map(str, _MADE_FOR.values())])


class ContradictionReader:
    """Says how likely a post contradicts a sentence of a page."""

    def __init__(self, language_model: Callable[[], Weights], weights: Callable[[], ReaderWeights]) -> None:
        """Keep where the models come from: nothing is loaded before something is read.

        Args:
            language_model: returns the built-in one, converted.
            weights: returns what was trained with it.
        """
        self._find_language_model, self._load_weights = language_model, weights

    def log_odds(self, pairs: Sequence[PagePost]) -> NDArray[np.float32]:
        """Return the log-odds that each post contradicts its page, shape (pairs,)."""
        if not pairs:
            return np.empty(0, np.float32)
        import torch

        from corpus_guard.models.cpu import release_memory

        tokens = read_tokens(self._tokenizer, pairs)
        scores = np.empty(len(pairs), np.float32)
        with torch.inference_mode():
            for rows in _by_length([len(ids) for ids in tokens]):
                outputs = self._unit(last_states(self._body, [tokens[row] for row in rows]))
                others = [number for number in range(CLASSES) if number != CONTRADICTS]
                scores[rows] = (outputs[:, CONTRADICTS] - outputs[:, others].logsumexp(1)).numpy()
        release_memory()
        return scores

    def _unit(self, states: torch.Tensor) -> torch.Tensor:
        import torch

        unit = torch.from_numpy(self._weights.unit)
        return states @ unit[:, :-1].T + unit[:, -1]

    @cached_property
    def _folder(self) -> Path:
        return self._find_language_model().folder

    @cached_property
    def _weights(self) -> ReaderWeights:
        return self._load_weights()

    @cached_property
    def _tokenizer(self) -> PreTrainedTokenizerBase:
        return load_tokenizer(self._folder)

    @cached_property
    def _body(self) -> torch.nn.Module:
        import torch

        from corpus_guard.models.cpu import number_format

        body = load_body(self._folder, number_format())
        with torch.no_grad():
            for name, matrix in changed_matrices(body).items():
                up, down = (torch.from_numpy(self._weights.changes[f"{name}.{part}"]) for part in ("up", "down"))
                matrix.weight.copy_(matrix.weight.float() + SCALE * up.T @ down)
        return body


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """Return the language model's tokenizer."""
    silence_libraries()
    from transformers import AutoTokenizer

    tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder)
    return tokenizer


def load_body(folder: Path, number_format: str) -> torch.nn.Module:
    """Return embedding and the first `LAYERS` layers of the language model, without the norm after them."""
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
    body.layers = body.layers[:LAYERS]
    body.norm = torch.nn.Identity()
    frozen: torch.nn.Module = body.eval().requires_grad_(False)
    return frozen


def changed_matrices(body: torch.nn.Module) -> dict[str, Any]:
    """Return the linear modules that are changed, by the names of `SHAPES` without their last part."""
    return {
        f"layers.{layer}.{name}": body.get_submodule(f"layers.{layer}.{name}")
        for layer in range(UNCHANGED, LAYERS)
        for name in MATRICES
    }


def read_tokens(tokenizer: PreTrainedTokenizerBase, pairs: Sequence[PagePost]) -> list[list[int]]:
    """Return the tokens of each prompt; none of them is a control token."""
    encoded = tokenizer([pair.prompt for pair in pairs], add_special_tokens=False, split_special_tokens=True)
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
