"""How surprised a small causal language model is by a text, and what it answers.

Everything given to it may be hostile. A message of a `Chat` can therefore not leave its place: its text never becomes a control
token of the chat template (``<|im_end|>`` in a message is nine ordinary tokens), so that only this module opens and closes messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jinja2 import TemplateError
from numpy.typing import NDArray

from corpus_guard.errors import SettingsError
from corpus_guard.models.weights import Weights, quiet

quiet()

import torch  # noqa: E402  (after quiet(): the libraries read the environment when imported)
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache  # noqa: E402
from transformers.utils import logging  # noqa: E402

from corpus_guard.models._device import give_back, number_format  # noqa: E402

logging.disable_progress_bar()

BATCH = 8  # measured best for a 135M model on two cores, batches sorted by length
LONGEST = 512  # tokens scored of one text or read of one message; a chunk has about 200 tokens of the embedder
CHARACTERS_OF_A_TOKEN = 32  # more than any word has; runs of blanks may have more, and then fewer tokens are read
CONTENT = "\N{OBJECT REPLACEMENT CHARACTER}"  # stands for a message while the template is rendered


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a chat."""

    role: str  # system, user or assistant
    content: str


Chat = Sequence[Message]


@dataclass(frozen=True, slots=True)
class Answered:
    """What the model said."""

    text: str
    tokens: int  # without the one that ends the turn
    log_probability: float  # joint, of these tokens given the chat; nats, <= 0


@dataclass(frozen=True, slots=True)
class Activated:
    """What the model said, and its state when it had read the prompt and said nothing yet."""

    answered: Answered
    states: NDArray[
        np.float32
    ]  # of the prompt's last token: [layers + 1, hidden]; the embeddings, then each layer's output
    tokens: int  # of the prompt


