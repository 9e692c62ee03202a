"""What a trained reader reads of two chunks, and what becomes of what it finds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from corpus_guard.claims.outcome import Outcome
from corpus_guard.claims.passages import StatedPassage
from corpus_guard.claims.value import Kind
from corpus_guard.domain import Span, TrustLevel
from corpus_guard.models.contradiction_reader import EXCERPT_CHARS, PagePost
from corpus_guard.screening.survey.likely_contradictions import (
    BRIEF_CHARS,
    BRIEFLY_KEPT,
    KEPT,
    LESS_CLEARLY,
    MAX_DOUBTED,
    READ_OF_SERVED,
    Doubt,
    LikelyContradictions,
    PairReader,
    TrustedPassage,
    choose_pairs,
    read_pairs,
    suspect,
)
from corpus_guard.screening.survey.nearby_chunks import (
    NEAREST,
    NothingServed,
    PlacedChunk,
    ServedChunk,
    ServedStatements,
)
from corpus_guard.screening.survey.related_statements import MAX_KEPT, RelatedStatement, RelatedStatements
from corpus_guard.screening.survey.statement_search import find_related_statements

TITLE = "Hotel Karvenstein"
PAGE = (
    "Breakfast is included in every room rate at the Karvenstein. "
    "Dogs up to 20 kilograms are welcome in the rooms. "
    "The pool on the fifth floor is reserved for hotel guests."
)
BESIDE = TrustedPassage(StatedPassage(PAGE), TITLE)
POST = "Sadly, four-legged friends and all dogs have to stay at home."


Score = Callable[[PagePost], float]


class Reader:
    """Scores each pair as the test says, and keeps what it was shown."""

    def __init__(self, score: Score, *, sieve: Score = lambda pair: 0.0, alone: Score | None = None) -> None:
        self.score, self.sieve, self.score_alone = score, sieve, alone or score
        self.shown: list[PagePost] = []
        self.glimpsed: list[PagePost] = []

    def glance(self, pairs: Sequence[PagePost]) -> NDArray[np.float32]:
        self.glimpsed += pairs
        return np.array([self.sieve(pair) for pair in pairs], np.float32)

    def log_odds(self, pairs: Sequence[PagePost]) -> NDArray[np.float32]:
        self.shown += pairs
        return np.array([self.score(pair) for pair in pairs], np.float32)

    def log_odds_alone(self, pairs: Sequence[PagePost]) -> NDArray[np.float32]:
        self.shown += pairs
        return np.array([self.score_alone(pair) for pair in pairs], np.float32)


def pessimist(word: str, **sieve: Score) -> Reader:
    """Take every pair with a word for a contradiction."""
    return Reader(lambda pair: 4.0 if word in pair.excerpt else -4.0, **sieve)


def unsure(word: str) -> Reader:
    """Take everything for half a contradiction, pages with a word a little more so."""
    return Reader(lambda pair: 1.4 if word in pair.excerpt else 1.2)


def sceptic(**seen: tuple[str, float]) -> Reader:
    """See a contradiction in sentences with a word, in each post another word, some more clearly than others."""

    def score(pair: PagePost) -> float:
        word, clearly = next((seen for word, seen in seen.items() if word in pair.post), ("nothing", 0.0))
        return clearly if word in pair.excerpt else -4.0

    return Reader(score, sieve=score)


def doubter(word: str = "no such word") -> Reader:
    """Be sure that nothing contradicts anything, but for what has a word."""

    def score(pair: PagePost) -> float:
        return 0.0 if word in pair.post else -9.0

    return Reader(score, sieve=score)


def level(log_odds: float) -> Reader:
    """Give everything the same log-odds."""
    return Reader(lambda pair: log_odds, sieve=lambda pair: log_odds)


def reading(
    reader: PairReader, pairs: int = 2, log_odds: float = 3.0, judge: Judge | None = None
) -> LikelyContradictions:
    return LikelyContradictions(reader, pairs=pairs, log_odds=log_odds, doubted_log_odds=-5.0, judge=judge)


def a_chunk(name: str, trust: TrustLevel, start: int = 0, title: str = "") -> PlacedChunk:
    return PlacedChunk(name, f"v-{name}", f"c-{name}", 0, start, trust, title)


def compare(
    reader: PairReader,
    chunks: Sequence[PlacedChunk],
    vectors: Sequence[Sequence[float]] | NDArray[np.float64],
    texts: Sequence[str],
    served: ServedStatements | None = None,
    pairs: int = 2,
    log_odds: float = 3.0,
) -> RelatedStatements:
    """Return what is found of chunks that arrive together."""
    return find_related_statements(
        chunks,
        np.asarray(vectors, np.float32),
        lambda positions: [texts[position] for position in positions],
        served or NothingServed(),
        lambda word: 12.0,
        1_000,
        reading(reader, pairs, log_odds),
    )


def related(
    reader: PairReader,
    post: str,
    own: TrustLevel = TrustLevel.OPEN,
    other: TrustLevel = TrustLevel.TRUSTED,
    page: str = PAGE,
) -> Sequence[RelatedStatement]:
    chunks = [a_chunk("page", other, 50, TITLE), a_chunk("post", own, 7)]
    found = compare(reader, chunks, [[1.0, 0.0], [0.8, 0.6]], [page, post])
    return found.statements.get("v-post", ())


def test_what_the_reader_finds_is_kept_with_the_places_of_both_sentences() -> None:
    reader = pessimist("Dogs")

    (statement,) = related(reader, POST)

    assert (statement.outcome, statement.trust, statement.kind) == (Outcome.LIKELY, TrustLevel.TRUSTED, None)
    assert statement.span == Span(7, 7 + len(POST))
    start, end = statement.other.span.start - 50, statement.other.span.end - 50
    assert PAGE[start:end] == "Dogs up to 20 kilograms are welcome in the rooms."
    assert RelatedStatement.from_record(statement.to_record()) == statement
    assert reader.shown[0] == PagePost(TITLE, PAGE, POST), "the page is read at once"
    assert PagePost(TITLE, PAGE[start:end], POST) in reader.shown, "and sentence by sentence where it is contradicted"


def test_without_a_contradiction_nothing_is_read_twice() -> None:
    reader = pessimist("sauna")

    assert not related(reader, POST)
    assert reader.shown == [PagePost(TITLE, PAGE, POST)]


def sieving(kept: str) -> Reader:
    """Keep only what has a word."""
    return pessimist("Dogs", sieve=lambda pair: KEPT + (0.1 if kept in pair.post else -0.1))


@pytest.mark.parametrize(("kept", "found"), [("Sadly", 1), ("Luckily", 0)])
def test_what_the_sieve_drops_is_not_read(kept: str, found: int) -> None:
    reader = sieving(kept)

    assert len(related(reader, POST)) == found
    assert bool(reader.shown) == bool(found)


class Judge:
    """Says of each post what the test wants it to say, and keeps what it was shown."""

    def __init__(self, said: bool | None) -> None:
        self.said = said
        self.shown: list[PagePost] = []

    def contradicts(self, pairs: Sequence[PagePost]) -> list[bool | None]:
        self.shown += pairs
        return [self.said] * len(pairs)


@pytest.mark.parametrize(
    ("said", "word", "found"),
    [(True, "sauna", True), (False, "Dogs", False), (None, "Dogs", True), (None, "sauna", False)],
)
def test_a_judge_decides_and_what_it_cannot_say_is_left_to_the_reader(
    said: bool | None, word: str, found: bool
) -> None:
    pairs = choose_pairs(StatedPassage(POST), [BESIDE], 1)
    likely = reading(pessimist(word), judge=(judge := Judge(said)))

    assert [bool(each) for each in likely.find(pairs, [1])] == [found]
    assert judge.shown == [pair.shown for pair in pairs]


GERMAN_PAGE = "Das Hotel hat ein Schwimmbad und eine Sauna. Hunde sind nicht erlaubt."
GERMAN_POST = "Im Hotel sind Hunde nicht nur erlaubt, sie bekommen auch einen Napf."


def test_the_reader_leaves_other_languages_to_the_rules_and_a_judge_does_not() -> None:
    page = [TrustedPassage(StatedPassage(GERMAN_PAGE), TITLE)]

    assert choose_pairs(StatedPassage(GERMAN_POST), page, 2) == []
    assert choose_pairs(StatedPassage(GERMAN_POST), page, 2, in_any_language=True)
    # Whoever adds a sentence in another language to a post hides nothing.
    assert choose_pairs(StatedPassage(f"{POST} {GERMAN_POST}"), [BESIDE], 1)


def test_what_the_rules_find_in_another_language_is_not_doubted() -> None:
    own, other = StatedPassage(GERMAN_POST), StatedPassage(GERMAN_PAGE)

    assert suspect(own, other, TITLE, (own.span(0), other.span(1)), Kind.NEGATION) is None
    post, page = StatedPassage(POST), StatedPassage(PAGE)
    assert suspect(post, page, TITLE, (post.span(0), page.span(0)), Kind.NEGATION)
    assert suspect(post, page, TITLE, (post.span(0), page.span(0)), Kind.ORDER) is None


def test_a_judge_is_not_asked_about_what_the_sieve_drops() -> None:
    posts = ("Luckily there is a sauna.", POST)
    pairs = [choose_pairs(StatedPassage(post), [BESIDE], 1)[0] for post in posts]
    judge = Judge(True)

    dropped, kept = read_pairs(sieving("Sadly"), pairs, judge)

    assert [pair.post for pair in judge.shown] == [POST]
    assert dropped.log_odds < KEPT < kept.log_odds


def test_each_pair_gets_its_own_score_beside_dropped_ones() -> None:
    posts = ("Luckily there is a sauna.", POST, "Luckily there is a bar.", "Sadly the sauna is closed.")
    pairs = [choose_pairs(StatedPassage(post), [BESIDE], 1)[0] for post in posts]

    read = read_pairs(sieving("Sadly"), pairs)

    assert [each.log_odds > KEPT for each in read] == [False, True, False, True]


LONG_PAGE = " ".join([PAGE, *(f"Floor {number} has a quiet lounge with a view of the lake." for number in range(1, 9))])


def glancing(brief: float, whole: float) -> Reader:
    """Score at first glance by the excerpt's length."""
    return pessimist("Dogs", sieve=lambda pair: brief if len(pair.excerpt) <= BRIEF_CHARS else whole)


