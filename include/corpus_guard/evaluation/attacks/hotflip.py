"""PoisonedRAG, white box: words in front of a text, flipped one by one until the embedder takes the whole for the question.

HotFlip (Ebrahimi and others, 2018), as PoisonedRAG uses it against a retriever whose weights are known:

* S, the words in front, starts as the question and a full stop, so that the search begins where the black-box attack ends; I, the text
  behind, stays as it is;
* the gradient of cosine(question, S + I) with respect to the embedding of each word of S says, to first order, by how much each word of
  the vocabulary would raise it. The most promising are tried for real, and the best is taken if it does raise it (greedy);
* a word is exchanged for a whole word of the vocabulary: what is optimised is the text as it will be tokenised again, not a row of
  tokens that no text gives;
* the number of steps is bounded. The same question, text and seed give the same words; another machine may round otherwise.

Cost: `STEPS` x `CANDIDATES` texts through the embedder in float32 for each text, some seconds on one core.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpus_guard.models.weights import Weights, quiet

STEPS = 16
CANDIDATES = 24  # texts tried in a step
PLACES = 4  # of S, in a step
LEAST_GAIN = 1e-5  # cosine; less is rounding


class HotFlip:
    """Optimises against one embedder. Loads it in float32: bfloat16 gradients lead nowhere."""

    def __init__(
        self, weights: Weights, *, steps: int = STEPS, candidates: int = CANDIDATES, guided: bool = True
    ) -> None:
        """Load.

        Args:
            weights: of the embedder that is attacked.
            steps: flips at most.
            candidates: texts tried in each step.
            guided: False draws candidates by chance with the same budget: the control that shows what the gradient is worth.
        """
        quiet()
        import torch
        from sentence_transformers import SentenceTransformer

        self._steps, self._candidates, self._guided = steps, candidates, guided
        self._model = SentenceTransformer(
            str(weights.folder), device="cpu", model_kwargs={"dtype": torch.float32}, local_files_only=True
        ).requires_grad_(False)
        self._model.eval()
        self._embeddings = self._model[0].auto_model.get_input_embeddings()
        self._words, ids = self._whole_words()
        self._vocabulary = self._embeddings.weight[ids]

    def optimise(self, question: str, text: str, seed: int = 0) -> str:
        """``S + " " + text``, as near to the question as the search came.

        Args:
            question: to be retrieved for.
            text: what is retrieved; not changed.
            seed: which words of S are tried first.
        """
        import torch

        # Batches this small gain nothing from a second thread, and on a busy machine threads that wait for each other cost six times
        # the CPU (8.9 s against 1.5 s for one text, measured).
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            return self._optimise(question, text, seed)
        finally:
            torch.set_num_threads(threads)

    def _optimise(self, question: str, text: str, seed: int) -> str:
        import torch

        chance = random.Random(f"hotflip {seed} {question!a} {text!a}")  # noqa: S311 - a search, no secret
        with torch.no_grad():
            target = self._embed([question])[0]
        front = [*self._split(question), "."]
        nearness = float(self._nearness([_joined(front, text)], target)[0])
        places = chance.sample(range(len(front)), len(front))
        in_vain = 0  # places tried since the last gain; when it is all of them, the search is at its end
        for _ in range(self._steps):
            now, places = places[:PLACES], [*places[PLACES:], *places[:PLACES]]
            tried = self._flips(front, text, target, now, chance)
            found = self._nearness([_joined(words, text) for words in tried], target)
            best = int(np.argmax(found))
            if found[best] > nearness + LEAST_GAIN:
                front, nearness, in_vain = tried[best], float(found[best]), 0
            else:
                in_vain += len(now)
            if in_vain >= len(front):
                break
        return _joined(front, text)

    def _flips(
        self, front: Sequence[str], text: str, target: Any, places: Sequence[int], chance: random.Random
    ) -> list[list[str]]:
        """S with one word exchanged, so often as candidates may be tried."""
        each = -(-self._candidates // len(places))
        if self._guided:
            gains = self._gains(front, text, target, places)  # shape (places, vocabulary)
            # The same number for each place: first-order estimates of different places compare badly.
            best = np.argsort(-gains, axis=1, kind="stable")[:, :each]
            pairs = [(place, int(column)) for place, columns in zip(places, best, strict=True) for column in columns]
        else:
            pairs = [(place, chance.randrange(len(self._words))) for place in places for _ in range(each)]
        return [[*front[:place], self._words[column], *front[place + 1 :]] for place, column in pairs]

    def _gains(self, front: Sequence[str], text: str, target: Any, places: Sequence[int]) -> NDArray[np.float32]:
        """By how much each word of the vocabulary would raise the cosine at each place, to first order."""
        import torch

        kept: list[Any] = []

        def leaf(module: Any, inputs: Any, output: Any) -> Any:
            kept.append(output.detach().requires_grad_())
            return kept[-1]

        encoded = self._encode([_joined(front, text)])
        hook = self._embeddings.register_forward_hook(leaf)
        try:
            with torch.enable_grad():
                (self._forward(encoded)[0] @ target).backward()
        finally:
            hook.remove()
        belongs = encoded.word_ids(0)
        gains = []
        for place in places:
            pieces = [index for index, word in enumerate(belongs) if word == place]
            if not pieces:  # behind what the embedder reads
                gains.append(torch.full((len(self._words),), -torch.inf))
                continue
            gradient = kept[0].grad[0, pieces].sum(dim=0)
            gains.append(self._vocabulary @ gradient - (kept[0][0, pieces] * kept[0].grad[0, pieces]).sum())
        result: NDArray[np.float32] = torch.stack(gains).detach().numpy()
        return result

    def _nearness(self, texts: Sequence[str], target: Any) -> NDArray[np.float32]:
        import torch

        with torch.no_grad():
            found: NDArray[np.float32] = (self._embed(texts) @ target).numpy()
        return found

    def _embed(self, texts: Sequence[str]) -> Any:
        return self._forward(self._encode(texts))

    def _encode(self, texts: Sequence[str]) -> Any:
        whole = [_readable(text) for text in texts]
        return self._model.tokenizer(
            whole, padding=True, truncation=True, max_length=self._model.max_seq_length, return_tensors="pt"
        )

    def _forward(self, encoded: Any) -> Any:
        import torch

        vectors = self._model(dict(encoded))["sentence_embedding"]
        return torch.nn.functional.normalize(vectors, dim=1)

    def _split(self, text: str) -> list[str]:
        """The words as the tokenizer sees them."""
        text = _readable(text)
        encoded = self._model.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        words: dict[int, list[int]] = {}
        for word, (start, end) in zip(encoded.word_ids(0), encoded["offset_mapping"], strict=True):
            span = words.setdefault(word, [start, end])
            span[1] = end
        return [text[start:end] for start, end in words.values()]

    def _whole_words(self) -> tuple[list[str], list[int]]:
        """Words that the tokenizer gives back as the one token they are."""
        tokenizer = self._model.tokenizer
        words = sorted(
            token for token in tokenizer.get_vocab() if token.isascii() and token.isalpha() and len(token) > 1
        )
        encoded = tokenizer(words, add_special_tokens=False)["input_ids"]
        whole = [(word, ids[0]) for word, ids in zip(words, encoded, strict=True) if len(ids) == 1]
        return [word for word, _ in whole], [number for _, number in whole]


def _joined(front: Sequence[str], text: str) -> str:
    return " ".join([*front, text])


def _readable(text: str) -> str:
    """Tokenizers refuse lone surrogates."""
    return text.encode("utf-8", "replace").decode()
