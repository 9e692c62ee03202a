from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from corpus_guard.intake.parsing import ParsedDocument, ParsingSandbox, worker
from corpus_guard.intake.parsing import sandbox as module
from corpus_guard.settings import Settings
from intake.parsing import making

PAGE = b"<!doctype html><html><body><p>visible</p></body></html>"


def deep(levels: int) -> bytes:
    """HTML whose parsing takes time quadratic in `levels`: 10 s at 100,000."""
    return b"<html><body>" + b"<div>" * levels + b"deep"


def codes(parsed: ParsedDocument) -> list[str]:
    return [problem.code for problem in parsed.problems]


@pytest.fixture
def strict() -> Iterator[ParsingSandbox]:
    with ParsingSandbox(Settings(parse_seconds=1.5, parse_memory_bytes=320 * 2**20)) as opened:
        yield opened


def test_every_document_comes_out_in_order(sandbox: ParsingSandbox) -> None:
    documents = [
        (1, PAGE, "", "a.html"),
        (2, b"text", "", "a.txt"),
        (3, making.pdf("in a pdf"), "", "a.pdf"),
        (4, making.word("in a docx"), "", "a.docx"),
        (5, b"", "", "a.txt"),
        (6, b"\x00" * 99, "", "a"),
        (7, b"# md", "", "a.md"),
    ]
    found = [(key, parsed.text, codes(parsed)) for key, parsed in sandbox.parse_many(documents)]
    assert found == [
        (1, "visible", []),
        (2, "text", []),
        (3, "in a pdf", []),
        (4, "in a docx\n\nend", ["parsing.hidden_text"]),  # a property
        (5, "", ["parsing.empty"]),
        (6, "", ["parsing.binary"]),
        (7, "# md", []),
    ]


def test_five_thousand_rows_start_no_process_and_take_less_than_two_seconds() -> None:
    row = orjson.dumps({"text": "a row's text " * 20, "declared": {"title": "t"}})
    rows = [(number, row, "application/x-row+json", f"r.jsonl#{number}") for number in range(5_000)]
    with ParsingSandbox(Settings()) as opened:
        started = time.process_time()
        assert sum(parsed.text.startswith("a row") for _, parsed in opened.parse_many(rows)) == 5_000
        assert time.process_time() - started < 2
        assert opened._process is None


def test_a_document_that_takes_too_long_is_named_and_the_others_come(strict: ParsingSandbox) -> None:
    strict.parse(PAGE, "", "warm.html")
    found = dict(
        strict.parse_many(
            [("before", PAGE, "", "a.html"), ("deep", deep(150_000), "", "b.html"), ("after", PAGE, "", "c.html")]
        )
    )
    assert codes(found["deep"]) == ["parsing.timeout"]
    assert found["before"].text == found["after"].text == "visible"


def test_a_busy_machine_costs_no_document(strict: ParsingSandbox) -> None:
    strict.parse(PAGE, "", "warm.html")
    assert strict._process is not None
    worker = strict._process.pid
    os.kill(worker, signal.SIGSTOP)
    others = threading.Timer(2.5, os.kill, (worker, signal.SIGCONT))  # longer than its 1.5 seconds
    others.start()
    parsed = strict.parse(PAGE, "", "late.html")
    others.join()
    assert (parsed.text, codes(parsed)) == ("visible", [])


def test_a_parser_that_waits_for_ever_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corpus_guard.intake.parsing.sandbox._PATIENCE", 1)
    with ParsingSandbox(Settings(parse_seconds=2)) as opened:
        opened.parse(PAGE, "", "warm.html")
        assert opened._process is not None
        os.kill(opened._process.pid, signal.SIGSTOP)
        assert codes(opened.parse(PAGE, "", "never.html")) == ["parsing.timeout"]
        assert opened.parse(PAGE, "", "after.html").text == "visible"


def test_a_document_that_takes_too_much_memory_is_named_and_the_others_come(strict: ParsingSandbox) -> None:
    heavy = b"<html><body>" + b"<b>x</b>" * 1_500_000
    found = dict(strict.parse_many([("heavy", heavy, "", "a.html"), ("after", PAGE, "", "b.html")]))
    assert codes(found["heavy"])[0] in {"parsing.memory", "parsing.timeout"}
    assert found["after"].text == "visible"


def test_memory_refused_to_the_parser_is_named_so() -> None:
    with ParsingSandbox(Settings(parse_seconds=60, parse_memory_bytes=256 * 2**20)) as opened:
        parsed = opened.parse(b"<html><body>" + b"<b>x</b>" * 2_000_000, "", "a.html")
        assert codes(parsed) == ["parsing.memory"]
        assert opened.parse(PAGE, "", "b.html").text == "visible"


def test_a_killed_worker_costs_one_document(sandbox: ParsingSandbox) -> None:
    sandbox.parse(PAGE, "", "warm.html")
    assert sandbox._process is not None
    killer = threading.Timer(0.5, os.kill, (sandbox._process.pid, signal.SIGKILL))
    killer.start()
    found = dict(
        sandbox.parse_many([(1, PAGE, "", "a.html"), (2, deep(100_000), "", "b.html"), (3, PAGE, "", "c.html")])
    )
    killer.join()
    assert codes(found[2]) == ["parsing.crashed"]
    assert "SIGKILL" in found[2].problems[0].message
    assert (found[1].text, found[3].text) == ("visible", "visible")


