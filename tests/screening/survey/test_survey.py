import math
import random
import tracemalloc
from collections.abc import Iterable, Sequence

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_versions import a_version, changed

from corpus_guard.domain import Span, TrustLevel
from corpus_guard.errors import Inconsistent
from corpus_guard.screening.survey.agreement import Agreement
from corpus_guard.screening.survey.hub_reach import HubReach
from corpus_guard.screening.survey.resemblance import (
    BANDS,
    NEIGHBOURS_PER_KIND,
    VERSIONS_PER_BAND,
    EmptyHistory,
    KnownVersion,
    SimilarDocument,
    Standing,
    band_keys,
)
from corpus_guard.screening.survey.semantics import NearbyQuestion, Semantics
from corpus_guard.screening.survey.signals import SIGNALS, Signals, measure_signals
from corpus_guard.screening.survey.survey import MIN_HISTORY_VERSIONS, Robust, Survey, build_survey

OPEN, REVIEWED, TRUSTED = TrustLevel.OPEN, TrustLevel.REVIEWED, TrustLevel.TRUSTED
PINNED = (-7690509676643013963, 8641710134195789228)
numbers = st.floats(-1e6, 1e6, allow_nan=False)


def prose(seed: int, words: int = 80) -> str:
    return " ".join(random.Random(seed).choices([f"word{n}" for n in range(3000)], k=words))


