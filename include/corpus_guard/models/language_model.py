"""How surprised a small causal language model is by a text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from corpus_guard.models.weights import Weights, quiet

quiet()

import torch  # noqa: E402  (after quiet(): the libraries read the environment when imported)
from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: E402
from transformers.utils import logging  # noqa: E402

from corpus_guard.models._device import give_back, number_format  # noqa: E402

logging.disable_progress_bar()

BATCH = 8  # measured best for a 135M model on two cores, batches sorted by length
LONGEST = 512  # tokens scored of one text; a chunk has about 200 tokens of the embedder


class LanguageModel:
    """A causal language model on the CPU, for scoring."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.dtype = number_format()
        self._tokenizer = AutoTokenizer.from_pretrained(weights.folder)
        self._model = AutoModelForCausalLM.from_pretrained(weights.folder, dtype=getattr(torch, self.dtype)).eval()

    @property
    def digest(self) -> str:
        """Identity of the scores: weights and number format."""
        return f"{self.weights}/{self.dtype}"

    def surprise(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        """Score texts.

        Returns:
            For each text the negative log-likelihood of its tokens after the first, in nats, shape (tokens - 1,);
            the mean of it is the logarithm of perplexity. Only the first 512 tokens are scored. Empty for texts of
            fewer than two tokens.
        """
        encoded = [self._tokenizer(text, truncation=True, max_length=LONGEST)["input_ids"] for text in texts]
        scores: list[NDArray[np.float32]] = [np.empty(0, np.float32)] * len(texts)
        for batch in _by_length([len(ids) for ids in encoded]):
            for index, nll in zip(batch, self._score([encoded[index] for index in batch]), strict=True):
                scores[index] = nll
        give_back()
        return scores

    def _score(self, batch: Sequence[Sequence[int]]) -> Iterator[NDArray[np.float32]]:
        longest = max(len(ids) for ids in batch)
        tokens = torch.zeros(len(batch), longest, dtype=torch.long)
        mask = torch.zeros_like(tokens)
        for row, ids in enumerate(batch):
            tokens[row, : len(ids)] = torch.tensor(ids)
            mask[row, : len(ids)] = 1
        with torch.inference_mode():
            hidden = self._model.model(input_ids=tokens, attention_mask=mask).last_hidden_state
            for row, ids in enumerate(batch):
                # Only real positions reach the vocabulary (49,152 wide), one text at a time: padding would dominate memory.
                logits = self._model.lm_head(hidden[row, : len(ids) - 1]).float()
                target = tokens[row, 1 : len(ids)]
                yield torch.nn.functional.cross_entropy(logits, target, reduction="none").numpy().astype(np.float32)


def _by_length(lengths: Sequence[int]) -> Iterator[list[int]]:
    order = sorted((index for index, length in enumerate(lengths) if length > 1), key=lambda index: lengths[index])
    for start in range(0, len(order), BATCH):
        yield order[start : start + BATCH]
