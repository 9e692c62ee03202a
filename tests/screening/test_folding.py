from __future__ import annotations

import base64
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from corpus_guard.errors import SettingsError
from corpus_guard.screening import folding
from corpus_guard.screening.checks import _decoders
from corpus_guard.screening.checks._views import decode_views
from corpus_guard.screening.folding import _TABLE, fold, fold_literals

# Any code point, lone surrogates too, with what attackers use made frequent.
HOSTILE = st.text(
    st.one_of(
        st.characters(codec=None, exclude_categories=()),
        st.sampled_from("iIlL10 \n\t\x00\x1c\u200b\u200d\u00ad\u202e\ufeff\ufe0fаеοﬁİıß…½\ud800\U000e0041\U0001d400"),
    ),
    max_size=80,
)


@given(HOSTILE)
@example("\ud800")
@example("   ")
@example("\u200b\u200b")
@example("ﬁ\u00a8´")
def test_folding_never_raises_and_is_plain(text: str) -> None:
    folded = fold(text)
    assert folded.text == folded.text.lower()
    assert folded.text == " ".join(folded.text.split())
    assert folded.data.decode() == folded.text


@given(HOSTILE, st.integers(-5, 200), st.integers(-5, 200))
def test_every_place_leads_into_the_original(text: str, start: int, length: int) -> None:
    span = fold(text).origin(start, start + length)
    assert 0 <= span.start <= span.end <= len(text)


@given(HOSTILE, HOSTILE)
def test_the_way_back_is_exact(before: str, after: str) -> None:
    text = f"{before} needle {after}"
    folded = fold(text)
    start = folded.text.rfind("needle")
    span = folded.origin(start, start + 6)
    assert "needle" in fold(text[span.start : span.end]).text
    assert folded.origin_bytes(len(folded.text[:start].encode()), len(folded.text[: start + 6].encode())) == span


@given(st.text("aZ \n\t\r\x0b\x1c", max_size=20))
def test_places_in_plain_text_are_those_beside_text_that_is_not(text: str) -> None:
    plain, beside = fold(text), fold(f"{text}é")
    for start in range(len(plain.text)):
        assert plain.origin(start, start + 1) == beside.origin(start, start + 1)


@given(HOSTILE)
def test_views_never_raise_and_locate_inside(text: str) -> None:
    for view in decode_views(fold(text)):
        span = view.locate(0, min(3, len(view.text)))
        assert 0 <= span.start <= span.end <= len(text)


def test_places_may_be_asked_for_in_any_order() -> None:
    text = "\u200b" + "a  é\n b " * 20
    forward = [fold(text).origin(i, i + 1) for i in range(60)]
    folded = fold(text)
    assert [folded.origin(i, i + 1) for i in reversed(range(60))] == forward[::-1]


@pytest.mark.parametrize(
    ("disguised", "plain"),
    [
        ("IGNORE", "ignore"),
        ("ignоrе", "ignore"),  # Cyrillic o, e
        ("ignοre", "ignore"),  # Greek omicron
        ("ІGΝОRЕ", "ignore"),  # capitals of three scripts
        ("ｉｇｎｏｒｅ", "ignore"),
        ("𝐢𝒈𝓷𝔬𝕣𝖾", "ignore"),
        ("ɪɢɴᴏʀᴇ", "ignore"),
        ("ⓘⓖⓝⓞⓡⓔ", "ignore"),
        ("i\u0336g\u0336n\u0336o\u0336r\u0336e\u0336", "ignore"),
        ("ig\u200bno\u2060re", "ignore"),
        ("ig\u00adnore", "ignore"),
        ("ig\x00nore", "ignore"),
        ("ig\U000e0041nore\ufe0f", "ignore"),
        ("précédentes", "precedentes"),
        ("don’t – “stop”", 'don\'t - "stop"'),
        ("a\u00a0\u3000\n\tb", "a b"),
        ("ig\ufffdnore", "ignore"),  # a letter that a decoder lost, or a sign without a letter
    ],
)
def test_disguises_fold_to_the_plain_word(disguised: str, plain: str) -> None:
    assert fold(disguised).text == plain


def test_a_fold_is_lower_case_for_every_code_point() -> None:
    assert [hex(code) for code in range(0x20000) if _TABLE[code] != _TABLE[code].lower()] == []


def test_both_cases_of_a_cyrillic_letter_fold_alike() -> None:
    letters = map(chr, range(0x0410, 0x0430))
    assert [c for c in letters if fold(c).text != fold(c.lower()).text] == []


def test_patterns_fold_as_texts_do() -> None:
    pattern = fold_literals(r"\bпредыдущие\b|précédentes|指示")
    assert fold("ПРЕДЫДУЩИЕ").text in pattern
    assert pattern.startswith(r"\b")
    assert "precedentes" in pattern


def test_plain_prose_has_no_views() -> None:
    assert list(decode_views(fold("The quarterly report was sent to the board, and nothing in it is encoded."))) == []


def test_a_view_says_where_it_stands() -> None:
    run = base64.b64encode(b"nothing to see here, move along").decode()
    (view,) = decode_views(fold(f"before {run} after"))
    assert (view.kind, view.text) == ("base64", "nothing to see here, move along")
    span = view.locate(0, 5)
    assert f"before {run} after"[span.start : span.end].rstrip() == run


@pytest.mark.parametrize("text", ["a" * 64, "0123456789" * 10, "https://example.org/a/long/path/to/some/document"])
def test_what_decodes_to_noise_is_no_view(text: str) -> None:
    assert list(decode_views(fold(text))) == []


@pytest.mark.parametrize(
    ("encode", "decode", "library"),
    [
        (base64.b85encode, _decoders.b85decode, base64.b85decode),
        (base64.a85encode, _decoders.a85decode, base64.a85decode),
    ],
)
@given(data=st.binary(max_size=20) | st.just(bytes(8)), letters=st.text("".join(map(chr, range(33, 127))), max_size=12))
@example(data=b"", letters="s8W-!")  # 2 ** 32 - 1 in Ascii85
@example(data=b"", letters='s8W-"')
@example(data=b"", letters="|NsC1")  # 2 ** 32 in that of git
@example(data=b"", letters="!!z!!")
def test_base85_is_decoded_as_the_library_does(
    encode: Callable[[bytes], bytes],
    decode: Callable[[bytes], bytes],
    library: Callable[[bytes], bytes],
    data: bytes,
    letters: str,
) -> None:
    assert decode(encode(data)) == data
    try:
        expected = library(letters.encode())
    except ValueError:
        with pytest.raises(ValueError, match=r"z within a group|no letter of base 85|not a number of 32 bits"):
            decode(letters.encode())
    else:
        assert decode(letters.encode()) == expected


def test_an_altered_table_of_letters_stops_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    from confusable_homoglyphs import confusables

    altered = {shape: others for shape, others in confusables.confusables_data.items() if shape != "a"}
    monkeypatch.setattr(confusables, "confusables_data", altered)
    folding._lookalikes.cache_clear()
    try:
        with pytest.raises(SettingsError, match=r"expected b683fdd825f9eeb6…; it was altered or is another release"):
            folding.latin_lookalike("а")
    finally:
        monkeypatch.undo()
        folding._lookalikes.cache_clear()