class LanguageModel:
    """A causal language model on the CPU, for scoring and short answers."""

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
        encoded = [self._tokenizer(_readable(text), truncation=True, max_length=LONGEST)["input_ids"] for text in texts]
        return self._scores([(ids, 1) for ids in encoded])

    def log_likelihood(self, pairs: Sequence[tuple[str | Chat, str]]) -> list[NDArray[np.float32]]:
        """How likely each continuation is after its prefix.

        Args:
            pairs: a prefix (plain text, or a chat whose next turn is the assistant's) and what follows it.

        Returns:
            For each pair the log-likelihood of the continuation's tokens, in nats, shape (tokens,). Prefix and continuation
            are tokenised apart; of a message, a plain prefix and a continuation the first 512 tokens count.
        """
        scored = []
        for prefix, continuation in pairs:
            before = [*self._begin, *self._plain(prefix)] if isinstance(prefix, str) else self._rendered(prefix)
            before = before or [int(self._tokenizer.eos_token_id)]  # the first token needs something to follow
            scored.append(([*before, *self._plain(continuation)], len(before)))
        return [-nll for nll in self._scores(scored)]

    def answer(self, chats: Sequence[Chat], max_new_tokens: int = 32) -> list[Answered]:
        """The most likely next turn of each chat, token by token (greedy: the same every time).

        Args:
            chats: messages; of each the first 512 tokens are read.
            max_new_tokens: where an answer is cut off.
        """
        prompts = [self._rendered(chat) for chat in chats]
        answers = [Answered("", 0, 0.0)] * len(chats)
        for batch in _by_length([len(ids) for ids in prompts]):
            said, _ = self._generate([prompts[index] for index in batch], max_new_tokens)
            for index, one in zip(batch, said, strict=True):
                answers[index] = self._answered(*one)
        give_back()
        return answers

    def activations(self, chats: Sequence[Chat], max_new_tokens: int = 32) -> list[Activated]:
        """What `answer` gives, with the states that the first token of the answer is made from: the same forward pass.

        Args:
            chats: messages; of each the first 512 tokens are read.
            max_new_tokens: where an answer is cut off.

        Raises:
            SettingsError: the model gives no hidden states.
        """
        prompts = [self._rendered(chat) for chat in chats]
        found: dict[int, Activated] = {}
        for batch in _by_length([len(ids) for ids in prompts]):
            said, states = self._generate([prompts[index] for index in batch], max_new_tokens, states=True)
            if states is None:
                raise SettingsError(
                    f"environment variable CORPUS_GUARD_LANGUAGE_MODEL: {self.weights} gives no hidden states; the activations of an "
                    "answer need a causal model of transformers that does (`output_hidden_states`)"
                )
            for index, one, state in zip(batch, said, states, strict=True):
                found[index] = Activated(self._answered(*one), state, len(prompts[index]))
        give_back()
        return [found[index] for index in range(len(chats))]

    def _answered(self, ids: Sequence[int], log_probability: float) -> Answered:
        text = str(self._tokenizer.decode(ids, skip_special_tokens=True)).strip()
        return Answered(text, len(ids), log_probability)

    @cached_property
    def _begin(self) -> list[int]:
        """What the model knows a text to begin with; some answer nothing of use without it."""
        return list(self._tokenizer("")["input_ids"])

    def _ends(self) -> frozenset[int]:
        """Tokens that end an answer; in a base model also a line break, since what follows is the next paragraph of a text."""
        ends = {int(self._tokenizer.eos_token_id)}
        if self._tokenizer.chat_template is None:
            ends |= {self._plain(lines)[0] for lines in ("\n", "\n\n")}
        return frozenset(ends)

    def _plain(self, text: str) -> list[int]:
        """Tokens of hostile text: none of them a control token."""
        ids = self._tokenizer(
            _readable(text), truncation=True, max_length=LONGEST, add_special_tokens=False, split_special_tokens=True
        )["input_ids"]
        return list(ids)

    def _rendered(self, chat: Chat) -> list[int]:
        """The chat in the model's own template, ready for the assistant's turn.

        Raises:
            SettingsError: the model's template takes no such chat.
        """
        if (
            self._tokenizer.chat_template is None
        ):  # a base model: paragraphs, after the token it knows a text to begin with
            paragraphs = [[*self._plain(message.content), *self._plain("\n\n")] for message in chat]
            return [*self._begin, *(token for paragraph in paragraphs for token in paragraph)]
        blank = [{"role": message.role, "content": CONTENT} for message in chat]
        try:
            frame = self._tokenizer.apply_chat_template(blank, tokenize=False, add_generation_prompt=True).split(
                CONTENT
            )
        except TemplateError:
            frame = []
        if len(frame) != len(chat) + 1:
            raise SettingsError(
                f"environment variable CORPUS_GUARD_LANGUAGE_MODEL: the chat template of {self.weights} does not show each of "
                f"{len(chat)} messages once; use a model whose template takes a system message and several of one user in a row"
            )
        ids: list[int] = []
        for piece, message in zip(frame, [*chat, None], strict=True):
            ids += self._tokenizer(piece, add_special_tokens=False)["input_ids"]
            ids += self._plain(message.content) if message else []
        return ids

    def _scores(self, encoded: Sequence[tuple[Sequence[int], int]]) -> list[NDArray[np.float32]]:
        """Negative log-likelihood of the tokens from a position (at least 1) on, for (tokens, position) pairs."""
        scores: list[NDArray[np.float32]] = [np.empty(0, np.float32)] * len(encoded)
        wanted = [len(ids) if len(ids) > start else 0 for ids, start in encoded]
        for batch in _by_length(wanted):
            for index, nll in zip(batch, self._score([encoded[index] for index in batch]), strict=True):
                scores[index] = nll
        give_back()
        return scores

    def _score(self, batch: Sequence[tuple[Sequence[int], int]]) -> Iterator[NDArray[np.float32]]:
        longest = max(len(ids) for ids, _ in batch)
        tokens = torch.zeros(len(batch), longest, dtype=torch.long)
        mask = torch.zeros_like(tokens)
        for row, (ids, _) in enumerate(batch):
            tokens[row, : len(ids)] = torch.tensor(ids)
            mask[row, : len(ids)] = 1
        with torch.inference_mode():
            hidden = self._model.model(input_ids=tokens, attention_mask=mask).last_hidden_state
            for row, (ids, start) in enumerate(batch):
                # Only real positions reach the vocabulary (49,152 wide), one text at a time: padding would dominate memory.
                logits = self._model.lm_head(hidden[row, start - 1 : len(ids) - 1]).float()
                target = tokens[row, start : len(ids)]
                yield torch.nn.functional.cross_entropy(logits, target, reduction="none").numpy().astype(np.float32)

    def _generate(
        self, batch: Sequence[Sequence[int]], max_new_tokens: int, *, states: bool = False
    ) -> tuple[list[tuple[list[int], float]], NDArray[np.float32] | None]:
        """Tokens and joint log-probability for each prompt; padded on the left, so that all continue at one position.

        With `states` also those of the prompts' last tokens, shape (batch, layers + 1, hidden); none where the model gives none.
        """
        longest = max(len(ids) for ids in batch)
        tokens = torch.zeros(len(batch), longest, dtype=torch.long)
        mask = torch.zeros_like(tokens)
        for row, ids in enumerate(batch):
            tokens[row, longest - len(ids) :] = torch.tensor(ids)
            mask[row, longest - len(ids) :] = 1
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        past = DynamicCache(config=self._model.config)
        said: list[list[int]] = [[] for _ in batch]
        total = [0.0] * len(batch)
        open_rows = set(range(len(batch)))
        ends = self._ends()
        last: NDArray[np.float32] | None = None
        with torch.inference_mode():
            for step in range(max_new_tokens):
                read = self._model.model(
                    input_ids=tokens,
                    attention_mask=mask,
                    position_ids=positions,
                    past_key_values=past,
                    use_cache=True,
                    output_hidden_states=states and step == 0,
                )
                if states and step == 0 and read.hidden_states:
                    last = torch.stack([layer[:, -1] for layer in read.hidden_states], dim=1).float().numpy()
                hidden = read.last_hidden_state[:, -1]
                del read
                likeliest = torch.log_softmax(self._model.lm_head(hidden).float(), dim=-1).max(dim=-1)
                tokens = likeliest.indices[:, None]
                for row in sorted(open_rows):
                    token = int(tokens[row, 0])
                    if token in ends:
                        open_rows.discard(row)
                    else:
                        said[row].append(token)
                        total[row] += float(likeliest.values[row])
                if not open_rows:
                    break
                mask = torch.cat([mask, torch.ones_like(tokens)], dim=1)
                positions = positions[:, -1:] + 1
        return list(zip(said, total, strict=True)), last


def _readable(text: str) -> str:
    """What the tokenizer takes: no lone surrogates, and no more of a long line than `LONGEST` tokens can need."""
    return text[: LONGEST * CHARACTERS_OF_A_TOKEN].encode("utf-8", "replace").decode()


def _by_length(lengths: Sequence[int]) -> Iterator[list[int]]:
    order = sorted((index for index, length in enumerate(lengths) if length > 1), key=lambda index: lengths[index])
    for start in range(0, len(order), BATCH):
        yield order[start : start + BATCH]
