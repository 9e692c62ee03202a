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
        "<p hidden><p>" * 80_000,
        "<dialog>" * 60_000 + "</dialog>",
        "<script>" * 60_000,
        '<a "' * 120_000,
        "<a \"<a'" * 80_000,
        "<a" + " b='c' " * 80_000,
        "<?" * 250_000,
        "<!x " * 120_000,
        "".join("`" * (number % 700) + " " for number in range(1_400)),
        "` a\n" * 120_000,
        "``` a`\n" * 60_000,
        "    <b>\n" * 60_000,
        "\n\n<div>" * 60_000,
        "[a]: b 'c'\n" * 40_000,
        "[" * 500_000 + "]:",
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
    "attribute with a greater sign": 'text <p title="a > b" hidden>evil</p>',
    "attribute with a lesser sign": "text <p title='a<b' style='display:none'>evil</p>",
    "long attribute": f"text <span title='{'a' * 2_100}' hidden>evil</span>",
    "comment after a backtick": "It`s text <!-- evil --> fine",
    "comment between backticks of two lengths": "``text` <!-- evil -->",
    "comment between backticks of two paragraphs": "Don`t text\n\n<!-- evil --> it`s",
    "comment between backticks of two items": "- text `\n- <!-- evil --> `",
    "comment after an escaped backtick": "text \\` <!-- evil --> `",
    "comment between backticks of tags": "text <b title='`'> <!-- evil --> <b title='`'>",
    "comment between backticks of comments": "text <!-- ` --> <!-- evil ` -->",
    "comment in a block of HTML": "<div>\ntext `<!-- evil -->`\n</div>",
    "comment in a block of HTML with a fence": "text\n\n<div>\n```\n<!-- evil -->\n```\n</div>",
    "comment after no fence": "``` text`b\n<!-- evil -->\n",
    "comment after a fence within a fence": "```\n``` text\n```\n<!-- evil -->\n```\n```",
    "comment that begins in a footnote": "text\n\n[^1]: evil <!--\n\nevil -->",
    "element after a backtick": "The ` sign: text <p hidden>evil</p>",
    "element that code does not close": "text <p hidden>`</p>` evil</p>",
    "element that a comment does not close": "text <p hidden><!-- </p> --> evil</p>",
    "element after many": "text" + "<font color=red>x</font>" * 2_001 + "<p hidden>evil</p>",
    "cell of a table": "text <table><tr><td hidden>evil</td></tr></table>",
    "dialog": "text\n\n<dialog>evil <dialog>evil</dialog> evil</dialog>",
    "title of a page": "text <title>evil</title>",
    "script": "text <script type=text/plain>evil</script>",
    "style sheet": "text\n\n<style>\nevil\n\nevil</style>",
    "definitions of a picture": "text <svg><defs><text>evil</text></defs></svg>",
    "instruction": "text <?php evil ?>",
    "instruction at the start of a line": "text\n\n<?evil",
    "declaration": "text\n\n<!X evil >",
    "section of characters": "text <![CDATA[ evil ]]>",
    "footnote whose use is code": "`text[^1]`\n\n[^1]: evil",
    "footnote whose use is a comment": "text <!-- evil [^1] -->\n\n[^1]: evil",
    "footnote that uses itself": "text\n\n[^1]: evil [^1]",
    "second footnote": "text[^1]\n\n[^1]: more\n\n[^1]: evil",
    "second definition": 'See text [x].\n\n[x]: https://a.example\n[X]: https://b.example "evil"',
    "definition whose use is code": 'text\n\n[x]: https://a.example "evil"\n\n`[x]`',
    "definition of a long label": f'text\n\n[{"a" * 81}]: https://a.example "evil"',
    "title on a line of its own": 'text\n\n[z]: https://x.example\n  "evil"',
}
SHOWN = {
    "element in code": "text `<p hidden>seen</p>`",
    "element in a block of code": "```html\n<p hidden>seen</p>\n```",
    "element in code of two lines": "text `<p\nhidden>seen</p>` on",
    "element in code with backticks": "text ``<p hidden>` seen``",
    "element in code of a line with an apostrophe": "``It's``, `<p hidden>seen</p>`",
    "element in a block of tildes": "~~~ a`b\n<p hidden>seen</p>\n~~~\n",
    "element in a block in a list": "- text\n\n  ```\n  <p hidden>seen</p>\n  ```",
    "element in indented code": "text\n\n    <div>\n    <p hidden>seen</p>\n    </div>",
    "comment in a block after a block of HTML": "<div>\r\n\r\n```\r\n<!-- seen -->\r\n```\r\n",
    "place to be filled in": "npm run <script> or <title>, <dialog>, <pattern> seen",
    "empty script": "<script src=seen></script>",
    "open dialog": "<dialog open>seen</dialog>",
    "lesser signs": "seen a <? b and a <! b",
    "declarations of files": '<?xml version="1.0"?>\n<!DOCTYPE html>\nseen',
    "footnote that is used twice": "a[^1] b[^1]\n\n[^1]: seen",
    "definition with a title": '[seen]\n\n[seen]: https://a.example "seen"\n',
    "element with another style": '<p style="color:red">seen</p>',
    "footnote": "text[^9]: more\n\n[^9]: seen",
    "cell": "| a | b |\n|---|---|\n| text | seen |",
    "bar in code": "| a | b |\n|---|---|\n| `x|y` | seen |",
    "escaped bar": "| a | b |\n|---|---|\n| x\\|y | seen |",
    "bar below a table": "| a | b |\n|---|---|\n| 1 | 2 |\n\nx | y | seen",
}


def test_more_tags_than_are_looked_at_are_told() -> None:
    parsed = markdown.read("".join(f"<font color=#{number:06x}>x</font>" for number in range(2_001)).encode())
    assert [(problem.code, problem.severity) for problem in parsed.problems if "tags" in problem.code] == [
        ("parsing.tags", Severity.MEDIUM)
    ]


@pytest.mark.parametrize("line", ["- text", "  text", "[^1]: text", "!!! text", "text", "<div>"])
def test_an_indented_comment_is_no_code_where_something_else_goes_on(line: str) -> None:
    blank = "" if line in {"text", "<div>"} else "\n"
    parsed = markdown.read(f"text[^1]\n\n{line}\n{blank}    <!-- evil -->\n".encode())
    assert "evil" not in parsed.text


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
