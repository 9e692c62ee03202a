"""Languages other than English: which one a text is in, and whether two words are forms of one."""

from __future__ import annotations

import pytest

from corpus_guard.claims.languages import find_language, fold, is_same_word, load_languages, split_local_words


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("de", "Die Garantie gilt zwei Jahre ab dem Kauf."),
        ("fr", "La garantie est de deux ans à partir de l'achat."),
        ("es", "La garantía es de dos años desde la compra."),
        ("it", "La garanzia dura due anni dall'acquisto e non è estesa."),
        ("nl", "De garantie geldt twee jaar vanaf de aankoop."),
        ("pt", "A garantia é de dois anos e não cobre as peças."),
        ("pl", "Gwarancja trwa dwa lata od zakupu i nie obejmuje części."),
        ("cs", "Záruka trvá dva roky od nákupu."),
        ("tr", "Garanti süresi satın alma tarihinden itibaren iki yıldır."),
        ("ru", "Гарантия действует два года."),
        ("uk", "Гарантія діє два роки."),
        ("el", "Η εγγύηση ισχύει για δύο χρόνια."),
        ("ar", "مدة الضمان سنتان."),
        ("hi", "वारंटी दो साल की है।"),
        ("zh", "保修期为两年。"),
        ("ja", "保証期間は2年間です。"),
        ("ko", "보증 기간은 2년입니다."),
        ("", "The guarantee lasts two years from the date of purchase."),
        ("", "A clot forms in one leg."),
        ("", "Snowmass Village, CO. Pitkin County, Colorado."),
        ("", "for i in range(100): print(i)"),
        ("", "The word Москва is Russian, and the others of this sentence are not."),
        ("", "گارانتی دو سال است"),
        ("", ""),
    ],
)
def test_a_language_is_known_by_its_letters_or_small_words(code: str, text: str) -> None:
    language = find_language(text)

    assert (language.code if language else "") == code


def test_a_short_sentence_is_in_the_language_around_it() -> None:
    dutch = load_languages()["nl"]

    assert find_language("Het slot is verplicht.", dutch) is dutch
    assert find_language("The lock of the bicycle is compulsory.", dutch) is None


@pytest.mark.parametrize(
    ("word", "other", "is_same"),
    [
        ("сотрудники", "сотрудников", True),
        ("Tag", "Tagen", True),
        ("adótto", "adotto", True),
        ("الضمان", "ضمان", True),
        ("이용료는", "이용료", True),
        ("stadsfiets", "bakfiets", False),
        ("Jahreskarte", "Jahresbericht", False),
        ("大人", "大学", False),
        ("X200", "X300", False),
    ],
)
def test_forms_of_one_word_are_the_same(word: str, other: str, is_same: bool) -> None:
    assert is_same_word(fold(word), fold(other)) is is_same


@pytest.mark.parametrize(
    ("code", "text", "words"),
    [
        ("de", "Die Garantie gilt nicht für die Batterie.", ["garantie", "gilt", "batterie"]),
        ("hi", "हीटर की वारंटी है।", ["हीटर", "वारंटी"]),
        ("zh", "礼品卡不能退换。", ["礼品", "品卡", "退换"]),
        ("ja", "みどり植物園のパスポート", ["みどり", "植物", "物園", "パスポート"]),
        ("ko", "링크는 사용할 수 없습니다.", ["링크는", "사용할"]),
        ("tr", "Çınar Bank'ın komisyonu alınmaz.", ["cinar", "bank", "komisyonu", "alin"]),
    ],
)
def test_words_that_say_something_are_told_from_small_ones(code: str, text: str, words: list[str]) -> None:
    assert [word for _, word in split_local_words(text, load_languages()[code])] == words
