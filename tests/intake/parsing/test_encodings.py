"""Texts in old encodings: how many of ten in each language are read right, and that a doubtful guess is said."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from corpus_guard.domain import Severity
from corpus_guard.errors import Unreadable
from corpus_guard.intake.parsing import ParsedDocument
from corpus_guard.intake.parsing.encodings import guess_encoding
from corpus_guard.intake.parsing.formats import html, markdown, text
from intake.parsing.language_sentences import SENTENCES

# Of ten texts, how many were read right with charset_normalizer 3.5.2 alone, and how many are now: 60 characters, then 2,000.
MEASURED = """
        French      cp1252       4  10    4  10
        French      latin-1      4  10    0  10
        French      cp850        5  10   10  10
        French      mac_roman    6  10   10  10
        Italian     cp1252       2  10    5  10
        Italian     latin-1      2  10    5  10
        Italian     cp850        2  10    1  10
        Italian     mac_roman    3  10   10  10
        Portuguese  cp1252       0  10    0  10
        Portuguese  latin-1      0  10    0  10
        Portuguese  cp850        6  10   10  10
        Portuguese  mac_roman    4  10   10  10
        Norwegian   cp1252       4  10   10  10
        Norwegian   latin-1      4  10   10  10
        Norwegian   cp850        1  10    1  10
        Norwegian   mac_roman    7  10   10  10
        Danish      cp1252       3  10    3  10
        Danish      latin-1      3  10    3  10
        Danish      cp850        0  10    0  10
        Danish      mac_roman    6  10   10  10
        Swedish     cp1252       1  10    0  10
        Swedish     latin-1      1  10    0  10
        Swedish     cp850        1  10    0  10
        Swedish     mac_roman    7  10   10  10
        Spanish     cp1252       6  10   10  10
        Spanish     latin-1      6  10   10  10
        Spanish     cp850        5  10   10  10
        Spanish     mac_roman    4  10   10  10
        German      cp1252       6  10   10  10
        German      latin-1      6  10   10  10
        German      cp850        5  10   10  10
        German      mac_roman    3  10   10  10
        Dutch       cp1252       6  10    0  10
        Dutch       latin-1      6  10    0  10
        Dutch       cp850        1  10    0  10
        Dutch       mac_roman    0   9    0  10
        Finnish     cp1252       7  10    0  10
        Finnish     latin-1      7  10    0  10
        Finnish     cp850        5   9    0  10
        Finnish     mac_roman    6   8    0  10
        Polish      cp1250       5  10   10  10
        Polish      iso8859-2    1  10    6  10
        Czech       cp1250       8  10   10  10
        Czech       iso8859-2    1  10    0  10
        Hungarian   cp1250       6  10   10  10
        Hungarian   iso8859-2    6  10   10  10
        Romanian    cp1250       8  10    0  10
        Romanian    iso8859-2    8  10    0  10
        Croatian    cp1250       6  10   10  10
        Croatian    iso8859-2    4  10   10  10
        Russian     cp1251       9  10   10  10
        Russian     koi8-r      10  10   10  10
        Russian     iso8859-5   10  10   10  10
        Russian     cp866       10  10   10  10
        Greek       cp1253      10  10   10  10
        Greek       iso8859-7   10  10   10  10
        Turkish     cp1254       2  10    0  10
        Lithuanian  cp1257       2   9    0  10
        Lithuanian  iso8859-4    0   8    0  10
        Latvian     cp1257       0  10    0  10
        Latvian     iso8859-4    0   9    0  10
        Estonian    cp1257       6  10    0  10
        Estonian    cp1252       6  10    0  10
        Hebrew      cp1255       7  10   10  10
        Arabic      cp1256      10  10   10  10
        Japanese    cp932        8  10   10  10
        Japanese    euc_jp       4  10   10  10
        Chinese     gb18030      9  10   10  10
        Korean      cp949       10  10   10  10
