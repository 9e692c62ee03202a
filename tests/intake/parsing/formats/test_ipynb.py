"""Notebooks: what Jupyter shows is text, all else is hidden, and no file makes the reader fail otherwise than by saying so."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpus_guard.intake.parsing.document import ParsedDocument
from corpus_guard.intake.parsing.worker import parse_safely
from intake.parsing.making import notebook
from intake.parsing.planted import ORDER

PICTURE = {"image/png": "iVBORw0KGgo" * 400, "text/plain": "<Figure size 640x480 with 1 Axes>"}


def markdown_cell(source: Any, **more: Any) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": source, **more}


def code_cell(source: Any, *outputs: Any, **more: Any) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "execution_count": 1,
        "metadata": {},
        "source": source,
        "outputs": list(outputs),
        **more,
    }


def shows(data: Any, kind: str = "display_data") -> dict[str, Any]:
    return {"output_type": kind, "data": data, "metadata": {}}


def prints(text: Any) -> dict[str, Any]:
    return {"output_type": "stream", "name": "stdout", "text": text}


def parsed(content: bytes) -> ParsedDocument:
    return parse_safely(content, media_type="", name="a.ipynb", max_chars=1_000_000)


def codes(document: ParsedDocument) -> set[str]:
    return {problem.code for problem in document.problems}


def test_cells_are_text_in_their_order() -> None:
    table = (
        "<style>td {color: red}</style><table><tr><th></th><th>depth</th></tr><tr><th>0</th><td>1.50</td></tr></table>"
    )
    document = parsed(
        notebook(
            markdown_cell(["# Quays\n", "\n", "The *east* quay."]),
            code_cell("depth = measure()\ndepth", prints(["sounding\n", "done\n"])),
            code_cell("frame", shows({"text/html": table, "text/plain": "   depth\n0   1.50"}, "execute_result")),
            code_cell("1", shows({"text/plain": ["1.5 ", "m"]}), shows({"text/markdown": "**deep**"})),
            {"cell_type": "raw", "metadata": {}, "source": "as it is"},
            metadata={"language_info": {"name": "python"}, "title": "Depths", "authors": [{"name": "Ada"}, 3]},
        )
    )

    shown = ["# Quays\n\nThe *east* quay.", "```python\ndepth = measure()\ndepth\n```", "sounding\ndone"]
    assert document.text.startswith("\n\n".join(shown))
    assert document.text.endswith("```python\n1\n```\n\n1.5 m\n\n**deep**\n\nas it is")
    assert "1.50" in document.text
    assert "color" not in document.text
    assert (document.hidden, dict(document.declared)) == ("", {"title": "Depths", "author": "Ada"})
    assert document.media_type == "application/x-ipynb+json"
    assert not codes(document)


def test_pictures_and_drawings_are_left_out_and_counted() -> None:
    chart = {"application/vnd.plotly.v1+json": {"data": [{"x": [1] * 999}]}}
    attached = markdown_cell("![quay](attachment:a.png)", attachments={"a.png": {"image/png": "iVBORw0KGgo" * 400}})
    document = parsed(notebook(attached, code_cell("plot()", shows(PICTURE), shows(chart))))

    assert "iVBOR" not in document.text + document.hidden
    assert {problem.message for problem in document.problems if problem.code == "parsing.pictures"} == {
        "left out: 2 pictures",
        "left out: 1 output that a program draws",
    }


def test_a_terminal_shows_no_colours_and_the_last_state_of_a_line() -> None:
    failed = {"output_type": "error", "ename": "E", "evalue": "x", "traceback": ["\x1b[0;31mE\x1b[0m: no quay"]}
    document = parsed(notebook(code_cell("run()", prints("one of two done\rboth of them are done\n"), failed)))

    assert document.text == "```\nrun()\n```\n\nboth of them are done\n\nE: no quay"
    assert document.hidden == "one of two done"


def test_code_with_a_fence_stays_in_its_own() -> None:
    assert parsed(notebook(code_cell("'''\n````md\n'''"))).text == "`````\n'''\n````md\n'''\n`````"


def test_version_3_has_worksheets_headings_and_outputs_of_its_own() -> None:
    old = {
        "cell_type": "code",
        "language": "python",
        "input": ["1 + 1"],
        "prompt_number": 1,
        "metadata": {},
        "outputs": [],
    }
    old["outputs"] = [
        {"output_type": "pyout", "text": "2", "metadata": {}},
        {"output_type": "display_data", "png": "iVBORw0KGgo" * 400, "text": "<Figure>", "metadata": {}},
        {"output_type": "pyerr", "traceback": ["no quay"]},
    ]
    heading = {"cell_type": "heading", "level": 2, "source": "Quays", "metadata": {}}
    document = parsed(json.dumps({"nbformat": 3, "worksheets": [{"cells": [heading, old]}]}).encode())

    assert document.text == "## Quays\n\n```python\n1 + 1\n```\n\n2\n\nno quay"
    assert "left out: 1 picture" in {problem.message for problem in document.problems}
    assert document.hidden == "<Figure>"


TAGS = ("remove-cell", "hide_cell")
HIDDEN = {
    "notebook": notebook(markdown_cell("x"), metadata={"note": ORDER}),
    "cell": notebook(markdown_cell("x", metadata={"deep": [{"er": ORDER}]})),
    "name": notebook(markdown_cell("x", metadata={ORDER: 1})),
    "unknown member": notebook(markdown_cell("x", footer=ORDER), more=[ORDER]),
    "unknown cell": notebook(markdown_cell("x"), {"cell_type": "poem", "source": ORDER}),
    "no cell": notebook(markdown_cell("x"), ORDER),
    "output": notebook(code_cell("x", {**prints("y"), "metadata": {"a": ORDER}}, ORDER)),
    "outputs of Markdown": notebook(markdown_cell("x", outputs=[{"output_type": "poem", "text": ORDER}])),
    "wrong type": notebook(markdown_cell({"text": ORDER}), markdown_cell("x"), code_cell(["x", 3, ORDER])),
    "outputs of a wrong type": notebook(code_cell("x") | {"outputs": {"text": ORDER}}),
    "comment": notebook(markdown_cell(f"x <!-- {ORDER} -->")),
    "attachment": notebook(markdown_cell("x", attachments={"a.txt": {"text/plain": ORDER}})),
    "name of an attachment": notebook(markdown_cell("x", attachments={f"{ORDER}.png": {"image/png": "aa"}})),
    "overwritten": notebook(code_cell("x", prints(f"{ORDER}\rdone"))),
    "beside HTML": notebook(code_cell("x", shows({"text/html": "<b>y</b>", "text/plain": ORDER}))),
    "beside a picture": notebook(code_cell("x", shows({**PICTURE, "text/plain": ORDER}))),
    "another form": notebook(code_cell("x", shows({"text/html": "<b>y</b>", "text/markdown": ORDER}))),
    "form of a wrong type": notebook(code_cell("x", shows({"text/html": {"a": ORDER}, "text/plain": "y"}))),
    "bundle of a wrong type": notebook(code_cell("x", shows([ORDER]))),
    "traceback of a wrong type": notebook(code_cell("x", {"output_type": "error", "traceback": [ORDER, 3]})),
    "value of an error": notebook(code_cell("x", {"output_type": "error", "evalue": ORDER, "traceback": ["y"]})),
    "input beside source": notebook(code_cell("x", input=ORDER)),
    "in HTML": notebook(code_cell("x", shows({"text/html": f'<b>y</b><p style="display:none">{ORDER}</p>'}))),
    **{tag: notebook(markdown_cell("x"), markdown_cell(ORDER, metadata={"tags": [tag]})) for tag in TAGS},
    "remove-input": notebook(code_cell(ORDER, prints("y"), metadata={"tags": ["remove-input"]})),
    "source_hidden": notebook(code_cell(ORDER, prints("y"), metadata={"jupyter": {"source_hidden": True}})),
    "hide-output": notebook(code_cell("x", prints(ORDER), metadata={"tags": ["hide-output"]})),
    "collapsed": notebook(code_cell("x", prints(ORDER), metadata={"collapsed": True})),
    "first of two": notebook(markdown_cell("x")).replace(
        b'"source": "x"', b'"source": "%b", "source": "x"' % ORDER.encode()
    ),
}


@pytest.mark.parametrize("place", HIDDEN)
def test_what_is_not_shown_is_hidden_text(place: str) -> None:
    document = parsed(HIDDEN[place])

    assert document.text
    assert ORDER not in document.text
    assert ORDER in document.hidden


SHOWN = {
    "Markdown": notebook(markdown_cell(ORDER)),
    "front matter, which a cell has not": notebook(markdown_cell(f"---\ntitle: {ORDER}\n---\n")),
    "code": notebook(code_cell(ORDER)),
    "raw": notebook({"cell_type": "raw", "source": ORDER}),
    "stream": notebook(code_cell("x", prints(ORDER))),
    "result": notebook(code_cell("x", shows({"text/plain": ORDER}, "execute_result"))),
    "HTML": notebook(code_cell("x", shows({"text/html": f"<p>{ORDER}</p>"}))),
    "LaTeX": notebook(code_cell("x", shows({"text/latex": ORDER}))),
    "error": notebook(code_cell("x", {"output_type": "error", "traceback": [ORDER]})),
}


@pytest.mark.parametrize("place", SHOWN)
def test_what_is_shown_is_text(place: str) -> None:
    document = parsed(SHOWN[place])

    assert ORDER in document.text
    assert ORDER not in document.hidden


@pytest.mark.parametrize(
    "content",
    [b"{", b"[" * 200_000, b'{"cells": ' * 100_000, b"[]", b'"x"', b"{}", b'{"cells": ' + b"9" * 5_000 + b"}"],
    ids=["no JSON", "deep lists", "deep objects", "a list", "a text", "no cells", "a long number"],
)
def test_what_is_no_notebook_is_not_read(content: bytes) -> None:
    document = parsed(content)

    assert (document.text, codes(document)) == ("", {"parsing.unreadable"})


def test_a_name_that_stands_twice_is_a_finding() -> None:
    assert "parsing.ambiguous" in codes(parsed(HIDDEN["first of two"]))
    assert "parsing.ambiguous" not in codes(parsed(HIDDEN["cell"]))


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
names = st.sampled_from(
    [
        "cell_type",
        "source",
        "input",
        "outputs",
        "metadata",
        "attachments",
        "output_type",
        "data",
        "text",
        "traceback",
        "level",
    ]
)
cells = st.dictionaries(names, values | st.sampled_from(["code", "markdown", "heading", "stream"]), max_size=6)


@given(st.lists(cells | values, max_size=4), values)
def test_any_notebook_of_any_types_is_read_or_refused_in_words(parts: list[Any], metadata: Any) -> None:
    nested = [{"cell_type": "code", "outputs": [part]} for part in parts]
    document = parsed(json.dumps({"cells": [*parts, *nested], "metadata": metadata}).encode())

    assert codes(document) <= {
        "parsing.empty",
        "parsing.hidden_text",
        "parsing.pictures",
        "parsing.nul",
        "parsing.surrogates",
        "parsing.extractors_disagree",
        "parsing.mojibake",
    }
