from __future__ import annotations

from email.message import EmailMessage

import pytest

from corpus_guard.errors import HostileInput
from corpus_guard.intake.parsing import ParsingSandbox
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
