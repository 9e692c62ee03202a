"""Hostile text is read in linear time, and never raises."""

from __future__ import annotations

import time

import pytest

from corpus_guard.claims.statements import read_statements
from corpus_guard.claims.text_comparison import compare_texts
from corpus_guard.claims.values import read_values

LENGTH = 20_000
HOSTILE = {
    "digits": "7",
    "digits and spaces": "7 ",
    "digits and commas": "1,",
    "thousands": ",000",
    "dots": "1.",
    "huge exponents": "1e999999 ",
    "control characters": "\x00\x01\x1f\x7f",
    "bidi": "\u202e5 kN\u202c ",
    "surrogates": "\ud800",
    "zero width": "9\u200b5\u200d kN ",
    "white space": " \n\t",
    "capitals": "Aa ",
    "number words": "one hundred and ",
    "addresses": "a.a@a.",
    "hosts": "a.com.",
    "accounts": "DE89 ",
    "phones": "+1",
    "call": "call ",
    "units": "5 kN/m·s ",
    "ranges": "5 to 10 to ",
    "negations": "not no more ",
    "identifiers": "X-9",
    "brackets": "([{",
}


@pytest.mark.parametrize("piece", HOSTILE.values(), ids=HOSTILE)
def test_time_grows_with_the_length_only(piece: str) -> None:
    text = (piece * LENGTH)[:LENGTH]
    read_values("5 kN")  # pint is loaded
    started = time.process_time()

    values = read_values(text)

    assert time.process_time() - started < 3  # a tenth of that is usual; a quadratic pattern takes minutes
    assert all(0 <= value.span.start < value.span.end <= len(text) for value in values)


def test_sentences_made_to_be_compared_with_each_other_end_at_the_budget() -> None:
    words = " ".join(f"word{number}" for number in range(60))
    statements = read_statements("".join(f"{words} {number} is 5 kN. " for number in range(120))).statements

    result = compare_texts(statements, statements, max_pairs=200)

    assert result.compared == 200
    assert result.not_compared == len(statements) ** 2 - 200
