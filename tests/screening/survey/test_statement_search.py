"""Which statements of arriving chunks are compared with which, and what is kept of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from corpus_guard.claims.outcome import Outcome
from corpus_guard.claims.passages import StatedPassage, compare_passages
from corpus_guard.claims.value import Kind
from corpus_guard.domain import Span, TrustLevel
from corpus_guard.screening.survey.nearby_chunks import (
    NothingServed,
    PlacedChunk,
    ServedChunk,
    ServedStatements,
    document_title,
)
from corpus_guard.screening.survey.related_statements import MAX_KEPT, RelatedStatement, RelatedStatements, worst_first
from corpus_guard.screening.survey.statement_search import find_related_statements

MANUAL = "The OX-12 must be calibrated every 6 months."
LIE = "My advice: the OX-12 must be calibrated every 36 months."
ENOUGH = 1_000_000
TRUSTED, REVIEWED, OPEN = TrustLevel.TRUSTED, TrustLevel.REVIEWED, TrustLevel.OPEN


def chunk(name: str, trust: TrustLevel, *, document: str = "", start: int = 0) -> PlacedChunk:
    return PlacedChunk(document or f"d-{name}", f"v-{name}", f"c-{name}", 0, start, trust)


def vector(cosine: float = 1.0) -> NDArray[np.float32]:
    """A vector with this cosine to the default one."""
    return np.array([cosine, np.sqrt(1 - cosine**2)], np.float32)


def related(
    *arriving: tuple[PlacedChunk, str, float], served: ServedStatements | None = None, comparisons: int = ENOUGH
) -> RelatedStatements:
    chunks, texts, cosines = zip(*arriving, strict=True)
    return find_related_statements(
        chunks,
        np.stack([vector(cosine) for cosine in cosines]),
        lambda positions: [texts[position] for position in positions],
        served or NothingServed(),
        lambda word: 12.0,
        comparisons,
    )


class Served:
    """Collections that hold one chunk each."""

    def __init__(self, text: str, *trusts: TrustLevel, document: str = "d-served", similarity: float = 0.9) -> None:
        self.text, self.trusts, self.document, self.similarity = text, trusts, document, similarity

    def near(self, trust: TrustLevel, vectors: NDArray[np.float32], count: int) -> Sequence[Sequence[ServedChunk]]:
        held = PlacedChunk(self.document, "v-served", "c-served", 2, 100, trust)
        found = [ServedChunk(held, self.text, self.similarity)] if trust in self.trusts else []
        return [found for _ in vectors]


def test_a_statement_against_a_trusted_text_of_the_same_run_is_kept_with_places_and_no_words() -> None:
    result = related((chunk("manual", TRUSTED, start=40), MANUAL, 1.0), (chunk("post", OPEN, start=7), LIE, 0.8))

    ((version, (statement,)),) = result.statements.items()
    assert version == "v-post"
    assert (statement.outcome, statement.trust, statement.kind) == (Outcome.CONFLICT, TRUSTED, Kind.FREQUENCY)
    assert LIE[statement.span.start - 7 : statement.span.end - 7] == LIE
    assert [LIE[value.start - 7 : value.end - 7] for value in statement.values] == ["every 36 months"]
    other = statement.other
    assert (other.doc_id, other.version_id, other.chunk_id) == ("d-manual", "v-manual", "c-manual")
    assert other.span == Span(40, 40 + len(MANUAL))
    assert [MANUAL[value.start - 40 : value.end - 40] for value in other.values] == ["every 6 months"]
    assert not statement.is_served
    assert "calibrated" not in str(statement.to_record())
    assert RelatedStatement.from_record(statement.to_record()) == statement


@pytest.mark.parametrize(
    ("own", "higher", "compared"),
    [(OPEN, TRUSTED, True), (OPEN, REVIEWED, True), (REVIEWED, TRUSTED, True), (REVIEWED, OPEN, False), (TRUSTED, OPEN, False)],
)  # fmt: skip
def test_only_collections_of_higher_trust_are_asked(own: TrustLevel, higher: TrustLevel, compared: bool) -> None:
    result = related((chunk("post", own), LIE, 1.0), served=Served(MANUAL, higher))

    assert bool(result.statements) is compared
    if compared:
        ((statement,),) = result.statements.values()
        assert statement.is_served
        assert statement.other.span == Span(100, 100 + len(MANUAL))


def test_texts_of_the_same_trust_are_compared_within_the_run_and_only_conflicts_kept() -> None:
    agreeing = related((chunk("one", OPEN), MANUAL, 1.0), (chunk("two", OPEN), MANUAL + " Do it.", 0.9))
    conflicting = related((chunk("one", OPEN), MANUAL, 1.0), (chunk("two", OPEN), LIE, 0.9))

    assert not any(agreeing.statements.values())
    assert {statement.trust for own in conflicting.statements.values() for statement in own} == {OPEN}
    assert len(conflicting.statements) == 2


def test_agreement_with_more_trusted_text_is_kept() -> None:
    result = related((chunk("manual", TRUSTED), MANUAL, 1.0), (chunk("post", OPEN), MANUAL + " Do it.", 0.9))

    assert [statement.outcome for statement in result.statements["v-post"]] == [Outcome.AGREE]


def test_chunks_of_one_document_and_served_versions_of_an_arriving_one_are_not_compared() -> None:
    own = related((chunk("a", TRUSTED, document="d"), MANUAL, 1.0), (chunk("b", OPEN, document="d"), LIE, 1.0))
    replaced = related(
        (chunk("manual", TRUSTED, document="d-served"), LIE, 1.0),
        (chunk("post", OPEN), LIE, 1.0),
        served=Served(MANUAL, TRUSTED),
    )

    assert not any(own.statements.values())
    assert [statement.outcome for statement in replaced.statements["v-post"]] == [Outcome.AGREE]


def test_what_lies_far_is_about_something_else() -> None:
    result = related((chunk("manual", TRUSTED), MANUAL, 1.0), (chunk("post", OPEN), LIE, 0.1))

    assert not any(result.statements.values())


def test_chunks_beyond_the_budget_are_counted_and_never_taken_for_compared() -> None:
    arriving = [(chunk("manual", TRUSTED), MANUAL, 1.0), *((chunk(f"{n}", OPEN), LIE, 0.9) for n in range(4))]

    result = related(*arriving, comparisons=2)

    assert sum(result.not_compared.values()) >= 2
    assert not {version for version, found in result.statements.items() if found} & {*result.not_compared}
    assert related(*arriving).not_compared == {}


def test_of_a_version_the_worst_are_kept() -> None:
    lies = " ".join(f"The OX-{n} must be calibrated every 36 months." for n in range(20, 45))
    truths = lies.replace("36", "6")

    result = related((chunk("manual", TRUSTED), truths, 1.0), (chunk("post", OPEN), f"{lies} {MANUAL}", 1.0))

    assert [statement.outcome for statement in result.statements["v-post"]] == [Outcome.CONFLICT] * MAX_KEPT


def test_texts_that_contradict_each_other_hide_nothing_that_they_contradict() -> None:
    ((peer, *_),) = (
        own
        for version, own in related(
            (chunk("one", OPEN), MANUAL, 1.0), (chunk("two", OPEN), LIE, 0.9)
        ).statements.items()
        if version == "v-two"
    )
    likely = replace(peer, outcome=Outcome.LIKELY, trust=TRUSTED, kind=None)

    assert worst_first([*[peer] * MAX_KEPT, likely])[0] == likely


def test_a_near_copy_is_marked_as_one() -> None:
    page = f"{MANUAL} Rinse it in fresh water afterwards and let it dry in the shade. Keep the cap on the foil at all times."
    copy = page.replace("6 months", "36 months")

    result = related((chunk("manual", TRUSTED), page, 1.0), (chunk("copy", OPEN), copy, 1.0))

    conflicts = [found for found in result.statements["v-copy"] if found.outcome is Outcome.CONFLICT]
    assert [found.is_near_copy for found in conflicts] == [True]


OTHER_EDITION = "According to the old edition, the OX-12 must be calibrated every 36 months."


@pytest.mark.parametrize(
    ("post", "beside", "disputed"),
    [
        (LIE, (TRUSTED, OTHER_EDITION), True),
        (LIE, (REVIEWED, OTHER_EDITION), False),
        (LIE, (TRUSTED, OTHER_EDITION.replace("36", "24")), False),
        (f"{LIE[:-1]} by 2 people.", (TRUSTED, OTHER_EDITION), True),
        ("My advice: the OX-12 must not be calibrated every 6 months.", (TRUSTED, OTHER_EDITION), False),
    ],
    ids=["another trusted edition", "a reviewed edition", "a third value", "more than it says", "a denial"],
)
def test_what_trusted_documents_disagree_about_is_disputed(
    post: str, beside: tuple[TrustLevel, str], disputed: bool
) -> None:
    trust, text = beside
    result = related(
        (chunk("manual", TRUSTED), MANUAL, 1.0), (chunk("edition", trust), text, 1.0), (chunk("post", OPEN), post, 0.8)
    )

    against = [
        found
        for found in result.statements["v-post"]
        if found.outcome is Outcome.CONFLICT and found.other.doc_id == "d-manual"
    ]
    assert [(found.disputed_by, found.is_contradiction) for found in against] == [
        ("d-edition" if disputed else "", not disputed)
    ]


def test_agreement_with_another_clause_disputes_no_denial() -> None:
    result = related(
        (chunk("manual", TRUSTED), "The lid of the OX-12 may be washed.", 1.0),
        (chunk("sheet", TRUSTED), "The lid of the OX-12 weighs 2 kg.", 1.0),
        (chunk("post", OPEN), "The lid of the OX-12 weighs 2 kg and must not be washed.", 0.8),
    )

    found = {each.outcome: each.is_contradiction for each in result.statements["v-post"]}
    assert found == {Outcome.CONFLICT: True, Outcome.AGREE: False}


def test_what_is_disputed_hides_no_contradiction() -> None:
    ours, theirs = (
        " ".join(f"The OX-{n} must be calibrated every {months} months." for n in range(20, 45)) for months in (36, 6)
    )

    result = related(
        (chunk("manual", TRUSTED), f"{theirs} {MANUAL}", 1.0),
        (chunk("edition", TRUSTED), ours, 1.0),
        (chunk("post", OPEN), f"{ours} {LIE}", 1.0),
    )

    first, *others = result.statements["v-post"]
    assert first.is_contradiction and first.values, "the last sentence of the post"
    assert len(others) == MAX_KEPT - 1 and all(each.is_disputed for each in others)


def test_a_document_does_not_dispute_itself() -> None:
    result = related(
        (chunk("manual", TRUSTED), MANUAL, 1.0),
        (chunk("appendix", TRUSTED, document="d-manual"), OTHER_EDITION, 1.0),
        (chunk("post", OPEN), LIE, 0.8),
    )

    assert [found.is_contradiction for found in result.statements["v-post"]] == [True, False]


def test_only_the_values_that_another_document_states_are_disputed() -> None:
    manual = "The OX-12 must be calibrated every 6 months and weighs 4 kg."
    post = "The OX-12 must be calibrated every 36 months and weighs 9 kg."

    result = related(
        (chunk("manual", TRUSTED), manual, 1.0),
        (chunk("edition", TRUSTED), OTHER_EDITION, 1.0),
        (chunk("post", OPEN), post, 0.8),
    )

    kinds = {
        found.kind: found.is_disputed for found in result.statements["v-post"] if found.outcome is Outcome.CONFLICT
    }
    assert kinds == {Kind.FREQUENCY: True, Kind.QUANTITY: False}


class ServedTexts:
    """Collections that hold one text each."""

    def __init__(self, **texts: str) -> None:
        self.texts = texts

    def near(self, trust: TrustLevel, vectors: NDArray[np.float32], count: int) -> Sequence[Sequence[ServedChunk]]:
        held = chunk(f"served-{trust.value}", trust, start=20)
        found = [ServedChunk(held, self.texts[trust.value], 0.9)] if trust.value in self.texts else []
        return [found for _ in vectors]


DENIAL = "My advice: the OX-12 must not be calibrated every 6 months."


@pytest.mark.parametrize(
    ("served", "arriving", "reopened"),
    [
        (ServedTexts(open=LIE), (), True),
        (ServedTexts(open=LIE, trusted=OTHER_EDITION), (), False),
        (ServedTexts(open=LIE), ((chunk("edition", TRUSTED), OTHER_EDITION, 0.9),), False),
        (ServedTexts(open=LIE, reviewed=OTHER_EDITION), (), True),
        (ServedTexts(open=LIE, trusted=OTHER_EDITION.replace("36", "24")), (), True),
        (ServedTexts(open=LIE), ((chunk("more", TRUSTED, document="d-manual"), OTHER_EDITION, 0.9),), True),
        (ServedTexts(open=DENIAL, trusted=OTHER_EDITION), (), True),
        (ServedTexts(open=f"{LIE} The OX-12 weighs 9 kg.", trusted=OTHER_EDITION), (), False),
    ],
    ids=[
        "nobody else",
        "another edition is served",
        "another edition arrives",
        "a reviewed one says so",
        "a third value",
        "the manual itself",
        "a denial",
        "the other sentence differs from nothing",
    ],
)
def test_what_another_trusted_document_states_too_is_not_reopened(
    served: ServedTexts, arriving: tuple[tuple[PlacedChunk, str, float], ...], reopened: bool
) -> None:
    result = related((chunk("manual", TRUSTED), MANUAL, 1.0), *arriving, served=served)

    against = [found for found in result.contradicted.get("v-manual", ()) if found.trust is OPEN]
    assert bool(against) == reopened


@pytest.mark.parametrize("joint", [". The lid of the OX-12", " and"])
def test_of_a_served_text_what_no_trusted_document_backs_is_reopened(joint: str) -> None:
    manual = f"The OX-12 must be calibrated every 6 months{joint} weighs 4 kg."
    post = f"The OX-12 must be calibrated every 36 months{joint} weighs 9 kg."

    result = related((chunk("manual", TRUSTED), manual, 1.0), served=ServedTexts(open=post, trusted=OTHER_EDITION))

    assert [found.kind for found in result.contradicted["v-manual"] if found.trust is OPEN] == [Kind.QUANTITY]


def test_agreement_with_another_clause_backs_no_denial() -> None:
    post = "The lid of the OX-12 weighs 2 kg and must not be washed."
    served = ServedTexts(open=post, trusted="The lid of the OX-12 weighs 2 kg.")

    result = related((chunk("manual", TRUSTED), "The lid of the OX-12 may be washed.", 1.0), served=served)

    assert [found.kind for found in result.contradicted["v-manual"] if found.trust is OPEN] == [Kind.NEGATION]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("old-pumps/ox 12.pdf", "ox 12\nold pumps"),
        ("posts.jsonl#17", "posts#17\n"),
        ("release-4.2", "release 4 2\n"),
        ("README", "README\n"),
    ],
)
def test_the_format_of_a_file_is_no_word_of_its_title(path: str, words: str) -> None:
    assert document_title("", path) == f"\n{words}"


@pytest.mark.parametrize(
    ("rare", "paths"),
    [({"md", "txt"}, ("advice.txt", "manual.md")), ({"inbox", "handbook"}, ("inbox/17.txt", "handbook/17.txt"))],
    ids=["formats", "folders"],
)
def test_two_formats_or_folders_make_no_two_subjects(rare: set[str], paths: tuple[str, str]) -> None:
    post, page = (
        StatedPassage(text, lambda word: 16.0 if word in rare else 12.0, document_title("", path))
        for text, path in zip((LIE, MANUAL), paths, strict=True)
    )

    assert [each.outcome for each in compare_passages(post, page)] == [Outcome.CONFLICT]
