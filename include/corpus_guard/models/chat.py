"""A language model behind an endpoint with OpenAI's chat API: OpenAI, vLLM, Ollama, `transformers serve`.

Rules
    * temperature 0; an answer has a bounded number of tokens and at most `MAX_ANSWER_CHARS` characters, a
      response at most 128 KiB;
    * at most `max_concurrency` requests are open, over all threads; a request that waits for its next try
      keeps its place, so that an endpoint which asks for quiet gets it;
    * a busy or failing endpoint, and one that answers something else, is asked again, `MAX_TRIES` times in
      all, after 1, 2, … seconds or what `Retry-After` says; one that asks for more than `MAX_PAUSE_SECONDS`
      has failed;
    * a problem with one conversation (its length, a content filter, an answer without end) is an *answer*
      without text that says why: a hostile text must not be able to stop the work on the others;
    * answers are cached by content (address, model, messages, limits); an answered conversation is never
      sent, or paid for, again;
    * everything is counted (`Usage`).

Keys, messages and the endpoint's error messages appear in no log, exception or `repr`. Redirects are not
followed: the texts go to the configured address and nowhere else.

What it does not do: end a response whose header arrives byte by byte.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import SecretStr
from tenacity import RetryCallState, Retrying, retry_if_exception_type

from corpus_guard.domain import digest, replace_surrogates, to_storable
from corpus_guard.errors import JudgeFailed, SettingsError
from corpus_guard.models.chat_cache import AnswerCache, CachedAnswer, MemoryAnswerCache
from corpus_guard.models.messages import Conversation

if TYPE_CHECKING:
    from openai import APIStatusError, OpenAI

    from corpus_guard.settings import Settings

MAX_ANSWER_TOKENS = 600
MAX_ANSWER_CHARS = 16_000
MAX_TRIES = 4
BACKOFF_SECONDS = 1.0  # before the second try; doubled for each one after it
MAX_PAUSE_SECONDS = 60.0  # an endpoint may ask for

_RETRIED_STATUSES = {408, 409, 425, 429}
_ERRORS_OF_THE_TEXT = {
    "content_filter",
    "content_policy_violation",
    "context_length_exceeded",
    "string_above_max_length",
}
_OPTIONAL_PARAMETERS = {"max_tokens", "temperature"}  # newer models of OpenAI refuse them


class AnswerEnd(StrEnum):
    """Reason why an answer ends where it does."""

    STOP = "stop"  # the model said all it had to say
    LENGTH = "length"  # cut off
    REFUSED = "refused"  # no text
    TOO_LONG = "too long"  # no text: the response had more bytes than are read


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """A model's answer: hostile text, for it may repeat what the model was shown."""

    text: str  # no lone surrogates, no NUL; empty where there is none
    ended: AnswerEnd


@dataclass(frozen=True, slots=True)
class Usage:
    """Counts of requests and tokens of an endpoint."""

    requests: int = 0
    retries: int = 0  # of these requests
    failures: int = 0  # conversations that got no answer in the end
    cached: int = 0  # conversations answered without a request
    prompt_tokens: int = 0  # as the endpoint counts
    completion_tokens: int = 0
    seconds: float = 0.0  # of requests, added up; more than passed where several are open