def edited(text: str, number: int = 0) -> str:
    words = text.split()
    words[len(words) // 2] = f"edited{number}"
    return " ".join(words)


def measured(text: str, uri: str, trust: TrustLevel = OPEN, source: str = "s") -> Signals:
    return measure_signals(a_version(text, uri=uri, trust=trust, source=source))


class Ledger:
    """A history in memory that answers as the real one must."""

    def __init__(self, known: Iterable[KnownVersion] = (), values: Sequence[float] = ()) -> None:
        self.known = list(known)
        self.values = values
        self.largest_question = 0

    def robust_values(self, source):
        return dict.fromkeys(SIGNALS, self.values) if self.values else {}

    def same_text(self, text_sha256s):
        self.largest_question = max(self.largest_question, len(text_sha256s))
        return (known for known in self.known if known.text_sha256 in set(text_sha256s))

    def near(self, bands):
        self.largest_question = max(self.largest_question, len(bands))
        asked = set(bands)
        return ((band, known) for known in self.known for band in band_keys(known.minhash) if band in asked)


def known(text: str, uri: str, standing: Standing, trust: TrustLevel = OPEN) -> KnownVersion:
    item = measured(text, uri, trust, "old")
    return KnownVersion(item.version_id, item.doc_id, item.source, trust, standing, item.text_sha256, item.minhash)


def near(survey: Survey, item: Signals) -> dict[str, SimilarDocument]:
    return {neighbour.doc_id: neighbour for neighbour in survey.neighbours.get(item.version_id, ())}


# Robust


@given(st.lists(numbers, min_size=1, max_size=40), numbers, numbers, st.floats(0.01, 100))
def test_z_is_the_same_after_shift_and_scale(values, value, shift, scale):
    one = _robust(values)
    if one.mad < 1e-3:
        return
    other = _robust([scale * x + shift for x in values])
    assert other.z(scale * value + shift) == pytest.approx(one.z(value), rel=1e-3, abs=1e-3)


@given(st.lists(numbers, min_size=3, max_size=30), st.floats(0, 1e300))
def test_a_minority_of_wild_values_leaves_the_median_among_the_others(values, wild):
    hostile = [wild] * ((len(values) - 1) // 2)
    assert min(values) <= _robust([*values, *hostile]).median <= max(values)


def test_equal_values_do_not_divide_by_zero_and_the_floor_holds():
    assert math.isfinite(Robust(5.0, 0.0, 40).z(6.0))
    assert Robust(5.0, 0.0, 40).z(6.0, floor=0.5) == 2.0
    assert Robust(5.0, 1.0, 40).z(5.0 + 1.4826, floor=0.5) == pytest.approx(1.0)


def _robust(values):
    import statistics

    median = statistics.median(values)
    return Robust(median, statistics.median(abs(x - median) for x in values), len(values))


# Statistics of a source


def test_statistics_are_per_source_and_on_the_scale_on_which_they_are_compared():
    items = [measured(prose(n), f"{n}", source="a") for n in range(9)] + [measured("x" * 99, "x", source="b")]
    survey = build_survey(items, EmptyHistory())
    assert survey.sources["a"]["chars"].count == 9 and survey.sources["b"]["chars"].count == 1
    assert survey.sources["b"]["chars"].median == pytest.approx(math.log(100))


def test_with_enough_history_a_flood_of_this_run_does_not_move_the_norm():
    flood = [measured("x" * 5000, f"{n}") for n in range(500)]
    short = build_survey(flood, Ledger(values=[0.5] * (MIN_HISTORY_VERSIONS - 1)))
    enough = build_survey(flood, Ledger(values=[0.5] * MIN_HISTORY_VERSIONS))
    assert short.sources["s"]["chars"].count == 500 + MIN_HISTORY_VERSIONS - 1
    assert enough.sources["s"]["chars"].count == MIN_HISTORY_VERSIONS
    assert enough.sources["s"]["chars"].median == pytest.approx(math.log(1.5))


def test_values_that_are_no_numbers_in_the_history_are_left_out():
    survey = build_survey([measured(prose(1), "1")], Ledger(values=[float("nan"), float("inf"), 1.0, 1.0]))
    assert survey.sources["s"]["letters"].count == 3
    assert all(math.isfinite(r.median) and math.isfinite(r.mad) for r in survey.sources["s"].values())


# Neighbours


@given(st.text(min_size=1, max_size=200))
def test_the_same_text_is_always_found(text):
    one, other = measured(text, "1"), measured(text, "2", TRUSTED, "t")
    survey = build_survey([one, other], Ledger([known(text, "3", Standing.REJECTED)]))
    for item, twin in ((one, other), (other, one)):
        assert near(survey, item)[twin.doc_id].similarity == 1.0
        assert {n.standing for n in survey.neighbours[item.version_id]} == {Standing.NEW, Standing.REJECTED}


@settings(max_examples=50)
@given(st.integers(0, 10_000))
def test_a_text_with_one_word_changed_is_found_and_is_never_called_the_same(seed):
    text = prose(seed)
    one, other = measured(text, "1"), measured(edited(text), "2")
    survey = build_survey([one, other], Ledger([known(edited(text, 2), "3", Standing.SERVED, TRUSTED)]))
    assert 0.7 <= near(survey, one)[other.doc_id].similarity < 1.0
    assert {n.standing for n in survey.neighbours[one.version_id]} == {Standing.NEW, Standing.SERVED}


def test_long_texts_that_differ_in_one_word_are_not_the_same_either():
    # All 64 values agree here; only the digest tells the texts apart.
    text = prose(1, 3000)
    one, other = measured(text, "1"), measured(edited(text), "2")
    assert near(build_survey([one, other], EmptyHistory()), one)[other.doc_id].similarity < 1.0


def test_different_texts_are_no_neighbours():
    survey = build_survey([measured(prose(n), f"{n}") for n in range(300)], EmptyHistory())
    assert not survey.neighbours


def test_a_text_half_changed_is_no_neighbour_unless_asked_for():
    text = prose(3, 100)
    half = " ".join([*text.split()[:60], *prose(4, 40).split()])
    items = [measured(text, "1"), measured(half, "2")]
    assert not build_survey(items, EmptyHistory()).neighbours
    assert build_survey(items, EmptyHistory(), similarity=0.2).neighbours


def test_versions_of_one_document_are_never_neighbours():
    text = prose(5)
    new, old = a_version(text, uri="1"), a_version(edited(text), uri="1")
    again = changed(old, doc_id=new.doc_id)
    ledger = Ledger([known(text, "k", Standing.SERVED)])
    ledger.known[0] = KnownVersion(
        "f" * 32, new.doc_id, "s", OPEN, Standing.SERVED, ledger.known[0].text_sha256, ledger.known[0].minhash
    )
    assert not build_survey([measure_signals(new), measure_signals(again)], ledger).neighbours


def test_empty_and_very_short_texts():
    empty = [measured("", "1"), measured("", "2")]
    short = [measured("see also", "3"), measured("see also", "4"), measured("see  also", "5")]
    survey = build_survey([*empty, *short], EmptyHistory())
    assert set(survey.neighbours) == {short[0].version_id, short[1].version_id}  # the same text, but nothing is near


def test_the_same_version_twice_counts_once():
    item = measured(prose(6), "1")
    survey = build_survey([item, item], EmptyHistory())
    assert not survey.neighbours and survey.sources["s"]["chars"].count == 1


def test_an_edited_copy_sees_the_trusted_original_behind_an_open_copy_of_it():
    text = prose(7)
    copy, original, fake = measured(text, "1"), measured(text, "2", TRUSTED, "t"), measured(edited(text), "3")
    survey = build_survey([copy, original, fake], EmptyHistory())
    assert near(survey, fake)[original.doc_id].trust is TRUSTED


def test_an_exact_copy_among_many_is_never_called_nearly_the_same():
    text = prose(7)
    copies = [measured(text, f"{n}") for n in range(3 * NEIGHBOURS_PER_KIND)]
    original = measured(text, "original", TRUSTED, "t")
    ledger = Ledger(known(text, f"k{n}", Standing.SERVED, TRUSTED) for n in range(3 * NEIGHBOURS_PER_KIND))
    survey = build_survey([*copies, original], ledger)
    assert {n.similarity for found in survey.neighbours.values() for n in found} == {1.0}


def test_every_copy_of_a_text_has_the_neighbours_of_the_text():
    text = prose(8)
    copies = [measured(text, f"{n}") for n in range(5)]
    other = measured(edited(text), "other")
    survey = build_survey([*copies, other], Ledger([known(edited(text, 3), "bad", Standing.QUARANTINED)]))
    for copy in copies:
        assert other.doc_id in near(survey, copy)
        assert Standing.QUARANTINED in {n.standing for n in survey.neighbours[copy.version_id]}


@pytest.mark.parametrize("same", [True, False])
def test_a_flood_of_copies_pushes_nothing_out_and_fills_nothing(same):
    text = prose(9)
    flood = [measured(text if same else edited(text, n), f"{n}") for n in range(400)]
    original = measured(edited(text, -1), "original", TRUSTED, "t")
    served = [known(edited(text, 1000 + n), f"k{n}", Standing.SERVED) for n in range(3 * VERSIONS_PER_BAND)]
    bad = known(edited(text, -2), "bad", Standing.REJECTED)
    survey = build_survey([*flood, original], Ledger([*served, bad]))
    for item in flood:
        found = survey.neighbours[item.version_id]
        assert len(found) <= 3 * NEIGHBOURS_PER_KIND
        assert bad.doc_id in {n.doc_id for n in found}
    assert all(original.doc_id in near(survey, item) for item in flood)


def test_a_large_group_is_still_searched_for_the_nearest():
    # Every text shares most bands with more others than are compared all with all, and finds its own near copy in the rest.
    boiler = prose(10, 200)
    texts = [f"{boiler} {prose(1000 + n, 12)}" for n in range(150)]
    pairs = [(measured(text, f"a{n}"), measured(text + " again", f"b{n}")) for n, text in enumerate(texts)]
    survey = build_survey([item for pair in pairs for item in pair], EmptyHistory())
    assert sum(other.doc_id in near(survey, one) for one, other in pairs) >= 140


def test_the_order_of_versions_does_not_matter():
    texts = [prose(n // 3) if n % 3 == 0 else edited(prose(n // 3), n) for n in range(60)]
    items = [measured(text, f"{n}") for n, text in enumerate(texts)]
    shuffled = random.Random(1).sample(items, len(items))
    assert build_survey(items, EmptyHistory()).neighbours == build_survey(shuffled, EmptyHistory()).neighbours


def test_the_history_is_asked_in_small_questions_and_may_offer_what_was_not_asked_for():
    items = [measured(prose(n, 30), f"{n}") for n in range(300)]
    ledger = Ledger()
    build_survey(items, ledger)
    assert 0 < ledger.largest_question <= 2000

    class Babbling(Ledger):
        def same_text(self, text_sha256s):
            return iter(self.known)

        def near(self, bands):
            return ((-1, each) for each in self.known)

    babbling = Babbling([known(prose(999), "other", Standing.REJECTED)])
    assert not build_survey(items, babbling).neighbours


# Band keys


def test_band_keys_are_signed_64_bit_integers_and_distinct():
    keys = band_keys(measured(prose(1), "1").minhash)
    assert len(set(keys)) == BANDS and all(-(2**63) <= key < 2**63 and isinstance(key, int) for key in keys)
    assert band_keys(measured("", "1").minhash) == ()


def test_the_same_values_in_another_band_are_another_key():
    value = b"\x01\x02\x03\x04" * 64
    assert len(set(band_keys(value))) == BANDS


def test_band_keys_are_the_same_in_every_process_and_release():
    # They lie in the ledger: a change here makes those of old versions worthless and needs a migration.
    assert band_keys(bytes(range(256)))[:2] == PINNED


# The survey as a file


def test_a_survey_survives_json_and_can_be_cut_to_a_shard():
    text = prose(11)
    items = [measured(text, "1"), measured(edited(text), "2", REVIEWED), measured(prose(12), "3")]
    survey = build_survey(items, Ledger([known(text, "k", Standing.REJECTED)], values=[1.0, 2.0, 4.0]))
    assert Survey.from_json(survey.to_json()) == survey
    part = survey.of([items[0].version_id, "absent"])
    assert set(part.neighbours) == {items[0].version_id} and part.sources == survey.sources
    assert b"word1" not in survey.to_json()


def few(strategy):
    return st.lists(strategy, max_size=3).map(tuple)


shares, ordinals, names = st.floats(0, 1), st.integers(0, 10_000), st.text(st.characters(codec="utf-8"), max_size=20)
places = st.builds(lambda start, length: Span(start, start + length), ordinals, ordinals)
agreements = st.builds(
    Agreement,
    ordinals,
    shares,
    st.integers(3, 10**6),
    shares,
    few(names),
    shared=few(places),
    repeated=shares,
    origins=ordinals,
)
semantics = st.builds(
    Semantics,
    st.dictionaries(names, few(agreements), max_size=4),
    st.dictionaries(names, few(st.builds(NearbyQuestion, ordinals, names, shares)), max_size=4),
    st.none() | st.dictionaries(names, st.builds(HubReach, shares, shares, ordinals), max_size=4),
)


@given(semantics, st.booleans())
def test_what_the_vectors_say_survives_json_and_is_cut_to_a_shard(found, alone):
    survey = Survey(semantics=found, alone=alone)
    assert Survey.from_json(survey.to_json()) == survey

    part = survey.of([*found.agreements][:1]).semantics
    assert part.agreements == dict([*found.agreements.items()][:1])
    assert part.questions == {key: value for key, value in found.questions.items() if key in part.agreements}
    assert (part.hubness is None) == (found.hubness is None)
    assert part.hubness is None or part.hubness == {
        key: value for key, value in found.hubness.items() if key in part.agreements
    }
    assert survey.of([]).semantics == Semantics(hubness=None if found.hubness is None else {})
    assert survey.of([]).alone is alone


EMPTY = orjson.loads(Survey().to_json())["semantics"]


def but(**changes):
    """An empty survey as a file, with `changes`."""
    return orjson.dumps({**orjson.loads(Survey().to_json()), **changes})


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"PAR1",
        but(format="survey/v1"),
        but(format="survey/v6"),
        but(sources=None),
        but(places=[["v", "d", "s", "open", "gone"]]),
        but(links={"v": [[0, 1.0]]}),
        but(alone=None, semantics=None),
        but(semantics={}),
        but(semantics=[]),
        but(semantics={"agreements": {}, "questions": {}}),
        but(semantics={"agreements": {"v": 5}, "questions": {}, "hubness": {}}),
        but(semantics={"agreements": {"v": [[0, 0.9, 3, 0.8]]}, "questions": {}, "hubness": {}}),
        but(semantics={"agreements": {}, "questions": {"v": [[0, "Who?"]]}, "hubness": {}}),
        but(semantics={"agreements": {}, "questions": {}, "hubness": 3}),
        but(semantics={**EMPTY, "hubness": {"v": [0.1]}}),
        but(semantics={"agreements": {}, "questions": {}, "hubness": {}}),
        but(semantics={"agreements": {}, "questions": {}, "hubness": {}, "related": {"v": [[0]]}, "not_compared": {}}),
    ],
)
def test_what_is_no_survey_is_never_taken_for_an_empty_one(data):
    assert Survey.from_json(but()) == Survey()
    with pytest.raises(
        Inconsistent, match=r"survey of \d+ bytes: unreadable .* expected format survey/v7; survey the run again"
    ):
        Survey.from_json(data)


def test_a_large_run_takes_little_memory():
    items = [measured(prose(n, 20), f"{n}") for n in range(2000)]
    build_survey(items[:10], EmptyHistory())
    tracemalloc.start()
    build_survey(iter(items), EmptyHistory())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2000 * 5000  # bytes; 20,000 versions: less than 100 MB
