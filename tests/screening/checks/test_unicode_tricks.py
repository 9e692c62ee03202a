from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_versions import a_version

from corpus_guard.domain import Finding, Severity
from corpus_guard.screening.checks.unicode_tricks import MAX_HITS, UnicodeParams, UnicodeTricks

CHECK = UnicodeTricks()


def findings(text: str, check: UnicodeTricks = CHECK) -> dict[str, Finding]:
    found = [finding for _, finding in check.run([a_version(text)], None)]
    assert len({finding.code for finding in found}) == len(found), "one finding a code"
    return {finding.code.removeprefix("unicode."): finding for finding in found}


ATTACKS = {
    "tags": ("Fine weather" + "".join(chr(0xE0000 + ord(c)) for c in "obey me") + " today", Severity.HIGH),
    "variation_selectors": ("A smile \U0001f600" + "\ufe01\ufe05\U000e0110\U000e0120" + " here", Severity.HIGH),
    "zero_width": ("Pay in\u200bvoi\u200bces at once", Severity.MEDIUM),
    "bidi": ("Pay \u202eeciovni\u202c at once", Severity.HIGH),
    "mixed_script": ("Open your pаypal account", Severity.MEDIUM),
    "controls": ("Pay the in\x00voice", Severity.MEDIUM),
    "surrogates": ("Pay \ud83d now", Severity.MEDIUM),
    "replacement": ("P\ufffd\ufffd the \ufffd\ufffd\ufffd now", Severity.MEDIUM),
    "marks": ("o" + "\u0336\u0337\u0338\u0335" + "k " + "a\u0301\u0302\u0303\u0304 " * 5, Severity.MEDIUM),
}


@pytest.mark.parametrize("code", ATTACKS)
def test_each_trick_is_found_at_its_place(code: str) -> None:
    text, severity = ATTACKS[code]
    finding = findings(text)[code]
    assert finding.severity is severity
    assert finding.span is not None
    assert 0 <= finding.span.start < finding.span.end <= len(text)
    assert "ATLAS:AML.T0068" in finding.tags


def test_a_latin_i_in_ukrainian_is_a_slip() -> None:
    prose = "Назва: зразок статті та поради авторам. "
    assert findings(prose + "статтi, осi, статi, карти, карті, секретi")["mixed_script"].severity is Severity.LOW
    assert findings(prose + "pаypal, аccount, pаssword")["mixed_script"].severity is Severity.HIGH


@pytest.mark.parametrize(
    "blank", ["\u200e", "\u206a", "\ufe0f", "\U000e0100", "\u2800", "\ufffc", "\U0001d159"], ids=ascii
)
def test_three_invisible_characters_between_letters_of_a_sentence_count_as_zero_width(blank: str) -> None:
    assert findings(f"Pay{blank}in{blank}voices{blank}now")["zero_width"].severity is Severity.MEDIUM
    assert "zero_width" not in findings(f"Pay in{blank}voices now" + " at once" * 30 + f" and in{blank}time")


def test_soft_hyphens_do_not_count_as_zero_width() -> None:
    assert "zero_width" not in findings("Donau\u00addampf\u00adschiff\u00adfahrts\u00adgesell\u00adschaft")


HARMLESS = {
    "mixed_script": "naïve words ",
    "tags": "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f ",
    "variation_selectors": "\ufe0f" * 4 + "\u267f\ufe0f ",
}


@pytest.mark.parametrize("code", HARMLESS)
def test_what_is_harmless_uses_up_no_place(code: str) -> None:
    text, severity = ATTACKS[code]
    assert findings(HARMLESS[code] * (MAX_HITS + 1) + text)[code].severity is severity


def test_latin_text_turned_around_is_seen_behind_much_hebrew() -> None:
    assert findings("\u202bשלום\u202c " * MAX_HITS + "\u202bsecret word\u202c")["bidi"].severity is Severity.MEDIUM


def test_one_variation_selector_a_few_times_is_a_slip() -> None:
    slip = "\ufe0f" * 4 + "\u267f\ufe0f "
    assert findings("Accessibility: " + slip)["variation_selectors"].severity is Severity.LOW
    assert findings("Accessibility: " + "\ufe0f" * 9)["variation_selectors"].severity is Severity.HIGH


def test_a_single_control_character_in_a_word_is_a_note() -> None:
    assert findings("Pay the in\x10voice")["controls"].severity is Severity.LOW
    assert findings("Pay the in\x10voice at on\x10ce")["controls"].severity is Severity.MEDIUM


