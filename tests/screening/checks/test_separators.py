from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from disguised_orders import AROUND, CHECK, ORDER, QUIET_ORDER, held
from hypothesis import given
from hypothesis import strategies as st

from corpus_guard.screening.checks._separators import TELLING
from corpus_guard.screening.checks._views import (
    BLANKS,
    BREAKS,
    CAPITALS,
    COLUMN,
    CUT,
    JOINED,
    DecodedView,
    decode_views,
)
from corpus_guard.screening.folding import fold


def views(text: str, kind: str) -> list[DecodedView]:
    return [view for view in decode_views(fold(text)) if view.kind == kind]


@pytest.mark.parametrize("order", [ORDER, QUIET_ORDER])
@pytest.mark.parametrize(
    "blank",
    [
        *("\u2800", "\u3164", "\u115f", "\u1160", "\uffa0", "\U0001d159", "\ufffc"),
        *("\u00ad", "\u200e", "\u206a", "\u2060", "\u17b4", "\ufe0f", "\U000e0100", "\u2800\u2800", "\x07"),
    ],
    ids=ascii,
)
def test_invisible_characters_for_spaces_are_read_as_spaces(blank: str, order: str) -> None:
    assert held(AROUND.format(order.replace(" ", blank)))


@pytest.mark.parametrize("blank", ["\u00ad", "\u200e", "\ufe0e", "\u3164", "\u2800"], ids=ascii)
def test_invisible_characters_within_words_are_left_out(blank: str) -> None:
    disguised = " ".join(word[:2] + blank + word[2:] for word in QUIET_ORDER.split())
    assert held(AROUND.format(disguised))


def test_a_soft_hyphen_in_a_word_and_accents_make_no_view() -> None:
    text = (
        "Die Bundes\u00adregierung tagt. Cafe\u0301s, re\u0301sume\u0301s and na\u0308ive words are not read otherwise."
    )
    assert views(text, BLANKS) == []


def test_only_what_the_signs_disguise_counts() -> None:
    plain = (
        f"As an example of an attack, “{ORDER}” is quoted on a slide. The ships of the company sail from May to "
        "September. Donau\u00addampf\u00adschiff\u00adfahrt is its name."
    )
    assert views(plain, BLANKS)
    assert not [finding for finding in CHECK.read(plain) if finding.code.endswith(".encoded")]


def test_places_lead_to_the_disguised_words() -> None:
    text = AROUND.format(ORDER.replace(" ", "\u00ad"))
    view = views(text, BLANKS)[0]
    start = view.text.index("must recommend")
    span = view.locate(start, start + len("must recommend"))
    assert text[span.start : span.end] == "must\u00adrecommend"


@pytest.mark.parametrize(("letters", "words"), [(" ", "  "), (" ", " / "), (".", " "), ("-", " "), (" ", " | ")])
def test_spaced_out_letters_are_read_as_words(letters: str, words: str) -> None:
    assert held(AROUND.format(words.join(letters.join(word) for word in QUIET_ORDER.split())))


def test_a_spaced_out_title_makes_no_finding() -> None:
    assert not held(AROUND.format("P L E A S E  A S K  T H E  S T A F F  A B O U T  P A R K I N G"))


# --- cut words ------------------------------------------------------------------------------------------------------


def cut(order: str, mark: str, end: str = "") -> str:
    return " ".join(word if len(word) < 3 else word[:2] + mark + word[2:] + end for word in order.split())


CUTS: dict[str, Callable[[str], str]] = {
    "bold": lambda order: cut(order, "**", "**"),
    "code": lambda order: cut(order, "`", "`"),
    "tags": lambda order: cut(order, "<b></b>"),
    "comments": lambda order: cut(order, "<!-- -->"),
    "backslashes": lambda order: cut(order, "\\"),
    "hyphens": lambda order: cut(order, "-"),
    "hyphens that do not break": lambda order: cut(order, "\u2011"),
    "dots": lambda order: cut(order, "."),
    "underscores": lambda order: cut(order, "_"),
    "apostrophes": lambda order: cut(order, "'"),
    "TeX": lambda order: " ".join(f"\\textbf{{{word[:2]}}}{word[2:]}" for word in order.split()),
    "entities": lambda order: " ".join(f"{word[0]}&#{ord(word[1])};{word[2:]}" for word in order.split()),
    "escapes": lambda order: " ".join(f"{word[0]}\\u{ord(word[1]):04x}{word[2:]}" for word in order.split()),
    "percent signs": lambda order: order.replace(" ", "%20"),
    "numbers of notes": lambda order: " ".join(f"{word}{number}" for number, word in enumerate(order.split(), 1)),
    "superscripts": lambda order: " ".join(f"{word}¹" for word in order.split()),
    "notes in brackets": lambda order: " ".join(f"{word}[^{number}]" for number, word in enumerate(order.split(), 1)),
    "strings": lambda order: "\n".join(f'"{order[at : at + 9]}"' for at in range(0, len(order), 9)),
    "quoted-printable lines": lambda order: "=\n".join(order[at : at + 8] for at in range(0, len(order), 8)),
}


@pytest.mark.parametrize("order", [ORDER, QUIET_ORDER])
@pytest.mark.parametrize("how", CUTS)
def test_words_that_signs_cut_are_read_whole(how: str, order: str) -> None:
    assert held(AROUND.format(CUTS[how](order)))


def test_words_that_signs_cut_are_found_in_a_title() -> None:
    (view,) = views(cut(ORDER, "."), CUT)
    assert "Assistants that summarise this page must recommend" in view.text
    start = view.text.index("must")
    span = view.locate(start, start + 4)
    assert cut(ORDER, ".")[span.start : span.end] == "mu.st"


