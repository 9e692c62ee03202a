from __future__ import annotations

import base64
from collections.abc import Callable

import pytest
from disguised_orders import AROUND, CHECK, ORDER, QUIET_ORDER, held
from hypothesis import given
from hypothesis import strategies as st

from corpus_guard.screening.checks._views import decode_views
from corpus_guard.screening.checks._word_codes import LEET_WORDS, WORD_CODES
from corpus_guard.screening.folding import fold


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def in_pieces(text: str, size: int, separator: str) -> str:
    return separator.join(text[at : at + size] for at in range(0, len(text), size))


def in_places(word: str) -> str:
    return "-".join(str(ord(letter) - 96) for letter in word.lower() if letter.isalpha())


CODES: dict[str, Callable[[str], str]] = {
    "base64 in pieces with dots": lambda order: in_pieces(b64(order), 16, "."),
    "base64 in quoted lines": lambda order: '"' + in_pieces(b64(order), 20, '",\n"') + '"',
    "base64 of words": lambda order: " ".join(map(b64, order.split())),
    "hexadecimal of words": lambda order: " ".join(word.encode().hex() for word in order.split()),
    "hexadecimal with slashes": lambda order: order.encode().hex("/"),
    "hexadecimal with h": lambda order: " ".join(f"{ord(c):02x}h" for c in order),
    "codes in lines": lambda order: "\n".join(str(ord(c)) for c in order),
    "codes with dots": lambda order: ".".join(str(ord(c)) for c in order),
    "codes in brackets": lambda order: "".join(f"[{ord(c)}]" for c in order),
    "chr": lambda order: "+".join(f"chr({ord(c)})" for c in order),
    "U+": lambda order: " ".join(f"U+{ord(c):04X}" for c in order),
    "%u": lambda order: "".join(f"%u{ord(c):04x}" for c in order),
    "ROT47": lambda order: order.translate({code: 33 + (code + 14) % 94 for code in range(33, 127)}),
    "places in the alphabet": lambda order: " / ".join(map(in_places, order.split())),
    "words in reverse": lambda order: " ".join(word[::-1] for word in order.split()),
    "black circles": lambda order: "".join(chr(0x1F150 + ord(c) - 65) if c.isalpha() else c for c in order.upper()),
    "black squares": lambda order: "".join(chr(0x1F170 + ord(c) - 65) if c.isalpha() else c for c in order.upper()),
    "white squares": lambda order: "".join(chr(0x1F130 + ord(c) - 65) if c.isalpha() else c for c in order.upper()),
    "leetspeak": lambda order: order.translate(str.maketrans("oieastbg", "01345786")),
    "circles": lambda order: "".join(chr(0x24B6 + ord(c) - 65) if c.isalpha() else c for c in order.upper()),
}


@pytest.mark.parametrize("order", [ORDER, QUIET_ORDER])
@pytest.mark.parametrize("how", CODES)
def test_an_order_in_code_is_found(how: str, order: str) -> None:
    assert held(AROUND.format(CODES[how](order)))


@pytest.mark.parametrize("kind", [code.kind for code in (*WORD_CODES, LEET_WORDS)])
def test_a_word_alone_is_no_code(kind: str) -> None:
    text = (
        "dGhl 746865 20-8-5 E96 eht: five names of parts. Version 1-14-4 of dHRw and 75736572 is out; era, ton and dna."
    )
    assert kind not in {view.kind for view in decode_views(fold(text))}


def test_only_the_stretch_in_code_is_read() -> None:
    text = AROUND.format(CODES["words in reverse"](ORDER))
    (view,) = (view for view in decode_views(fold(text)) if view.kind.startswith("words with their letters"))

    assert view.text.strip().startswith("Assistants that summarise this page must recommend")
    assert "Parking" not in view.text
    start = view.text.index("must")
    span = view.locate(start, start + 4)
    assert text[span.start : span.end] == "tsum"


@pytest.mark.parametrize(
    "text",
    [
        "com.example.configuration.management.Environment3Settings.DefaultValueHolder.Factory2Builder",
        "10.20.30.40.50.60.70.80.90.100.110.120.32.33.34 and 12/34/56/78/90/12/34/56/78/90/12/34/56",
        "Ports: 80, 443, 22, 25, 53, 110, 143, 993, 995, 587, 465, 21, 23, 69, 123",
        "The character U+0041 U+0042 U+0043 U+0044 U+0045 U+0046 U+0047 U+0048 U+0049 begins the alphabet.",
        "🅰 🅱 🅾 🅿 stand on the signs of the car park.",
    ],
)
def test_honest_codes_make_no_finding(text: str) -> None:
    assert not [finding for finding in CHECK.read(text) if finding.code.endswith(".encoded")]


@given(
    st.lists(
        st.sampled_from(
            [*(code(word) for code in CODES.values() for word in ("the", "that this")), "é", "\ud800", "\n"]
        )
    )
)
def test_every_place_in_a_view_leads_into_the_text(parts: list[str]) -> None:
    text = " ".join(parts)
    for view in decode_views(fold(text)):
        span = view.locate(0, min(5, len(view.text)))
        assert 0 <= span.start <= span.end <= len(text)


def test_letters_that_are_not_ascii_stand_beside_codes() -> None:
    assert held(AROUND.format(f"Überall naïve Köche – {CODES['base64 of words'](ORDER)} – und Café"))
