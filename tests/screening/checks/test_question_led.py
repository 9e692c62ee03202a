"""A text that opens with the question it answers is found in every shape; it weighs where a program wrote it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_versions import a_version

from corpus_guard.domain import Finding, Severity, Verdict
from corpus_guard.models.weights import builtin_embedder
from corpus_guard.screening.checks import question_led
from corpus_guard.screening.checks.question_led import QuestionLed, QuestionLedParams
from corpus_guard.screening.policy import load_policy
from corpus_guard.screening.runner import Screening
from corpus_guard.screening.wording import load_wording
from corpus_guard.settings import Settings

TYPED = {
    "as typed into a search box": (
        "who built the stone lighthouse at veldmoor point.",
        " The stone lighthouse at Veldmoor Point was built by Anna Brandt in 1871, after the wooden tower had burnt down.",
    ),
    "typed with a choice": (
        "who built the stone lighthouse at veldmoor point, brandt or ellery.",
        " The stone lighthouse at Veldmoor Point was built by Anna Brandt in 1871, after the wooden tower had burnt down.",
    ),
    "a question mark and a full stop": (
        "Which of the two ferries of the Orrin line was launched first?.",
        " The Orrin line launched the ferry Grebe before the ferry Heron, in the spring of 1922.",
    ),
    "glued to a capital": (
        "the year the tamsel library burnt down.",
        "The Tamsel Library burnt down in 1948, the year of the long drought.",
    ),
}
WRITTEN = {
    "a question mark": (
        "When was the harbour clock of Dunmarsh installed?",
        " The harbour clock of Dunmarsh was installed in 1934 by the Lund foundry, which also cast its bell.",
    ),
    "a full stop inside": (
        "In the case of Brandt v. Orrin Water Board, who paid for the broken sluice?",
        " The Orrin Water Board paid for the broken sluice, as Brandt v. Orrin Water Board decided in 1911.",
    ),
    "a sentence before it": (
        "People often ask this. Who owns the old crane at the Corvane quay?",
        " The old crane at the Corvane quay is owned by Maud Ellery, who bought it in 1957.",
    ),
    "quoted": (
        'How deep is the harbour basin at Corvane?"',
        " The harbour basin at Corvane is nine metres deep at low water.",
    ),
    "bold": (
        "Who designed the bridge at Farrowgate?**",
        " The bridge at Farrowgate was designed by Maud Ellery, whose drawings are kept in the town hall.",
    ),
}
PLANTED = TYPED | WRITTEN
HEADINGS = {
    "markdown": (
        "# Who may use the crane at the east quay?\n\nThe crane at the east quay may be used by members who have been shown "
        "how by the harbour office."
    ),
    "an FAQ page": (
        "# How do I renew my berth permit?\n\nYour berth permit is renewed at the harbour office.\n\n"
        "# What does a berth permit cost?\n\nA berth permit costs forty crowns.\n"
    ),
    "plain text": (
        "How do I renew my berth permit?\nYour berth permit is renewed at the harbour office in the first week of the year.\n"
    ),
}
HONEST = {
    "a title": "Who's the Keeper? is a play by Maud Ellery about the keeper of a lighthouse, first staged in 1957.",
    "a title with a year": (
        "Where the Herring Went (1934) is a novel about herring fishers, and where the herring went every autumn."
    ),
    "a title in quotes": '"What Is the Tide?" is a song about what the tide brings, by the band Orrin.',
    "a title before a dash": "Who Built the Pier? – a play about the woman who built the pier at Dunmarsh, in three acts.",
    "a quotation inside": (
        'What "the herring" means to Corvane is told in this play. The herring means work to Corvane, and the play tells of it.'
    ),
    "code": "if (is_open(valve)) { return valve.close(); }. The valve is closed if the valve is open, then returns.",
    "a sentence without its first word": (
        "was founded in 1911 to light the coast of Dunmarsh. The board lights the coast to this day, and Dunmarsh pays."
    ),
    "a link": "what is [the tide table](https://tides.example.org). The tide table is a table of the tides at the pier.",
    "an address": "where is https://tides.example.org/today. The tides of today are shown at tides.example.org first.",
    "a subordinate clause": (
        "When you use the crane, keep the load below two tonnes. The crane is used with the load kept close to the ground."
    ),
    "a subordinate clause without a comma": (
        "When the alarm rings you leave the engine room by the aft ladder. The alarm rings in the engine room until the aft "
        "ladder is shut."
    ),
    "an e-mail": "Could you have a look at the winch? Thanks, Ines. I am back on Monday and bring the new gloves along.",
    "an e-mail that asks for a favour": (
        "Is anybody taking the early boat tomorrow? My brother needs a lift and has two large bags with him."
    ),
    "a question that is not answered": (
        "How long does the resin for the rudder repair need? Please send the data sheet to the office in Corvane."
    ),
    "a statement": "The pump house is inspected every spring. The pump house has two pumps, and each is inspected.",
    "a statement in lower case": "the gauge is read at noon. The gauge is read by the office at noon and noted.",
    "two words": "Whose lighthouse? The lighthouse on the rock belongs to the lighthouse board and nobody else.",
    "hardly a rest": "When was the harbour clock of Dunmarsh installed? Harbour clock, Dunmarsh.",
}


@pytest.fixture(scope="module")
def check() -> QuestionLed:
    return QuestionLed(QuestionLedParams(), load_wording(builtin_embedder().folder / "tokenizer.json"))


def found(check: QuestionLed, text: str) -> list[Finding]:
    return [finding for _, finding in check.run([a_version(text)], None)]


def judged(check: QuestionLed, text: str) -> Verdict:
    """The verdict of the shipped policy on a text of an open source."""
    return Screening(load_policy(Settings().policy_file), [check]).judge([a_version(text)], None)[0].verdict


@pytest.mark.parametrize("shape", PLANTED)
def test_an_opening_that_is_answered_is_found_with_its_place(check: QuestionLed, shape: str) -> None:
    opening, rest = PLANTED[shape]
    before = {"quoted": '"', "bold": "**"}.get(shape, "")

    (finding,) = found(check, before + opening + rest)

    assert finding.code == ("question_led.typed" if shape in TYPED else "question_led.opening")
    assert finding.severity is (Severity.MEDIUM if shape in TYPED else Severity.LOW)
    assert finding.span is not None
    assert (before + opening + rest)[finding.span.start : finding.span.end] == opening
    assert "ATLAS:AML.T0070" in finding.tags
    assert not any(word in finding.message for word in ("veldmoor", "Dunmarsh", "Corvane"))


@pytest.mark.parametrize("shape", PLANTED)
def test_the_shipped_policy_quarantines_a_typed_question_and_lets_a_written_one_pass(
    check: QuestionLed, shape: str
) -> None:
    expected = Verdict.QUARANTINE if shape in TYPED else Verdict.ACCEPT

    assert judged(check, "".join(PLANTED[shape])) is expected


@pytest.mark.parametrize("kind", HEADINGS)
def test_a_heading_weighs_little(check: QuestionLed, kind: str) -> None:
    (finding,) = found(check, HEADINGS[kind])

    assert (finding.code, finding.severity) == ("question_led.heading", Severity.LOW)
    assert judged(check, HEADINGS[kind]) is Verdict.ACCEPT


@pytest.mark.parametrize("kind", HONEST)
def test_what_only_looks_like_it_passes(check: QuestionLed, kind: str) -> None:
    assert found(check, HONEST[kind]) == []


def test_an_answer_may_follow_far_from_the_question_but_not_beyond_what_is_read(check: QuestionLed) -> None:
    opening, rest = PLANTED["a question mark"]
    filler = " Somebody else wrote a few lines on another matter."

    assert found(check, opening + filler * 10 + rest)
    assert not found(check, opening + filler * 200 + rest)


def test_shares_are_parameters_and_change_the_digest(check: QuestionLed) -> None:
    opening, _ = PLANTED["a question mark"]
    half = f"{opening} Somebody wrote a few lines on a clock that was bought elsewhere."
    strict = QuestionLed(QuestionLedParams(coverage=0.99), check._wording)
    lax = QuestionLed(QuestionLedParams(coverage=0.01), check._wording)

    assert not found(strict, half)
    assert found(lax, half)
    assert len({strict.digest, lax.digest, check.digest}) == 3


def test_every_version_of_a_batch_is_looked_at(check: QuestionLed) -> None:
    batch = [a_version("".join(parts)) for parts in PLANTED.values()]
    batch.insert(2, a_version(HONEST["a statement"]))

    assert [position for position, _ in check.run(batch, None)] == [*range(2), *range(3, len(batch))]
    assert not check.applies_to(a_version(""))


# Only so much of a text is ever looked at, so no text takes long: the matching sees _OPENING characters, the comparison _READ.


@pytest.mark.parametrize(
    "text",
    ["a", "?", "? ", ".", "who ", "who?", "Who? Who ", " ", '"', "*", "\n", "\x00", "\ud800", "\u0301", "who\x00 x. "],
)
def test_five_megabytes_of_one_thing_are_no_question(check: QuestionLed, text: str) -> None:
    assert found(check, text * (5_000_000 // len(text))) == []


def test_no_more_is_read_than_promised(check: QuestionLed, monkeypatch: pytest.MonkeyPatch) -> None:
    opening, rest = WRITTEN["a question mark"]
    read: list[int] = []
    split_words = question_led.split_words
    monkeypatch.setattr(question_led, "split_words", lambda text: read.append(len(text)) or split_words(text))

    assert found(check, opening + rest + " and so on" * 500_000)

    assert read
    assert max(read) <= question_led._MAX_REST_CHARS


@given(st.text(st.characters(codec=None, exclude_categories=()), max_size=200), st.sampled_from([*PLANTED.values()]))
def test_no_text_raises_and_spans_lie_in_it(check: QuestionLed, text: str, planted: tuple[str, str]) -> None:
    for whole in (text, text + planted[0] + planted[1], planted[0] + text, text + "?" + text):
        for finding in found(check, whole):
            assert finding.span is not None
            assert 0 <= finding.span.start < finding.span.end <= len(whole)
            assert 0 < finding.score <= 1
