from __future__ import annotations

import pytest

from corpus_guard.domain import Severity
from corpus_guard.intake.parsing import ParsedDocument, ParsingSandbox
from corpus_guard.intake.parsing.formats import text


def parse(sandbox: ParsingSandbox, content: bytes) -> tuple[str, list[str]]:
    parsed: ParsedDocument = sandbox.parse(content, "", "a.txt")
    return parsed.text, [problem.code for problem in parsed.problems]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_marked_encodings_need_no_guess(sandbox: ParsingSandbox, encoding: str) -> None:
    assert parse(sandbox, "Grüße, 世界".encode(encoding)) == ("Grüße, 世界", [])


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp1252", "Die Straße führt über die Brücke, und das Mädchen hört die Vögel – schön wär’s." * 3),
        ("cp1251", "Съешь ещё этих мягких французских булок, да выпей чаю. Это русский текст." * 3),
        ("shift_jis", "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。" * 3),
    ],
)
def test_other_encodings_are_guessed_and_the_guess_is_told(sandbox: ParsingSandbox, encoding: str, text: str) -> None:
    assert parse(sandbox, text.encode(encoding)) == (text, ["parsing.encoding"])


def test_a_broken_promise_is_told_and_leaves_no_half_characters(sandbox: ParsingSandbox) -> None:
    text, found = parse(sandbox, b"\xef\xbb\xbfhello \xff world")
    assert (text, found) == ("hello \ufffd world", ["parsing.encoding"])
    text, found = parse(sandbox, b"\xff\xfeh\x00\x00\xd8i\x00")
    assert found == ["parsing.encoding"]
    assert text.encode()


def test_nul_is_replaced_and_told(sandbox: ParsingSandbox) -> None:
    assert parse(sandbox, b"hello \x00 world") == ("hello \ufffd world", ["parsing.nul"])


@pytest.mark.parametrize("content", [b"", b" \n\t\r\n ", "\u2003\u00a0".encode()])
def test_nothing_to_read_is_critical(sandbox: ParsingSandbox, content: bytes) -> None:
    parsed = sandbox.parse(content, "", "a.txt")
    assert [problem.code for problem in parsed.problems] == ["parsing.empty"]
    assert parsed.problems[0].severity is Severity.CRITICAL


def test_the_declaration_of_an_xml_file_is_believed_where_it_fits() -> None:
    words = "za\u017c\u00f3\u0142\u0107 g\u0119\u015bl\u0105 ja\u017a\u0144"
    xml = f'<?xml version="1.0" encoding="{{}}"?><a>{words}</a>'
    parsed = text.read(xml.format("iso-8859-2").encode("iso-8859-2"))
    assert (words in parsed.text, parsed.problems) == (True, ())
    for name in ("unicode_escape", "no-such", "us-ascii"):
        assert [problem.code for problem in text.read(xml.format(name).encode("iso-8859-2")).problems] == [
            "parsing.encoding"
        ]