@pytest.mark.parametrize(
    ("brief", "whole", "glances", "found"),
    [(BRIEFLY_KEPT, 9.0, 1, False), (BRIEFLY_KEPT + 0.1, KEPT + 0.1, 2, True), (9.0, KEPT, 2, False)],
)
def test_the_sieve_looks_at_the_nearest_sentences_before_it_looks_at_all(
    brief: float, whole: float, glances: int, found: bool
) -> None:
    reader = glancing(brief, whole)

    assert bool(related(reader, POST, page=LONG_PAGE)) == found
    glimpsed = [pair.excerpt for pair in reader.glimpsed]
    assert len(glimpsed) == glances
    assert "Dogs up to" in glimpsed[0]
    assert len(glimpsed[0]) <= BRIEF_CHARS < len(glimpsed[-1]) or glances == 1


def test_the_sieve_looks_once_at_a_short_excerpt() -> None:
    reader = glancing(KEPT + 0.1, 0.0)

    assert related(reader, POST)
    assert [pair.excerpt for pair in reader.glimpsed] == [PAGE]


@pytest.mark.parametrize(
    ("own", "other"),
    [
        (TrustLevel.REVIEWED, TrustLevel.TRUSTED),
        (TrustLevel.OPEN, TrustLevel.REVIEWED),
        (TrustLevel.OPEN, TrustLevel.OPEN),
    ],
)
def test_only_open_chunks_are_read_beside_trusted_ones(own: TrustLevel, other: TrustLevel) -> None:
    reader = pessimist("Dogs")

    assert not related(reader, POST, own, other)
    assert not reader.shown


