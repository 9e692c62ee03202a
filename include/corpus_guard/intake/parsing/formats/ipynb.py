"""Jupyter notebooks (nbformat 4 and 3): what a notebook shows becomes text, cell after cell.

Shown are Markdown cells, code in fences, raw cells, and of each output the richest form that is text: HTML, Markdown, LaTeX, plain text;
what programs print and errors, without their colours. Pictures are left out and counted, and so are outputs that a program draws
(widgets, charts, scripts).

Hidden: cells, inputs and outputs that tags or settings take off the page (``remove-input``, ``hide-output``, ``source_hidden``); other
forms of an output that say something else; lines that a carriage return overwrites; names and texts of attachments; metadata,
and whatever else the file holds. Where a name stands twice in an object, programs show the last value: the others are hidden, and a
finding.

Not read: the bytes of pictures, and JSON that outputs are drawn from. Neither is published.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from corpus_guard.domain import Finding, Severity, plural
from corpus_guard.errors import Unreadable
from corpus_guard.intake.parsing.document import ParsedDocument, clean_declared, make_problem, replace_unstorable
from corpus_guard.intake.parsing.formats import _recount, html, markdown
from corpus_guard.intake.parsing.formats import text as plain
from corpus_guard.intake.parsing.formats._hidden import HiddenText

_HIDING_TAGS: Final = {
    f"{verb}{sign}{part}": part for verb in ("hide", "remove") for sign in "-_" for part in ("cell", "input", "output")
}
_MIME_OF_VERSION_3: Final = {
    "text": "text/plain",
    "html": "text/html",
    "latex": "text/latex",
    "svg": "image/svg+xml",
    "png": "image/png",
    "jpeg": "image/jpeg",
    "pdf": "application/pdf",
    "json": "application/json",
    "javascript": "application/javascript",
}
_FORMS: Final = ("text/html", "text/markdown", "text/latex", "text/plain")  # the richest first
_PICTURES: Final = ("image/", "audio/", "video/", "application/pdf")
_ESCAPE: Final = re.compile(r"\x1b\[[0-9;?]{0,40}[A-Za-z]|[\x07\x08]")  # colours and movements of a terminal
_FENCE: Final = re.compile(r"`{3,}")
_LANGUAGE: Final = re.compile(r"[\w+#.-]{1,30}")
_WORD: Final = re.compile(r"\w+")


def read(content: bytes) -> ParsedDocument:
    """Read the notebook as Jupyter shows it."""
    source, problems = plain.decode(content)
    reader = _NotebookReader()
    reader.read(source)
    text = "\n\n".join(filter(str.strip, reader.texts))
    hidden_text, findings = reader.hidden.summarize(text)
    counts = ((reader.pictures, "picture"), (reader.drawings, "output that a program draws"))
    left_out = [
        make_problem("pictures", Severity.INFO, f"left out: {plural(count, what)}", 0.1)
        for count, what in counts
        if count
    ]
    problems = (*problems, *dict.fromkeys(reader.problems), *left_out, *findings)
    return ParsedDocument(text, hidden_text, clean_declared(reader.declared), problems)


class _NotebookReader:
    """Writer of what a notebook shows and hides."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.hidden = HiddenText()
        self.problems: list[Finding] = []
        self.declared: dict[str, object] = {}
        self.pictures = 0
        self.drawings = 0  # outputs that are drawn from data
        self._language = ""

    def read(self, source: str) -> None:
        """Read a whole notebook.

        Raises:
            Unreadable: it is no JSON, or not a notebook.
        """
        try:
            notebook = json.loads(source, object_pairs_hook=self._keep_last)
        except (ValueError, RecursionError):
            raise Unreadable("parsing.unreadable", "the notebook is not JSON, or objects in it lie too deep") from None
        if not isinstance(notebook, dict) or not {"cells", "worksheets"} & notebook.keys():
            raise Unreadable("parsing.unreadable", "the document is not a notebook: it has no list of cells")
        metadata = _as_object(notebook.get("metadata"))
        authors = [str(_as_object(author).get("name") or "") for author in _as_list(metadata.get("authors"))]
        self.declared = {"title": metadata.get("title"), "author": ", ".join(filter(None, authors))}
        for kernel in ("language_info", "kernelspec"):
            described = _as_object(metadata.get(kernel))
            self._language = self._language or str(described.get("language") or described.get("name") or "")
        sheets = [_as_object(sheet) for sheet in _as_list(notebook.pop("worksheets", []))]
        lists = [notebook.pop("cells", []), *(sheet.pop("cells", []) for sheet in sheets)]
        self._hide_rest([notebook, sheets, [cells for cells in lists if not isinstance(cells, list)]])
        for cell in (cell for cells in lists for cell in _as_list(cells)):
            self._read_cell(cell)

    def _keep_last(self, members: list[tuple[str, Any]]) -> dict[str, Any]:
        read_members = dict(members)
        if len(read_members) < len(members):
            last = {name: position for position, (name, _) in enumerate(members)}
            for position, (name, value) in enumerate(members):
                if last[name] != position:
                    for text in _texts(value):
                        self.hidden.add("replaced", text)
            message = "an object of the notebook has a name twice; the last value is read, some programs show another"
            self.problems.append(make_problem("ambiguous", Severity.MEDIUM, message))
        return read_members

    def _read_cell(self, cell: object) -> None:
        if not isinstance(cell, dict):
            self._hide_rest(cell)
            return
        kind, hidden_parts = cell.pop("cell_type", None), _hidden_parts(cell)
        attachments = _as_object(cell.pop("attachments", None))
        for name, attached in attachments.items():
            self.hidden.add("attachment", name)
            self._leave_out_pictures(_as_object(attached))
        source = self._take_text(cell, "source" if "source" in cell else "input")
        with self._hiding(not {"cell", "input"}.isdisjoint(hidden_parts)):
            self._show_source(kind, source, cell)
        outputs = cell.pop("outputs", [])
        with self._hiding(not {"cell", "output"}.isdisjoint(hidden_parts)):
            for output in _as_list(outputs):
                self._read_output(output)
        self._hide_rest([cell, attachments, None if isinstance(outputs, list) else outputs])

    @contextmanager
    def _hiding(self, is_hidden: bool) -> Iterator[None]:
        """Hide what is shown within the block, if it `is_hidden`."""
        shown = self.texts
        self.texts = [] if is_hidden else shown
        yield
        if is_hidden:
            for text in self.texts:
                self.hidden.add("display", text)
        self.texts = shown

    def _show_source(self, kind: object, source: str, cell: Mapping[str, Any]) -> None:
        if kind == "code":
            self._show_code(source, cell.get("language"))
        elif kind == "markdown":
            self._show_markdown(source)
        elif kind == "heading":
            self._show_markdown(f"{'#' * _level(cell.get('level'))} {source}")
        elif kind in ("raw", "html"):
            self.texts.append(source)
        else:
            self.hidden.add("display", source)

    def _show_code(self, source: str, language: object) -> None:
        if source.strip():
            longest = max(map(len, _FENCE.findall(source)), default=2)
            name = str(language or self._language)
            fence = "`" * (longest + 1)
            self.texts.append(f"{fence}{name if _LANGUAGE.fullmatch(name) else ''}\n{source}\n{fence}")

    def _show_markdown(self, source: str) -> None:
        page = markdown.read_page(source)
        self.texts.append(page.text)
        self.hidden.update(page.hidden)
        self.problems += page.problems

    def _show_html(self, source: str) -> None:
        page = html.read_page(source)
        self.texts.append(page.text)
        self.hidden.update(page.hidden)
        self.problems += page.problems
        self.problems += _recount.compare_counts("HTML of an output", page.chars, _recount.count_html_chars(source))

    def _show_terminal(self, source: str) -> None:
        """Show text as a terminal does: without colours, and of an overwritten line the last state."""
        lines = []
        for line in _ESCAPE.sub("", source).replace("\r\n", "\n").split("\n"):
            *overwritten, last = line.rstrip("\r").split("\r")
            lines.append(last)
            for each in overwritten:
                self.hidden.add("covered", each)
        self.texts.append("\n".join(lines).strip("\n"))

    def _read_output(self, output: object) -> None:
        if not isinstance(output, dict):
            self._hide_rest(output)
            return
        kind = output.pop("output_type", None)
        if kind == "stream":
            self._show_terminal(self._take_text(output, "text"))
        elif kind in ("error", "pyerr"):
            self._show_terminal(self._take_text(output, "traceback", "\n"))
        elif kind in ("display_data", "execute_result", "pyout"):
            bundle = {mime: output.pop(name) for name, mime in _MIME_OF_VERSION_3.items() if name in output}
            self._show_bundle(output.pop("data") if isinstance(output.get("data"), dict) else bundle)
        self._hide_rest(output)

    def _show_bundle(self, bundle: dict[str, Any]) -> None:
        """Show the richest form of text. Other forms are hidden, and so is plain text beside a picture or a drawing."""
        has_picture = self._leave_out_pictures(bundle)
        forms: dict[str, str] = {mime: self._take_text(bundle, mime) for mime in _FORMS if mime in bundle}
        shown: str = next(iter(forms), "")
        first = len(self.texts)
        if shown == "text/html":
            self._show_html(forms.pop(shown))
        elif shown != "text/plain" and shown:
            self._show_markdown(forms.pop(shown))
        elif shown and not has_picture and not bundle:
            self._show_terminal(forms.pop(shown))
        shown_words = _join_words("\n".join(self.texts[first:]))
        for line in "\n".join(forms.values()).splitlines():
            if _join_words(line) not in shown_words:
                self.hidden.add("alternative", line)
        self._hide_rest({mime: value for mime, value in bundle.items() if mime.startswith("text/")})
        self.drawings += bool(bundle)

    def _leave_out_pictures(self, data: dict[str, Any]) -> bool:
        """Take pictures, sounds and films out of a bundle by MIME type; return whether there were any."""
        pictures = [mime for mime in data if mime.startswith(_PICTURES)]
        for mime in pictures:
            del data[mime]
        self.pictures += bool(pictures)
        return bool(pictures)

    def _take_text(self, holder: dict[str, Any], name: str, joined_by: str = "") -> str:
        """Return a text, whole or in lines, and take it out; what is neither stays, and is hidden."""
        value = holder.get(name)
        if isinstance(value, list) and all(map(_is_text, value)):
            value = joined_by.join(value)
        if not isinstance(value, str):
            return ""
        del holder[name]
        return replace_unstorable(value)

    def _hide_rest(self, value: object) -> None:
        for text in _texts(value):
            self.hidden.add("metadata", text)


