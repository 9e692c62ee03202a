"""A language model behind an endpoint that speaks OpenAI's chat API: its own, vLLM's, Ollama's, `transformers serve`.

Rules
    * temperature 0; an answer has at most so many tokens, `LONGEST_ANSWER` characters, and a response 128 KiB;
    * at most `at_once` questions are open, over all threads; one that waits for its next try keeps its place, so that an endpoint which
      asks for quiet gets it;
    * a busy, failing or babbling endpoint is asked again, `TRIES` times in all, after 1, 2, … seconds or what `Retry-After` says; one that
      asks for more than `LONGEST_PAUSE` has failed;
    * what is wrong with one conversation (its length, a content filter, an answer without end) is an *answer* without text and says
      why: a hostile text must not be able to stop the work on the others;
    * answers are kept by content (address, model, messages, limits); what was answered is not asked, or paid for, again;
    * everything is counted (`Usage`).

Neither keys nor messages nor what an endpoint says of its errors enter a log, an exception or a `repr`. Redirects are not followed: the
texts go to the address that was configured and nowhere else. What it does not do: end a response whose header drips in byte by byte.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import SecretStr

from corpus_guard.domain import digest
from corpus_guard.errors import JudgeFailed, SettingsError
from corpus_guard.models.chat_cache import AnswerCache, AnswersInMemory

if TYPE_CHECKING:
    from openai import OpenAI

    from corpus_guard.settings import Settings

ANSWER_TOKENS = 600
LONGEST_ANSWER = 16_000  # characters
TRIES = 4
BACK_OFF = 1.0  # seconds before the second try; doubled for each one after it
LONGEST_PAUSE = 60.0  # seconds an endpoint may ask for

STOP, LENGTH, REFUSED, TOO_LONG = "stop", "length", "refused", "too long"

_AGAIN = {408, 409, 425, 429}
_ABOUT_THE_TEXT = {"content_filter", "content_policy_violation", "context_length_exceeded", "string_above_max_length"}
_OPTIONAL = {"max_tokens", "temperature"}  # newer models of OpenAI's refuse them


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a conversation."""

    role: str  # system, user or assistant
    content: str