@pytest.mark.parametrize(("word", "found"), [("pool", True), ("sauna", False)])
def test_a_weighted_mean_of_both_models_counts_and_the_second_names_the_sentence(word: str, found: bool) -> None:
    reader = Reader(lambda _: 4.0, sieve=lambda _: 4.0, alone=lambda pair: 2.5 if word in pair.excerpt else 1.5)

    statements = related(reader, POST)

    named = [PAGE[each.other.span.start - 50 : each.other.span.end - 50] for each in statements]
    assert named == (["The pool on the fifth floor is reserved for hotel guests."] if found else [])


def test_a_document_of_many_chunks_must_be_surer() -> None:
    (pair,) = choose_pairs(StatedPassage(POST), [BESIDE], 1)
    likely = reading(pessimist("Dogs"))

    one, two, three = likely.find([pair] * 3, [1, 2, 3])

    assert one and one == two
    assert three is None, "4.0 is less than 3 and the logarithm of 3"


HOUSES = [
    TrustedPassage(StatedPassage(f"Dogs and other friends of guests are welcome in all rooms of the {house}."), TITLE)
    for house in ("mill", "tower", "annexe")
]


@pytest.mark.parametrize(
    ("chunks", "arriving", "found"),
    [(1, [0, 0, 0], "tower"), (1, None, ""), (1, [0, 1, 2], ""), (40, [0, 0, 0], "")],
    ids=["of one text", "each alone", "of three texts", "of a document of many chunks"],
)
def test_what_contradicts_several_pages_a_little_contradicts_one_of_them(
    chunks: int, arriving: list[int] | None, found: str
) -> None:
    pairs = choose_pairs(StatedPassage(POST), HOUSES, 3)
    likely = reading(unsure("tower"), 3, 1.5)

    seen = likely.find(pairs, [chunks] * 3, arriving)

    assert ["tower" in pair.shown.excerpt for pair, each in zip(pairs, seen, strict=True) if each] == [True] * bool(
        found
    )


