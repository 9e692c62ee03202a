"""Code and raw HTML in Markdown, told apart from left to right (CommonMark 0.31, 4.5, 4.6, 6.1 and 6.6).

- A fence opens at the start of a line, without a backtick behind one of backticks, and ends with a bare fence of its length or the text.
- Backticks enclose code up to as many backticks in the same paragraph; others stand for themselves.
- Comments, instructions (``<?…?>``), declarations (``<!X…>``) and CDATA are no text: a browser drops them to the first ``>``, or ``-->``.
- In a block of HTML, up to the next blank line, backticks are letters.

- Lines indented by four spaces after a blank line are code, unless a list or a note may go on in them.

Not told: fences within quotations.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from functools import cached_property

Span = tuple[int, int]
"""Start and end of a part of the text."""

_ATTRIBUTES = r"(?:\s(?:[^<>\"']{1,20000}+|\"[^\"]{0,20000}+\"|'[^']{0,20000}+'){0,200}+|/?)"
_TOKEN = re.compile(
    rf"(?P<run>`++)|(?P<tilde>^[ \t]{{0,3}}~{{3,}}+)|(?P<comment><!--)|(?P<other><[?!])"
    rf"|<(?P<closing>/?)(?P<name>[a-z][a-z0-9-]{{0,40}}+)(?P<attributes>{_ATTRIBUTES})>",
    re.IGNORECASE | re.MULTILINE,
)
_RUN = re.compile(r"`++")
# Lines at which a paragraph ends: code does not reach over them.
_BREAK = re.compile(r"^[ \t\r]*+(?:$|[#>|<=*+~-]|```|\d{1,9}[.)]|\[\^)", re.MULTILINE)
_BLANK = re.compile(r"^[ \t\r]*+$", re.MULTILINE)
_XML_DECLARATION = re.compile(r"<\?xml(?:\s+[a-z]{7,10}\s*=\s*[\"'][\w.-]{1,20}[\"']){0,3}\s*\?>")
_DOCTYPE = re.compile(r"<!doctype\s+html\s*>", re.IGNORECASE)
_BLOCK = re.compile(
    r"address|article|aside|base(?:font)?|blockquote|body|caption|center|col(?:group)?|dd|details|dialog|dir|div|d[lt]|fieldset"
    r"|figcaption|figure|footer|form|frame(?:set)?|h[1-6]|head(?:er)?|hr|html|iframe|legend|li|link|main|menu(?:item)?|nav|noframes"
    r"|ol|optgroup|option|p|param|search|section|summary|table|tbody|td|tfoot|th|thead|title|tr|track|ul"
)
UNREAD_TAGS = frozenset({"script", "style", "title"})
"""Elements whose content is neither shown nor read as HTML."""
_MAX_INDENT = 3
_MAX_LINES = 200  # looked back for the line that an indented one belongs to
_INDENTED = re.compile(r"(?: {4}| {0,3}\t)")
_NOT_A_LIST = re.compile(r"(?![-*+>:]|\d{1,9}[.)]|\[\^|[!?=]{3})\S")


class RawParts:
    """Code, comments and tags of one text, found when they are first asked for, in linear time."""

    def __init__(self, text: str) -> None:
        """Take the text; nothing is read yet."""
        self._text = text
        self._code: list[Span] = []
        self._comments: list[Span] = []
        self._unread: list[Span] = []
        self._tags: list[re.Match[str]] = []
        self._raw_until = 0  # end of the block of HTML that was entered last
        self._unclosed: set[str] = set()  # names of elements whose content is not read and that no tag closes any more
        self._are_read = False
        self._indented = -1, False  # start of the last indented line that was looked at, and whether it is code

    @property
    def comments(self) -> list[Span]:
        """Comments, and what browsers drop like them."""
        self._read()
        return self._comments

    @property
    def unread(self) -> list[Span]:
        """Scripts, style sheets and titles, with their tags."""
        self._read()
        return self._unread

    @property
    def tags(self) -> list[re.Match[str]]:
        """Opening and closing tags that are no code, with the groups `name`, `closing` and `attributes`."""
        self._read()
        return self._tags

    def is_code(self, position: int) -> bool:
        """Return whether a position lies in code, where all is shown as it is written."""
        self._read()
        return _holds(self._code, position)

    def is_dropped(self, position: int) -> bool:
        """Return whether a position lies in a comment, or in what is dropped like one."""
        return self.is_code(position) or _holds(self._comments, position) or _holds(self._unread, position)

    @cached_property
    def _runs(self) -> dict[int, list[int]]:
        """Starts of the runs of backticks, by length."""
        runs: dict[int, list[int]] = {}
        for run in _RUN.finditer(self._text):
            runs.setdefault(len(run[0]), []).append(run.start())
        return runs

    @cached_property
    def _breaks(self) -> list[int]:
        return [line.start() for line in _BREAK.finditer(self._text)]

    def _read(self) -> None:
        if self._are_read:
            return
        self._are_read = True
        position = 0
        while (token := _TOKEN.search(self._text, position)) is not None:
            position = token.end()
            if token["run"] or token["tilde"]:
                code = self._read_fence(token) or self._read_code(token)
                if code is not None:
                    self._code.append(code)
                    position = code[1]
            elif self._is_indented_code(token.start()):
                self._code.append((token.start(), position))
            elif token["comment"]:
                # Browsers and renderers hide everything after an unclosed comment.
                end = self._text.find("-->", position)
                position = end + 3 if end >= 0 else len(self._text)
                self._comments.append((token.start(), position))
            elif token["other"]:
                position = self._read_dropped(token) or position
            else:
                position = self._read_tag(token) or position

    def _read_fence(self, token: re.Match[str]) -> Span | None:
        fence = (token["run"] or token["tilde"]).lstrip(" \t")
        start = token.end() - len(fence)
        line = self._text.rfind("\n", max(start - _MAX_INDENT - 1, 0), start) + 1
        indent = start - line
        if len(fence) < 3 or start < self._raw_until or indent > _MAX_INDENT or self._text[line:start].strip(" \t"):
            return None
        if line == 0 and start > _MAX_INDENT:  # the line begins further back
            return None
        end = self._text.find("\n", start)
        if end < 0:
            end = len(self._text)
        if fence[0] == "`" and "`" in self._text[token.end() : end]:
            return None
        closing = re.compile(rf"^[ \t]{{0,{indent + _MAX_INDENT}}}{fence}{fence[0]}*+[ \t\r]*$", re.MULTILINE)
        close = closing.search(self._text, end)
        return line, close.end() if close else len(self._text)

    def _read_code(self, token: re.Match[str]) -> Span | None:
        run = token["run"] or ""
        start = token.start()
        if not run or start < self._raw_until:
            return None
        if self._is_escaped(start):
            run, start = run[1:], start + 1
        starts = self._runs.get(len(run), [])
        place = bisect_left(starts, token.end())
        if not run or place == len(starts):
            return None
        next_break = bisect_right(self._breaks, start)
        if next_break < len(self._breaks) and self._breaks[next_break] <= starts[place]:
            return None
        return start, starts[place] + len(run)

    def _is_escaped(self, start: int) -> bool:
        before = self._text[max(start - 100, 0) : start]
        return (len(before) - len(before.rstrip("\\"))) % 2 == 1

    def _read_dropped(self, token: re.Match[str]) -> int | None:
        """Read an instruction, a declaration or CDATA, and return its end; None where it is text."""
        start, mark = token.start(), token["other"]
        head = self._text[token.end() : token.end() + 7]
        is_cdata = mark == "<!" and head == "[CDATA["
        if mark == "<!" and not is_cdata and not (head[:1].isascii() and head[:1].isalpha()):
            return None
        closing = "?>" if mark == "<?" else "]]>" if is_cdata else ">"
        if not self._is_line_start(start) and not 0 <= self._text.find(closing, start) <= self._next_break(start):
            return None
        end = self._text.find(">", start) + 1 or len(self._text)
        if not (_XML_DECLARATION.match(self._text, start) or _DOCTYPE.match(self._text, start)):
            self._comments.append((start, end))
        return end

    def _next_break(self, start: int) -> int:
        place = bisect_right(self._breaks, start)
        return self._breaks[place] if place < len(self._breaks) else len(self._text)

    def _read_tag(self, token: re.Match[str]) -> int | None:
        name = token["name"].lower()
        if name in UNREAD_TAGS and name not in self._unclosed and not token["closing"]:
            close = re.compile(rf"</{name}\b[^<>]{{0,100}}>", re.IGNORECASE).search(self._text, token.end())
            if close is not None and self._text[token.end() : close.start()].strip():
                self._unread.append((token.start(), close.end()))
            if close is not None:
                return close.end()
            self._unclosed.add(name)
        self._tags.append(token)
        if token.start() >= self._raw_until and self._is_line_start(token.start()):
            rest = self._text[token.end() : token.end() + 100].partition("\n")[0]
            if _BLOCK.fullmatch(name) or (not rest.strip() and self._is_after_blank(token.start())):
                blank = _BLANK.search(self._text, token.end())
                self._raw_until = blank.start() if blank else len(self._text)
        return None

    def _is_line_start(self, start: int) -> bool:
        line = self._text.rfind("\n", max(start - _MAX_INDENT - 1, 0), start) + 1
        return start - line <= _MAX_INDENT and not self._text[line:start].strip(" ")

    def _is_indented_code(self, start: int) -> bool:
        """Return whether a position lies in lines that are code by their indent."""
        line = self._text.rfind("\n", 0, start) + 1
        if start < self._raw_until or not _INDENTED.match(self._text, line):
            return False
        first, after_blank, answer = line, False, False
        for _ in range(_MAX_LINES):
            if line == self._indented[0]:
                answer = self._indented[1]
                break
            if line == 0:
                answer = True
                break
            line = self._text.rfind("\n", 0, line - 1) + 1
            if _BLANK.match(self._text, line):
                after_blank = True
            elif not _INDENTED.match(self._text, line):
                answer = after_blank and bool(_NOT_A_LIST.match(self._text, line))
                break
            else:
                after_blank = False
        self._indented = first, answer
        return answer

    def _is_after_blank(self, start: int) -> bool:
        line = self._text.rfind("\n", 0, start)
        return line < 0 or not self._text[self._text.rfind("\n", max(line - 100, 0), line) + 1 : line].strip()


def _holds(spans: list[Span], position: int) -> bool:
    place = bisect_right(spans, (position, 1 << 62)) - 1
    return place >= 0 and position < spans[place][1]
