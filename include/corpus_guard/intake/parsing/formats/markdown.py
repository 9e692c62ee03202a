"""Markdown: kept as it is written, without the parts that a rendered page does not show.

Hidden, because not shown: the front matter, HTML comments outside code, link definitions used as comments
(``[//]: # (…)``), definitions with a title that no link uses, footnotes that nothing refers to, cells of a table beyond
its last column, and raw HTML that hides its content by an attribute of its own (``hidden``, a style, a colour) or by what it is
(``<template>``). Other raw HTML, alternative texts and titles of links stay in the text, where every check sees them.

Left out: the bytes of pictures that are written into the text (``data:image/…;base64,…``) outside code. A page shows a
picture there, and nobody finds text by them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import islice

from corpus_guard.domain import Severity
from corpus_guard.intake.parsing.document import ParsedDocument, clean_declared, make_problem
from corpus_guard.intake.parsing.formats import text as plain
from corpus_guard.intake.parsing.formats._hidden import FALLBACK_TAGS, HiddenText

_FRONT_MATTER = re.compile(r"---[ \t]*\r?\n(.{0,16384}?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_FENCE = re.compile(r"^[ \t]{0,3}(`{3,}|~{3,})", re.MULTILINE)
_LINK_COMMENT = re.compile(r"^ {0,3}\[(?://|comment|_metadata_:[^\]\n]{0,40})\]:[^\n]*$", re.MULTILINE | re.IGNORECASE)

# A definition with a title; and a use of a label: brackets that no definition follows.
_DEFINITION = re.compile(
    r"^ {0,3}\[([^\]\[\n]{1,80})\]:[ \t]*\S{1,2000}[ \t]*(?:[ \t]|\n[ \t]*)[\"'(][^\n]*$", re.MULTILINE
)
_FOOTNOTE = re.compile(
    r"^ {0,3}\[(\^[^\]\[\n]{1,80})\]:[^\n]*"
    r"(?:\n+(?: {4}|\t)[^\n]*|\n(?![ \t]*\n|[ \t]{0,3}(?:\[|[-#>*]))[^\n]+)*",  # lines that continue it
    re.MULTILINE,
)
_LABEL = re.compile(r"\[([^\]\[\n]{1,80})\](?!:)")
_REFERENCE = re.compile(r"\S[ \t]*\[(\^[^\]\[\n]{1,80})\]")
_INLINE_CODE = re.compile(r"(?<!`)(`++)[^`\n]++\1")
_RULE_ROW = re.compile(r"^[ \t]{0,3}+\|?[ \t]*+:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)*+\|?[ \t]*+$", re.MULTILINE)
_BAR = re.compile(r"(?<!\\)\|")
_TAG = re.compile(r"<([a-z][a-z0-9-]{0,20})((?:\s[^<>]{0,2000})?)>", re.IGNORECASE)
_HIDING = re.compile(r"\b(?:style|hidden|color|bgcolor|popover)\b", re.IGNORECASE)
_MAX_TAGS = 2_000  # looked at in one text
# In the query of an address "+" is written "%2b".
_PICTURE = re.compile(r"(data:image/[a-z0-9.+%-]{1,20};base64,)[a-z0-9+/=%_-]{80,}", re.IGNORECASE)


def read(content: bytes) -> ParsedDocument:
    """Read the text; parts that a rendered page does not show are hidden."""
    text, problems = plain.decode(content)
    hidden = HiddenText()
    declared: dict[str, str] = {}
    if (match := _FRONT_MATTER.match(text)) and (pairs := _parse_front_matter(match[1])) is not None:
        declared = pairs
        hidden.add("front_matter", match[1])
        text = text[match.end() :]
    visible_parts: list[str] = []
    position = 0
    for start, end, reason in sorted(_find_hidden_spans(text)):
        if start < position:
            continue
        visible_parts.append(text[position:start])
        hidden.add(reason, text[start:end])
        position = end
    visible_parts.append(text[position:])
    visible, left_out = _leave_out_pictures("".join(visible_parts))
    hidden_text, findings = hidden.summarize(visible)
    if left_out:
        message = f"characters of pictures that are written into the text were left out: {left_out:,}"
        problems = (*problems, make_problem("pictures", Severity.INFO, message, score=0.1))
    return ParsedDocument(visible, hidden_text, clean_declared(declared), (*problems, *findings))


def _leave_out_pictures(text: str) -> tuple[str, int]:
    """Return the text without the bytes of its pictures, and how many characters these were."""
    pictures = list(_PICTURE.finditer(text))
    if not pictures:
        return text, 0
    code = _CodeSpans(text)
    parts, position = [], 0
    for picture in pictures:
        if picture.start() not in code:
            parts.append(text[position : picture.end(1)])
            position = picture.end()
    shortened = "".join((*parts, text[position:]))
    return shortened, len(text) - len(shortened)


def _parse_front_matter(block: str) -> dict[str, str] | None:
    """Return front matter as flat pairs; None where it is not a YAML mapping (then it is text below a rule line)."""
    import yaml

    try:
        data = yaml.safe_load(block)
    except (yaml.YAMLError, RecursionError, ValueError):
        return None
    if not isinstance(data, dict):
        return None
    # Only scalars and flat lists: an alias bomb is small until it is expanded.
    return {str(key): flat for key, value in data.items() if _is_scalar(key) and (flat := _flatten(value)) is not None}


def _flatten(value: object) -> str | None:
    if isinstance(value, list):
        return ", ".join(str(entry) for entry in value[:50] if _is_scalar(entry))
    return str(value) if _is_scalar(value) else None


def _is_scalar(value: object) -> bool:
    return value is not None and not isinstance(value, dict | list | set | tuple)


def _find_hidden_spans(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield (start, end, reason) of spans that a rendered page does not show, in linear time."""
    code = _CodeSpans(text)
    for match in _LINK_COMMENT.finditer(text):
        if match.start() not in code:
            yield match.start(), match.end(), "link_comment"
    titled = [match for match in _DEFINITION.finditer(text) if match.start() not in code]
    used = {label.casefold() for label in _LABEL.findall(text)} if titled else set()
    for match in titled:
        if match[1].casefold() not in used:
            yield match.start(), match.end(), "link_comment"
    notes = [match for match in _FOOTNOTE.finditer(text) if match.start() not in code]
    referred = {label.casefold() for label in (*_LABEL.findall(text), *_REFERENCE.findall(text))} if notes else set()
    for match in notes:
        if match[1].casefold() not in referred:
            yield match.start(), match.end(), "link_comment"
    yield from _find_cells_beyond(text, code)
    yield from _find_hiding_tags(text, code)
    position = 0
    while (start := text.find("<!--", position)) >= 0:
        if start in code:
            position = start + 4
            continue
        end = text.find("-->", start + 4)
        if end < 0:  # browsers and renderers hide everything after an unclosed comment
            yield start, len(text), "comment"
            return
        yield start, end + 3, "comment"
        position = end + 3


