from __future__ import annotations

import base64
from email.message import EmailMessage

import pytest

from corpus_guard.errors import HostileInput
from corpus_guard.intake.parsing import ParsedDocument, ParsingSandbox
from corpus_guard.intake.parsing.formats import eml


def mail(body: str = "The quay is swept in autumn.") -> EmailMessage:
    made = EmailMessage()
    made["Subject"], made["From"], made["To"] = (
        "Über den Kai",
        "Harbour office <office@harbour.example>",
        "tenants@harbour.example",
    )
    made["Date"], made["X-Mailer"] = "Mon, 03 Nov 2025 10:00:00 +0000", "a program that nobody reads of"
    made.set_content(body)
    return made


HEAD = "# Über den Kai\n\nFrom: Harbour office <office@harbour.example>\nTo: tenants@harbour.example\nDate: Mon, 03 Nov 2025 10:00:00 +0000"


def test_a_mail_is_read_as_a_mail_program_shows_it(sandbox: ParsingSandbox) -> None:
    parsed = sandbox.parse(mail("Straße\n").as_bytes(), "", "a.eml")
    assert (parsed.text, parsed.hidden, parsed.media_type) == (f"{HEAD}\n\nStraße", "", "message/rfc822")
    assert dict(parsed.declared) == {
        "title": "Über den Kai",
        "author": "Harbour office <office@harbour.example>",
        "date": "Mon, 03 Nov 2025 10:00:00 +0000",
    }


def test_the_html_is_shown_and_what_it_does_not_say_is_hidden() -> None:
    made = mail("The quay is swept.\nEvil words.\n")
    made.add_alternative("<p>The quay is <b>swept</b>.</p><p hidden>more evil</p>", subtype="html")
    parsed = eml.read(made.as_bytes())
    assert parsed.text == f"{HEAD}\n\nThe quay is swept."
    assert parsed.hidden == "more evil\nEvil words."


def test_texts_that_belong_to_another_part_are_hidden() -> None:
    parts = b"Content-Type: text/html\n\n<p>seen</p>\n--b\nContent-Type: text/plain\n\nevil\n--b--\n"
    parsed = eml.read(b'Subject: x\nContent-Type: multipart/related; boundary="b"\n\n--b\n' + parts)
    assert (parsed.text, parsed.hidden) == ("# x\n\nseen", "evil")


def test_attached_files_are_named_and_forwarded_mails_are_read() -> None:
    made = mail()
    made.add_attachment(b"%PDF-1.4", maintype="application", subtype="pdf", filename="plan of the quay.pdf")
    made.add_attachment(mail("The forwarded words."))
    parsed = eml.read(made.as_bytes())
    assert parsed.text.endswith("The forwarded words.")
    assert parsed.hidden == "plan of the quay.pdf"
    assert [problem.code for problem in parsed.problems] == ["parsing.embedded", "parsing.hidden_text"]


def test_soft_breaks_are_joined_where_the_mail_says_so() -> None:
    lines = b"The quay is \r\nswept.\r\n\r\n> quoted \r\n-- \r\nOffice\r\n"
    parsed = eml.read(b"Subject: x\r\nContent-Type: text/plain; format=flowed\r\n\r\n" + lines)
    assert parsed.text.replace("\r", "") == "# x\n\nThe quay is swept.\n\n> quoted \n-- \nOffice"


def test_an_encrypted_mail_is_refused() -> None:
    with pytest.raises(HostileInput) as caught:
        eml.read(b"Subject: x\nContent-Type: application/pkcs7-mime; name=smime.p7m\n\nMIIB")
    assert caught.value.code == "parsing.encrypted"


def test_parts_within_parts_are_counted() -> None:
    nested = b"text"
    for number in range(40):
        nested = b'Content-Type: multipart/mixed; boundary="b%d"\n\n--b%d\n%s\n--b%d--\n' % (
            number,
            number,
            nested,
            number,
        )
    with pytest.raises(HostileInput) as caught:
        eml.read(b"Subject: x\n" + nested)
    assert caught.value.code == "parsing.unreadable"


def test_alternatives_are_counted_wherever_the_shown_one_stands() -> None:
    made = mail("The quay is swept.")
    made.make_alternative()
    for part in ["<p>The quay is swept.</p>", *["more words"] * eml.MAX_PARTS]:
        made.add_alternative(part, subtype="html" if part.startswith("<") else "plain")
    with pytest.raises(HostileInput) as caught:
        eml.read(made.as_bytes())
    assert caught.value.code == "parsing.unreadable"


MAILBOX = (
    b"From a@b Mon Nov  3 10:00:00 2025\nSubject: one\n\nThe quay is swept.\n>From here on.\n\n"
    b"From a@b Mon Nov  3 11:00:00 2025\nSubject: two\nContent-Transfer-Encoding: base64\n\nVGhlIHB1bXAgaXMgaW5zcGVjdGVkLg==\n"
)


def test_each_mail_of_a_mailbox_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eml, "MAX_PARTS", 1)  # of one mail
    parsed = eml.read(MAILBOX)
    assert parsed.text == "# one\n\nThe quay is swept.\n>From here on.\n\n# two\n\nThe pump is inspected."
    assert parsed.declared["title"] == "one"


def test_a_mailbox_and_the_files_of_a_maildir_are_known(sandbox: ParsingSandbox) -> None:
    assert "The pump is inspected." in sandbox.parse(MAILBOX, "", "quay.mbox").text
    parsed = sandbox.parse(b"Received: from x\n by y\n" + mail().as_bytes(), "", "cur/1762164000.M1P1.host:2,S")
    assert (parsed.media_type, parsed.problems) == ("message/rfc822", ())
    headers = b"Format: 1\nFrom: the office\nVersion: 2\n\nno mail"
    assert sandbox.parse(headers, "", "control").media_type == "text/plain"
    assert sandbox.parse(mail().as_bytes(), "", "mail.txt").media_type == "text/plain"


