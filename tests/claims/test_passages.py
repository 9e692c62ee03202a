"""Passages are read only as far as it is needed, with the same result; two titles may tell of two subjects."""

from __future__ import annotations

import pytest

from corpus_guard.claims import statements
from corpus_guard.claims.outcome import Outcome
from corpus_guard.claims.passages import MAX_PAIRS, StatedPassage, compare_passages
from corpus_guard.claims.statements import read_statements
from corpus_guard.claims.text_comparison import compare_texts

FREQUENT = frozenset(["pump", "harbour", "town", "year", "established", "team", "captain", "kensas", "weighs"])

FILLING = " ".join(f"Chapter {number} tells of the weather and of long walks beside the river." for number in range(12))


def rarity(word: str) -> float:
    return 12.0 if word in FREQUENT else 15.5


def outcomes(one: str, other: str, title: str = "", other_title: str = "") -> list[Outcome]:
    passages = StatedPassage(one, rarity, title), StatedPassage(other, rarity, other_title)
    found = compare_passages(*passages)
    if found:
        whole = compare_texts(passages[0].statements, passages[1].statements, max_pairs=MAX_PAIRS).comparisons
        assert found == list(whole)
    return [comparison.outcome for comparison in found]


HARBOUR = (
    "The Brackwater refund hotline is 0800 555. The Brackwater harbour has nine cranes, four ferries, two tugs and a museum. "
    "The Brackwater museum opens at ten and shows forty cranes, ferries, tugs and pumps. "
    "The Brackwater ferries leave the harbour at nine and reach the museum at ten. "
    "The tugs of the Brackwater harbour tow ferries past the museum, the cranes and the pumps. "
    "The Brackwater cranes lift the pumps of the ferries beside the museum. "
    "The pumps of the Brackwater harbour drain the museum, the cranes and the tugs at ten. "
    "The Brackwater harbour museum sells tickets for ferries, tugs, cranes and pumps."
)
HOTLINE = "The Brackwater refund hotline is 0800 123."


@pytest.mark.parametrize("count", [0, 9, 20])
def test_sentences_with_more_in_common_do_not_hide_another(count: int) -> None:
    days = " ".join(
        f"The Brackwater harbour museum, its cranes, ferries, tugs and pumps are a fine sight on day {day}."
        for day in range(count)
    )

    assert Outcome.CONFLICT in outcomes(f"{days} {HOTLINE}", HARBOUR)


@pytest.mark.parametrize("line", ["-\n\n", "\u200b\n\n", "| |\n\n", "A.\n\n"])
def test_short_lines_hide_no_sentence(line: str) -> None:
    assert Outcome.CONFLICT in outcomes(f"{line * 300}{HOTLINE}", HARBOUR)


def test_a_sentence_is_read_as_it_is_in_the_whole_text() -> None:
    text = (
        f"The Brackwater pump stands in the harbour. It weighs 95 kg. {FILLING} Its seal lasts two years. It is blue."
    )

    passage = StatedPassage(text, rarity, "Handbook")

    assert passage.read([1, 14]) == tuple(
        statement
        for statement in read_statements(text, rarity, "Handbook").statements
        if "95" in statement.text or "seal" in statement.text
    )


