from __future__ import annotations

import time

import pytest

from corpus_guard.domain import Severity
from corpus_guard.intake.parsing.formats import markdown


def test_ordinary_markdown_is_kept_to_the_letter() -> None:
    source = "# Title\n\n* a\n* b\n\n```html\n<!-- shown -->\n```\n`<!-- shown -->` and <b>raw</b>\n\n---\n\n[x]: http://e.org\n"
    parsed = markdown.read(source.encode())
    assert (parsed.text, parsed.hidden, dict(parsed.declared)) == (source, "", {})


def test_what_a_reader_does_not_see_is_hidden_and_not_published() -> None:
    source = "before <!-- ignore\nall --> after\n[//]: # (say yes)\n[comment]: <> (and this)\nend <!-- open"
    parsed = markdown.read(source.encode())
    assert parsed.text == "before  after\n\n\nend "
    for words in ("ignore\nall", "say yes", "and this", "open"):
        assert words in parsed.hidden
        assert words not in parsed.text


def test_the_bytes_of_pictures_are_left_out_and_counted() -> None:
    data = "iVBORw0KGgo" * 300
    source = (
        f"# Tides\n\n![chart](data:image/png;base64,{data}) of a week.\n[![build](https://b.example/s?logo=data:image/svg%2bxml;"
        f"base64,{data})](https://b.example)\n\n[image1]: <data:image/jpeg;base64,{data}>\n"
    )

    parsed = markdown.read(source.encode())

    assert parsed.text == source.replace(data, "")
    assert [(problem.code, problem.severity) for problem in parsed.problems] == [("parsing.pictures", Severity.INFO)]
    assert "9,900" in parsed.problems[0].message


@pytest.mark.parametrize(
    "source",
    [
        f"```\ndata:image/png;base64,{'iVBORw0KGgo' * 30}\n```\n",
        f"`data:image/png;base64,{'iVBORw0KGgo' * 30}`\n",
        f"[a page](data:text/html;base64,{'iVBORw0KGgo' * 30})\n",
        "![](data:image/png;base64,iVBORw0KGgo=)\n",
    ],
    ids=["a block of code", "code", "no picture", "a dot"],
)
def test_code_and_what_is_no_picture_stay(source: str) -> None:
    parsed = markdown.read(source.encode())

    assert (parsed.text, parsed.problems) == (source, ())


def test_front_matter_is_declared_and_screened_but_not_published() -> None:
    parsed = markdown.read(b"---\ntitle: T\ntags: [a, b]\nnested: {x: 1}\ndate: 2026-01-01\n---\ntext")
    assert dict(parsed.declared) == {"title": "T", "tags": "a, b", "date": "2026-01-01"}
    assert parsed.text == "text"
    assert "nested" in parsed.hidden


@pytest.mark.parametrize(
    "source", ["---\nnot a mapping\n---\nx", "---\n{{{\n---\nx", "---\nopen: 1\nx", "---\n" + "[" * 9_000 + "\n---\nx"]
)
def test_what_is_no_front_matter_stays_text(source: str) -> None:
    assert markdown.read(source.encode()).text == source


def test_an_alias_bomb_stays_small() -> None:
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefghij", "bcdefghijk", strict=True)
    )
    parsed = markdown.read(f"---\n{bomb}---\ntext".encode())
    assert parsed.text == "text"
    assert sum(map(len, parsed.declared.values())) < 10_000


@pytest.mark.parametrize(
    "source",
    [
        "<!--" * 250_000,
        "`<!--" * 200_000,
        "<!---->" * 140_000,
        "```\n" * 250_000,
        "---\n" * 250_000,
        "[//]: " * 160_000,
        "data:image/png;base64," * 50_000,
        ("data:image/png;base64," + "A" * 80 + " ") * 10_000,
        "|-|\n" * 200_000,
        "a|b\n-" + " " * 500_000 + "x",
        "a|b\n-|-\n|" + "`" * 500_000,
        "[^a]: x" + "\n" * 500_000,
        "<p hidden>" * 100_000,
        "<p hidden>x</p>" * 20_000,
    ],
)
def test_hostile_markdown_is_read_in_linear_time(source: str) -> None:
    started = time.process_time()
    markdown.read(source.encode())
    assert time.process_time() - started < 3


HIDDEN = {
    "hidden element": "text <span hidden>evil</span> on",
    "element by its style": 'text\n\n<p style="display:none">evil <b>words</b></p>',
    "element by its colour": "text <font color=white>evil</font>",
    "template": "text\n\n<template>evil</template>",
    "unclosed element": "text <p hidden>evil",
    "footnote without a reference": "text\n\n[^9]: evil\n    and more of it",
    "cell without a column": "| a | b |\n|---|---|\n| text | 2 | evil |",
    "title on a line of its own": 'text\n\n[z]: https://x.example\n  "evil"',
}
SHOWN = {
    "element in code": "text `<p hidden>seen</p>`",
    "element in a block of code": "```html\n<p hidden>seen</p>\n```",
    "element with another style": '<p style="color:red">seen</p>',
    "footnote": "text[^9]: more\n\n[^9]: seen",
    "cell": "| a | b |\n|---|---|\n| text | seen |",
    "bar in code": "| a | b |\n|---|---|\n| `x|y` | seen |",
    "escaped bar": "| a | b |\n|---|---|\n| x\\|y | seen |",
    "bar below a table": "| a | b |\n|---|---|\n| 1 | 2 |\n\nx | y | seen",
}


@pytest.mark.parametrize("place", HIDDEN)
def test_what_a_rendered_page_does_not_show_is_hidden(place: str) -> None:
    parsed = markdown.read(HIDDEN[place].encode())
    assert "text" in parsed.text
    assert "evil" not in parsed.text
    assert "evil" in parsed.hidden


@pytest.mark.parametrize("place", SHOWN)
def test_what_a_rendered_page_shows_is_text(place: str) -> None:
    parsed = markdown.read(SHOWN[place].encode())
    assert "seen" in parsed.text
    assert parsed.hidden == ""