def test_what_adds_up_over_trusted_documents_is_found() -> None:
    texts = [*(house.passage.sentence(0) for house in HOUSES), POST]
    found = compare(
        unsure("tower"),
        [a_chunk(f"house-{number}", TrustLevel.TRUSTED, title=TITLE) for number in range(len(HOUSES))]
        + [a_chunk("post", TrustLevel.OPEN)],
        [[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.8, 0.6]],
        texts,
        pairs=3,
        log_odds=1.5,
    )

    assert [(each.outcome, each.other.doc_id) for each in found.statements["v-post"]] == [(Outcome.LIKELY, "house-1")]


def test_two_posts_of_a_text_do_not_add_up() -> None:
    text = StatedPassage(f"{POST} {'Guests may bring what they like to the rooms of their friends. ' * 6}")
    pairs = choose_pairs(text, HOUSES[:1], 2)
    likely = reading(unsure("tower"), 2, 1.5)

    assert len({pair.shown.post for pair in pairs}) == 2
    assert likely.find(pairs, [1, 1], [0, 0]) == [None, None]


def test_of_a_post_that_sentence_is_shown_which_contradicts_most() -> None:
    first, second = "The dogs of the neighbours are welcome guests in our rooms.", "Pets have to stay at home."
    post = StatedPassage(f"{first} {second}")
    chosen = choose_pairs(post, [BESIDE], 1)
    likely = reading(sceptic(Pets=("Dogs", 4.0)), 1, 3.0)
    assert chosen[0].sentences[1].own == post.span(0), "it has most in common with the page"

    found, none = likely.find([*chosen, *choose_pairs(StatedPassage(first), [BESIDE], 1)], [1, 1])

    assert found is not None and none is None
    assert (found.sentences.own, found.sentences.text) == (post.span(1), PAGE.split(". ")[1] + ".")


def test_of_a_long_chunk_the_sentence_is_shown_that_is_read_with_those_before_it() -> None:
    post = StatedPassage("Pets have to stay at home. " + "The rooms of the dogs are no rooms for guests. " * 8)

    (pair,) = choose_pairs(post, [BESIDE], 1)

    assert [text for _, text in pair.stated] == ["The rooms of the dogs are no rooms for guests."]
    assert pair.shown.post.startswith("Pets"), "it is read, too"


def against_the_page(
    reader: PairReader, texts: Sequence[str], trust: TrustLevel, document: str
) -> list[RelatedStatement]:
    """Return what is found of a post against a trusted page, where another document says something, too.

    `texts` are those of page, other document and post; `trust` and `document` are level and id of the other one.
    """
    found = compare(
        reader,
        [
            a_chunk("page", TrustLevel.TRUSTED, title=TITLE),
            PlacedChunk(document, "v-rules", "c-rules", 0, 0, trust, TITLE),
            a_chunk("post", TrustLevel.OPEN),
        ],
        [[1.0, 0.0], [0.9, 0.44], [0.8, 0.6]],
        texts,
    )
    return [each for each in found.statements["v-post"] if each.other.chunk_id == "c-page"]


HOUSE_RULES = "No animals are let into the Karvenstein, not even dogs."


@pytest.mark.parametrize(
    ("animals", "trust", "document", "disputed"),
    [
        (("Dogs", 4.0 - LESS_CLEARLY), TrustLevel.TRUSTED, "rules", True),
        (("Dogs", 3.9 - LESS_CLEARLY), TrustLevel.TRUSTED, "rules", False),
        (("pool", 9.0), TrustLevel.TRUSTED, "rules", False),
        (("Dogs", 9.0), TrustLevel.TRUSTED, "page", False),
        (("Dogs", 9.0), TrustLevel.REVIEWED, "rules", False),
    ],
    ids=["clearly enough", "less clearly", "another sentence", "of the same document", "less trusted"],
)
def test_what_another_trusted_document_contradicts_too_is_disputed(
    animals: tuple[str, float], trust: TrustLevel, document: str, disputed: bool
) -> None:
    reader = sceptic(animals=animals, Sadly=("Dogs", 4.0))

    against = against_the_page(reader, [PAGE, HOUSE_RULES, POST], trust, document)

    assert [(each.outcome, each.disputed_by) for each in against] == [(Outcome.LIKELY, "rules" if disputed else "")]
    assert RelatedStatement.from_record(against[0].to_record()) == against[0]


GUESTS = "Luckily, guests may bring up to 45 kilograms to the fifth floor. " * 6
PARKING = "Parking at the Karvenstein costs 9 euros a day."
RULED = "Dogs up to 35 kilograms are welcome in the rooms."