class ChatEndpoint:
    """A model at an address. Imports its client with the first request."""

    def __init__(
        self,
        url: str,
        model: str,
        key: SecretStr | None = None,
        *,
        seconds: float = 60.0,
        max_concurrency: int = 4,
        cache: AnswerCache | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """Talk to `model` at `url`.

        Args:
            url: ends where ``/chat/completions`` begins.
            key: sent as a bearer token; None or empty: no such header.
            seconds: one answer may take; one that arrives in drips is given up after twice as many.
            cache: of answers; None: one that lives as long as this object.

        Raises:
            SettingsError: `url` is no http or https URL, or holds what may be secret; `key` cannot stand in a
                header.
        """
        parts = urlsplit(url)
        is_http = parts.scheme in {"http", "https"} and parts.hostname
        if not is_http or parts.username or parts.query or parts.fragment:
            # Its parts are not quoted, and none may be secret: HTTP clients log the URLs they request.
            raise SettingsError(
                "environment variable CORPUS_GUARD_CHAT_URL: expected https://host/v1 or http://host:port/v1, without "
                "user, password or query; put the endpoint's key into CORPUS_GUARD_CHAT_KEY"
            )
        self.address = url
        self.model = model
        self._key = _checked_key(key or SecretStr(""))
        self._seconds = seconds
        self._max_concurrency = max_concurrency
        self._cache = cache or MemoryAnswerCache()
        self._pause = pause
        self._slots = threading.BoundedSemaphore(max_concurrency)
        self._usage_lock = threading.Lock()
        self._usage = Usage()
        self._refused_parameters: frozenset[str] = frozenset()

    @classmethod
    def from_settings(cls, settings: Settings, cache: AnswerCache | None = None, model: str = "") -> ChatEndpoint:
        """Return the endpoint that the settings name, with their model or another one there."""
        return cls(
            settings.chat_url,
            model or settings.chat_model,
            settings.chat_key,
            seconds=settings.chat_seconds,
            max_concurrency=settings.chat_at_once,
            cache=cache,
        )

    def __repr__(self) -> str:
        return f"<ChatEndpoint {self.model!r} at {self.address}>"

    @property
    def digest(self) -> str:
        """Identity of model and address, at most 100 characters; one name may mean two models at two addresses."""
        return f"{self.model[:60]}@{digest('chat-endpoint/v1', [self.address, self.model])[:12]}"

    @property
    def usage(self) -> Usage:
        """Counts so far."""
        return self._usage

    def ask(self, conversation: Conversation, max_tokens: int = MAX_ANSWER_TOKENS) -> ChatAnswer:
        """Return the next turn of one conversation; see `ask_all`."""
        return self.ask_all([conversation], max_tokens)[0]

    def ask_all(self, conversations: Sequence[Conversation], max_tokens: int = MAX_ANSWER_TOKENS) -> list[ChatAnswer]:
        """Return the next turn of each conversation, in their order.

        Args:
            conversations: consecutive messages of one role are sent as one.

        Raises:
            JudgeFailed: a conversation got no answer in `MAX_TRIES` tries. The others that were under way are
                answered and cached first; those not begun are not sent.
            LedgerUnavailable: the cache does not answer.
        """
        keys = [self._cache_key(conversation, max_tokens) for conversation in conversations]
        by_key = dict(zip(keys, conversations, strict=True))
        cached = self._cache.load(list(by_key))
        answers = {key: ChatAnswer(answer.text, AnswerEnd(answer.ended)) for key, answer in cached.items()}
        self._count(cached=sum(key in answers for key in keys))
        missing = [key for key in by_key if key not in answers]
        if missing:
            with ThreadPoolExecutor(min(len(missing), self._max_concurrency), "chat") as pool:
                futures = {pool.submit(self._ask, by_key[key], max_tokens): key for key in missing}
                answers.update(self._collect(futures))
        return [answers[key] for key in keys]

    def _collect(self, futures: dict[Future[ChatAnswer], str]) -> dict[str, ChatAnswer]:
        answers: dict[str, ChatAnswer] = {}
        failure: JudgeFailed | None = None
        for future in as_completed(futures):
            if future.cancelled():
                continue
            try:
                answer = answers[futures[future]] = future.result()
            except JudgeFailed as error:
                failure = failure or error
                for other in futures:
                    other.cancel()
                continue
            if answer.text.strip() and answer.ended in {AnswerEnd.STOP, AnswerEnd.LENGTH}:
                self._cache.save({futures[future]: CachedAnswer(answer.text, answer.ended)})
        if failure:
            raise failure
        return answers

    def _cache_key(self, conversation: Conversation, max_tokens: int) -> str:
        parts = [part for message in conversation for part in (message.role, message.content)]
        return digest("chat/v1", [self.digest, str(max_tokens), *parts])

    def _count(self, **increments: float) -> None:
        with self._usage_lock:
            sums = {name: getattr(self._usage, name) + increment for name, increment in increments.items()}
            self._usage = replace(self._usage, **sums)

    def _ask(self, conversation: Conversation, max_tokens: int) -> ChatAnswer:
        retrying = Retrying(
            retry=retry_if_exception_type(_TemporaryFailure),
            stop=_is_last_try,
            wait=_next_pause,
            sleep=self._pause,
            before_sleep=lambda _: self._count(retries=1),
            reraise=True,
        )
        with self._slots:
            try:
                return retrying(self._request, conversation, max_tokens)
            except _TemporaryFailure as error:
                self._count(failures=1)
                raise JudgeFailed(
                    f"chat endpoint {self.address}: {error} (tries: {retrying.statistics['attempt_number']}); expected an "
                    f"answer within {self._seconds:g} s. See that it runs and is not overloaded, or lower "
                    "CORPUS_GUARD_CHAT_AT_ONCE, then run again: it continues where this run stopped"
                ) from None

    def _request(self, conversation: Conversation, max_tokens: int) -> ChatAnswer:
        import openai

        from corpus_guard.models.chat_client import ResponseTooLong

        while True:
            started = time.monotonic()
            refused = self._refused_parameters
            try:
                return self._parse(self._send(conversation, max_tokens, refused))
            except ResponseTooLong:
                return ChatAnswer("", AnswerEnd.TOO_LONG)
            except openai.APIStatusError as error:
                answer = self._answer_from_error(error, refused)
                if answer:
                    return answer
            except openai.APITimeoutError:
                raise _TemporaryFailure("did not answer in time") from None
            except openai.OpenAIError as error:
                raise _TemporaryFailure(f"cannot be reached ({type(error.__cause__ or error).__name__})") from None
            finally:
                self._count(requests=1, seconds=time.monotonic() - started)

    def _send(self, conversation: Conversation, max_tokens: int, refused: frozenset[str]) -> bytes:
        from openai import Omit

        limits: dict[str, float] = {"max_completion_tokens" if "max_tokens" in refused else "max_tokens": max_tokens}
        if "temperature" not in refused:
            limits["temperature"] = 0
        messages: Any = _api_messages(conversation)
        without_key = {} if self._key.get_secret_value() else {"Authorization": Omit()}
        raw = self._client.chat.completions.with_raw_response.create(
            model=self.model, messages=messages, extra_body=limits, extra_headers=without_key
        )
        return raw.content

    def _answer_from_error(self, error: APIStatusError, refused: frozenset[str]) -> ChatAnswer | None:
        """Return the answer that an error amounts to; None: send again without the refused parameter.

        Raises:
            _TemporaryFailure: the same request may succeed later.
            JudgeFailed: it will not.
        """
        status = error.status_code
        if status in _RETRIED_STATUSES or status >= 500:
            raise _TemporaryFailure(f"answered HTTP {status}", _requested_pause(error.response.headers)) from None
        if status == 413 or error.code in _ERRORS_OF_THE_TEXT:
            return ChatAnswer("", AnswerEnd.REFUSED)
        if status == 400 and error.param in _OPTIONAL_PARAMETERS - refused:
            self._refused_parameters |= {error.param}
            return None
        self._count(failures=1)
        raise JudgeFailed(
            f"chat endpoint {self.address} answered HTTP {status} for model {self.model!r}; expected an answer. Check "
            "CORPUS_GUARD_CHAT_URL (it ends where /chat/completions begins), CORPUS_GUARD_CHAT_KEY and the model's name "
            "(CORPUS_GUARD_CHAT_MODEL, or asked_model in policy.yaml)"
        ) from None

    def _parse(self, content: bytes) -> ChatAnswer:
        try:
            # orjson refuses lone surrogates, which a hostile text may make a model say
            body = json.loads(content)
            choice = body["choices"][0]
            text, reason = choice["message"].get("content"), choice.get("finish_reason")
            usage = body.get("usage") or {}
            tokens = {name: usage.get(name) for name in ("prompt_tokens", "completion_tokens")}
        except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
            raise _TemporaryFailure("did not answer with a chat completion") from None
        if text is not None and not isinstance(text, str):
            raise _TemporaryFailure("did not answer with a chat completion")
        self._count(**{name: count for name, count in tokens.items() if type(count) is int and 0 <= count < 10**7})
        if reason == "content_filter" or text is None:
            return ChatAnswer("", AnswerEnd.REFUSED)
        is_cut = reason == "length" or len(text) > MAX_ANSWER_CHARS
        return ChatAnswer(to_storable(text, MAX_ANSWER_CHARS), AnswerEnd.LENGTH if is_cut else AnswerEnd.STOP)

    @cached_property
    def _client(self) -> OpenAI:
        from corpus_guard.models.chat_client import make_client

        return make_client(self.address, self._key.get_secret_value(), self._seconds)


class _TemporaryFailure(Exception):
    """A try failed in a way that may pass."""

    def __init__(self, problem: str, pause: float = 0.0) -> None:
        super().__init__(problem)
        self.pause = pause  # seconds the endpoint asked for; 0: none


def _next_pause(state: RetryCallState) -> float:
    return _pause_after(state) or BACKOFF_SECONDS * 2 ** (state.attempt_number - 1)


def _is_last_try(state: RetryCallState) -> bool:
    return state.attempt_number >= MAX_TRIES or _pause_after(state) > MAX_PAUSE_SECONDS


def _pause_after(state: RetryCallState) -> float:
    """Return the seconds that the endpoint asked for; 0: none."""
    error = state.outcome.exception() if state.outcome else None
    return error.pause if isinstance(error, _TemporaryFailure) else 0.0


def _requested_pause(headers: Mapping[str, str]) -> float:
    """Return the seconds of ``Retry-After``, a number or a date; 0 where it says nothing."""
    value = headers.get("retry-after", "").strip()
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        moment = parsedate_to_datetime(value)
        return max(0.0, (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return 0.0


def _checked_key(key: SecretStr) -> SecretStr:
    stripped = key.get_secret_value().strip()  # a file with a secret ends in a line break
    if not stripped.isascii() or not stripped.isprintable():
        raise SettingsError(
            "environment variable CORPUS_GUARD_CHAT_KEY: expected printable ASCII characters in one line, got others; copy "
            "the key again"
        )
    return SecretStr(stripped)


def _api_messages(conversation: Conversation) -> list[dict[str, str]]:
    """Convert to what the API takes; many chat templates refuse two messages of one role in a row."""
    messages: list[dict[str, str]] = []
    for message in conversation:
        content = replace_surrogates(message.content)  # JSON in UTF-8 has none
        if messages and messages[-1]["role"] == message.role:
            messages[-1]["content"] += f"\n\n{content}"
        else:
            messages.append({"role": message.role, "content": content})
    return messages