"""
ROWS = [tuple(row.split()) for row in MEASURED.strip().splitlines()]
SHORT, LONG = 60, 2000  # characters


def short_texts(language: str) -> list[str]:
    sentences = SENTENCES[language].split("\n")
    return [(sentence[-SHORT:] if sentence[:SHORT].isascii() else sentence[:SHORT]).strip() for sentence in sentences]


def long_texts(language: str) -> list[str]:
    sentences = SENTENCES[language].split("\n")
    return ["\n".join((sentences[start:] + sentences[:start]) * 9)[:LONG] for start in range(len(sentences))]


def count_right(texts: list[str], encoding: str) -> int:
    encodable = [each.replace("œ", "oe") if encoding in {"latin-1", "cp850"} else each for each in texts]
    return sum(text.read(each.encode(encoding)).text == each for each in encodable)


@pytest.mark.parametrize(("language", "encoding", "_before", "short", "_long_before", "long"), ROWS)
def test_old_encodings_are_read_as_measured(
    language: str, encoding: str, _before: str, short: str, _long_before: str, long: str
) -> None:
    texts = short_texts(language)

    assert len(texts) == 10
    assert count_right(texts, encoding) >= int(short)
    assert count_right(long_texts(language), encoding) >= int(long)


def test_the_table_shows_no_language_that_is_read_worse_than_before() -> None:
    for _, _, before, short, long_before, long in ROWS:
        assert (int(short) >= int(before), int(long) >= int(long_before)) == (True, True)


@pytest.mark.parametrize("language", ["French", "Italian", "Portuguese", "Norwegian", "Dutch", "Danish"])
@pytest.mark.parametrize("read", [text.read, markdown.read, html.read])
def test_western_files_without_a_charset_are_windows_1252(
    language: str, read: Callable[[bytes], ParsedDocument]
) -> None:
    for sentence in short_texts(language):
        source = f"<html><body><p>{sentence}</p></body></html>" if read is html.read else sentence
        parsed = read(source.encode("cp1252"))

        assert sentence in parsed.text
        assert [problem.severity for problem in parsed.problems if problem.code == "parsing.encoding"] == [Severity.LOW]


@pytest.mark.parametrize(
    "words",
    [
        "It costs £5.",
        "20 °C ± ½",
        "“The naïve café” – 3 × 4 tables for all of us",
        "Preis: 5 €",
        "¿Qué?",
        "The flow of the pump is 12 m³/h",
        "¾ of a cup",
        "It is a layer of 5 µm for the plate",
    ],
)
def test_few_signs_and_letters_are_windows_1252(words: str) -> None:
    parsed = text.read(words.encode("cp1252"))

    assert parsed.text == words
    assert [problem.message for problem in parsed.problems] == [
        "the document is not UTF-8; it was read as windows-1252, which is a guess"
    ]


def test_a_guess_that_stays_open_is_a_finding_for_a_reviewer_and_names_both() -> None:
    parsed = text.read(
        "Opomba: slièice".encode("cp1252")
    )  # Slovenian "sličice" in windows-1250, or a name in windows-1252
    problem = parsed.problems[0]

    assert (problem.code, problem.severity) == ("parsing.encoding", Severity.MEDIUM)
    assert "windows-1252" in problem.message
    assert "windows-1250" in problem.message


def test_an_open_guess_that_changes_no_letter_is_not_for_a_reviewer() -> None:
    for encoding in ("cp1252", "cp1250"):
        parsed = text.read("Grüße aus Köln".encode(encoding))

        assert (parsed.text, parsed.problems[0].severity) == ("Grüße aus Köln", Severity.LOW)


def test_a_quotation_in_another_language_does_not_sway_the_rest() -> None:
    french, italian = long_texts("French")[0], long_texts("Italian")[0]
    both = f"{french}\n{italian}"

    assert text.read(both.encode("cp1252")).text == both


def test_letters_after_much_ascii_are_read_too() -> None:
    for sentence, encoding in ((SENTENCES["French"], "cp1252"), (SENTENCES["Japanese"], "euc_jp")):
        words = "An English line of a log file.\n" * 5_000 + sentence

        assert text.read(words.encode(encoding)).text == words


def test_a_long_line_is_not_cut_within_a_character() -> None:
    words = "a" + "吾輩は猫である。名前はまだ無い。" * 6_000

    assert text.read(words.encode("euc_jp")).text == words


@pytest.mark.parametrize("language", ["French", "Russian", "Japanese"])
def test_damaged_utf8_stays_utf8(language: str) -> None:
    parsed = text.read(SENTENCES[language].encode() + b"\xe5")

    assert parsed.text == SENTENCES[language] + "\ufffd"
    assert [(problem.code, problem.severity) for problem in parsed.problems] == [("parsing.encoding", Severity.MEDIUM)]


def test_bytes_that_are_no_text_have_no_encoding() -> None:
    content = bytes(range(256)) * 20

    assert guess_encoding(content) is None
    with pytest.raises(Unreadable, match="not text in any known encoding"):
        text.read(content)
