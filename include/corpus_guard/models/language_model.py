"""A small causal language model: the surprisal of texts, and short answers.

Everything given to it may be hostile. A message can therefore not leave its place: its text never becomes a
control token of the chat template (``<|im_end|>`` in a message is nine ordinary tokens), so that only this
module opens and closes messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jinja2 import TemplateError
from numpy.typing import NDArray

from corpus_guard.domain import replace_surrogates
from corpus_guard.errors import SettingsError
from corpus_guard.models.messages import Conversation
from corpus_guard.models.weights import Weights, configure_libraries

configure_libraries()

import torch  # noqa: E402  (after configure_libraries(): the libraries read the environment when imported)
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache  # noqa: E402
from transformers.utils import logging  # noqa: E402

from corpus_guard.models.cpu import number_format, release_memory  # noqa: E402
from corpus_guard.models.shared_parameters import share_parameters  # noqa: E402

logging.disable_progress_bar()

TEXTS_PER_BATCH = 8  # measured best for a 135M model on two cores, batches sorted by length
POSITIONS_AT_A_TIME = 64  # scored against the whole vocabulary: 32 MB
MAX_TOKENS = 512  # scored of one text or read of one message; a chunk has about 200 tokens of the embedder
# more than any word has; runs of blanks may have more, and then fewer tokens are read
MAX_CHARS_PER_TOKEN = 32
PLACEHOLDER = "\N{OBJECT REPLACEMENT CHARACTER}"  # stands for a message while the template is rendered


@dataclass(frozen=True, slots=True)
class GeneratedAnswer:
    """The model's answer to a conversation."""

    text: str
    tokens: int  # without the one that ends the turn
    log_probability: float  # joint, of these tokens given the conversation; nats, <= 0


@dataclass(frozen=True, slots=True)
class AnswerWithStates:
    """An answer, and the model's hidden states after the prompt and before the first token of the answer."""

    answered: GeneratedAnswer
    # Of the prompt's last token: [layers + 1, hidden]; embeddings, then each layer's output.
    states: NDArray[np.float32]
    tokens: int  # of the prompt


