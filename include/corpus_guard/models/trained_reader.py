"""A reader: layers of a built-in model, trained to answer one question about a prompt.

What the model makes of the prompt is read by one linear unit with an output for each answer. The layers are changed by
matrices of a low rank (LoRA, Hu et al. 2021, section 4.1); only these are stored, in 255 steps a row, and added to
the model's own when it is loaded.
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
from corpus_guard.models.reader_base import OpenBase, ReaderBase
from corpus_guard.models.shared_parameters import share_parameters
from corpus_guard.models.weights import Weights

if TYPE_CHECKING:
    import torch

SCALE: Final = 2.0
"""Times which the product of two changes is added to a matrix."""
BATCH: Final = 16
LEARNED: Final = Path(__file__).parents[1] / "screening" / "learned"
_STEPS: Final = 127
_SIZES: Final = "sizes."


@dataclass(frozen=True, slots=True)
class ReaderKind:
    """Parts of a reader, and where its weights lie."""

    name: str  # of its file: "contradictions"
    command: str  # `guard train` this
    base: ReaderBase  # whose layers it changes
    outputs: int  # of its unit
    rank: int = 16  # of the changes
    version: str = "v1"  # of the prompt and of what is read beside the weights

    @property
    def file(self) -> Path:
        """Return the weights that ship with the package."""
        return LEARNED / f"{self.name.replace('-', '_')}.npz"

    @property
    def shapes(self) -> dict[str, tuple[int, int]]:
        """Return the shapes of the stored changes, by name: a matrix is changed by `SCALE` times up.T @ down."""
        return {
            f"{name}.{part}": (self.rank, width)
            for name, shape in self.base.changed
            for part, width in zip(("up", "down"), shape, strict=True)
        }

    @property
    def made_for(self) -> dict[str, object]:
        """Return the entries of a data sheet without which weights are refused."""
        return {**self.base.made_for, "rank": self.rank}

    def digest(self, path: Path | None = None) -> str:
        """Return the digest of the weights' file and of the model that they change."""
        content = (path or self.file).read_bytes()
        return digest(f"{self.name}/{self.version}", [sha256_bytes(content), *map(str, self.made_for.values())])


@dataclass(frozen=True)
class ReaderWeights:
    """Trained weights."""

    kind: ReaderKind
    changes: Mapping[str, NDArray[np.float32]]
    """By the names of `ReaderKind.shapes`."""
    unit: NDArray[np.float32]
    """Shape (outputs, width of the base + 1); the last column is added."""
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

    def moved_towards(self, other: ReaderWeights, share: float) -> ReaderWeights:
        """Return the mean of these weights and others of the same kind (WiSE-FT, Wortsman et al. 2022), with the others' sheet.

        Args:
            other: trained from these.
            share: of the others, 0 to 1.
        """
        changes = {name: (1 - share) * rows + share * other.changes[name] for name, rows in self.changes.items()}
        sheet = {**other.sheet, "averaged": {"share": share, "with": "started_from"}}
        return ReaderWeights(self.kind, changes, (1 - share) * self.unit + share * other.unit, sheet)

    @classmethod
    def load(cls, kind: ReaderKind, path: Path | None = None) -> ReaderWeights:
        """Read weights, by default those of the package.

        Raises:
            SettingsError: the file is missing, damaged, or for another model.
        """
        path = path or kind.file
        again = f"train it again with `guard train {kind.command}`"
        shapes = kind.shapes
        try:
            with np.load(path, allow_pickle=False) as arrays:
                changes = {name: arrays[name] * arrays[_SIZES + name] for name in shapes}
                unit, sheet = arrays["unit"], json.loads(str(arrays["sheet"]))
        except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
            raise SettingsError(f"{path}: not the weights of a reader of {kind.name}; {again}") from error
        if any(sheet.get(key) != value for key, value in kind.made_for.items()):
            raise SettingsError(f"{path}: was trained with another model; {again}")
        expected = {**shapes, "unit": (kind.outputs, kind.base.width + 1)}
        for name, array in {**changes, "unit": unit}.items():
            if array.shape != expected[name] or not np.isfinite(array).all():
                raise SettingsError(
                    f"{path}: {name} has shape {array.shape}, expected finite {expected[name]}; {again}"
                )
        return cls(kind, changes, unit, sheet)


class TrainedReader:
    """Answers one question about prompts."""

    def __init__(self, base: Callable[[], Weights], weights: Callable[[], ReaderWeights]) -> None:
        """Keep where the models come from: nothing is loaded before something is read."""
        self._find_base, self._load_weights = base, weights

    @cached_property
    def weights(self) -> ReaderWeights:
        """Trained weights."""
        return self._load_weights()

    def log_odds(self, prompts: Sequence[str], output: int) -> NDArray[np.float32]:
        """Return the log-odds of an output against all others, shape (prompts,)."""
        if not prompts:
            return np.empty(0, np.float32)
        import torch

        from corpus_guard.models.cpu import release_memory

        tokens = self._base.read_tokens(prompts)
        others = [number for number in range(self.weights.kind.outputs) if number != output]
        scores = np.empty(len(prompts), np.float32)
        with torch.inference_mode():
            for rows in _by_length([len(ids) for ids in tokens]):
                outputs = self._unit(self._base.read_states([tokens[row] for row in rows]))
                scores[rows] = (outputs[:, output] - outputs[:, others].logsumexp(1)).numpy()
        release_memory()
        return scores

    def _unit(self, states: torch.Tensor) -> torch.Tensor:
        import torch

        unit = torch.from_numpy(self.weights.unit)
        return states @ unit[:, :-1].T + unit[:, -1]

    @cached_property
    def _base(self) -> OpenBase:
        import torch

        files = self._find_base()
        base = self.weights.kind.base.open(files)
        changed = [name for name, _ in self.weights.kind.base.changed]
        share_parameters(base.body, files, changed)
        with torch.no_grad():
            for name in changed:
                matrix: Any = base.body.get_submodule(name)
                up, down = (torch.from_numpy(self.weights.changes[f"{name}.{part}"]) for part in ("up", "down"))
                matrix.weight.copy_(matrix.weight.float() + SCALE * up.T @ down)
        return base


def _by_length(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield batches of rows of similar length."""
    rows = sorted(range(len(lengths)), key=lengths.__getitem__)
    for start in range(0, len(rows), BATCH):
        yield rows[start : start + BATCH]
