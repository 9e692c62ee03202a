"""Values as languages other than English write them."""

from __future__ import annotations

import time

import pytest

from corpus_guard.claims.languages import load_languages
from corpus_guard.claims.local_values import read_local_values
from corpus_guard.claims.plain_text import make_plain
from corpus_guard.claims.value import Kind

LENGTH = 20_000


@pytest.mark.parametrize(
    ("code", "text", "values"),
    [
        ("de", "Die Frist beträgt mindestens 14 Tage.", ["duration at least 1209600 s"]),
        (
            "de",
            "Am 3. März 2026 um 14 Uhr kostet es 1.250,50 Euro.",
            ["date 2026-03-03", "time 14:00", "money 1250.5 EUR"],
        ),
        ("de", "Das Sieb wird alle drei Monate gereinigt.", ["frequency every 3 month"]),
        ("de", "Die Luvana 7 wiegt 65 kg.", ["count 7 wieg", "quantity 65 kg"]),
        ("fr", "La boutique ouvre à 9h30, l'entrée coûte 12 €.", ["time 09:30", "money 12 EUR"]),
        ("fr", "Le lait n'est pas pasteurisé.", ["negation not"]),
        ("fr", "Pas plus de 5 jours.", ["duration 432000 s"]),
        ("es", "Unos 50.000 usuarios pagan 8 euros al mes.", ["count 50000 usua", "money 8 EUR"]),
        ("es", "El plazo es de treinta días.", ["duration 2592000 s"]),
        ("it", "La pressione è di 1,5 bar e il 20 per cento basta.", ["quantity 150000 Pa", "percentage 20 %"]),
        ("nl", "De boete bedraagt 0,25 euro.", ["money 0.25 EUR"]),
        ("pt", "O metro circula a cada 6 minutos.", ["frequency every 360 s"]),
        ("pl", "Kolejka kursuje co 20 minut.", ["frequency every 1200 s"]),
        ("pl", "Leczenie nie powinno trwać dłużej niż 7 dni.", ["duration 604800 s"]),
        ("cs", "Vstupné činí 1 000 Kč.", ["money 1000 CZK"]),
        ("tr", "Limit yüzde 20'dir, süre 30 gündür.", ["percentage 20 %", "duration 2592000 s"]),
        ("ru", "Срок не более 3 месяцев с 5 марта 2024 года.", ["duration 3 month", "date 2024-03-05"]),
        ("ru", "Ставка 7,5% на 50 тыс. рублей.", ["percentage 7.5 %", "money 50000 RUB"]),
        ("uk", "Ціна становить 42 000 гривень.", ["money 42000 UAH"]),
        ("el", "Το μενού κοστίζει 24 ευρώ.", ["money 24 EUR"]),
        ("ar", "مدة الضمان سنتان والسعر ٣٥٠ ريالًا.", ["duration 24 month", "money 350 SAR"]),
        ("hi", "कीमत 1,50,000 रुपये है।", ["money 150000 INR"]),
        ("zh", "2026年3月5日起,会费为1.2万元。", ["date 2026-03-05", "money 12000 CNY"]),
        ("zh", "每三个月检查一次,不得超过5%。", ["frequency every 3 month", "percentage at most 5 %"]),
        ("zh", "请联系me@example.org或拨打400-820-5566。", ["email me@example.org", "phone tel:4008205566"]),
        ("ja", "毎週火曜日は午後5時30分に閉まります。", ["weekdays tuesdays", "time 17:30"]),
        ("ja", "温度は28℃、容量は500mlです。", ["quantity 28 °C", "quantity 0.0005 m³"]),
        ("ko", "월 이용료는 9,900원이며 90일마다 바뀝니다.", ["money 9900 KRW", "frequency every 7776000 s"]),
        ("ko", "사진을 찍을 수 없습니다.", ["negation not"]),
    ],
)
def test_values_are_read_as_english_ones_are(code: str, text: str, values: list[str]) -> None:
    read = read_local_values(make_plain(text).text, load_languages()[code])

    shown = [
        f"{value.kind.value} {value.normal}"
        for value in read
        if value.kind not in {Kind.NAME} or value.normal[-1].isdigit()
    ]
    assert [value for value in shown if not value.startswith("frequency every 604800")] == values


@pytest.mark.parametrize("code", load_languages())
@pytest.mark.parametrize("piece", ["7", "7 ", "1,", "零", "не ", "8-", "nicht mehr ", "un ", "毎", "%", "A1 "])
def test_time_grows_with_the_length_only(code: str, piece: str) -> None:
    language = load_languages()[code]
    read_local_values("7 kg", language)
    text = (piece * LENGTH)[:1_000]  # the longest sentence
    started = time.process_time()

    values = read_local_values(text, language)

    assert time.process_time() - started < 1
    assert all(0 <= value.span.start < value.span.end <= len(text) for value in values)