def test_the_worker_is_gone_with_its_sandbox() -> None:
    with ParsingSandbox(Settings()) as opened:
        opened.parse(PAGE, "", "a.html")
        assert opened._process is not None
        pid = opened._process.pid
        assert os.getpgid(pid) == pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_the_worker_has_limits_and_none_of_our_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    with ParsingSandbox(Settings(parse_memory_bytes=512 * 2**20)) as opened:
        opened.parse(PAGE, "", "a.html")
        assert opened._process is not None
        place = Path(f"/proc/{opened._process.pid}")
        assert b"hunter2" not in (place / "environ").read_bytes()
        limits = {line[:26].strip(): line[26:].split()[0] for line in (place / "limits").read_text().splitlines()}
        assert limits["Max address space"] == str(512 * 2**20)
        assert limits["Max file size"] == limits["Max core file size"] == "0"
        assert limits["Max open files"] == "64"
        assert limits["Max cpu time"] != "unlimited"


@pytest.mark.parametrize(
    "attempt",
    [
        "import socket; socket.create_connection(('127.0.0.1', 9))",
        "import subprocess; subprocess.run(['true'])",
        "import os; os.system('true')",
        "open('/tmp/corpus-guard-must-not-exist', 'w')",
    ],
)
def test_a_parser_can_neither_connect_nor_run_nor_write(attempt: str) -> None:
    import subprocess
    import sys

    program = (
        "import sys\nfrom corpus_guard.intake.parsing import worker\nimport socket, subprocess, os\n"
        f"sys.addaudithook(worker._refuse)\ntry:\n    {attempt}\nexcept PermissionError:\n    print('refused')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=30)
    assert done.stdout == "refused\n"


@pytest.mark.parametrize(
    "reply",
    [b"not json", b"[]", b'{"text": 1}', b'{"text":"","hidden":"","declared":[],"media_type":"","problems":[]}'],
)
def test_a_reply_that_is_none_is_not_believed(
    monkeypatch: pytest.MonkeyPatch, sandbox: ParsingSandbox, reply: bytes
) -> None:
    monkeypatch.setattr(module, "_exchange", lambda *_: reply)
    assert codes(sandbox.parse(PAGE, "", "a.html")) == ["parsing.crashed"]


def test_a_reply_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    with ParsingSandbox(Settings(parse_seconds=20)) as opened:
        monkeypatch.setattr(ParsingSandbox, "_reply_limit", lambda _: 50)
        assert codes(opened.parse(PAGE, "", "a.html")) == ["parsing.crashed"]


def test_limits_on_bytes_and_text() -> None:
    with ParsingSandbox(Settings(max_document_bytes=5_000, max_text_chars=1_024)) as opened:
        assert codes(opened.parse(b"x" * 5_001, "", "a.txt")) == ["parsing.too_large"]
        long = opened.parse(b"x" * 1_025, "", "a.txt")
        assert (codes(long), long.text) == (["parsing.too_long"], "")
        assert opened.parse(b"x" * 1_024, "", "a.txt").text == "x" * 1_024
        hidden = opened.parse(b"<html><body>x<!--" + b"y" * 2_000 + b"--></html>", "", "a.html")
        assert codes(hidden) == ["parsing.hidden_text", "parsing.hidden_too_long"]
        assert len(hidden.hidden) == 1_024


def test_a_big_document_passes_through_the_pipes(sandbox: ParsingSandbox) -> None:
    text = "wörter und mehr " * 200_000
    assert sandbox.parse(text.encode(), "", "a.txt").text == text


def test_messages_never_hold_a_documents_text(sandbox: ParsingSandbox) -> None:
    secret = b"SECRETTEXT"
    for name, content in {
        "a.pdf": b"%PDF-1.4 " + secret,
        "a.docx": b"PK\x03\x04word/document.xml" + secret,
        "b.docx": making.with_part(making.word("x"), "word/document.xml", b"<broken " + secret),
        "SECRETTEXT": b"\x00" * 50 + secret,
        "a.txt": b"\xff\xfe" + secret + b"\xd8",
    }.items():
        parsed = sandbox.parse(content, "", name)
        assert parsed.problems
        assert "SECRETTEXT" not in str(parsed.problems)


def test_a_name_is_only_data(sandbox: ParsingSandbox) -> None:
    for name in ("../../x.html", "new\nline.html", "\x00.html", "\udcff.html", "a" * 100_000 + ".html"):
        assert sandbox.parse(PAGE, "", name).text == "visible"


def test_what_runs_outside_the_worker_does_not_load_parsers() -> None:
    import subprocess
    import sys

    program = (
        "import sys\nfrom corpus_guard.intake.parsing import worker\n"
        "worker.parse_safely(b'# x', media_type='', name='a.md', max_chars=99)\n"
        "print([name for name in ('pypdf', 'mammoth', 'resiliparse', 'pydantic', 'pyarrow') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout == "[]\n"
    assert worker.REQUEST.size == 12