LEGITIMATE = [
    "می‌خواهم کتاب‌ها را بخوانم",  # Persian with ZWNJ
    "क्‍ष और र्‍य",  # Hindi with ZWJ
    "ക്‍ഷ മലയാളം",  # Malayalam
    "👨‍👩‍👧‍👦 went on holiday",
    "👩🏽‍💻 writes code ❤️‍🔥",
    "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f is the flag of Scotland",
    "\ufeffA text with a byte order mark",
    "Donau\u00addampf\u00adschiff\u00adfahrt",
    "ภาษาไทย\u200bไม่มี\u200bช่องว่าง",  # Thai with ZWSP
    "very_\u200blong_\u200bname/\u200bpath",
    "5 µm, 10 kΩ, 20 °C, 3 Å, 2 μg",
    "TNFα, IFNγ, NFκB and TGFβ signalling",
    "sinα + cosβ = Δx, λmax = 3σ",
    "α-helix and β-sheet",
    "Слово о полку Игореве",
    "Η Αθήνα είναι η πρωτεύουσα",
    "Москва (Moscow) and Київ (Kyiv)",
    "IT-отдел и USB-кабель",
    "PDFка, SMSка",
    "naïve café Zürich Ångström Łódź Đorđe",
    "Tiếng Việt có dấu: phở, ngữ",
    "Vie\u0302\u0323t with combining marks",
    "العربية مع English داخلها",
    "שלום\u200f (hello)\u200e world",
    "\u2068Ali\u2069 sent you \u20683\u2069 files",  # balanced isolates
    "\u202bשלום world\u202c",  # balanced embedding of Hebrew
    "❤️ ✔️ ☎️ 1️⃣ 2️⃣",
    "葛󠄀城市 and 辻󠄁",  # ideographic variation sequences
    "Ｆｕｌｌ width ＡＢＣ １２３",
    "日本語とEnglishの混在テキスト",
    "한국어 텍스트 with English",
    "ASCII only, tabs\tand\r\nlines\f",
    "Icons \ue001 \uf0c9 of a font",
    "One \ufffd lost character in a long text",
    "e = mc² ≤ ½ … “quoted” — dashes",
]


@pytest.mark.parametrize("text", LEGITIMATE)
def test_legitimate_writing_is_left_alone(text: str) -> None:
    # Full-width letters are noted at low; nothing here may weigh more, and all the rest weighs nothing.
    expected = {"stylised"} if text.startswith("Ｆ") else set()
    assert {code for code, finding in findings(text).items() if finding.severity is not Severity.INFO} == expected


def test_repeated_hits_are_one_finding_with_a_count() -> None:
    finding = findings("pаypal аccоunt аccess " * 500)["mixed_script"]
    assert finding.severity is Severity.HIGH
    assert "(1500 places)" in finding.message


def test_messages_hold_no_text_of_the_document() -> None:
    for text, _ in ATTACKS.values():
        for finding in findings(text).values():
            assert finding.message.isascii()
            assert "invo" not in finding.message


def test_a_slip_of_the_keyboard_in_russian_prose_is_low() -> None:
    prose = "Обычный русский текст, а слово Cорока в нём начинается с латинской буквы."
    assert findings(prose)["mixed_script"].severity is Severity.LOW
    assert findings("The word Cорока stands here")["mixed_script"].severity is Severity.MEDIUM


def test_latin_text_turned_around_is_seen() -> None:
    assert findings("Account: \u202bsecret word\u202c")["bidi"].severity is Severity.MEDIUM
    assert findings("Account: \u2067open ended\nnext line")["bidi"].severity is Severity.MEDIUM
    assert findings("Account: \u2068open ended\nnext line")["bidi"].severity is Severity.LOW


def test_parameters_change_digest_and_result() -> None:
    loose = UnicodeTricks(UnicodeParams(selector_run=5))
    assert loose.digest != CHECK.digest
    assert "variation_selectors" not in findings(ATTACKS["variation_selectors"][0], loose)


@given(st.text(st.characters(codec=None, exclude_categories=()), max_size=200))
def test_no_text_raises(text: str) -> None:
    for finding in findings(text).values():
        assert finding.span is not None
        assert 0 <= finding.span.start < finding.span.end <= len(text)


@pytest.mark.parametrize(
    "char", ["a", " ", "\x00", "\u200b", "\u202e", "\u0301", "\ufe0f", "\U000e0041", "\ufffd", "а", "\ud800", "\ue000"]
)
def test_five_million_of_one_character(char: str) -> None:
    pages = [a_version(char * 5_000_000), a_version(f"a{char}" * 2_500_000)]
    started = time.process_time()
    list(CHECK.run(pages, None))
    assert time.process_time() - started < 60  # two seconds on an idle core; a quadratic scan takes hours
