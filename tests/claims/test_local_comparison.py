"""Sentences in languages other than English that contradict each other, and those that do not."""

from __future__ import annotations

import pytest

from corpus_guard.claims.outcome import Outcome
from corpus_guard.claims.passages import StatedPassage, compare_passages
from corpus_guard.claims.value import Kind

ZH = "青岚书店规定\n\n顾客可在收货后30天内申请退货。礼品卡不能退换。客服热线为400-820-5566。"
DE = "Waschmaschine Luvana 7\n\nDie Garantie beträgt 2 Jahre. Das Gerät darf nicht im Freien stehen. Ein Filter kostet 14,90 Euro."
RU = "Паром «Северная звезда»\n\nРегистрация заканчивается за 40 минут до отправления. Перевозка баллонов запрещена."
AR = "لائحة شركة الندى\n\nمدة فترة التجربة 6 أشهر. لا يجوز ترحيل الإجازة إلى السنة التالية."
KO = "한빛 클라우드 안내\n\n파일의 최대 크기는 200MB입니다. 링크는 사용할 수 없습니다."
ES = "Almena Correo\n\nLa sesión caduca después de 20 minutos. El plan cuesta 8 euros al mes."
TITLES = {page: page.partition("\n")[0] for page in (ZH, DE, RU, AR, KO, ES)}


def kinds(post: str, page: str, title: str = "") -> list[Kind | None]:
    """Return the kinds of the contradictions of a post with a page."""
    compared = compare_passages(StatedPassage(post, None, title), StatedPassage(page, None, TITLES[page]))
    return [each.kind for each in compared if each.outcome is Outcome.CONFLICT]


@pytest.mark.parametrize(
    ("post", "page", "kind"),
    [
        ("青岚书店的顾客可在收货后90天内申请退货,手续很简单。", ZH, Kind.DURATION),
        ("在青岚书店,礼品卡可以退换,只要带上小票就行。", ZH, Kind.NEGATION),
        ("青岚书店的客服热线是400-820-6655。", ZH, Kind.PHONE),
        ("Die Garantie auf die Luvana 7 beträgt 5 Jahre.", DE, Kind.DURATION),
        ("Die Luvana 7 darf im Freien stehen.", DE, Kind.NEGATION),
        ("Ein Filter für die Luvana 7 kostet 14,90 Franken.", DE, Kind.MONEY),
        ("Регистрация на паром «Северная звезда» заканчивается за 10 минут до отправления.", RU, Kind.DURATION),
        ("На пароме «Северная звезда» перевозка баллонов разрешена.", RU, Kind.NEGATION),
        ("مدة فترة التجربة في شركة الندى 12 شهرًا.", AR, Kind.DURATION),
        ("يجوز ترحيل الإجازة إلى السنة التالية في شركة الندى.", AR, Kind.NEGATION),
        ("한빛 클라우드에서 파일의 최대 크기는 800MB입니다.", KO, Kind.QUANTITY),
        ("한빛 클라우드의 링크는 사용할 수 있습니다.", KO, Kind.NEGATION),
        ("En Almena Correo la sesión caduca después de 60 minutos.", ES, Kind.DURATION),
    ],
)
def test_another_value_or_a_denial_is_a_contradiction(post: str, page: str, kind: Kind) -> None:
    assert kinds(post, page) == [kind]
    assert kinds(f"{TITLES[page]}\n\n{post}", page) == [kind]


@pytest.mark.parametrize(
    ("post", "page"),
    [
        ("在青岚书店买的书,收货后三十天之内都可以退货。", ZH),
        ("松涛书店规定,顾客可在收货后7天内申请退货,礼品卡可以退换。", ZH),
        ("顾客可以在收货后7天内申请退货吗？", ZH),
        ("Die Garantie auf die Luvana 7 beträgt 24 Monate.", DE),
        ("Die Garantie auf die Luvana 9 beträgt 5 Jahre.", DE),
        ("Bei der Nordglas GmbH beträgt die Garantie 3 Jahre.", DE),
        ("Im Jahr 2019 betrug die Garantie auf die Luvana 7 noch 1 Jahr.", DE),
        ("Der Filter der Luvana 7 hält 2 Monate.", DE),
        ("На пароме «Южный ветер» регистрация заканчивается за 15 минут до отправления.", RU),
        ("Регистрация на «Северную звезду» заканчивается за 40 мин до отправления.", RU),
        ("في شركة المرجان مدة فترة التجربة 3 أشهر.", AR),
        ("누리 드라이브에서 파일의 최대 크기는 50MB입니다.", KO),
        ("El plan de Almena Correo cuesta 96 euros al año.", ES),
        ("The session of Almena Correo ends after 60 minutes.", ES),
    ],
)
def test_what_agrees_or_tells_of_another_thing_is_none(post: str, page: str) -> None:
    assert kinds(post, page) == []


@pytest.mark.parametrize("name", ["松涛书店规定", "青岚书店2019年规定"])
def test_the_page_of_another_shop_or_year_contradicts_nothing(name: str) -> None:
    other = ZH.partition("\n")[2].replace("30", "7").replace("5566", "1234")

    assert kinds(f"{name}{other}" if name.startswith("松") else other, ZH, name) == []


def test_what_a_file_is_called_is_no_subject() -> None:
    assert kinds("Die Garantie auf die Luvana 7 beträgt 5 Jahre.", DE, "\nbeitrag 17\ninbox") == [Kind.DURATION]


def test_two_titles_with_one_model_are_about_one_thing() -> None:
    post = "Die Garantie auf das Gerät beträgt 5 Jahre."

    assert kinds(post, DE, "Wartung der Luvana 7\nbeitrag") == [Kind.DURATION]
    assert kinds(post, DE, "Wartung der Luvana 9\nbeitrag") == []