def codes(parsed: ParsedDocument) -> list[str]:
    return [problem.code for problem in parsed.problems]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"Subject: seen\nSubject: unseen\n\nbody", id="two subjects"),
        pytest.param(b"Subject: x\nContent-Type: text/plain\nContent-Type: text/html\n\nbody", id="two types"),
        pytest.param(
            b"Subject: x\nContent-Transfer-Encoding: base64\n\nc2VlbiA=\ndW5zZWVu\n", id="base64 after its end"
        ),
        pytest.param(
            b"Subject: x\nContent-Transfer-Encoding: base64\n\nc2VlbiA=\n\n-- \nThe list's own words.\n",
            id="text after base64",
        ),
    ],
)
def test_a_mail_that_programs_read_differently_is_a_finding(content: bytes) -> None:
    assert "parsing.ambiguous" in codes(eml.read(content))


def test_the_other_subject_is_screened() -> None:
    assert eml.read(b"Subject: seen\nSubject: unseen words\n\nbody").hidden == "unseen words"


@pytest.mark.parametrize("kind", [b"multipart/mixed", b'multipart/mixed; boundary="other"'])
def test_parts_without_their_boundary_are_read_as_text(kind: bytes) -> None:
    parsed = eml.read(
        b"Subject: x\nContent-Type: " + kind + b"\n\n--b\nContent-Type: text/plain\n\nThe quay is swept.\n--b--\n"
    )
    assert "The quay is swept." in parsed.text
    assert codes(parsed) == ["parsing.ambiguous"]


@pytest.mark.parametrize("kind", [b"application/json", b"application/octet-stream", b"message/delivery-status"])
def test_parts_that_are_not_read_are_noted_without_a_name_too(kind: bytes) -> None:
    parts = b"--b\n\nseen\n--b\nContent-Type: " + kind + b"\n\nWords: unread\n--b--\n"
    parsed = eml.read(b'Subject: x\nContent-Type: multipart/mixed; boundary="b"\n\n' + parts)
    assert parsed.text == "# x\n\nseen"
    assert codes(parsed) == ["parsing.embedded"]


def test_an_attached_page_is_not_shown_in_place_of_the_text() -> None:
    made = mail("The quay is swept.")
    made.make_alternative()
    made.add_attachment("<p>another page</p>", subtype="html", filename="page.html")
    made.replace_header("Content-Type", 'multipart/alternative; boundary="b"')
    assert "The quay is swept." in eml.read(made.as_bytes()).text


def test_what_a_hidden_alternative_hides_is_screened() -> None:
    made = mail()
    made.set_content("<p>seen</p><p hidden>evil words</p>", subtype="html")
    made.add_alternative("<p>seen</p>", subtype="html")
    assert "evil words" in eml.read(made.as_bytes()).hidden


def test_a_forwarded_mail_in_base64_is_read() -> None:
    inner = base64.b64encode(b"Subject: inner\n\nThe forwarded words.")
    part = b"--b\nContent-Type: message/rfc822\nContent-Transfer-Encoding: base64\n\n" + inner + b"\n--b--\n"
    parsed = eml.read(b'Subject: x\nContent-Type: multipart/mixed; boundary="b"\n\n' + part)
    assert parsed.text == "# x\n\n# inner\n\nThe forwarded words."


@pytest.mark.parametrize("before", [b"\xef\xbb\xbf", b"\r\n\n"])
def test_what_stands_before_the_headers_does_not_end_them(before: bytes) -> None:
    parsed = eml.read(before + b"Subject: x\nContent-Transfer-Encoding: base64\n\nVGhlIHF1YXkgaXMgc3dlcHQu")
    assert parsed.text == "# x\n\nThe quay is swept."


def test_headers_in_bytes_of_utf8_are_read() -> None:
    assert eml.read("Subject: Straße am Kai\n\nx".encode()).text.startswith("# Straße am Kai")
    parsed = eml.read(b"Subject: Stra\xdfe\n\nx")
    assert parsed.text.startswith("# Stra\ufffde")
    assert codes(parsed) == ["parsing.encoding"]


def test_soft_breaks_within_words_leave_no_space() -> None:
    parsed = eml.read(b"Subject: x\nContent-Type: text/plain; format=flowed; delsp=yes\n\nThe qu \nay is swept.\n")
    assert parsed.text == "# x\n\nThe quay is swept."


@pytest.mark.parametrize("name", [b"unicode_escape", b"raw-unicode-escape", b"punycode", b"idna"])
def test_codecs_that_no_mail_program_has_are_no_encodings(name: bytes) -> None:
    assert (
        "\\u0069gnore" in eml.read(b"Subject: x\nContent-Type: text/plain; charset=" + name + b"\n\n\\u0069gnore").text
    )


@pytest.mark.parametrize(
    "content",
    [
        b"Subject: =?utf-8?b?!!!?=\n\ntext",
        b"Subject: =?no-such-charset?q?x?=\n\ntext",
        b"Subject: x\nContent-Type: text/plain; charset=no-such\n\ntext",
        b"Subject: x\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: base64\n\n!!!\n\xff",
        b"Subject: \xff\xfe\nContent-Type: ;;;\n\ntext",
        b"only text, no header at all",
    ],
)
def test_damaged_mails_are_read(content: bytes) -> None:
    eml.read(content).text.encode()
