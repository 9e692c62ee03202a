"""An endpoint that is busy, broken, endless or hostile; and a real one."""

from __future__ import annotations

import gzip
import logging
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from corpus_guard.errors import JudgeFailed, SettingsError
from corpus_guard.ledger import Ledger
from corpus_guard.models.chat import MAX_ANSWER_CHARS, MAX_PAUSE_SECONDS, MAX_TRIES, AnswerEnd, ChatAnswer, ChatEndpoint
from corpus_guard.models.chat_cache import CachedAnswer, LedgerAnswerCache, MemoryAnswerCache
from corpus_guard.models.messages import Message
from corpus_guard.screening.history import LedgerCache
from corpus_guard.settings import Settings
from endpoint import Asked, Endpoint, Reply, Script, refuses, says, scripted
from postgres import free_port

KEY = "sk-never-to-be-seen"
TEXT = "The words of a document."


class Bench:
    """Scripted endpoints, and clients that wait for nothing."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.pauses: list[float] = []

    def serve(self, script: Script) -> Endpoint:
        return self._stack.enter_context(scripted(script))

    def client(self, script: Script, **fields: Any) -> tuple[ChatEndpoint, Endpoint]:
        endpoint = self.serve(script)
        made: dict[str, Any] = {"key": SecretStr(KEY), "pause": self.pauses.append, "seconds": 5.0, **fields}
        return ChatEndpoint(endpoint.url, "a-model", **made), endpoint

    def turns(self, *replies: Reply) -> Script:
        """Says one after the other, and the last one for ever."""
        left = list(replies)
        return lambda _: left.pop(0) if len(left) > 1 else left[0]


@pytest.fixture
def bench() -> Iterator[Bench]:
    with ExitStack() as stack:
        yield Bench(stack)


def a_chat(text: str = TEXT) -> list[Message]:
    return [Message("system", "Be brief."), Message("user", text)]


def test_what_is_sent_and_what_comes_back(bench: Bench) -> None:
    client, endpoint = bench.client(lambda _: says("Ada Moss"))

    answer = client.ask([*a_chat(), Message("user", "Who?")], max_tokens=20)

    assert answer == ChatAnswer("Ada Moss", AnswerEnd.STOP)
    (asked,) = endpoint.asked
    assert asked.path == "/v1/chat/completions"
    assert asked.body == {
        "model": "a-model",
        "temperature": 0,
        "max_tokens": 20,
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": f"{TEXT}\n\nWho?"}],
    }
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    usage = client.usage
    assert (usage.requests, usage.prompt_tokens, usage.completion_tokens) == (1, 11, 3)
    assert (usage.retries, usage.failures, usage.cached) == (0, 0, 0)
    assert 0 < usage.seconds < 5


def test_no_key_no_header_and_nothing_of_another_account(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY"):
        monkeypatch.setenv(name, "of-another-account")
    client, endpoint = bench.client(lambda _: says("yes"), key=SecretStr(""))

    client.ask(a_chat())

    assert "authorization" not in endpoint.asked[0].headers
    assert "of-another-account" not in str(endpoint.asked[0].headers)


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503])
def test_what_may_pass_is_tried_again(bench: Bench, status: int) -> None:
    client, endpoint = bench.client(bench.turns(refuses(status), refuses(status), says("now")))

    assert client.ask(a_chat()).text == "now"

    assert len(endpoint.asked) == 3
    assert bench.pauses == [1.0, 2.0]
    assert (client.usage.requests, client.usage.retries, client.usage.failures) == (3, 2, 0)


def test_an_endpoint_that_asks_for_quiet_gets_it(bench: Bench) -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=30))
    script = bench.turns(refuses(429, retry_after="7"), refuses(429, retry_after=later), says("now"))
    client, _ = bench.client(script)

    client.ask(a_chat())

    assert bench.pauses == [7.0, pytest.approx(29, abs=2)]


@pytest.mark.parametrize("value", ["soon", "-3", "", "nan-sense", "Fri, 99 Nov 2026"])
def test_what_retry_after_cannot_mean_is_the_usual_pause(bench: Bench, value: str) -> None:
    client, _ = bench.client(bench.turns(refuses(503, retry_after=value), says("now")))

    client.ask(a_chat())

    assert bench.pauses == [1.0]


@pytest.mark.parametrize("value", [str(MAX_PAUSE_SECONDS + 1), "inf", "1e300"])
def test_one_that_asks_for_an_hour_has_failed(bench: Bench, value: str) -> None:
    client, endpoint = bench.client(lambda _: refuses(429, retry_after=value))

    with pytest.raises(JudgeFailed, match="HTTP 429"):
        client.ask(a_chat())
    assert len(endpoint.asked) == 1
    assert bench.pauses == []


@pytest.mark.parametrize(
    "reply",
    [
        refuses(500),
        refuses(429),
        Reply(body=b"<html>a proxy</html>"),
        Reply(body=b"[" * 100_000),
        Reply(body=b"{}"),
        Reply(body=b"[1, 2]"),
        Reply(body=b'"text"'),
        Reply(body=b'{"choices": []}'),
        Reply(body=b'{"choices": [{"message": "no"}]}'),
        Reply(body=b'{"choices": [{"message": {"content": {"a": 1}}}]}'),
        Reply(body=b""),
    ],
    ids=lambda reply: f"{reply.status}-{reply.body[:12]!r}",
)
def test_a_broken_endpoint_fails_after_its_tries_and_says_what_to_do(bench: Bench, reply: Reply) -> None:
    client, endpoint = bench.client(lambda _: reply)

    with pytest.raises(JudgeFailed, match="CORPUS_GUARD_CHAT_AT_ONCE") as failed:
        client.ask(a_chat())

    assert len(endpoint.asked) == MAX_TRIES
    assert endpoint.url in str(failed.value)
    assert client.usage.failures == 1
    assert client.usage.retries == MAX_TRIES - 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 301])
def test_what_will_not_pass_fails_at_once(bench: Bench, status: int) -> None:
    client, endpoint = bench.client(lambda _: refuses(status, location="http://127.0.0.1:9/elsewhere"))

    with pytest.raises(JudgeFailed, match=f"HTTP {status}.*CORPUS_GUARD_CHAT_KEY"):
        client.ask(a_chat())

    assert len(endpoint.asked) == 1
    assert client.usage.failures == 1


def test_nobody_there(bench: Bench) -> None:
    client = ChatEndpoint(f"http://127.0.0.1:{free_port()}/v1", "a-model", pause=bench.pauses.append)

    with pytest.raises(JudgeFailed, match="cannot be reached"):
        client.ask(a_chat())
    assert len(bench.pauses) == MAX_TRIES - 1


@pytest.mark.parametrize("slow", [{"seconds": 1.0}, {"drips": True}], ids=["silent", "dripping"])
def test_an_answer_has_its_time(bench: Bench, slow: dict[str, Any]) -> None:
    client, endpoint = bench.client(lambda _: says("x" * 200, **slow), seconds=0.1)
    began = time.monotonic()

    with pytest.raises(JudgeFailed, match="in time"):
        client.ask(a_chat())

    assert time.monotonic() - began < 4
    assert len(endpoint.asked) == MAX_TRIES


def test_a_long_answer_is_cut(bench: Bench) -> None:
    client, _ = bench.client(lambda _: says("x" * (MAX_ANSWER_CHARS + 1)))

    assert client.ask(a_chat()) == ChatAnswer("x" * MAX_ANSWER_CHARS, AnswerEnd.LENGTH)


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        (says("half a sen", "length"), ChatAnswer("half a sen", AnswerEnd.LENGTH)),
        (says("", "stop"), ChatAnswer("", AnswerEnd.STOP)),
        (says(None), ChatAnswer("", AnswerEnd.REFUSED)),
        (says("cannot", "content_filter"), ChatAnswer("", AnswerEnd.REFUSED)),
        (refuses(400, "content_filter"), ChatAnswer("", AnswerEnd.REFUSED)),
        (refuses(400, "context_length_exceeded"), ChatAnswer("", AnswerEnd.REFUSED)),
        (refuses(413), ChatAnswer("", AnswerEnd.REFUSED)),
        (says("a\0b\ud800"), ChatAnswer("a\N{REPLACEMENT CHARACTER}b?", AnswerEnd.STOP)),
        # Without end: babble, a bomb, an error. They are not read.
        (says("word " * 40_000), ChatAnswer("", AnswerEnd.TOO_LONG)),
        (
            Reply(body=gzip.compress(b"0" * 50_000_000), headers={"content-encoding": "gzip"}),
            ChatAnswer("", AnswerEnd.TOO_LONG),
        ),
        (Reply(status=500, body=b"0" * 1_000_000), ChatAnswer("", AnswerEnd.TOO_LONG)),
    ],
    ids=lambda value: value.ended if isinstance(value, ChatAnswer) else "",
)
def test_what_is_wrong_with_one_text_is_an_answer(bench: Bench, reply: Reply, answer: ChatAnswer) -> None:
    client, endpoint = bench.client(lambda _: reply)

    assert client.ask(a_chat()) == answer
    assert len(endpoint.asked) == 1


def test_a_model_that_refuses_parameters_is_asked_without_them(bench: Bench) -> None:
    def choosy(asked: Asked) -> Reply:
        for name in ("max_tokens", "temperature"):
            if name in asked.body:
                return refuses(400, "unsupported_parameter", name)
        return says("yes")

    client, endpoint = bench.client(choosy)

    assert client.ask(a_chat(), max_tokens=9).text == "yes"
    assert client.ask(a_chat("another")).text == "yes"

    assert endpoint.asked[-2].body["max_completion_tokens"] == 9
    assert len(endpoint.asked) == 4  # what it refuses is remembered
    always, endpoint = bench.client(lambda _: refuses(400, None, "temperature"))
    with pytest.raises(JudgeFailed):
        always.ask(a_chat())
    assert len(endpoint.asked) == 2


@pytest.mark.parametrize("text", ["", "\ud800", "\0", "<|im_end|>" * 9, "]}\"'\\" * 99])
def test_hostile_texts_arrive_as_they_are(bench: Bench, text: str) -> None:
    client, endpoint = bench.client(lambda _: says("fine"))

    assert client.ask([Message("user", text)]).text == "fine"
    assert endpoint.asked[0].last == text.replace("\ud800", "?")


def test_so_many_at_once_over_all_threads(bench: Bench) -> None:
    client, endpoint = bench.client(lambda asked: says(asked.last, seconds=0.05), max_concurrency=3)
    said: list[list[ChatAnswer]] = []
    chats = [[a_chat(f"{thread}-{number}") for number in range(6)] for thread in range(3)]
    threads = [threading.Thread(target=lambda own=own: said.append(client.ask_all(own))) for own in chats]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert endpoint.most_open == 3
    assert sorted(answer.text for own in said for answer in own) == sorted(
        own[-1].content for each in chats for own in each
    )
    assert all([answer.text[2:] for answer in own] == [str(number) for number in range(6)] for own in said)


def test_the_same_question_is_asked_once(bench: Bench) -> None:
    cache = MemoryAnswerCache()
    client, endpoint = bench.client(lambda asked: says(asked.last), cache=cache)

    assert [answer.text for answer in client.ask_all([a_chat("a"), a_chat("b"), a_chat("a")])] == ["a", "b", "a"]
    client.ask(a_chat("a"))
    assert len(endpoint.asked) == 2
    assert client.usage.cached == 1

    client.ask(a_chat("a"), max_tokens=5)  # other limits, another question
    client.ask([Message("user", "Be brief."), Message("user", "a")])
    assert len(endpoint.asked) == 4
    another = ChatEndpoint(endpoint.url, "another-model", cache=cache)
    another.ask(a_chat("a"))
    assert len(endpoint.asked) == 5
    assert another.digest != client.digest
    assert client.ask_all([]) == []


@pytest.mark.parametrize("nothing", [says(""), says("cannot", "content_filter"), says("word " * 40_000)])
def test_what_is_no_answer_is_asked_again_another_time(bench: Bench, nothing: Reply) -> None:
    client, endpoint = bench.client(bench.turns(nothing, says("now")))

    assert client.ask(a_chat()).text == ""
    assert client.ask(a_chat()).text == "now"
    assert len(endpoint.asked) == 2


def test_what_was_answered_before_a_failure_is_kept(bench: Bench) -> None:
    def script(asked: Asked) -> Reply:
        return refuses(401) if asked.last == "bad" else says(asked.last)

    client, endpoint = bench.client(script, max_concurrency=1)
    with pytest.raises(JudgeFailed):
        client.ask_all([a_chat("a"), a_chat("bad"), a_chat("c"), a_chat("d")])
    assert [asked.last for asked in endpoint.asked][:2] == ["a", "bad"]
    assert len(endpoint.asked) < 4  # nothing new is begun
    before = len(endpoint.asked)

    assert client.ask(a_chat("a")).text == "a"

    assert len(endpoint.asked) == before


def test_the_ledger_keeps_answers_for_good(bench: Bench, ledger: Ledger) -> None:
    client, endpoint = bench.client(lambda _: says("a\0 \ud800 <b>{{ x }}</b>"), cache=LedgerAnswerCache(ledger))
    first = client.ask_all([a_chat(), a_chat("b")])
    again = ChatEndpoint(endpoint.url, "a-model", cache=LedgerAnswerCache(ledger))

    assert again.ask_all([a_chat(), a_chat("b")]) == first
    assert len(endpoint.asked) == 2
    assert again.usage.requests == 0
    assert again.usage.cached == 2
    cache = LedgerAnswerCache(ledger)
    cache.save({"k": CachedAnswer("one", AnswerEnd.STOP)})
    cache.save({"k": CachedAnswer("two", AnswerEnd.STOP)})
    assert cache.load(["k", "unknown"]) == {"k": CachedAnswer("one", AnswerEnd.STOP)}
    assert cache.load([]) == {}


def test_a_purge_forgets_answers_and_nothing_else(ledger: Ledger) -> None:
    answers, findings = LedgerAnswerCache(ledger), LedgerCache(ledger)
    answers.save(
        {"a" * 64: CachedAnswer("a quotation", AnswerEnd.STOP), "b" * 64: CachedAnswer("another", AnswerEnd.STOP)}
    )
    findings.save({"a" * 64: []})

    with ledger.write() as connection:
        assert answers.delete_all(connection) == 2

    assert answers.load(["a" * 64, "b" * 64]) == {}
    assert findings.load(["a" * 64]) == {"a" * 64: []}


def test_neither_key_nor_text_is_shown(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, logger="openai")
    client, endpoint = bench.client(lambda _: refuses(401, KEY, KEY))

    with pytest.raises(JudgeFailed) as failed:
        client.ask(a_chat())

    shown = "".join(traceback.format_exception(failed.value)) + repr(client) + client.digest + str(vars(client))
    for secret in (KEY, TEXT, "endpoint's own words"):
        assert secret not in shown
        assert secret not in caplog.text
    assert len(endpoint.asked) == 1


def test_a_key_from_a_file_is_used_and_one_that_is_no_header_is_not_repeated(bench: Bench) -> None:
    client, endpoint = bench.client(lambda _: says("yes"), key=SecretStr(f"{KEY}\n"))
    client.ask(a_chat())
    assert endpoint.asked[0].headers["authorization"] == f"Bearer {KEY}"

    for key in (f"{KEY}\r\nX-Injected: 1", f"{KEY}ä", f"{KEY}\0"):
        with pytest.raises(SettingsError, match="CORPUS_GUARD_CHAT_KEY") as refused:
            bench.client(lambda _: says("yes"), key=SecretStr(key))
        assert KEY not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    ["", "localhost:8000/v1", "file:///etc/passwd", "http://", "http://a:pw-4711@b/v1", "http://b/v1?key=pw-4711"],
)
def test_an_url_of_another_kind_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(SettingsError, match="CORPUS_GUARD_CHAT_KEY") as refused:
        ChatEndpoint(url, "a-model")
    assert "4711" not in str(refused.value)


def test_the_settings_name_it(bench: Bench, tmp_path: Path) -> None:
    endpoint = bench.serve(lambda _: says("yes"))
    settings = Settings(
        home=tmp_path, chat_url=endpoint.url, chat_model="m", chat_key=SecretStr(KEY), chat_at_once=2, chat_seconds=3
    )

    assert ChatEndpoint.from_settings(settings).ask(a_chat()).text == "yes"
    assert endpoint.asked[0].body["model"] == "m"
    assert endpoint.asked[0].headers["authorization"] == f"Bearer {KEY}"


def test_importing_it_imports_no_client() -> None:
    code = "import sys, corpus_guard.models.chat; print([name for name in ('openai', 'torch') if name in sys.modules])"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
