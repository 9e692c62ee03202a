"""Markdown: kept as it is written, without the parts that a rendered page does not show.

Hidden, because not shown: the front matter, HTML comments outside code, link definitions used as comments
(``[//]: # (…)``), and definitions with a title that no link uses. Other raw HTML, alternative texts and
titles of links stay in the text, where every check sees them.

Left out: the bytes of pictures that are written into the text (``data:image/…;base64,…``) outside code. A page shows a
picture there, and nobody finds text by them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

from corpus_guard.domain import Severity
from corpus_guard.intake.parsing.document import ParsedDocument, clean_declared, make_problem
from corpus_guard.intake.parsing.formats import text as plain
from corpus_guard.intake.parsing.formats._hidden import HiddenText

_FRONT_MATTER = re.compile(r"---[ \t]*\r?\n(.{0,16384}?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_FENCE = re.compile(r"^[ \t]{0,3}(`{3,}|~{3,})", re.MULTILINE)
_LINK_COMMENT = re.compile(r"^ {0,3}\[(?://|comment|_metadata_:[^\]\n]{0,40})\]:[^\n]*$", re.MULTILINE | re.IGNORECASE)

# A definition with a title; and a use of a label: brackets that no definition follows.
_DEFINITION = re.compile(r"^ {0,3}\[([^\]\[\n]{1,80})\]:[ \t]*\S{1,2000}[ \t]+[\"'(][^\n]*$", re.MULTILINE)
_LABEL = re.compile(r"\[([^\]\[\n]{1,80})\](?!:)")
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
