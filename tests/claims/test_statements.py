"""What a statement is about, by words and their weights, and how many are read of one text."""

from __future__ import annotations

from corpus_guard.claims.statements import MAX_STATEMENTS, read_statements
from corpus_guard.claims.value import Kind


def test_rare_words_decide_what_a_sentence_is_about() -> None:
    texts = ("The calorimeter fitting needs 5 bar.", "The fitting needs a gasket set of 7 bar.")
    bits = {"calorimeter": 15.0, "fitting": 11.5, "gasket": 15.0, "set": 3.0}

    plain = [read_statements(text).statements[0].words for text in texts]
    weighed = [read_statements(text, lambda word: bits.get(word, 12.0)).statements[0].words for text in texts]

    assert plain[0]["calorimeter"] == plain[0]["fit"]
    assert weighed[0]["calorimeter"] > weighed[0]["fit"] > weighed[1]["set"]


def test_sentences_beyond_the_limit_are_counted() -> None:
    read = read_statements("It is so. " * (MAX_STATEMENTS + 5))

    assert (len(read.statements), read.not_read) == (MAX_STATEMENTS, 5)


def test_what_a_sentence_is_about_has_no_values() -> None:
    (read,) = read_statements("The 12 members of Acme Corp pay $5 every month.").statements

    assert {value.kind for value in read.values} == {Kind.COUNT, Kind.NAME, Kind.MONEY, Kind.FREQUENCY}
    assert set(read.words) == {"member", "acme", "corp", "cost"}
