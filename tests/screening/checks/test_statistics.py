import random

import pytest
from sample_versions import a_version

from corpus_guard.domain import Severity
from corpus_guard.screening.checks.statistics import _LIMITS, Statistics, StatisticsParams
from corpus_guard.screening.survey.resemblance import EmptyHistory
from corpus_guard.screening.survey.signals import SIGNALS, measure_signals
from corpus_guard.screening.survey.survey import Robust, Survey, build_survey

WORDS = "the pump is checked in spring before boats leave harbour and water rises over quay walls again"


def plain(number: int):
    chosen = random.Random(number)
    text = ". ".join(" ".join(chosen.choices(WORDS.split(), k=9)).capitalize() for _ in range(chosen.randint(8, 40)))
    return a_version(text, uri=f"{number}.md")


USUAL = [plain(n) for n in range(200)]
SURVEY = build_survey([measure_signals(version) for version in USUAL], EmptyHistory())


def found(version, survey=SURVEY, **params):
    return [finding for _, finding in Statistics(StatisticsParams(**params)).run([version], survey)]


def test_usual_documents_are_passed():
    assert not list(Statistics().run(USUAL, SURVEY))


@pytest.mark.parametrize(
    ("text", "signal"),
    [
        ("Q" * 400 + " " + USUAL[0].text, "longest run without white space"),
        (" ".join("qzxv" + "jkwp" * 6 for _ in range(60)), "mean word length"),
        (USUAL[0].text.upper(), "share of upper case"),
        ("8 1 4 " * 200, "share of digits"),
        ("pump " * 200, "variety of words"),
        ("\x01" * 30 + USUAL[0].text, "share of control and replacement characters"),
        (USUAL[0].text * 3000, "length"),
        (USUAL[0].text.replace(" ", " " * 20), "share of white space"),
        ("<{}>" * 300 + USUAL[0].text, "share of markup characters"),
        ("вода поднимается над стеной причала каждую весну " * 8, "share of characters outside ASCII"),
    ],
)
def test_what_is_unlike_its_source_is_named(text, signal):
    (finding,) = found(a_version(text))
    assert finding.code == "statistics.outlier" and signal in finding.message
    assert 0 < finding.score <= 0.6


def test_text_that_readers_do_not_see_stands_out_where_others_have_none():
    (finding,) = found(a_version(USUAL[0].text, hidden="h" * len(USUAL[0].text)))
    assert "share of hidden text" in finding.message


def test_many_tokens_a_word_stand_out():
    version = a_version(USUAL[0].text, tokens=len(USUAL[0].text) * 3)
    assert "tokens a word" in found(version)[0].message


def test_a_short_document_is_not_unlike_longer_ones():
    assert not found(a_version("The pump is checked in spring"))


def test_severity_grows_with_the_deviation_and_with_the_number_of_signals():
    def severity(text, signals, **params):
        survey = Survey({"handbook": dict.fromkeys(signals, Robust(0.0, 0.0, 100))}, {})
        return found(a_version(text, hidden="h" * len(text)), survey, unusual=3.0, **params)[0].severity

    deviations = 0.5 / 0.02  # half of all text is hidden; the floor is the spread
    assert severity("some text", ["hidden"], extreme=deviations + 0.1) is Severity.INFO
    assert severity("some text", ["hidden"], extreme=deviations - 0.1) is Severity.LOW
    assert severity("# " * 200, ["hidden", "markup", "chars"], extreme=99, together=3) is Severity.LOW
    assert severity("# " * 200, ["hidden", "markup", "chars"], extreme=99, together=4) is Severity.INFO


def test_it_is_silent_on_a_small_source_and_says_why():
    check = Statistics()
    small = build_survey([measure_signals(version) for version in USUAL[:29]], EmptyHistory())
    enough = build_survey([measure_signals(version) for version in USUAL[:30]], EmptyHistory())
    odd = a_version("Q" * 4000)
    assert not list(check.run([odd], small)) and "29 documents" in (check.skips(odd, small) or "")
    assert list(check.run([odd], enough)) and check.skips(odd, enough) is None
    assert not list(check.run([odd], None)) and check.skips(odd, Survey())
    assert "0 documents" in (check.skips(a_version(source="new"), SURVEY) or "")


def test_positions_are_those_of_the_batch():
    batch = [USUAL[0], a_version("Q" * 4000, uri="odd"), USUAL[1]]
    assert [position for position, _ in Statistics().run(batch, SURVEY)] == [1]


@pytest.mark.parametrize("text", ["", "\ud800", "a" * 5_000_000, "\x00", "中" * 9999])
def test_hostile_text_neither_raises_nor_shows_up_in_the_message(text):
    for finding in found(a_version(text, hidden=text)):
        assert "aaaa" not in finding.message and "nan" not in finding.message and "inf" not in finding.message


def test_every_side_is_a_signal_with_a_floor():
    assert {side.signal for side in _LIMITS} <= set(SIGNALS) and all(side.floor > 0 for side in _LIMITS)


def test_the_digest_follows_the_parameters():
    assert Statistics().digest == Statistics().digest != Statistics(StatisticsParams(unusual=9)).digest