@pytest.mark.parametrize(
    ("post", "animals", "times", "disputed"),
    [
        (f"{POST} {GUESTS}", -4.0, 1, [False, False]),
        (f"{POST} {GUESTS}", 4.0, 2, [True, True]),
        (f"{RULED} {GUESTS}{POST}", 4.0, 0, [False, False]),
        (f"{POST} {GUESTS}{PARKING}", 4.0, 2, [True, True]),
    ],
    ids=["the first is not disputed", "the first is", "the rules see another", "another open document disagrees"],
)
def test_no_more_is_read_of_a_chunk_that_waits_anyway(
    post: str, animals: float, times: int, disputed: list[bool]
) -> None:
    reader = sceptic(animals=("Dogs", animals), Sadly=("Dogs", 5.0), Luckily=("pool", 4.0), Dogs=("sauna", 4.0))
    texts = [PAGE, HOUSE_RULES, post, PARKING.replace("9", "5")]
    found = compare(
        reader,
        [a_chunk(name, TrustLevel.TRUSTED, title=TITLE) for name in ("page", "rules")]
        + [a_chunk(name, TrustLevel.OPEN) for name in ("post", "parking")],
        [[1.0, 0.0], [0.7, 0.71], [0.99, 0.14], [0.99, 0.14]],
        texts,
    )

    likely = [each for each in found.statements["v-post"] if each.outcome is Outcome.LIKELY]
    assert [each.is_disputed for each in likely] == disputed
    assert sum("animals" in pair.post for pair in reader.glimpsed) == times


def test_what_the_rules_decided_is_read_to_doubt_it_only() -> None:
    reader = pessimist("Dogs")

    (statement,) = related(reader, "Dogs up to 35 kilograms are welcome in the rooms.")

    assert statement.outcome is Outcome.CONFLICT
    to_doubt, others = reader.shown[:2], reader.shown[2:]
    assert all("Dogs" in pair.excerpt for pair in to_doubt)
    assert others
    assert all("Dogs" not in pair.excerpt for pair in others)


RULES = "Dogs up to 20 kilograms are welcome in the rooms and on the terrace of the bar."
PETS = "Dogs up to 45 kilograms are welcome in the rooms, says our new manager."
FENCED = "There is a fence. " + PETS
TAKEN = "Dogs up to 45 kilograms are welcome in the rooms, says a manager."  # mostly of the page's own words
AGREED = " ".join(f"Room {number} of the Karvenstein costs {number * 7} euros a night." for number in range(11, 25))


@pytest.mark.parametrize(
    ("word", "post", "doubted"),
    [
        ("no such word", PETS, True),
        ("fence", FENCED, False),  # the sentence alone and the whole post are read
        ("no such word", TAKEN, True),
        ("manager", TAKEN, False),
    ],
)
def test_what_the_rules_found_is_doubted_where_the_reader_is_sure(word: str, post: str, doubted: bool) -> None:
    conflicts = [found for found in related(doubter(word), post, page=RULES) if found.outcome is Outcome.CONFLICT]

    assert [found.is_doubted for found in conflicts] == [doubted]
    assert [RelatedStatement.from_record(found.to_record()) for found in conflicts] == conflicts


WELCOME = "Dogs up to {} kilograms are welcome in the rooms and on the terrace of the bar."


@pytest.mark.parametrize(
    ("log_odds", "says", "trust", "document", "disputed_by"),
    [
        (0.0, WELCOME.format(30), TrustLevel.TRUSTED, "rules", "rules"),
        (3.5, WELCOME.format(30), TrustLevel.TRUSTED, "rules", ""),
        (0.0, WELCOME.format(20), TrustLevel.TRUSTED, "rules", ""),
        (0.0, WELCOME.format(30), TrustLevel.REVIEWED, "rules", ""),
        (0.0, WELCOME.format(30), TrustLevel.TRUSTED, "page", ""),
    ],
    ids=["disputed", "the reader agrees", "the other says the same", "less trusted", "of the same document"],
)
def test_what_trusted_documents_contradict_each_other_about_is_disputed_unless_the_reader_is_sure(
    log_odds: float, says: str, trust: TrustLevel, document: str, disputed_by: str
) -> None:
    texts = [WELCOME.format(20), says, WELCOME.format(45)]

    found = against_the_page(level(log_odds), texts, trust, document)

    (against,) = [each for each in found if each.outcome is Outcome.CONFLICT]
    assert (against.disputed_by, against.is_doubted) == (disputed_by, False)


BAGS = "The porter carries bags of up to {} kilograms from the taxi to the lift."
PRICED = "Dogs up to {} kilograms are welcome in the rooms of the hotel for {} euros a night."