Conversation = Sequence[Turn]


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model said: hostile text, for it may repeat what it was shown."""

    text: str  # no lone surrogates, no NUL; empty where there is none
    ended: str  # STOP; LENGTH: cut off; REFUSED, TOO_LONG: no text


@dataclass(frozen=True, slots=True)
class Usage:
    """What an endpoint was asked, and what it took."""

    requests: int = 0
    retries: int = 0  # of these requests
    failures: int = 0  # conversations that got no answer in the end
    cached: int = 0  # conversations answered without a request
    prompt_tokens: int = 0  # as the endpoint counts
    completion_tokens: int = 0
    seconds: float = 0.0  # of requests, added up; more than passed where several are open


class ChatEndpoint:
    """A model at an address. Imports its client when it is first asked."""

    def __init__(
        self,
        url: str,
        model: str,
        key: SecretStr | None = None,
        *,
        seconds: float = 60.0,
        at_once: int = 4,
        cache: AnswerCache | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """Talk to `model` at `url`.

        Args:
            url: ends where ``/chat/completions`` begins.
            model: its name there.
            key: sent as a bearer token; none or empty: no such header.
            seconds: one answer may take; one that drips in is given up after twice as many.
            at_once: open questions.
            cache: keeps answers; without one they are kept as long as this object.
            pause: waits so many seconds.

        Raises:
            SettingsError: `url` is no http or https URL, or holds what may be secret; `key` cannot stand in a header.
        """
        parts = urlsplit(url)
        if (
            parts.scheme not in {"http", "https"}
            or not parts.hostname
            or parts.username
            or parts.query
            or parts.fragment
        ):
            # Its parts are not quoted, and none may be secret: HTTP clients log the URLs they ask.
            raise SettingsError(
                "environment variable CORPUS_GUARD_CHAT_URL: expected https://host/v1 or http://host:port/v1, without user, password or "
                "query; put what the endpoint asks for into CORPUS_GUARD_CHAT_KEY"
            )
        self.address = url
        self.model = model
        self._key = _usable(key or SecretStr(""))
        self._seconds = seconds
        self._at_once = at_once
        self._cache = cache or AnswersInMemory()
        self._pause = pause
        self._slots = threading.BoundedSemaphore(at_once)
        self._counting = threading.Lock()
        self._usage = Usage()
        self._unwanted: frozenset[str] = frozenset()  # parameters this model refuses

    @classmethod
    def of(cls, settings: Settings, cache: AnswerCache | None = None) -> ChatEndpoint:
        """The one that the settings name."""
        return cls(
            settings.chat_url,
            settings.chat_model,
            settings.chat_key,
            seconds=settings.chat_seconds,
            at_once=settings.chat_at_once,
            cache=cache,
        )

    def __repr__(self) -> str:
        return f"<ChatEndpoint {self.model!r} at {self.address}>"

    @property
    def digest(self) -> str:
        """Which model, and where: two addresses may mean two models by one name. At most 100 characters."""
        return f"{self.model[:60]}@{digest('chat-endpoint/v1', [self.address, self.model])[:12]}"

    @property
    def usage(self) -> Usage:
        """What was asked so far."""
        return self._usage

    def ask(self, conversation: Conversation, most_tokens: int = ANSWER_TOKENS) -> Answer:
        """The next turn of one conversation; see `ask_all`."""
        return self.ask_all([conversation], most_tokens)[0]

    def ask_all(self, conversations: Sequence[Conversation], most_tokens: int = ANSWER_TOKENS) -> list[Answer]:
        """The next turn of each conversation, in their order.

        Args:
            conversations: turns of one role in a row are sent as one.
            most_tokens: where an answer is cut off.

        Raises:
            JudgeFailed: one of them got no answer in `TRIES` tries. The others that were under way are answered and kept first; those
                not begun are not asked.
            LedgerUnavailable: the cache does not answer.
        """
        asked = {self._content(one, most_tokens): one for one in conversations}
        keys = [self._content(one, most_tokens) for one in conversations]
        kept = self._cache.load(list(asked))
        answers = {key: Answer(said, ended) for key, (said, ended) in kept.items()}
        self._count(cached=sum(key in answers for key in keys))
        missing = [key for key in asked if key not in answers]
        if missing:
            with ThreadPoolExecutor(min(len(missing), self._at_once), "chat") as pool:
                futures = {pool.submit(self._ask, asked[key], most_tokens): key for key in missing}
                answers.update(self._collected(futures))
        return [answers[key] for key in keys]

    def _collected(self, futures: dict[Future[Answer], str]) -> dict[str, Answer]:
        answers: dict[str, Answer] = {}
        failed: JudgeFailed | None = None
        for future in as_completed(futures):
            if future.cancelled():
                continue
            try:
                answer = answers[futures[future]] = future.result()
            except JudgeFailed as error:
                failed = failed or error
                for other in futures:
                    other.cancel()
                continue
            if answer.text.strip() and answer.ended in {STOP, LENGTH}:
                self._cache.save({futures[future]: (answer.text, answer.ended)})
        if failed:
            raise failed
        return answers

    def _content(self, conversation: Conversation, most_tokens: int) -> str:
        turns = [part for turn in conversation for part in (turn.role, turn.content)]
        return digest("chat/v1", [self.digest, str(most_tokens), *turns])

    def _count(self, **more: float) -> None:
        with self._counting:
            self._usage = replace(self._usage, **{name: getattr(self._usage, name) + by for name, by in more.items()})

    def _ask(self, conversation: Conversation, most_tokens: int) -> Answer:
        with self._slots:
            problem = _Again("")
            for attempt in range(TRIES):
                if attempt:
                    self._pause(problem.after or BACK_OFF * 2 ** (attempt - 1))
                    self._count(retries=1)
                try:
                    return self._once(conversation, most_tokens)
                except _Again as error:
                    problem = error
                    if problem.after > LONGEST_PAUSE:
                        break
            self._count(failures=1)
            raise JudgeFailed(
                f"chat endpoint {self.address}: {problem} (tries: {attempt + 1}); expected an answer within "
                f"{self._seconds:g} s. See that it runs and is not overloaded, or lower CORPUS_GUARD_CHAT_AT_ONCE; running again "
                "goes on where this stopped"
            )

    def _once(self, conversation: Conversation, most_tokens: int) -> Answer:
        import openai

        from corpus_guard.models._chat_client import TooLong

        while True:
            began = time.monotonic()
            unwanted = self._unwanted
            try:
                return self._read(self._send(conversation, most_tokens, unwanted))
            except TooLong:
                return Answer("", TOO_LONG)
            except openai.APIStatusError as error:
                answer = self._explained(error, unwanted)
                if answer:
                    return answer
            except openai.APITimeoutError:
                raise _Again("did not answer in time") from None
            except openai.OpenAIError as error:
                raise _Again(f"cannot be reached ({type(error.__cause__ or error).__name__})") from None
            finally:
                self._count(requests=1, seconds=time.monotonic() - began)

    def _send(self, conversation: Conversation, most_tokens: int, unwanted: frozenset[str]) -> bytes:
        from openai import Omit

        limits: dict[str, float] = {"max_completion_tokens" if "max_tokens" in unwanted else "max_tokens": most_tokens}
        if "temperature" not in unwanted:
            limits["temperature"] = 0
        messages: Any = _messages(conversation)
        without_key = {} if self._key.get_secret_value() else {"Authorization": Omit()}
        raw = self._client.chat.completions.with_raw_response.create(
            model=self.model, messages=messages, extra_body=limits, extra_headers=without_key
        )
        return raw.content

    def _explained(self, error: Any, unwanted: frozenset[str]) -> Answer | None:
        """The answer that an error amounts to; None: ask again without a parameter that the model refuses.

        Raises:
            _Again: it may pass.
            JudgeFailed: it will not.
        """
        status, code, parameter = int(error.status_code), error.code, error.param
        if status in _AGAIN or status >= 500:
            raise _Again(f"answered HTTP {status}", _pause_asked(error.response.headers)) from None
        if status == 413 or (isinstance(code, str) and code in _ABOUT_THE_TEXT):
            return Answer("", REFUSED)
        if status == 400 and isinstance(parameter, str) and parameter in _OPTIONAL - unwanted:
            self._unwanted |= {parameter}
            return None
        raise self._refusal(f"answered HTTP {status}") from None

    def _refusal(self, problem: str) -> JudgeFailed:
        self._count(failures=1)
        return JudgeFailed(
            f"chat endpoint {self.address} {problem} for model {self.model!r}; expected an answer. See CORPUS_GUARD_CHAT_URL (it ends "
            "where /chat/completions begins), CORPUS_GUARD_CHAT_MODEL and CORPUS_GUARD_CHAT_KEY"
        )

    def _read(self, content: bytes) -> Answer:
        try:
            body = json.loads(content)  # orjson refuses lone surrogates, which a hostile text may make a model say
            choice = body["choices"][0]
            text, reason = choice["message"].get("content"), choice.get("finish_reason")
            usage = body.get("usage") or {}
            tokens = {name: usage.get(name) for name in ("prompt_tokens", "completion_tokens")}
        except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
            raise _Again("answered what is no chat completion") from None
        if text is not None and not isinstance(text, str):
            raise _Again("answered what is no chat completion")
        self._count(**{name: count for name, count in tokens.items() if type(count) is int and 0 <= count < 10**7})
        if reason == "content_filter" or text is None:
            return Answer("", REFUSED)
        whole = len(text) <= LONGEST_ANSWER
        return Answer(_clean(text[:LONGEST_ANSWER]), LENGTH if reason == "length" or not whole else STOP)

    @cached_property
    def _client(self) -> OpenAI:
        from corpus_guard.models._chat_client import make_client

        return make_client(self.address, self._key.get_secret_value(), self._seconds)


class _Again(Exception):
    """A try failed in a way that may pass."""

    def __init__(self, problem: str, after: float = 0.0) -> None:
        super().__init__(problem)
        self.after = after  # seconds the endpoint asked for; 0: none


def _usable(key: SecretStr) -> SecretStr:
    stripped = key.get_secret_value().strip()  # a file with a secret ends in a line break
    if not stripped.isascii() or not stripped.isprintable():
        raise SettingsError(
            "environment variable CORPUS_GUARD_CHAT_KEY: expected printable ASCII characters in one line, found others; copy the key "
            "again"
        )
    return SecretStr(stripped)


def _pause_asked(headers: Any) -> float:
    """Seconds of ``Retry-After``, a number or a date; 0 where it says nothing."""
    value = str(headers.get("retry-after", "")).strip()
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        moment = parsedate_to_datetime(value)
        return max(0.0, (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return 0.0


def _messages(conversation: Conversation) -> list[dict[str, str]]:
    """As the API takes them; many chat templates refuse two turns of one role in a row."""
    messages: list[dict[str, str]] = []
    for turn in conversation:
        content = turn.content.encode("utf-8", "replace").decode()  # JSON in UTF-8 has no lone surrogates
        if messages and messages[-1]["role"] == turn.role:
            messages[-1]["content"] += f"\n\n{content}"
        else:
            messages.append({"role": turn.role, "content": content})
    return messages


def _clean(text: str) -> str:
    """What a database and a terminal can hold."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")
