"""E-mail (RFC 5322, MIME), one mail or a mailbox of several (RFC 4155).

Read are subject, sender, recipients and date, then the body that a mail program shows. Of alternatives the HTML is shown where there
is one; the others are hidden, as far as the shown one does not repeat them, and so are texts that belong to another part. Forwarded
mails that are attached are read as parts of the mail. Names of attached files are hidden; the files are not opened.

Mail programs do not agree on a mail that breaks the rules: a header that stands twice, parts without their boundary, base64 that
goes on after its end. What is read of it is as a rule what most of them show; that others may show more is a finding.

Not read: other headers, texts around the parts, and the effects of signatures.
"""

from __future__ import annotations

import codecs
import email
import re
from collections.abc import Sequence
from contextlib import suppress
from email.errors import CloseBoundaryNotFoundDefect, HeaderParseError
from email.header import decode_header, make_header
from email.message import Message
from itertools import pairwise

from corpus_guard.domain import Finding, Severity
from corpus_guard.errors import Unreadable
from corpus_guard.intake.parsing.document import ParsedDocument, clean_declared, make_problem, replace_unstorable
from corpus_guard.intake.parsing.formats import _recount, html
from corpus_guard.intake.parsing.formats import text as plain
from corpus_guard.intake.parsing.formats._hidden import HiddenText

MAX_PARTS = 1_000
_MAX_DEPTH = 20  # parts within parts
_SHOWN_HEADERS = ("From", "To", "Cc", "Date")
_SINGLE_HEADERS = ("Subject", *_SHOWN_HEADERS, "Content-Type", "Content-Transfer-Encoding", "Content-Disposition")
_DECLARED = {"Subject": "title", "From": "author", "Date": "date"}
_MAILS = frozenset({"message/rfc822", "message/global", "message/news", "message/partial"})
_PICTURES = frozenset({"image", "audio", "video"})
_SIGNATURES = frozenset({"application/pgp-signature", "application/pkcs7-signature", "application/x-pkcs7-signature"})
_ENCRYPTED = frozenset({"multipart/encrypted", "application/pkcs7-mime", "application/x-pkcs7-mime"})
_HTML = "text/html"
_ENVELOPE = re.compile(rb"(?P<before>\A|\n\r?\n)From [^\r\n]{3,200} \d{4}(?: [+-]\d{4})?\r?\n")
_IN_PARTS = re.compile("Multipart|Boundary")
_SOFT_BREAK = re.compile(r"(?<=[^\n]) (?<!\n-- )\n(?!\n|>|-- ?(?:\n|\Z))")


def read(content: bytes) -> ParsedDocument:
    """Read the mail as a mail program shows it."""
    mails = [email.message_from_bytes(each) for each in _split_mailbox(content)]
    if not mails[0].keys():
        return plain.read(content)
    reader = _MailReader()
    for mail in mails:
        reader.parts = 0
        reader.read(mail)
    text = "\n\n".join(filter(str.strip, reader.texts))
    hidden_text, findings = reader.hidden.summarize(text)
    declared = {name: reader.header(mails[0], header) for header, name in _DECLARED.items()}
    problems = (*dict.fromkeys(reader.problems), *findings)
    return ParsedDocument(text, hidden_text, clean_declared(declared), problems)


def _split_mailbox(content: bytes) -> list[bytes]:
    """Return the mails of a mailbox, or the one mail."""
    content = content.removeprefix(codecs.BOM_UTF8).lstrip(b"\r\n")
    starts = [match.end("before") for match in _ENVELOPE.finditer(content)] if content.startswith(b"From ") else []
    return [content[start:end] for start, end in pairwise([0, *starts[1:], len(content)])]


