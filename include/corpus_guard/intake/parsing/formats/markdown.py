"""Markdown: kept as it is written, without the parts that a rendered page does not show.

Hidden, because not shown: the front matter, HTML comments outside code and what browsers drop like them (`_markdown_raw`), scripts,
style sheets and titles of pages, link definitions used as comments (``[//]: # (…)``), definitions with a title that no link uses,
footnotes that nothing refers to, second definitions and footnotes of a label, cells of a table beyond its last column, and raw HTML
that hides its content by an attribute of its own (``hidden``, a style, a colour) or by what it is (``<template>``).
A use in code counts for nothing. Other raw HTML, alternative texts and titles of links stay in the text, where every check sees them.

Left out: the bytes of pictures that are written into the text (``data:image/…;base64,…``) outside code. A page shows a
picture there, and nobody finds text by them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from corpus_guard.domain import Finding, Severity
from corpus_guard.intake.parsing.document import ParsedDocument, clean_declared, make_problem
from corpus_guard.intake.parsing.formats import text as plain
from corpus_guard.intake.parsing.formats._hidden import FALLBACK_TAGS, HiddenText
from corpus_guard.intake.parsing.formats._markdown_raw import UNREAD_TAGS, RawParts

_FRONT_MATTER = re.compile(r"---[ \t]*\r?\n(.{0,16384}?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_LINK_COMMENT = re.compile(r"^ {0,3}\[(?://|comment|_metadata_:[^\]\n]{0,40})\]:[^\n]*$", re.MULTILINE | re.IGNORECASE)

# A definition with a title; and a use of a label: brackets that no definition follows.
_DEFINITION = re.compile(
    r"^ {0,3}\[([^\]\[\n]{1,999})\]:[ \t]*\S{1,2000}[ \t]*(?:[ \t]|\n[ \t]*)[\"'(][^\n]*$", re.MULTILINE
)
_FOOTNOTE = re.compile(
    r"^ {0,3}\[(\^[^\]\[\n]{1,999})\]:[^\n]*"
    r"(?:\n+(?: {4}|\t)[^\n]*|\n(?![ \t]*\n|[ \t]{0,3}(?:\[|[-#>*]))[^\n]+)*",  # lines that continue it
    re.MULTILINE,
)
_ANY_DEFINITION = re.compile(r"^ {0,3}\[([^\]\[\n]{1,999})\]:", re.MULTILINE)
_LABEL = re.compile(r"\[([^\]\[\n]{1,999})\](?!:)")
_REFERENCE = re.compile(r"\S[ \t]*\[(\^[^\]\[\n]{1,999})\]")
_INLINE_CODE = re.compile(r"(?<!`)(`++)[^`\n]++\1")
_RULE_ROW = re.compile(r"^[ \t]{0,3}+\|?[ \t]*+:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)*+\|?[ \t]*+$", re.MULTILINE)
_BAR = re.compile(r"(?<!\\)\|")
_HIDING = re.compile(r"\b(?:style|hidden|color|bgcolor|popover)\b", re.IGNORECASE)
_CLOSED = frozenset({"dialog", "defs", "symbol", "clippath", "mask", "marker", "pattern"})
"""Elements that hide their content where they are closed; alone, such a name stands for what a reader fills in."""
_OF_SVG = _CLOSED - {"dialog"}
_MARKED = re.compile(rf"<(?:[!?]|(?:{'|'.join(sorted(FALLBACK_TAGS | _CLOSED | UNREAD_TAGS))})[\s/>])", re.IGNORECASE)
_ASSIGNED = re.compile(r"(?:style|color)\s*=")
_MAX_TAGS = 2_000  # looked at in one text, those that repeat another not counted
_AROUND = {"td": "<table><tr>", "th": "<table><tr>", "tr": "<table>", "caption": "<table>", "option": "<select>"}
# In the query of an address "+" is written "%2b".
_PICTURE = re.compile(r"(data:image/[a-z0-9.+%-]{1,20};base64,)[a-z0-9+/=%_-]{80,}", re.IGNORECASE)


def read(content: bytes) -> ParsedDocument:
    """Read the text; parts that a rendered page does not show are hidden."""
    text, problems = plain.decode(content)
    front_matter, declared = "", {}
    if (match := _FRONT_MATTER.match(text)) and (pairs := _parse_front_matter(match[1])) is not None:
        front_matter, declared = match[1], pairs
        text = text[match.end() :]
    page = read_page(text)
    if front_matter:
        page.hidden.add("front_matter", front_matter)
    hidden_text, findings = page.hidden.summarize(page.text)
    return ParsedDocument(page.text, hidden_text, clean_declared(declared), (*problems, *page.problems, *findings))


@dataclass(frozen=True, slots=True)
class MarkdownPage:
    """Markdown without front matter, with its hidden text not yet summarized: a notebook joins its cells first."""

    text: str
    hidden: HiddenText
    problems: tuple[Finding, ...]


def read_page(text: str) -> MarkdownPage:
    """Read Markdown in which no front matter is looked for."""
    hidden = HiddenText()
    problems: list[Finding] = []
    visible_parts: list[str] = []
    position = 0
    spans, are_all_read = _find_hidden_spans(text)
    for start, end, reason in sorted(spans):
        if end <= position:
            continue
        visible_parts.append(text[position : max(start, position)])
        hidden.add(reason, text[max(start, position) : end])
        position = end
    visible_parts.append(text[position:])
    visible, left_out = _leave_out_pictures("".join(visible_parts))
    if not are_all_read:
        message = "more tags of HTML than are looked at: some hidden text may count as visible"
        problems.append(make_problem("tags", Severity.MEDIUM, message))
    if left_out:
        message = f"characters of pictures that are written into the text were left out: {left_out:,}"
        problems.append(make_problem("pictures", Severity.INFO, message, score=0.1))
    return MarkdownPage(visible, hidden, tuple(problems))


def _leave_out_pictures(text: str) -> tuple[str, int]:
    """Return the text without the bytes of its pictures, and how many characters these were."""
    pictures = list(_PICTURE.finditer(text)) if ";base64," in text.lower() else []
    if not pictures:
        return text, 0
    raw = RawParts(text)
    parts, position = [], 0
    for picture in pictures:
        if not raw.is_code(picture.start()):
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


def _find_hidden_spans(text: str) -> tuple[list[tuple[int, int, str]], bool]:
    """Return (start, end, reason) of spans that a rendered page does not show, and whether all tags were looked at.

    All in linear time.
    """
    raw = RawParts(text)
    spans: list[tuple[int, int, str]] = []
    are_all_read = True
    if "]:" in text:
        spans += _find_unused_definitions(text, raw)
    if "|" in text:
        spans += _find_cells_beyond(text, raw)
    if "<" in text and _may_hide(text):
        elements, are_all_read = _find_hiding_tags(text, raw)
        spans += elements
        spans += ((start, end, "comment") for start, end in raw.comments)
        spans += ((start, end, "display") for start, end in raw.unread)
    return spans, are_all_read


def _may_hide(text: str) -> bool:
    """Return whether some tag may hide its content, or is dropped; quickly, as most texts have none."""
    if _MARKED.search(text):
        return True
    lowered = text.lower()
    if "hidden" in lowered or "popover" in lowered:
        return True
    return ("style" in lowered or "color" in lowered) and bool(_ASSIGNED.search(lowered))


def _find_unused_definitions(text: str, raw: RawParts) -> Iterator[tuple[int, int, str]]:
    """Yield definitions and footnotes that nothing uses, or that another of the same label comes before."""
    for match in _LINK_COMMENT.finditer(text):
        if not raw.is_code(match.start()):
            yield match.start(), match.end(), "link_comment"
    titled = [match for match in _DEFINITION.finditer(text) if not raw.is_code(match.start())]
    notes = [match for match in _FOOTNOTE.finditer(text) if not raw.is_code(match.start())]
    if not titled and not notes:
        return
    labels = [match for match in _LABEL.finditer(text) if not raw.is_dropped(match.start())]
    references = [match for match in _REFERENCE.finditer(text) if not raw.is_dropped(match.start(1))] if notes else []
    first: dict[str, int] = {}
    for match in _ANY_DEFINITION.finditer(text):
        if not raw.is_dropped(match.start(1)):
            first.setdefault(match[1].casefold(), match.start(1))
    yield from _leave_used(titled, labels, first)
    yield from _leave_used(notes, [*labels, *references], first)


def _leave_used(
    definitions: Iterable[re.Match[str]], uses: Iterable[re.Match[str]], first: Mapping[str, int]
) -> Iterator[tuple[int, int, str]]:
    """Yield all of these definitions but those that are used; `first`: where each label is defined first."""
    places: dict[str, tuple[int, int]] = {}
    for use in uses:
        label, place = use[1].casefold(), use.start(1)
        start, end = places.get(label, (place, place))
        places[label] = min(start, place), max(end, place)
    for match in definitions:
        label = match[1].casefold()
        start, end = places.get(label, (match.start(), match.start()))
        is_used = start < match.start() or end >= match.end()  # elsewhere than in itself
        if not is_used or first.get(label, match.start(1)) != match.start(1):
            yield match.start(), match.end(), "link_comment"


def _find_cells_beyond(text: str, raw: RawParts) -> Iterator[tuple[int, int, str]]:
    """Yield the cells of tables that have no column: renderers leave them out (GitHub Flavored Markdown, 4.10)."""
    position = 0
    for rule in _RULE_ROW.finditer(text):
        if rule.start() < position:
            continue
        head = text[text.rfind("\n", 0, max(rule.start() - 1, 0)) + 1 : max(rule.start() - 1, 0)]
        columns = len(_split_row(rule[0], 0))
        if "|" not in head or len(_split_row(head, 0)) != columns:
            continue
        position = rule.end() + 1
        while position < len(text):
            end = text.find("\n", position)
            row = text[position : end if end >= 0 else len(text)]
            if "|" not in row:
                break
            if row.count("|") >= columns + row.strip().startswith("|") + row.strip().endswith("|"):
                cells = _split_row(row, position)
                if len(cells) > columns and not raw.is_code(position):
                    yield cells[columns - 1][1], cells[-1][1], "covered"
            position += len(row) + 1


def _split_row(row: str, start: int) -> list[tuple[int, int]]:
    """Return the places of a row's cells, where the row begins at `start`; bars at its ends part nothing."""
    # Some renderers part cells at bars in code, others not.
    plain_row = _INLINE_CODE.sub(lambda code: "x" * len(code[0]), row)
    edges = [bar.start() for bar in _BAR.finditer(plain_row)]
    first, last = len(row) - len(row.lstrip()), len(row.rstrip())
    inner = [edge for edge in edges if first < edge < last - 1]
    begins = [first + (first in edges), *(edge + 1 for edge in inner)]
    ends = [*inner, last - (last - 1 in edges and last - 1 > first)]
    return [(start + begin, start + end) for begin, end in zip(begins, ends, strict=True)]