@pytest.mark.parametrize(
    ("page", "says", "post", "disputed_by"),
    [
        (PRICED.format(20, 8), PRICED.format(30, 8), PRICED.format(45, 8), "rules"),
        (PRICED.format(20, 8), PRICED.format(20, 9), PRICED.format(45, 8), ""),
        (f"{WELCOME.format(20)} {BAGS.format(15)}", BAGS.format(18), WELCOME.format(45), ""),
    ],
    ids=["the same value", "another value of the sentence", "another sentence"],
)
def test_only_a_contradiction_of_the_same_value_disputes_it(page: str, says: str, post: str, disputed_by: str) -> None:
    found = against_the_page(level(0.0), [page, says, post], TrustLevel.TRUSTED, "rules")

    assert {each.disputed_by for each in found if each.outcome is Outcome.CONFLICT} == {disputed_by}


@pytest.mark.parametrize(("log_odds", "doubt"), [(4.5, Doubt.NONE), (3.5, Doubt.SOME), (-6.0, Doubt.SOME)])
def test_the_mean_of_both_readings_says_whether_the_reader_doubts(log_odds: float, doubt: Doubt) -> None:
    page, post = StatedPassage(RULES), StatedPassage(PETS)
    pair = suspect(post, page, TITLE, (post.span(0), page.span(0)), Kind.COUNT)
    alone_then_beside = iter([log_odds, 2.0])

    assert pair is not None
    assert reading(Reader(lambda _: next(alone_then_beside))).doubt([pair]) == [doubt]


@pytest.mark.parametrize("own", [TrustLevel.OPEN, TrustLevel.REVIEWED])
def test_only_contradictions_of_open_chunks_are_doubted(own: TrustLevel) -> None:
    (found,) = [found for found in related(doubter(), PETS, own, page=RULES) if found.outcome is Outcome.CONFLICT]

    assert found.is_doubted == (own is TrustLevel.OPEN)


@pytest.mark.parametrize(("contradictions", "doubted"), [(MAX_DOUBTED, True), (MAX_DOUBTED + 1, False)])
def test_of_a_chunk_with_many_contradictions_none_is_doubted(contradictions: int, doubted: bool) -> None:
    post = " ".join(PETS.replace("45", f"{weight}") for weight in range(31, 31 + contradictions))

    found = [found for found in related(doubter(), post, page=RULES) if found.outcome is Outcome.CONFLICT]

    assert {each.is_doubted for each in found} == {doubted}


@pytest.mark.parametrize(("word", "doubted"), [("no such word", True), ("manager", False)])
def test_a_near_copy_is_doubted_like_any_other_text(word: str, doubted: bool) -> None:
    rest = "Breakfast is served in the garden hall. Keys are to be left in the box by the door."

    found, *_ = related(doubter(word), f"{PETS} {rest}", page=f"{RULES} {rest}")

    assert found.outcome is Outcome.CONFLICT
    assert found.is_near_copy and found.is_doubted == doubted


def test_what_is_doubted_is_kept_before_what_agrees() -> None:
    texts = [RULES, AGREED, f"{PETS} {AGREED}"]
    found = compare(
        doubter(),
        [a_chunk("page", TrustLevel.TRUSTED), a_chunk("prices", TrustLevel.TRUSTED), a_chunk("post", TrustLevel.OPEN)],
        [[1.0, 0.0], [0.8, 0.6], [1.0, 0.0]],
        texts,
    )

    first, *others = found.statements["v-post"]
    assert (first.outcome, first.is_doubted) == (Outcome.CONFLICT, True)
    assert len(others) == MAX_KEPT - 1
    assert {each.outcome for each in others} == {Outcome.AGREE}, "there are more than are kept"


def test_what_is_too_long_to_be_read_is_not_doubted() -> None:
    page = StatedPassage(RULES)
    short, long = (StatedPassage(PETS[:-1] + filler + ".") for filler in ("", ", and so on" * 35))

    assert suspect(short, page, TITLE, (short.span(0), page.span(0)), Kind.QUANTITY)
    assert suspect(long, page, TITLE, (long.span(0), page.span(0)), Kind.QUANTITY) is None


class ServedPosts:
    """A collection that holds posts; the other ones are empty."""

    def __init__(self, *posts: str, trust: TrustLevel = TrustLevel.OPEN) -> None:
        self.trust = trust
        self.posts = [ServedChunk(a_chunk("post", trust, 7), post, 0.9) for post in posts]

    def near(self, trust: TrustLevel, vectors: NDArray[np.float32], count: int) -> Sequence[Sequence[ServedChunk]]:
        return [self.posts[:count] if trust is self.trust else [] for _ in vectors]


@pytest.mark.parametrize(("word", "reopened"), [("no such word", False), ("manager", True)])
def test_what_is_served_is_not_reopened_where_the_reader_doubts(word: str, reopened: bool) -> None:
    found = compare(
        doubter(word), [a_chunk("page", TrustLevel.TRUSTED, 50, TITLE)], [[1.0, 0.0]], [RULES], served=ServedPosts(PETS)
    )

    assert bool(found.contradicted) == reopened