class _MailReader:
    """Writer of what a mail and the mails within it show and hide."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.hidden = HiddenText()
        self.problems: list[Finding] = []
        self.parts = 0  # read of the mail

    def read(self, mail: Message, depth: int = 0) -> None:
        """Read one mail."""
        subject = self.header(mail, "Subject")
        headers = [f"{name}: {value}" for name in _SHOWN_HEADERS if (value := self.header(mail, name))]
        self.texts += [f"# {subject}" if subject else "", "\n".join(headers)]
        self._read_part(mail, depth)

    def header(self, mail: Message, name: str) -> str:
        """Return the first header of a name as text; empty without one."""
        return next(iter(self._headers(mail, name)), "")

    def _headers(self, mail: Message, name: str) -> list[str]:
        return [self._decode_header(str(value)) for key, value in mail.raw_items() if key.lower() == name.lower()]

    def _decode_header(self, raw: str) -> str:
        try:
            value = raw.encode("utf-8", "surrogateescape").decode()
        except UnicodeDecodeError:
            value = replace_unstorable(raw)
            message = "some bytes of the headers are not UTF-8; they were replaced by U+FFFD"
            self.problems.append(make_problem("encoding", Severity.LOW, message, score=0.5))
        with suppress(HeaderParseError, LookupError, ValueError, UnicodeError):  # then it stays as it is written
            value = str(make_header(decode_header(value)))
        return " ".join(value.split())

    def _read_part(self, part: Message, depth: int) -> None:
        self._count_part(part, depth)
        kind = part.get_content_type()
        if kind in _ENCRYPTED:
            message = (
                "the mail is encrypted, or its text lies within its signature (S/MIME); save it as an ordinary mail"
            )
            raise Unreadable("parsing.encrypted", message)
        inner = _inner_parts(part)
        if kind in _MAILS:
            for mail in inner:
                self.read(mail, depth + 1)
        elif inner and part.get_content_maintype() == "multipart":
            shown = _choose(part, inner)
            for each in inner:
                if each in shown:
                    self._read_part(each, depth + 1)
                else:
                    self._hide(each)
        elif _is_file(part):
            self._note_file(part)
        else:
            self._read_text(part)
        self._note_defects(part)

    def _count_part(self, part: Message, depth: int = 0) -> None:
        self.parts += 1
        if depth > _MAX_DEPTH or self.parts > MAX_PARTS:
            message = f"the mail has more than {MAX_PARTS:,} parts, or parts deeper than {_MAX_DEPTH}"
            raise Unreadable("parsing.unreadable", message)
        for name in _SINGLE_HEADERS:
            first, *others = self._headers(part, name) or [""]
            if any(value != first for value in others):
                for value in others if not name.startswith("Content-") else ():
                    self.hidden.add("alternative", value)
                message = (
                    f"the mail has the header {name} more than once; the first is read, some programs show another"
                )
                self.problems.append(make_problem("ambiguous", Severity.MEDIUM, message))

    def _read_text(self, part: Message) -> None:
        source = self._decode(part).replace("\r\n", "\n")
        if part.get_content_type() != _HTML:
            is_flowed = str(part.get_param("format", "")).lower() == "flowed"
            space = "" if str(part.get_param("delsp", "")).lower() == "yes" else " "  # RFC 3676, section 4
            self.texts.append((_SOFT_BREAK.sub(space, source) if is_flowed else source).strip())
            return
        self.texts.append(self._read_html(source))

    def _read_html(self, source: str) -> str:
        """Return what a page shows, and note what it hides."""
        page = html.read_page(source)
        self.hidden.update(page.hidden)
        self.problems += page.problems
        self.problems += _recount.compare_counts("e-mail", page.chars, _recount.count_html_chars(source))
        return page.text

    def _hide(self, part: Message) -> None:
        """Note what an alternative says that is not shown."""
        for each in part.walk():
            self._count_part(each)
            if each.get_content_maintype() == "text":
                source = self._decode(each)
                for line in (self._read_html(source) if each.get_content_type() == _HTML else source).splitlines():
                    self.hidden.add("alternative", line)
            elif not each.is_multipart() and each.get_content_maintype() not in _PICTURES:
                self._note_file(each)
            self._note_defects(each)

    def _note_file(self, part: Message) -> None:
        name = part.get_filename()
        is_attached = name or part.get_content_disposition() == "attachment"
        if is_attached or not (part.get_content_maintype() in _PICTURES or part.get_content_type() in _SIGNATURES):
            self.hidden.add("attachment", str(name or ""))
            self.problems.append(
                make_problem("embedded", Severity.LOW, "the mail has attached files; they were not read", 0.2)
            )

    def _note_defects(self, part: Message) -> None:
        for defect in part.defects:
            if not isinstance(defect, CloseBoundaryNotFoundDefect):  # with that one the mail only ends early
                name = type(defect).__name__
                what = "base64" if "Base64" in name else "boundary of parts" if _IN_PARTS.search(name) else "headers"
                message = f"the {what} of the mail breaks the rules: some programs show more of it than was read"
                self.problems.append(make_problem("ambiguous", Severity.MEDIUM, message))

    def _decode(self, part: Message) -> str:
        payload = part.get_payload(decode=True)
        content = payload if isinstance(payload, bytes) else b""
        if (text := plain.decode_declared(content, part.get_content_charset() or "utf-8")) is not None:
            return text
        source, problems = plain.decode(content)
        self.problems += problems
        return source


def _is_file(part: Message) -> bool:
    """Return whether a part is a file for a mail program, not text. Parts that lost their boundary are text."""
    is_text = part.get_content_maintype() in {"text", "multipart"}
    return part.get_content_disposition() == "attachment" or not is_text


def _inner_parts(part: Message) -> Sequence[Message]:
    payload = part.get_payload()
    inner = [each for each in payload if isinstance(each, Message)] if isinstance(payload, list) else []
    encoding = str(part.get("Content-Transfer-Encoding", "")).strip().lower()
    if (
        encoding == "base64" and len(inner) == 1 and not inner[0].keys()
    ):  # a forwarded mail that may not be encoded, and is
        inner[0]["Content-Transfer-Encoding"] = encoding
        decoded = inner[0].get_payload(decode=True)
        return [email.message_from_bytes(decoded)] if isinstance(decoded, bytes) else []
    return inner


def _choose(part: Message, inner: Sequence[Message]) -> Sequence[Message]:
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
            if any(leaf.get_content_type() == wanted and not _is_file(leaf) for leaf in each.walk()):
                return [each]
    return inner[-1:]