def _find_cells_beyond(text: str, code: _CodeSpans) -> Iterator[tuple[int, int, str]]:
    """Yield the cells of tables that have no column: renderers leave them out (GitHub Flavored Markdown, 4.10)."""
    position = 0
    for rule in _RULE_ROW.finditer(text):
        if rule.start() < position:
            continue
        head = text[text.rfind("\n", 0, max(rule.start() - 1, 0)) + 1 : max(rule.start() - 1, 0)]
        columns = len(_split_row(rule[0], 0))
        if "|" not in head or len(_split_row(head, 0)) != columns or rule.start() in code:
            continue
        position = rule.end() + 1
        while position < len(text):
            end = text.find("\n", position)
            row = text[position : end if end >= 0 else len(text)]
            if "|" not in row:
                break
            cells = _split_row(row, position)
            if len(cells) > columns:
                yield cells[columns - 1][1], cells[-1][1], "covered"
            position += len(row) + 1


def _split_row(row: str, start: int) -> list[tuple[int, int]]:
    """Return the places of a row's cells, where the row begins at `start`; bars at its ends part nothing."""
    plain_row = _INLINE_CODE.sub(
        lambda code: "x" * len(code[0]), row
    )  # some renderers part cells at bars in code, others not
    edges = [bar.start() for bar in _BAR.finditer(plain_row)]
    first, last = len(row) - len(row.lstrip()), len(row.rstrip())
    inner = [edge for edge in edges if first < edge < last - 1]
    begins = [first + (first in edges), *(edge + 1 for edge in inner)]
    ends = [*inner, last - (last - 1 in edges and last - 1 > first)]
    return [(start + begin, start + end) for begin, end in zip(begins, ends, strict=True)]


def _find_hiding_tags(text: str, code: _CodeSpans) -> Iterator[tuple[int, int, str]]:
    """Yield elements of raw HTML that a browser does not show."""
    tags = (tag for tag in _TAG.finditer(text) if _HIDING.search(tag[2]) or tag[1].lower() in FALLBACK_TAGS)
    end = 0
    for tag in islice(tags, _MAX_TAGS):
        if tag.start() < end or tag.start() in code:
            continue
        from corpus_guard.intake.parsing.formats import html  # loads a parser that most texts do not need

        page = html.read_page(f"<body>seen {tag[0]}x</{tag[1]}>")
        reason = page.hidden.first_reason if page.text == "seen" else ""
        if reason:
            end = _find_end(text, tag)
            yield tag.start(), end, reason


def _find_end(text: str, tag: re.Match[str]) -> int:
    """Return where an element ends: after its closing tag, or with the text."""
    depth = 1
    for other in re.compile(rf"<(/?){tag[1]}\b[^<>]{{0,2000}}>", re.IGNORECASE).finditer(text, tag.end()):
        depth += -1 if other[1] else 1
        if depth == 0:
            return other.end()
    return len(text)


class _CodeSpans:
    """Positions inside fenced blocks and inline code, where a comment is shown as it is written."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._blocks: list[tuple[int, int]] = []
        opened: tuple[int, str] | None = None
        for match in _FENCE.finditer(text):
            if opened is None:
                opened = match.start(), match[1]
            elif match[1].startswith(opened[1]):
                self._blocks.append((opened[0], match.end()))
                opened = None
        if opened is not None:
            self._blocks.append((opened[0], len(text)))

    def __contains__(self, position: int) -> bool:
        block = bisect_right(self._blocks, (position, len(self._text))) - 1
        if block >= 0 and position < self._blocks[block][1]:
            return True
        # A line can be a megabyte long; looking 500 characters back keeps the whole linear.
        start = max(0, position - 500)
        line = self._text.rfind("\n", start, position) + 1
        return self._text.count("`", line or start, position) % 2 == 1
