import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_versions import a_version

from corpus_guard.screening.survey import signals
from corpus_guard.screening.survey.signals import (
    SIGNALS,
    SIGNALS_SCHEMA,
    measure_signals,
    measure_values,
    scale_value,
    signals_from_table,
    signals_to_table,
)

PINNED = [618562394, 151895614, 189398330]
HOSTILE = ["", " ", "\ud800\udfff", "\x00" * 50, "a" * 5_000_000, "中" * 100_000, "\u202e\u200b\U000e0041", "́" * 1000]
any_text = st.text(st.characters(exclude_categories=[]), max_size=300)


def sketch(text: str) -> np.ndarray:
    return np.frombuffer(measure_signals(a_version(text)).minhash, dtype="<u4")


def resemblance(one: str, other: str) -> float:
    return float((sketch(one) == sketch(other)).mean())


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: f"{text[:1]!a}x{len(text)}")
def test_hostile_text_gives_every_signal_as_a_finite_number(text):
    measured = measure_signals(a_version(text, hidden=text[:10]))
    assert set(measured.values) == set(SIGNALS)
    assert all(math.isfinite(value) and value >= 0 for value in measured.values.values())
    assert len(measured.minhash) == 256


@given(any_text, any_text)
def test_numbers_are_always_finite_and_shares_are_shares(text, hidden):
    values = measure_values(a_version(text, hidden=hidden))
    assert all(math.isfinite(value) for value in values.values())
    shares = [
        "hidden",
        "letters",
        "digits",
        "punctuation",
        "markup",
        "white_space",
        "upper_case",
        "non_ascii",
        "control",
    ]
    assert all(0 <= values[name] <= 1 for name in shares)
    parts = ["letters", "digits", "punctuation", "markup", "white_space", "control"]
    assert (
        sum(values[name] for name in parts) <= 1 + 1e-9
    )  # every character is counted once (format characters not at all)


def test_each_signal_measures_what_its_name_says():
    values = measure_values(a_version("Ab 12 <#>\n" + "x" * 30 + " \ufffd\x07 é, é", hidden="h" * 15, tokens=20))
    assert values["chars"] == 48 and values["hidden_chars"] == 15 and values["tokens"] == 20
    assert values["hidden"] == pytest.approx(15 / 63)
    assert values["letters"] == pytest.approx(34 / 48) and values["upper_case"] == pytest.approx(1 / 34)
    assert values["digits"] == pytest.approx(2 / 48) and values["markup"] == pytest.approx(3 / 48)
    assert values["punctuation"] == pytest.approx(1 / 48) and values["control"] == pytest.approx(2 / 48)
    assert values["white_space"] == pytest.approx(6 / 48) and values["non_ascii"] == pytest.approx(3 / 48)
    assert values["words"] == 5 and values["fragmentation"] == 4.0
    assert values["word_length"] == pytest.approx(36 / 5) and values["variety"] == pytest.approx(
        math.log(4) / math.log(5)
    )
    assert values["longest_line"] == 38 and values["longest_run"] == 30


@pytest.mark.parametrize(
    ("text", "run"),
    [("", 0), ("abc", 3), ("ab cde", 3), ("水は百度で沸騰する", 1), ("水" * 400, 400), ("ab\u3000cd", 2), (" \n\t", 0)],
)
def test_a_run_ends_at_white_space_and_at_a_new_letter_of_a_script_without_spaces(text, run):
    assert measure_values(a_version(text))["longest_run"] == run


def test_lengths_are_compared_on_a_logarithmic_scale_and_shares_as_they_are():
    assert scale_value("chars", math.e - 1) == pytest.approx(1.0) and scale_value("letters", 0.4) == 0.4


WORDS = [f"word{n}" for n in range(400)]


def test_the_same_words_in_other_case_and_layout_have_the_same_minhash():
    text = " ".join(WORDS[:60])
    assert resemblance(text, text.upper().replace(" ", ",\n ")) == 1.0


def test_word_order_matters():
    assert resemblance(" ".join(WORDS[:60]), " ".join(reversed(WORDS[:60]))) < 0.2


@settings(max_examples=30)
@given(st.integers(0, 300), st.integers(0, 2**32))
def test_the_estimate_is_near_the_true_jaccard(shared, seed):
    # Two texts of 302 words with a common beginning; five standard errors of 64 permutations.
    one = [f"a{seed}x{n}" for n in range(302)]
    other = one[: shared + 2] + [f"b{seed}x{n}" for n in range(300 - shared)]
    true = shared / (600 - shared)
    error = 5 * math.sqrt(max(true * (1 - true), 1 / 64) / 64)
    assert resemblance(" ".join(one), " ".join(other)) == pytest.approx(true, abs=error)


def test_long_texts_that_are_sampled_keep_their_resemblance():
    words = [f"w{n}" for n in range(20_000)]
    assert len(words) > signals.MAX_SHINGLES
    near = [word if n % 400 else "other" for n, word in enumerate(words)]
    assert resemblance(" ".join(words), " ".join(near)) > 0.9
    assert resemblance(" ".join(words), " ".join(f"x{n}" for n in range(20_000))) < 0.1
    assert resemblance(" ".join(words), " ".join([*words[:5000], *(f"x{n}" for n in range(15_000))])) < 0.4


def test_a_text_of_few_words_has_the_empty_minhash():
    assert (sketch(" ".join(WORDS[: signals.MIN_WORDS - 1])) == 0xFFFFFFFF).all()
    assert not (sketch(" ".join(WORDS[: signals.MIN_WORDS])) == 0xFFFFFFFF).any()


def test_the_minhash_is_the_same_in_every_process_and_release():
    # Band keys of old versions lie in the ledger: a change here makes them worthless and needs a migration.
    assert sketch("one two three four five six seven eight nine ten eleven twelve")[:3].tolist() == PINNED


def test_signals_survive_parquet_types():
    measured = [measure_signals(a_version(uri=f"{n}.md")) for n in range(3)]
    table = signals_to_table(measured)
    assert table.schema == SIGNALS_SCHEMA
    assert signals_from_table(table) == measured
    assert signals_from_table(signals_to_table([])) == []


def test_a_table_of_another_kind_is_refused():
    with pytest.raises((pa.ArrowInvalid, KeyError, ValueError)):
        signals_from_table(pa.table({"version_id": ["x"]}))


def test_no_text_is_kept():
    assert "pump" not in repr(measure_signals(a_version()))