def _hidden_parts(cell: Mapping[str, Any]) -> set[str]:
    """Return which of cell, input and output the metadata of a cell take off the page."""
    metadata = _as_object(cell.get("metadata"))
    jupyter = _as_object(metadata.get("jupyter"))
    parts = {_HIDING_TAGS[tag] for tag in filter(_is_text, _as_list(metadata.get("tags"))) if tag in _HIDING_TAGS}
    settings = {
        "cell": metadata.get("nbsphinx") == "hidden" or metadata.get("hidden") is True,
        "input": jupyter.get("source_hidden") is True or metadata.get("hide_input") is True,
        "output": jupyter.get("outputs_hidden") is True or metadata.get("collapsed") is True,
    }
    return parts | {part for part, is_hidden in settings.items() if is_hidden}


def _texts(value: object) -> Iterator[str]:
    """Yield the texts and names in a JSON value, in order and without recursion."""
    todo = [value]
    while todo:
        each = todo.pop()
        if isinstance(each, str):
            yield replace_unstorable(each)
        elif isinstance(each, dict):
            todo += [part for pair in reversed(each.items()) for part in reversed(pair)]
        elif isinstance(each, list):
            todo += reversed(each)


def _join_words(text: str) -> str:
    return " ".join(_WORD.findall(text))


def _level(value: object) -> int:
    return value if isinstance(value, int) and 1 <= value <= 6 else 1


def _as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _as_object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _is_text(value: object) -> bool:
    return isinstance(value, str)
