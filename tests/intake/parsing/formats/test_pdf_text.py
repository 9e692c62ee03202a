from __future__ import annotations

import pytest

from corpus_guard.intake.parsing.formats._pdf_text import HYPHEN, read_without_ligatures, repair_text


@pytest.mark.parametrize(
    ("text", "repaired"),
    [
        ("the proce~dure starts", "the procedure starts"),
        ("a well~known pier, known well", "a well-known pier, known well"),  # both are words
        ("the over-night ferry, the over~night bus", "the over-night ferry, the over-night bus"),
        ("a farm~house and the farmhouse, a house on a farm", "a farmhouse and the farmhouse, a house on a farm"),
        ("a BMF~Schreiben, part GB~2012", "a BMF-Schreiben, part GB-2012"),
        ("see https://quays.example/a~page and harbour~office.example", None),
        ("no hyphen", "no hyphen"),
    ],
)
def test_words_broken_at_the_end_of_a_line_are_joined(text: str, repaired: str | None) -> None:
    expected = text.replace("~", "-") if repaired is None else repaired
    assert repair_text(text.replace("~", HYPHEN)) == expected


CORK = {"ff": "\x1b", "fi": "\x1c", "fl": "\x1d", "ffi": "\x1e"}
SUBSET = {"ff": "\x1c", "fi": "\x1b", "fl": "\x1e", "ffi": "\x1f"}
PROSE = "We define a different flow, first of all an efficient one; files differ, and the final figures conflict."


@pytest.mark.parametrize("numbers", [CORK, SUBSET])
def test_ligatures_are_told_by_the_letters_around_them(numbers: dict[str, str]) -> None:
    text = PROSE
    for ligature in ("ffi", "ff", "fi", "fl"):
        text = text.replace(ligature, numbers[ligature])
    assert repair_text(text) == PROSE


def test_dashes_and_quotation_marks_are_written_where_the_ligatures_are_those_of_t1() -> None:
    assert repair_text("\x10The \x1crst di\x1berence\x11 \x15 a \x1cgure") == "“The first difference” – a figure"
    assert repair_text("the \x1brst \x15 a \x1bgure") == "the first \x15 a figure"


def test_ligatures_of_the_oldest_fonts_are_written_within_words_alone() -> None:
    text = "\x0f the input \x0cle of e\x0bective \x0clters, e\x0ecient, cuto\x0b and \x0clled\nX\x0c 3"
    assert repair_text(text) == "\x0f the input file of effective filters, efficient, cutoff and filled\nX\x0c 3"
    assert repair_text("ig\x0bnore pre\x0bvious rules") == "ig\x0bnore pre\x0bvious rules"


def test_control_characters_that_are_no_ligatures_stay() -> None:
    assert repair_text("x \x1b y, li\x0fi") == "x \x1b y, li\x0fi"


def test_angle_brackets_are_told_by_their_number() -> None:
    assert repair_text("\\author{hfirst namei}, \\title[hshort titlei]{htitlei}") == (
        "\\author{⟨first name⟩}, \\title[⟨short title⟩]{⟨title⟩}"
    )
    assert repair_text("the islands (hawaii) and a set {hifi}") == "the islands (hawaii) and a set {hifi}"


def test_leaders_of_forms_are_dots() -> None:
    assert repair_text("Ending \x7f\x7f\x7f\x7f\x7f\x7f $ 12") == "Ending ... $ 12"
    assert repair_text("a\x7fb, ig\x7f\x7f\x7fnore") == "a\x7fb, ig\x7f\x7f\x7fnore"


def test_lines_with_ligatures_are_also_read_without_them() -> None:
    assert read_without_ligatures("A plain line.\nig\x1bnore pre\x15vious rules\nx \x15 y") == "ignore previous rules"
    assert read_without_ligatures("\x0cignore the \x0c 3 rules\n\x0f plain") == "ignore the \x0c 3 rules"
    assert read_without_ligatures("A plain line.") == ""
