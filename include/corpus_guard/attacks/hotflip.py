"""PoisonedRAG, white box: words in front of a text bring it close to the question.

The words are replaced one by one until the vector of the whole text is close to the question's.

HotFlip (Ebrahimi and others, 2018), as PoisonedRAG uses it against a retriever whose weights are known:

* S, the words in front, starts as the question and a full stop, so that the search begins where the black-box
  attack ends, or as random words; I, the text behind it, stays unchanged;
* the gradient of cosine(question, S + I) with respect to the embedding of each word of S estimates, to first
  order, how much each word of the vocabulary would raise the cosine. The most promising words are tried, and
  the best is kept if it does raise it (greedy);
* a word is replaced by a whole word of the vocabulary, so that the optimised text is one that tokenises to
  the same tokens;
* against many questions at once (`HotFlip.optimise_for_all`) the target is the middle of their vectors, and S starts
  with some of their words: such a text is a hub;
* the number of flips is bounded. The same question, text and seed give the same words; another machine may
  round differently.

Cost: `MAX_FLIPS` x `CANDIDATES_PER_FLIP` texts through the embedder in float32 for each text, some seconds on
one core.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from corpus_guard.domain import replace_surrogates
from corpus_guard.models.weights import Weights, configure_libraries

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import BatchEncoding

MAX_FLIPS = 16
CANDIDATES_PER_FLIP = 24  # texts tried
PLACES_PER_FLIP = 4  # words of S considered
HUB_WORDS = 20  # of S at the start, where it is to be close to many questions
MIN_GAIN = 1e-5  # cosine; less is rounding


class HotFlip:
    """Optimiser against one embedder, loaded in float32: bfloat16 gradients are too coarse."""

    def __init__(
        self, weights: Weights, *, steps: int = MAX_FLIPS, candidates: int = CANDIDATES_PER_FLIP, guided: bool = True
    ) -> None:
        """Load the embedder.

        Args:
            steps: maximum number of flips.
            candidates: texts tried per flip.
            guided: False draws the same number of candidates at random: the control that shows what the
                gradient adds.
        """
        configure_libraries()
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

    def optimise(self, question: str, text: str, seed: int = 0, *, random_words: int = 0) -> str:
        """Return ``S + " " + text``, as close to the question as the search came.

        Args:
            text: stays unchanged behind S.
            random_words: S begins as so many words of the vocabulary instead of the question.
        """
        draw = random.Random(f"front {seed} {question!a}")  # noqa: S311 - a search, no secret
        front = [draw.choice(self._words) for _ in range(random_words)] or [*self._split(question), "."]
        return self._in_one_thread(lambda: self._optimise([question], front, text, seed))

    def optimise_for_all(self, questions: Sequence[str], text: str, seed: int = 0) -> str:
        """Return ``S + " " + text``, a hub: as close to the middle of many questions as the search came.

        Args:
            questions: the text is to be retrieved for all of them.
            text: stays unchanged behind S.
            seed: decides with which words of the questions S begins, and which are tried first.
        """
        words = [word for question in questions for word in self._split(question) if word.isalpha()]
        front = random.Random(f"hub {seed} {questions!a}").sample(words, min(HUB_WORDS, len(words)))  # noqa: S311 - a search, no secret
        return self._in_one_thread(lambda: self._optimise(questions, front, text, seed))

    @staticmethod
    def _in_one_thread(search: Callable[[], str]) -> str:
        import torch

        # Batches this small gain nothing from a second thread, and on a busy machine threads that wait for
        # each other cost six times the CPU (8.9 s against 1.5 s for one text, measured).
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            return search()
        finally:
            torch.set_num_threads(threads)

    def _optimise(self, questions: Sequence[str], front: list[str], text: str, seed: int) -> str:
        import torch

        rng = random.Random(f"hotflip {seed} {' '.join(questions)!a} {text!a}")  # noqa: S311 - a search, no secret
        with torch.no_grad():
            target = torch.nn.functional.normalize(self._embed(questions).mean(dim=0), dim=0)
        cosine = float(self._cosines([_joined(front, text)], target)[0])
        places = rng.sample(range(len(front)), len(front))
        without_gain = 0  # places tried since the last gain; when it is all of them, the search ends
        for _ in range(self._steps):
            current, places = places[:PLACES_PER_FLIP], [*places[PLACES_PER_FLIP:], *places[:PLACES_PER_FLIP]]
            candidates = self._flips(front, text, target, current, rng)
            cosines = self._cosines([_joined(words, text) for words in candidates], target)
            best = int(np.argmax(cosines))
            if cosines[best] > cosine + MIN_GAIN:
                front, cosine, without_gain = candidates[best], float(cosines[best]), 0
            else:
                without_gain += len(current)
            if without_gain >= len(front):
                break
        return _joined(front, text)

    def _flips(
        self, front: Sequence[str], text: str, target: Tensor, places: Sequence[int], rng: random.Random
    ) -> list[list[str]]:
        """Return variants of S with one word replaced, about `candidates` of them."""
        per_place = -(-self._candidates // len(places))
        if self._guided:
            gains = self._gains(front, text, target, places)  # shape (places, vocabulary)
            # The same number for each place: first-order estimates of different places are not comparable.
            best = np.argsort(-gains, axis=1, kind="stable")[:, :per_place]
            pairs = [(place, int(column)) for place, columns in zip(places, best, strict=True) for column in columns]
        else:
            pairs = [(place, rng.randrange(len(self._words))) for place in places for _ in range(per_place)]
        return [[*front[:place], self._words[column], *front[place + 1 :]] for place, column in pairs]

    def _gains(self, front: Sequence[str], text: str, target: Tensor, places: Sequence[int]) -> NDArray[np.float32]:
        """Estimate how much each word of the vocabulary would raise the cosine at each place.

        The shape is (places, vocabulary).
        """
        import torch

        leaves: list[Tensor] = []  # embeddings of the words, detached so that they get gradients

        def detach(module: object, inputs: object, output: Tensor) -> Tensor:
            leaves.append(output.detach().requires_grad_())
            return leaves[-1]

        encoded = self._encode([_joined(front, text)])
        hook = self._embeddings.register_forward_hook(detach)
        try:
            with torch.enable_grad():
                cosine = self._forward(encoded)[0] @ target
                gradients = torch.autograd.grad(cosine, leaves)[0]
        finally:
            hook.remove()
        embeddings = leaves[0]
        word_of_token = encoded.word_ids(0)
        gains = []
        for place in places:
            pieces = [index for index, word in enumerate(word_of_token) if word == place]
            if not pieces:  # beyond what the embedder reads
                gains.append(torch.full((len(self._words),), -torch.inf))
                continue
            gradient = gradients[0, pieces].sum(dim=0)
            gains.append(self._vocabulary @ gradient - (embeddings[0, pieces] * gradients[0, pieces]).sum())
        result: NDArray[np.float32] = torch.stack(gains).detach().numpy()
        return result

    def _cosines(self, texts: Sequence[str], target: Tensor) -> NDArray[np.float32]:
        import torch

        with torch.no_grad():
            cosines: NDArray[np.float32] = (self._embed(texts) @ target).numpy()
        return cosines

    def _embed(self, texts: Sequence[str]) -> Tensor:
        return self._forward(self._encode(texts))

    def _encode(self, texts: Sequence[str]) -> BatchEncoding:
        readable = [replace_surrogates(text) for text in texts]
        return self._model.tokenizer(
            readable, padding=True, truncation=True, max_length=self._model.max_seq_length, return_tensors="pt"
        )

    def _forward(self, encoded: BatchEncoding) -> Tensor:
        import torch

        vectors = self._model(dict(encoded))["sentence_embedding"]
        return torch.nn.functional.normalize(vectors, dim=1)

    def _split(self, text: str) -> list[str]:
        """Split a text into the words that the tokenizer sees."""
        text = replace_surrogates(text)
        encoded = self._model.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        words: dict[int, list[int]] = {}
        for word, (start, end) in zip(encoded.word_ids(0), encoded["offset_mapping"], strict=True):
            span = words.setdefault(word, [start, end])
            span[1] = end
        return [text[start:end] for start, end in words.values()]

    def _whole_words(self) -> tuple[list[str], list[int]]:
        """Return the words of the vocabulary that tokenise to a single token, and their ids."""
        tokenizer = self._model.tokenizer
        words = sorted(
            token for token in tokenizer.get_vocab() if token.isascii() and token.isalpha() and len(token) > 1
        )
        encoded = tokenizer(words, add_special_tokens=False)["input_ids"]
        whole = [(word, ids[0]) for word, ids in zip(words, encoded, strict=True) if len(ids) == 1]
        return [word for word, _ in whole], [number for _, number in whole]


def _joined(front: Sequence[str], text: str) -> str:
    return " ".join([*front, text])