def _find_hiding_tags(text: str, raw: RawParts) -> tuple[list[tuple[int, int, str]], bool]:
    """Return elements of raw HTML that a browser does not show, and whether all tags were looked at."""
    spans: list[tuple[int, int, str]] = []
    reasons: dict[str, str] = {}
    last_closing = {tag["name"].lower(): tag for tag in raw.tags if tag["closing"]}
    end = 0
    for place, tag in enumerate(raw.tags):
        name = tag["name"].lower()
        if tag.start() < end or tag["closing"]:
            continue
        is_closed = name in last_closing and last_closing[name].start() > tag.start()
        may_hide = name in FALLBACK_TAGS or (name in _CLOSED and is_closed) or _HIDING.search(tag["attributes"])
        if not may_hide:
            continue
        if tag[0] not in reasons:
            if len(reasons) == _MAX_TAGS:
                return spans, False
            reasons[tag[0]] = _find_reason(tag[0], name)
        if reasons[tag[0]]:
            end = _find_end(raw.tags, place) or len(text)
            spans.append((tag.start(), end, reasons[tag[0]]))
    return spans, True


def _find_reason(tag: str, name: str) -> str:
    """Return what hides the content of an element, a key of `_hidden.HIDING_REASONS`; empty where it is shown."""
    from corpus_guard.intake.parsing.formats import html  # loads a parser that most texts do not need

    around = "<svg>" if name in _OF_SVG else _AROUND.get(name, "")
    page = html.read_page(f"<body>seen {around}{tag}x</{name}>")
    return page.hidden.first_reason if page.text == "seen" else ""


def _find_end(tags: Sequence[re.Match[str]], place: int) -> int:
    """Return where the element of a tag ends: after its closing tag; 0 where it has none."""
    name, depth, last_end = tags[place]["name"].lower(), 0, 0
    for number in range(place, len(tags)):
        other = tags[number]
        if other["name"].lower() != name:
            continue
        depth += -1 if other["closing"] else 1
        last_end = other.end() if other["closing"] else last_end
        if depth == 0:
            return other.end()
    return last_end if name in _CLOSED else 0
