from __future__ import annotations

import orjson
import pytest

from corpus_guard.intake.parsing import ParsingSandbox

ROW = "application/x-row+json"


def test_a_rows_text_is_taken_as_it_is(sandbox: ParsingSandbox) -> None:
    content = orjson.dumps({"text": "<b>  %PDF- </b>\n", "declared": {"title": "T"}})
    parsed = sandbox.parse(content, ROW, "r.jsonl#1.pdf")
    assert (parsed.text, dict(parsed.declared), parsed.problems) == ("<b>  %PDF- </b>\n", {"title": "T"}, ())


def test_a_row_without_text_is_empty(sandbox: ParsingSandbox) -> None:
    parsed = sandbox.parse(b'{"text":"","declared":{}}', ROW, "r.jsonl#1")
    assert [problem.code for problem in parsed.problems] == ["parsing.empty"]


@pytest.mark.parametrize(("line", "told"), [("7", "line 7"), ("x\n", "a line"), ("9" * 50, "a line")])
def test_a_broken_row_names_its_line(sandbox: ParsingSandbox, line: str, told: str) -> None:
    parsed = sandbox.parse(b"{broken \xff", f"application/x-broken-row; line={line}", "r.jsonl#row-7")
    (problem,) = parsed.problems
    assert problem.code == "parsing.broken_row"
    assert problem.message.startswith(told + " ")
    assert parsed.media_type == "application/x-broken-row"


@pytest.mark.parametrize("content", [b"{", b"[]", b"{}", b"1"])
def test_a_row_of_another_shape_is_broken(sandbox: ParsingSandbox, content: bytes) -> None:
    assert [problem.code for problem in sandbox.parse(content, ROW, "r").problems] == ["parsing.broken_row"]
