"""Mojibake with control characters is read again as what it was; everything else stays as it came."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpus_guard.domain import Severity
from corpus_guard.intake.parsing.document import ParsedDocument, finalize
from corpus_guard.intake.parsing.mojibake import repair_mojibake
from corpus_guard.intake.parsing.worker import read_document


@pytest.mark.parametrize(
    ("damaged", "repaired", "count"),
    [
        ("the keeper\u00e2\u0080\u0099s boat", "the keeper\u2019s boat", 1),
        ("\u00e2\u0080\u009cNo\u00e2\u0080\u009d, he said", "\u201cNo\u201d, he said", 2),
        ("\u00e2\u20ac\u009d", "\u201d", 1),  # Windows-1252 leaves one byte of the closing quotation mark
        ("\u00c3\u0089tude", "\u00c9tude", 1),
        ("\u00f0\u009f\u0099\u0082", "\U0001f642", 1),
        ("a\u00e2\u0080\u008bb", "a\u200bb", 1),  # screened afterwards like any other text
        ("\u00d0\u00b4\u00d0\u00be\u00d0\u00bc \u00d1\u0083", "\u0434\u043e\u043c \u0443", 4),  # both words, or neither
        ("Jos\u00c3\u00a9\u00e2\u0080\u0099s", "Jos\u00e9\u2019s", 2),
        ("\u00abCAF\u00c9\u00bb \u00e2\u0080\u0099", "\u00abCAF\u00c9\u00bb \u2019", 1),
    ],
)
def test_a_run_with_control_characters_is_read_as_utf_8(damaged: str, repaired: str, count: int) -> None:
    assert repair_mojibake(damaged) == (repaired, count)


@pytest.mark.parametrize(
    "text",
    [
        "the caf\u00e9 \u00abCAF\u00c9\u00bb at 5 \u00b0C",
        "Jos\u00c3\u00a9 and \u00d0\u00b4\u00d0\u00be\u00d0\u00bc",  # no control character: somebody may mean it
        "\u00e2\u0080",  # cut off
        "\u00e2\u0080 \u0099",
        "\u0080\u0099",
        "\u00c2\u0080",  # stands for another control character
        "\u00e2\u00c2\u0080\u00c2\u0099",  # damaged twice
        "\u00ed\u00a0\u0080",  # half a character
        "",
    ],
)
def test_everything_else_stays(text: str) -> None:
    assert repair_mojibake(text) == (text, 0)


@given(st.text(st.characters(exclude_categories=("Cs",)), max_size=80))
def test_damage_by_latin_1_leaves_no_control_character_behind(text: str) -> None:
    clean = "".join(character for character in text if not "\x7f" <= character <= "\xff")
    damaged = clean.encode().decode("latin-1")

    repaired, _ = repair_mojibake(damaged)

    assert not any("\x80" <= character <= "\x9f" for character in repaired)


@given(st.text(st.sampled_from("\u00e2\u00c2\u00f0\u0080\u0099\u00a0\u20ac\u009d a"), max_size=60))
def test_no_text_raises(text: str) -> None:
    repair_mojibake(text)


def test_the_document_says_so_at_low_severity_in_visible_and_hidden_text() -> None:
    document = ParsedDocument("it\u00e2\u0080\u0099s open", hidden="it\u00e2\u0080\u0099s hidden")

    read = finalize(document, max_chars=100)

    assert (read.text, read.hidden) == ("it\u2019s open", "it\u2019s hidden")
    assert [(problem.code, problem.severity) for problem in read.problems] == [("parsing.mojibake", Severity.LOW)]
    assert read.problems[0].message.startswith("2 characters")


def test_text_files_are_repaired() -> None:
    data = "The keeper\u00e2\u0080\u0099s boat is moored at the quay.".encode()

    assert read_document(data, "text/plain", "a.txt", max_chars=1_000).text == (
        "The keeper\u2019s boat is moored at the quay."
    )