@pytest.mark.parametrize(("log_odds", "pages", "reopened"), [(0.0, [20, 30], 0), (3.5, [20, 30], 2), (0.0, [20], 1)])
def test_what_late_trusted_documents_contradict_each_other_about_reopens_nothing_unless_the_reader_is_sure(
    log_odds: float, pages: list[int], reopened: int
) -> None:
    texts = [WELCOME.format(kilograms) for kilograms in pages]
    found = compare(
        level(log_odds),
        [a_chunk(f"page-{kilograms}", TrustLevel.TRUSTED) for kilograms in pages],
        [[1.0, 0.0], [0.9, 0.44]][: len(pages)],
        texts,
        served=ServedPosts(WELCOME.format(45)),
    )

    assert len(found.contradicted) == reopened


def late_contradictions(reader: PairReader, served: ServedPosts, *texts: str) -> Sequence[RelatedStatement]:
    """Return what trusted texts contradict that is served: the first is the page, each other one a document."""
    found = compare(
        reader,
        [a_chunk(f"page-{number}", TrustLevel.TRUSTED, 50, TITLE) for number in range(len(texts))],
        [[1.0, 0.0], [0.9, 0.44]][: len(texts)],
        texts,
        served=served,
    )
    return found.contradicted.get("v-page-0", ())


def test_what_is_served_is_read_beside_a_trusted_text_that_comes_later() -> None:
    (found,) = late_contradictions(pessimist("Dogs"), ServedPosts(POST), PAGE)

    assert (found.outcome, found.is_served, found.trust) == (Outcome.LIKELY, True, TrustLevel.OPEN)
    assert PAGE[found.span.start - 50 : found.span.end - 50] == "Dogs up to 20 kilograms are welcome in the rooms."
    assert (found.other.doc_id, found.other.span.start, found.other.span.end) == ("post", 7, 7 + len(POST))
    assert RelatedStatement.from_record(found.to_record()) == found
    assert late_contradictions(pessimist("sauna"), ServedPosts(POST), PAGE) == ()
    assert late_contradictions(pessimist("Dogs"), ServedPosts(POST, trust=TrustLevel.REVIEWED), PAGE) == ()


@pytest.mark.parametrize(
    ("animals", "disputed"), [(("Dogs", 4.0 - LESS_CLEARLY), True), (("Dogs", 3.9 - LESS_CLEARLY), False)]
)
def test_what_trusted_documents_disagree_about_reopens_nothing(animals: tuple[str, float], disputed: bool) -> None:
    reader = sceptic(animals=animals, Sadly=("Dogs", 4.0))

    found = late_contradictions(reader, ServedPosts(POST), PAGE, HOUSE_RULES)

    assert [each.outcome for each in found] == ([] if disputed else [Outcome.LIKELY])


def test_a_later_trusted_text_of_many_chunks_must_be_contradicted_more_surely() -> None:
    def reopened(chunks: int) -> bool:
        places = [
            PlacedChunk("page", "v-page", f"c-{number}", number, 0, TrustLevel.TRUSTED) for number in range(chunks)
        ]
        found = compare(pessimist("Dogs"), places, [[1.0, 0.0]] * chunks, [PAGE] * chunks, served=ServedPosts(POST))
        return bool(found.contradicted)

    assert [reopened(chunks) for chunks in (1, 2, 3)] == [True, True, False], (
        "4.0 is less than 3 and the logarithm of 3"
    )


def test_what_the_rules_decided_of_a_served_text_is_read_to_doubt_it_only() -> None:
    (found,) = late_contradictions(reader := pessimist("Dogs"), ServedPosts(RULED), PAGE)

    assert found.outcome is Outcome.CONFLICT
    to_doubt, others = reader.shown[:2], reader.shown[2:]
    assert all("Dogs" in pair.excerpt for pair in to_doubt)
    assert others
    assert all("Dogs" not in pair.excerpt for pair in others)


def test_what_a_served_text_agrees_about_reopens_nothing() -> None:
    agreeing = "In the rooms dogs up to 20 kilograms are welcome."

    assert late_contradictions(reader := pessimist("Dogs"), ServedPosts(agreeing), PAGE) == ()
    assert reader.shown, "the other sentences of the page are read"


