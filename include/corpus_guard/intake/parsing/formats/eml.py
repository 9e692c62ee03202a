"""E-mail (RFC 5322, MIME): subject, sender, recipients and date, then the body that a mail program shows.

Of alternatives the HTML is shown where there is one; the others are hidden, as far as the shown one does not repeat them, and so are
texts that belong to another part. Forwarded mails that are attached are read as parts of the mail. Names of attached files are
hidden; the files are not opened.

Not read: other headers, texts around the parts, and the effects of signatures.
"""

from __future__ import annotations

import email
import re
from contextlib import suppress
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from email.message import Message

from corpus_guard.domain import Finding, Severity
from corpus_guard.errors import Unreadable
from corpus_guard.intake.parsing.document import ParsedDocument, clean_declared, make_problem
from corpus_guard.intake.parsing.formats import _recount, html
from corpus_guard.intake.parsing.formats import text as plain
from corpus_guard.intake.parsing.formats._hidden import HiddenText

MAX_PARTS = 1_000
_MAX_DEPTH = 20  # parts within parts
_SHOWN_HEADERS = ("From", "To", "Cc", "Date")
_DECLARED = {"Subject": "title", "From": "author", "Date": "date"}
_ENCRYPTED = frozenset({"multipart/encrypted", "application/pkcs7-mime", "application/x-pkcs7-mime"})
_HTML = "text/html"
_SOFT_BREAK = re.compile(r"(?<=[^\n]) (?<!\n-- )\n(?!\n|>|-- ?(?:\n|\Z))")


def read(content: bytes) -> ParsedDocument:
    """Read the mail as a mail program shows it."""
    mail = email.message_from_bytes(content)
    if not mail.keys():
        return plain.read(content)
    reader = _MailReader()
    reader.read(mail)
    text = "\n\n".join(filter(str.strip, reader.texts))
    hidden_text, findings = reader.hidden.summarize(text)
    declared = {name: _header(mail, header) for header, name in _DECLARED.items()}
    problems = (*{problem.code: problem for problem in reader.problems}.values(), *findings)
    return ParsedDocument(text, hidden_text, clean_declared(declared), problems)


class _MailReader:
    """Writer of what a mail and the mails within it show and hide."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.hidden = HiddenText()
        self.problems: list[Finding] = []
        self._parts = 0

    def read(self, mail: Message, depth: int = 0) -> None:
        """Read one mail."""
        subject = _header(mail, "Subject")
        headers = [f"{name}: {value}" for name in _SHOWN_HEADERS if (value := _header(mail, name))]
        self.texts += [f"# {subject}" if subject else "", "\n".join(headers)]
        self._read_part(mail, depth)

    def _read_part(self, part: Message, depth: int) -> None:
        self._parts += 1
        kind = part.get_content_type()
        if depth > _MAX_DEPTH or self._parts > MAX_PARTS:
            message = f"the mail has more than {MAX_PARTS:,} parts, or parts deeper than {_MAX_DEPTH}"
            raise Unreadable("parsing.unreadable", message)
        if kind in _ENCRYPTED:
            raise Unreadable("parsing.encrypted", "the mail is encrypted; save it decrypted")
        inner = _inner_parts(part)
        if kind == "message/rfc822":
            for mail in inner:
                self.read(mail, depth + 1)
        elif inner:
            shown = _choose(part, inner)
            for each in inner:
                if each in shown:
                    self._read_part(each, depth + 1)
                else:
                    self._hide(each)
        elif part.get_content_disposition() == "attachment" or part.get_content_maintype() != "text":
            self._note_file(part)
        else:
            self._read_text(part)

    def _read_text(self, part: Message) -> None:
        source = self._decode(part).replace("\r\n", "\n")
        if part.get_content_type() != _HTML:
            is_flowed = str(part.get_param("format", "")).lower() == "flowed"
            self.texts.append((_SOFT_BREAK.sub(" ", source) if is_flowed else source).strip())
            return
        page = html.read_page(source)
        self.hidden.update(page.hidden)
        self.problems += page.problems
        self.problems += _recount.compare_counts("e-mail", page.chars, _recount.count_html_chars(source))
        self.texts.append(page.text)

    def _hide(self, part: Message) -> None:
        """Note what an alternative says that is not shown."""
        for each in part.walk():
            self._parts += 1
            if each.get_content_maintype() != "text" or self._parts > MAX_PARTS:
                continue
            source = self._decode(each)
            lines = html.read_page(source).text if each.get_content_type() == _HTML else source
            for line in lines.splitlines():
                self.hidden.add("alternative", line)

    def _note_file(self, part: Message) -> None:
        name = part.get_filename()
        if name or part.get_content_disposition() == "attachment":
            self.hidden.add("attachment", str(name or ""))
            self.problems.append(
                make_problem("embedded", Severity.LOW, "the mail has attached files; they were not read", 0.2)
            )

    def _decode(self, part: Message) -> str:
        payload = part.get_payload(decode=True)
        content = payload if isinstance(payload, bytes) else b""
        try:
            return content.decode(part.get_content_charset() or "utf-8")
        except (LookupError, UnicodeError):
            source, problems = plain.decode(content)
            self.problems += problems
            return source


def _inner_parts(part: Message) -> list[Message]:
    payload = part.get_payload()
    return [each for each in payload if isinstance(each, Message)] if isinstance(payload, list) else []


def _choose(part: Message, inner: list[Message]) -> list[Message]:
    """Return the parts of a part that are shown.

    Of alternatives: the last with HTML, else the last of plain text, else the last. Of related ones: that to which the others, such
    as its pictures, belong (RFC 2387). Of all else: all.
    """
    kind = part.get_content_type()
    if kind == "multipart/related":
        start = str(part.get_param("start") or "")
        return [next((each for each in inner if start and each.get("Content-ID") == start), inner[0])]
    if kind != "multipart/alternative":
        return inner
    for wanted in (_HTML, "text/plain"):
        for each in reversed(inner):
            if any(leaf.get_content_type() == wanted for leaf in each.walk()):
                return [each]
    return inner[-1:]


def _header(mail: Message, name: str) -> str:
    value = str(mail.get(name, ""))
    with suppress(HeaderParseError, LookupError, ValueError, UnicodeError):  # then it stays as it is written
        value = str(make_header(decode_header(value)))
    return " ".join(value.split())