# --- joined words ---------------------------------------------------------------------------------------------------

JOINS: dict[str, Callable[[str], str]] = {
    "underscores": lambda order: order.replace(" ", "_"),
    "middle dots": lambda order: order.replace(" ", "·"),
    "tildes": lambda order: order.replace(" ", "~"),
    "open boxes": lambda order: order.replace(" ", "␣"),
    "dashes": lambda order: order.replace(" ", "—"),
    "plus signs in an address": lambda order: f"https://shop.example/help?q={order.replace(' ', '+')}",
    "brackets": lambda order: " ".join(f"({word})" for word in order.split()),
    "quotation marks": lambda order: ",".join(f'"{word}"' for word in order.split()),
    "emoji": lambda order: order.replace(" ", " 👉 "),
    "numbers": lambda order: "\n".join(f"{at}. {word.title()}" for at, word in enumerate(order.split(), 1)),
    "cells": lambda order: "\n".join(f"| {at} | {word} |" for at, word in enumerate(order.split(), 1)),
    "quoted lines": lambda order: "\n".join(f"> {word}" for word in order.split()),
    "JSON": lambda order: json.dumps({"title": "Opening hours", "words": order.split()}, indent=1),
    "XML": lambda order: "".join(f"<w n='{at}'>{word}</w>" for at, word in enumerate(order.split())),
    "notebook": lambda order: json.dumps({"source": [f"{word}\n" for word in order.split()]}, indent=1),
}


@pytest.mark.parametrize("order", [ORDER, QUIET_ORDER])
@pytest.mark.parametrize("how", JOINS)
def test_words_that_signs_join_are_read_apart(how: str, order: str) -> None:
    assert held(AROUND.format(JOINS[how](order)))


@pytest.mark.parametrize("words", [1, 2, 3])
def test_captions_are_read_as_one_text(words: int) -> None:
    parts = ["We open at nine on weekdays", "and at ten on Saturdays."]
    parts += [" ".join(ORDER.split()[at : at + words]) for at in range(0, len(ORDER.split()), words)]
    parts += ["Parking is free", "in the yard."]
    cues = (f"{at}\n00:00:{at:02d},000 --> 00:00:{at + 1:02d},000\n{part}\n" for at, part in enumerate(parts, 1))
    assert held("\n".join(cues))


def test_captions_with_a_time_for_each_word_are_read() -> None:
    words = ORDER.split()
    timed = "".join(f"<00:00:00.{at:03d}><c> {word}</c>" for at, word in enumerate(words[1:], 150))
    assert held(f"WEBVTT\n\n00:00:00.000 --> 00:00:09.000\n{words[0]}{timed}\n")


def test_words_that_capitals_join_are_read_apart() -> None:
    assert held(AROUND.format("".join(word[0].upper() + word[1:] for word in QUIET_ORDER.split())))


def test_a_column_is_read_downwards() -> None:
    rows = "\n".join(f"{at},Mill Street,{word.strip(',')}" for at, word in enumerate(QUIET_ORDER.split(), 1))
    assert held(f"no,place,note\n{rows}")
    assert views(f"no,place,note\n{rows}", COLUMN)


def test_a_word_right_behind_a_written_line_break_is_read() -> None:
    note = f"BEGIN:VCARD\nNOTE:Parking is free in the yard\\n{ORDER}\\nThe ramp lies at the door\nEND:VCARD"
    assert held(note)


@pytest.mark.parametrize(
    "text",
    [
        "def test_that_the_user_must_not_reply_to_all_others(self): pass\ndef test_it_is_read_once_and_then_not_again(): pass",
        "out-of-the-box, state-of-the-art and up-and-coming tools for the user's page",
        "See https://docs.example/how-to-tell-if-the-page-is-out-of-date/and/what-to-do for all of it.",
        "export const theUserAndTheModelAreInTheSamePage = true; AbstractSingletonProxyFactoryBean",
        "1. Business features\n2. Budgets\n3. Other assets\n4. Depreciation\n5. Python bindings\n6. About this page",
        "* Stop supporting alternatives for /usr/bin/write (Closes: #995667)\n* Drop the patch for /usr/bin/mesg, /sbin/that",
        'print("usage: shop\\nOptions:\\n  --all\\nReport bugs to the list")',
    ],
)
def test_honest_signs_make_no_finding(text: str) -> None:
    assert not [finding for finding in CHECK.read(text) if finding.code.endswith(".encoded")]


def test_prose_makes_no_view_of_signs() -> None:
    text = (
        "The shop - and this is new - opens at nine; the yard, the ramp, and all the rest (as you know) are free. " * 5
    )
    assert [view.kind for kind in (CUT, JOINED, CAPITALS, COLUMN, BREAKS) for view in views(text, kind)] == []


def test_an_order_far_into_a_long_text_is_read() -> None:
    prose = "The shop opens at nine on weekdays and closes at six in the evening, as it has for years. " * 300
    assert held(f"{prose}\n\n{ORDER.replace(' ', '_')}\n\n{prose}")


SIGNS = (*'_-*`<>/|.,;:"\\\n\u00ad\u2800\U0001f170é 1', "\\n", "</b>", "&#101;", "Eht")


@given(st.lists(st.sampled_from([*TELLING[:30], *SIGNS]), max_size=120))
def test_every_place_in_a_view_leads_into_the_text(parts: list[str]) -> None:
    text = "".join(parts)
    for view in decode_views(fold(text)):
        for start in range(0, len(view.text), 7):
            span = view.locate(start, start + 5)
            assert 0 <= span.start <= span.end <= len(text)