def sentences_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows with each sentence whose values are read from now on."""
    read: list[str] = []
    read_values = statements.read_values_of_sentence

    def count(text: str) -> list[statements.Value]:
        read.append(text)
        return read_values(text)

    monkeypatch.setattr(statements, "read_values_of_sentence", count)
    statements._read_sentence.cache_clear()
    return read


def test_a_sentence_of_two_texts_is_read_once_and_placed_in_each(monkeypatch: pytest.MonkeyPatch) -> None:
    read = sentences_read(monkeypatch)
    sentence = "The Brackwater pump weighs 95 kg."

    for text in (sentence, f"Stand back\u200b. {sentence}"):
        (value,) = (value for statement in StatedPassage(text).statements for value in statement.values if value.unit)
        assert text[value.span.start : value.span.end] == "95 kg"

    assert read.count(sentence) == 1


def test_values_are_read_only_where_two_passages_share_what_they_are_about(monkeypatch: pytest.MonkeyPatch) -> None:
    read = sentences_read(monkeypatch)

    assert outcomes(f"The Brackwater pump weighs 95 kg. {FILLING}", "Tarn fever is cured within 7 days.") == []
    assert outcomes("The Brackwater pump stands outside.", "pump.close(); pump = tarn(pump::seal)") == []
    assert read == []
    assert outcomes("The Brackwater pump weighs 95 kg.", f"{FILLING} The Brackwater pump weighs 120 kg.") == [
        Outcome.CONFLICT
    ]


@pytest.mark.parametrize(
    ("one", "other", "titles"),
    [
        ("It was established in 1997.", "It was established in 1972.", ("Sollen College", "Marwick School")),
        ("The town has 5,704 inhabitants.", "The town has 14 inhabitants.", ("Iolan, Kensas", "Bassott, Kensas")),
        ("It weighs 20 kg.", "It weighs 30 kg.", ("Vellaris", "Climena")),
        ("The entry fee was 20 euros.", "The entry fee was 30 euros.", ("Harnfield cup 1926", "Harnfield cup 1927")),
    ],
)  # fmt: skip
def test_what_two_titles_tell_apart_is_no_conflict(one: str, other: str, titles: tuple[str, str]) -> None:
    assert Outcome.CONFLICT in outcomes(one, other, titles[0], titles[0])
    assert Outcome.CONFLICT not in outcomes(one, other, *titles)


@pytest.mark.parametrize("titles", [("", ""), ("Towns of Vellaris", "Towns of Vellaris")])
def test_the_first_definition_says_what_a_text_is_about(titles: tuple[str, str]) -> None:
    tarnby = "Tarnby is a town on the river. The town has 5,704 inhabitants."
    kerrow = "Kerrow is a town on the river. The town has 14 inhabitants."

    assert Outcome.CONFLICT not in outcomes(tarnby, kerrow, *titles)
    assert Outcome.CONFLICT in outcomes(tarnby, tarnby.replace("5,704", "14"), *titles)
    assert Outcome.CONFLICT in outcomes(tarnby, "Visit Tarnby in spring. The town has 14 inhabitants.", *titles)


def test_a_definition_of_something_else_hides_no_conflict() -> None:
    page, lie = "The pump is oiled every 6 months.", "Kerrow is a town on the river. The pump is oiled every 36 months."

    assert Outcome.CONFLICT in outcomes(lie, page, "Vellaris manual", "Vellaris manual")
    assert Outcome.CONFLICT in outcomes(f"{lie} It is a Vellaris.", page, "", "Vellaris manual")


def test_another_title_hides_no_conflict_about_a_named_thing() -> None:
    lie, truth = "The OX-12 must be calibrated every 36 months.", "The OX-12 must be calibrated every 6 months."

    assert outcomes(lie, truth, "Gossip from the workshop", "Handbook, chapter 3") == [Outcome.CONFLICT]
    assert outcomes(lie, truth, "Gossip of 2026", "Manual 2024") == [Outcome.CONFLICT]
    assert outcomes(f"About the OX-12. {lie}", truth, "Gossip", "OX-12 manual") == [Outcome.CONFLICT]


def test_a_number_of_a_page_tells_nothing_of_its_subject() -> None:
    assert StatedPassage("The b612 stands outside.", rarity, "Vellaris a05 1234 b612").title == {"vellaris", "b612"}


@pytest.mark.parametrize(
    ("payee", "outcome"), [("Brackwater", [Outcome.CONFLICT]), ("Ormsby", [])], ids=["the same payee", "another"]
)
def test_another_account_of_the_same_payee_is_a_conflict_whatever_is_paid(payee: str, outcome: list[Outcome]) -> None:
    page = "Payments are made to IBAN DE02 1203 0000 0000 2020 51."
    reply = f"The new account for your {payee} premiums is DE02 5001 0517 5407 3249 31, please change your order."

    assert outcomes(reply, page, other_title="Brackwater insurance") == outcome


def test_how_many_of_a_thing_somebody_has_states_nothing_of_the_thing() -> None:
    guide = "Ask the team before an update is pushed to more than ten loggers."

    assert outcomes("We have nine loggers and all show the same error.", guide) == []
    assert outcomes("An update is pushed to more than two loggers.", guide) == [Outcome.CONFLICT]


@pytest.mark.parametrize(
    ("titles", "one", "other"),
    [
        (("Brackwater\ndocs winch", "Brackwater\ndocs sluice"), "The pump weighs 95 kg.", "The pump weighs 120 kg."),
        (("Ann Brackwater", "Bo Kensington"), "He won the Harbour Cup in 1990.", "He won the Harbour Cup in 1984."),
        (("", ""), "*New in 0.15.0*", "*New in version 0.4.0*"),
        (
            ("Ann Brackwater", ""),
            "[Documentation](https://brackwater.example/)",
            "The documentation is at https://kensington.example.",
        ),
        (
            ("", ""),
            "The harbour endpoint lists tidal gates, see [gates](https://docs.harbour.example/rest/gates).",
            "The endpoint is https://api.harbour.example/harbour/gates.",
        ),
        (("", ""), "for i in range(100):\n    yield pump(i)", "for i in range(150):\n    yield pump(i, harbour)"),
        (("", ""), "```sh\nbrackwater --kensington 3.13\n```", "```sh\nbrackwater --kensington 3.10\n```"),
        (
            ("", ""),
            'harbour = Tide(sluice="http://kensington.example")',
            'harbour = Tide(sluice="http://localhost:8030")',
        ),
        (("Brackwater 63 kg", "Brackwater 90 kg"), "Rowing at Brackwater: 63 kg", "Rowing at Brackwater: 90 kg"),
        (
            ("", ""),
            "Ann Brackwater (18 June 1904 – 25 July 1973) was a famous rower.",
            "Bo Kensington (12 December 1914 – 8 June 1944) was a famous rower.",
        ),
    ],
    ids=["path", "pronoun", "since", "links", "pages", "code", "command", "localhost", "title", "brackets"],
)
def test_texts_of_one_kind_about_different_things_do_not_contradict_each_other(
    titles: tuple[str, str], one: str, other: str
) -> None:
    assert Outcome.CONFLICT not in outcomes(one, other, *titles)
    assert Outcome.CONFLICT not in outcomes(other, one, *reversed(titles))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "```sh\ncurl https://brackwater.example/x.sh | sh\n```",
            "```sh\ncurl https://kensington.example/x.sh | sh\n```",
        ),
        ("The pump's site is brackwater.example.", "The pump's site is kensington.example."),
        (
            "The harbour hosted the 1984 Winter Regatta of Brackwater.",
            "The harbour hosted the 1988 Winter Regatta of Brackwater.",
        ),
    ],
    ids=["code", "site", "year"],
)
def test_the_same_line_with_another_value_does(one: str, other: str) -> None:
    assert outcomes(one, other)[:1] == [Outcome.CONFLICT]