@pytest.mark.parametrize("pairs", [2, 5])
def test_a_chunk_is_read_beside_as_many_trusted_chunks_as_posts_are_read(pairs: int) -> None:
    cosines = np.array([0.9, 0.5, 0.8, 0.6, 0.7, 0.4, 1.0])
    pages = [f"Dogs of up to {cosine:.0%} are welcome in the rooms." for cosine in cosines[:-1]]
    texts = [*pages, POST]
    reader = pessimist("no such word")
    compare(
        reader,
        [
            *(a_chunk(f"page-{number}", TrustLevel.TRUSTED) for number in range(len(pages))),
            a_chunk("post", TrustLevel.OPEN),
        ],
        np.stack([cosines, np.sqrt(1 - cosines**2)], axis=1).astype(np.float32),
        texts,
        pairs=pairs,
    )

    nearest = sorted(range(len(pages)), key=lambda number: -cosines[number])[:pairs]
    assert {pair.excerpt for pair in reader.shown} == {pages[number] for number in nearest}


def test_of_each_served_chunk_that_is_compared_a_few_posts_are_read() -> None:
    posts = [f"Guest {number} writes. " + "Sadly all dogs have to stay at home. " * 20 for number in range(NEAREST + 1)]
    reader = pessimist("Dogs", sieve=lambda _: -9.0)

    assert late_contradictions(reader, ServedPosts(*posts), PAGE) == ()
    assert len(reader.glimpsed) == NEAREST * READ_OF_SERVED


def test_another_contact_is_never_doubted() -> None:
    page = StatedPassage("Call the night desk at +49 30 1234567.")
    post = StatedPassage("Ring +49 30 7654321 for breakfast in bed.")
    places = (post.span(0), page.span(0))

    assert suspect(post, page, TITLE, places, Kind.PHONE) is None
    assert suspect(post, page, TITLE, places, Kind.COUNT)


def test_what_two_documents_say_of_themselves_is_not_read() -> None:
    page = TrustedPassage(StatedPassage("In this guide, we cover the pool on the fifth floor. " + PAGE), TITLE)
    itself = StatedPassage("This guide covers the pool on the fifth floor in winter.")

    pairs = choose_pairs(itself, [page], 4)

    assert [pair.shown.excerpt for pair in pairs] == [PAGE]
    (first,) = choose_pairs(StatedPassage("We cover the pool on the fifth floor in winter."), [page], 4)
    assert first.shown.excerpt.startswith("In this guide"), "a text that speaks of something else is compared"


def test_of_a_long_page_the_sentences_with_most_in_common_are_read_in_their_order() -> None:
    page = StatedPassage(PAGE + " The sauna opens at noon." * 40, title=TITLE)
    post = StatedPassage("At the Karvenstein you pay for the pool on the fifth floor, hotel guests included.")

    (pair,) = choose_pairs(post, [TrustedPassage(page, TITLE)], 1)

    assert pair.shown.excerpt.startswith(PAGE + " The sauna"), "breakfast and dogs have one word in common with it"
    assert 560 < len(pair.shown.excerpt) <= EXCERPT_CHARS
    assert " ".join(each.text for each in pair.sentences) == pair.shown.excerpt


def test_pages_with_most_in_common_are_read_and_words_of_the_title_count_little() -> None:
    named = TrustedPassage(StatedPassage("Karvenstein. The Karvenstein in the Karvenstein valley.", title=TITLE), TITLE)
    about = TrustedPassage(StatedPassage(PAGE, title=TITLE), TITLE)

    (pair,) = choose_pairs(StatedPassage("No pool at the Karvenstein."), [named, about], 1)

    assert pair.beside == 1


def test_a_sentence_of_a_long_chunk_is_read_with_those_before_it() -> None:
    filler = "Nothing of this has anything to do with what comes later in the text of this long report of a journey. "
    chunk = filler * 3 + "We travelled with our dogs. They had to stay outside the rooms."

    pairs = choose_pairs(StatedPassage(chunk), [TrustedPassage(StatedPassage(PAGE), "")], 2)

    assert all(len(pair.shown.post) <= 300 for pair in pairs)
    last = next(pair for pair in pairs if pair.sentences[0].own.end == len(chunk))
    assert last.shown.post.endswith("We travelled with our dogs. They had to stay outside the rooms.")
    own = last.sentences[0].own
    assert chunk[own.start : own.end] == "They had to stay outside the rooms."


def test_without_a_common_word_the_nearest_is_read() -> None:
    pages = [TrustedPassage(StatedPassage(text), TITLE) for text in (PAGE, "The sauna opens at noon.")]

    (pair,) = choose_pairs(StatedPassage("Tomatoes grow best under glass."), pages, 1)

    assert pair.shown.excerpt == PAGE


def test_of_two_empty_texts_nothing_is_read() -> None:
    assert choose_pairs(StatedPassage(""), [BESIDE], 3) == []
    assert choose_pairs(StatedPassage(POST), [TrustedPassage(StatedPassage(""), TITLE)], 3) == []