class LanguageModel:
    """A causal language model on the CPU, for scoring and short answers."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.dtype = number_format()
        self._tokenizer = AutoTokenizer.from_pretrained(weights.folder)
        self._model = AutoModelForCausalLM.from_pretrained(weights.folder, dtype=getattr(torch, self.dtype)).eval()
        share_parameters(self._model.base_model, weights)

    @property
    def digest(self) -> str:
        """Identity of the scores: weights and number format."""
        return f"{self.weights}/{self.dtype}"

    def surprisals(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        """Score texts.

        Returns:
            For each text the negative log-likelihood of its tokens after the first, in nats, shape (tokens -
            1,); their mean is the logarithm of perplexity. Only the first 512 tokens are scored. Empty for
            texts of fewer than two tokens.
        """
        encoded = [
            self._tokenizer(_readable(text), truncation=True, max_length=MAX_TOKENS)["input_ids"] for text in texts
        ]
        scores: list[NDArray[np.float32]] = [np.empty(0, np.float32)] * len(encoded)
        for batch in _batches_by_length([len(ids) for ids in encoded]):
            for index, nats in zip(batch, self._score([encoded[index] for index in batch]), strict=True):
                scores[index] = nats
        release_memory()
        return scores

    def token_places(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """Return start and end of each token that `surprisals` scores, shape (tokens - 1, 2), in characters of the text."""
        places = [
            self._tokenizer(_readable(text), truncation=True, max_length=MAX_TOKENS, return_offsets_mapping=True)[
                "offset_mapping"
            ]
            for text in texts
        ]
        return [np.array(each[1:], np.int64).reshape(-1, 2) for each in places]

    def answer(self, conversations: Sequence[Conversation], max_new_tokens: int = 32) -> list[GeneratedAnswer]:
        """Generate the most likely next turn of each conversation (greedy, so the same every time).

        Args:
            conversations: of each message the first 512 tokens are read.
        """
        prompts = [self._rendered(conversation) for conversation in conversations]
        answers = [GeneratedAnswer("", 0, 0.0)] * len(conversations)
        for batch in _batches_by_length([len(ids) for ids in prompts]):
            generated, _ = self._generate([prompts[index] for index in batch], max_new_tokens)
            for index, (ids, log_probability) in zip(batch, generated, strict=True):
                answers[index] = self._decoded(ids, log_probability)
        release_memory()
        return answers

    def answer_with_states(
        self, conversations: Sequence[Conversation], max_new_tokens: int = 32
    ) -> list[AnswerWithStates]:
        """Generate answers as `answer` does, with the hidden states that the first token comes from.

        Raises:
            SettingsError: the model gives no hidden states.
        """
        prompts = [self._rendered(conversation) for conversation in conversations]
        answers: dict[int, AnswerWithStates] = {}
        for batch in _batches_by_length([len(ids) for ids in prompts]):
            generated, states = self._generate([prompts[index] for index in batch], max_new_tokens, states=True)
            if states is None:
                raise SettingsError(
                    f"environment variable CORPUS_GUARD_LANGUAGE_MODEL: {self.weights} gives no hidden states; use a causal "
                    "model of transformers that does (`output_hidden_states`)"
                )
            for index, (ids, log_probability), state in zip(batch, generated, states, strict=True):
                answers[index] = AnswerWithStates(self._decoded(ids, log_probability), state, len(prompts[index]))
        release_memory()
        return [answers[index] for index in range(len(conversations))]

    def _decoded(self, ids: Sequence[int], log_probability: float) -> GeneratedAnswer:
        text = str(self._tokenizer.decode(ids, skip_special_tokens=True)).strip()
        return GeneratedAnswer(text, len(ids), log_probability)

    @cached_property
    def _begin(self) -> list[int]:
        """Tokens that open a text in the model's training; some models give no useful answer without them."""
        return list(self._tokenizer("")["input_ids"])

    def _ends(self) -> frozenset[int]:
        """Return the tokens that end an answer; in a base model also a line break, before the next paragraph."""
        ends = {int(self._tokenizer.eos_token_id)}
        if self._tokenizer.chat_template is None:
            ends |= {self._plain(lines)[0] for lines in ("\n", "\n\n")}
        return frozenset(ends)

    def _plain(self, text: str) -> list[int]:
        """Return the tokens of hostile text; none of them is a control token."""
        ids = self._tokenizer(
            _readable(text), truncation=True, max_length=MAX_TOKENS, add_special_tokens=False, split_special_tokens=True
        )["input_ids"]
        return list(ids)

    def _rendered(self, conversation: Conversation) -> list[int]:
        """Return the conversation in the model's own template, ready for the assistant's turn.

        Raises:
            SettingsError: the model's template takes no such conversation.
        """
        if self._tokenizer.chat_template is None:  # a base model reads paragraphs
            paragraphs = [[*self._plain(message.content), *self._plain("\n\n")] for message in conversation]
            return [*self._begin, *(token for paragraph in paragraphs for token in paragraph)]
        blank = [{"role": message.role, "content": PLACEHOLDER} for message in conversation]
        try:
            rendered = self._tokenizer.apply_chat_template(blank, tokenize=False, add_generation_prompt=True)
            frame = rendered.split(PLACEHOLDER)
        except TemplateError:
            frame = []
        if len(frame) != len(conversation) + 1:
            raise SettingsError(
                f"environment variable CORPUS_GUARD_LANGUAGE_MODEL: the chat template of {self.weights} does not show each "
                f"of {len(conversation)} messages once; use a model whose template takes a system message and several user "
                "messages in a row"
            )
        ids: list[int] = []
        for piece, message in zip(frame, [*conversation, None], strict=True):
            ids += self._tokenizer(piece, add_special_tokens=False)["input_ids"]
            ids += self._plain(message.content) if message else []
        return ids

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
                states, targets = hidden[row, : len(ids) - 1], tokens[row, 1 : len(ids)]
                # Only real positions reach the vocabulary (49,152 wide), and few at a time: they would dominate memory.
                nats = [
                    torch.nn.functional.cross_entropy(self._model.lm_head(some).float(), target, reduction="none")
                    for some, target in zip(
                        *(torch.split(each, POSITIONS_AT_A_TIME) for each in (states, targets)), strict=True
                    )
                ]
                yield torch.cat(nats).numpy().astype(np.float32)

    def _generate(
        self, batch: Sequence[Sequence[int]], max_new_tokens: int, *, states: bool = False
    ) -> tuple[list[tuple[list[int], float]], NDArray[np.float32] | None]:
        """Generate tokens and their joint log-probability for each prompt.

        Prompts are padded on the left, so that all continue at one position.

        With `states` also return those of the prompts' last tokens, shape (batch, layers + 1, hidden); None
        where the model gives none.
        """
        longest = max(len(ids) for ids in batch)
        tokens = torch.zeros(len(batch), longest, dtype=torch.long)
        mask = torch.zeros_like(tokens)
        for row, ids in enumerate(batch):
            tokens[row, longest - len(ids) :] = torch.tensor(ids)
            mask[row, longest - len(ids) :] = 1
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        past = DynamicCache(config=self._model.config)
        generated: list[list[int]] = [[] for _ in batch]
        log_probabilities = [0.0] * len(batch)
        open_rows = set(range(len(batch)))
        ends = self._ends()
        prompt_states: NDArray[np.float32] | None = None
        with torch.inference_mode():
            for step in range(max_new_tokens):
                output = self._model.model(
                    input_ids=tokens,
                    attention_mask=mask,
                    position_ids=positions,
                    past_key_values=past,
                    use_cache=True,
                    output_hidden_states=states and step == 0,
                )
                if states and step == 0 and output.hidden_states:
                    prompt_states = torch.stack([layer[:, -1] for layer in output.hidden_states], dim=1).float().numpy()
                hidden = output.last_hidden_state[:, -1]
                del output
                likeliest = torch.log_softmax(self._model.lm_head(hidden).float(), dim=-1).max(dim=-1)
                tokens = likeliest.indices[:, None]
                for row in sorted(open_rows):
                    token = int(tokens[row, 0])
                    if token in ends:
                        open_rows.discard(row)
                    else:
                        generated[row].append(token)
                        log_probabilities[row] += float(likeliest.values[row])
                if not open_rows:
                    break
                mask = torch.cat([mask, torch.ones_like(tokens)], dim=1)
                positions = positions[:, -1:] + 1
        return list(zip(generated, log_probabilities, strict=True)), prompt_states


def _readable(text: str) -> str:
    """Return what the tokenizer takes: no lone surrogates, and no more than `MAX_TOKENS` tokens can need."""
    return replace_surrogates(text[: MAX_TOKENS * MAX_CHARS_PER_TOKEN])


def _batches_by_length(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield batches of indices, shortest first; what has fewer than two tokens is left out."""
    order = sorted((index for index, length in enumerate(lengths) if length > 1), key=lambda index: lengths[index])
    for start in range(0, len(order), TEXTS_PER_BATCH):
        yield order[start : start + TEXTS_PER_BATCH]
