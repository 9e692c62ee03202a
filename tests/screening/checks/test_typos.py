"""A swarm of misspelt words is found with its place; hurried, technical and foreign writing is let be."""

from __future__ import annotations

import random
import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_versions import a_version

from corpus_guard.domain import Finding, Severity
from corpus_guard.models import Models
from corpus_guard.screening.checks.typos import Spelling, Typos, TyposParams

PROSE = (
    "The harbour office opens at seven in the morning, and whoever arrives first reads the tide gauge and writes the value "
    "into the book. When the reading differs from the forecast by more than twenty centimetres, the officer on duty is told "
    "before any boat leaves. Most days nothing of the sort happens, and the kettle is put on instead. The pumps behind the "
    "office were replaced last winter, because the older ones could not lift enough water after a heavy storm."
)
SWARM = (
    "thr harbour offise opens ay sevn in hte mornign, adn whoevr arrives frist raeds the tide guage nad writtes tje valeu "
    "into the boook. Whne the reeding difers form the forcast bye more thna twnety centimetres, teh oficer on dutty iz told "
    "befor any baot leavs."
)

LEGITIMATE = {
    "prose": PROSE,
    "a hurried mail": "hi all, quick note: the meetng is moved to thursday, same room. pls bring yuor laptops and the numbers "
    "form last week, john will dial in from the airport so we shoudl start on time. any questions just give me a call",
    "not the writer's language": "I am working in this company since three years and I have learn very much about good "
    "product. When the custumer is not happy we must explain him why it happen. My collegue is helping me always and I am "
    "thankfull. Next week we will have a meting to discuss the new projet.",
    "chat": "lol idk tbh, gonna hit u up later cuz im kinda busy rn. my bro was like nah fam thats not how u do it, n i was "
    "like wut, u srsly wanna do that tmrw?? prolly not, ima just chill n watch smth. ttyl, dont forget ur stuff plz, luv ya",
    "Scots": "The wee bairn wouldnae gang doon tae the kirk the morn, for he was feart o the muckle dug that bides ahint the "
    "dyke. His mither said he was aye greetin and girnin, but she gied him a jeely piece and telt him tae haud his wheesht.",
    "scanned": "The liarbour master was seen upon tlie quay eaily in the morning, and wben the first vessel came in he called "
    "out to the crew that they were to lie at the eastern berth. No answer was given, aud the tide being then at its lieight, "
    "the boat was carried past the end of the pier and lost her rudder upon the stones.",
    "mojibake": "The cafÃ© on the quay opens at seven; its owner, JosÃ© MuÃ±oz, says that â€œnobodyâ€™s going to wait until "
    "eightâ€. The menu listed crÃ¨me brÃ»lÃ©e, piÃ±a colada and jalapeÃ±os for â‚¬12, which visitors thought rather dear.",
    "a recipe": "Whisk the eggs with buttermilk, fold in the sifted flour, chopped walnuts, sultanas and grated nutmeg, then "
    "spoon the batter into greased ramekins. Simmer lentils, leeks, parsnips, turnips and shallots until tender, drain, season "
    "with cumin, paprika, oregano, thyme and marjoram, and sprinkle with toasted sesame, parsley, capers and diced gherkins.",
    "names": "Muhammadu Adamu and Oluwaseun Adeyemi travelled with Nguyen Thi Huong from Thiruvananthapuram to "
    "Tiruchirappalli, where the mridangam, veena, nadaswaram and ghatam were played during the kutcheri, the varnam followed by "
    "the thillana. In the evening they ate idli, dosai, sambar, rasam, payasam and vadai at a chatram near the gopuram.",
    "botany": "Leaves alternate, petiolate, the blade ovate to lanceolate, glabrous above, pubescent beneath, margin crenate; "
    "stipules caducous. Inflorescence axillary, racemose, bracts linear; sepals connate, petals spatulate, stamens exserted, "
    "anthers dorsifixed; ovary superior, ovules anatropous. Fruit a dehiscent capsule with arillate seeds.",
    "code": "def calibrate(sensor, reference, tol=0.02):\n    vals = [sensor.read() for _ in range(10)]\n    avg = sum(vals) / "
    "len(vals)\n    if abs(avg - reference) > tol:\n        raise ValueError(f'{avg:.3f}')\n    return reference / avg\n\n"
    "const cfg = parseArgs(argv); let idx = cfg.idx ?? 0; struct foo { int fd; char *buf; size_t len; };",
    "a table": "| model | depth | iface | supply | wght |\n|---|---|---|---|---|\n| ox | 100 | rs485 | dc | 0.42 |\n"
    "| cn | 50 | sdi | dc | 0.31 |\n| ts | 300 | modbus | ac | 0.58 |\n| ph | 30 | mA | dc | 0.29 |",
    "French, with words that English has too": "La bonne fraude fiscale que le lascar identifie, la corruption passive ou active "
    "et le recel que une bonne chose.",
    "links": "bitte login (https://login.example/oauth/authorize?scope=read&state=steady&respons=code) hallo, ohne steady read the "
    "code, mixed with the state of things",
    "German": "das hafenamt öffnet um sieben uhr morgens, und wer zuerst kommt, liest den pegel ab und trägt den wert in das "
    "logbuch ein. weicht die ablesung um mehr als zwanzig zentimeter von der vorhersage ab, wird der wachhabende verständigt. "
    "an den meisten tagen geschieht nichts dergleichen, und man setzt wieder kaffee auf, weil niemand etwas anderes will.",
    "French": "la capitainerie ouvre ses portes toutes les semaines, et la personne qui arrive la premiere note le niveau dans "
    "le registre. si la mesure differe de la prevision, il faut prevenir le responsable avant que les bateaux ne partent. "
    "la plupart du temps rien de tel ne se passe, et on remet la bouilloire sur le feu comme dans toutes les maisons.",
    "Turkish": "liman ofisi sabah yedide açılır ve ilk gelen kişi su seviyesini okuyup deftere yazar. ölçüm tahminden yirmi "
    "santimetreden fazla saparsa tekneler çıkmadan önce nöbetçi memura haber verilir. çoğu gün böyle bir şey olmaz.",
    "Polish": "biuro portu otwiera sie o siodmej rano, a kto przyjdzie pierwszy, odczytuje poziom wody i zapisuje go w ksiazce. "
    "jesli pomiar rozni sie od prognozy, dyzurny musi o tym wiedziec przed wyjsciem lodzi w morze. zwykle nic sie nie dzieje.",
    "Indonesian": "kantor pelabuhan buka pukul tujuh pagi, dan siapa yang datang pertama membaca tinggi air lalu menulis "
    "nilainya di buku. kalau hasilnya berbeda lebih dari dua puluh sentimeter dari ramalan, petugas diberi tahu sebelum kapal "
    "berangkat. biasanya tidak ada apa apa, dan orang menjerang air lagi untuk membuat kopi.",
    "Dutch": "het havenkantoor gaat om zeven uur open, en wie het eerst komt leest de stand van het water af en schrijft die in "
    "het boek. als de meting meer dan twintig centimeter afwijkt van de verwachting, wordt de dienstdoende gewaarschuwd "
    "voordat er een boot vertrekt. de meeste dagen gebeurt er niets, en dan zet men weer koffie.",
    "Italian": "il porto apre alle sette del mattino, e chi arriva per primo legge il livello della marea e scrive il valore "
    "nel registro. se la misura differisce dalla previsione, il responsabile viene avvisato prima che le barche partano. quasi "
    "sempre non succede niente, e si mette su di nuovo la moka come in tutte le case.",
}


@pytest.fixture(scope="module")
def check() -> Typos:
    return Typos(TyposParams(), Models.frequency_vocabulary.func(None))  # type: ignore[arg-type]


def found(check: Typos, text: str) -> list[Finding]:
    return [finding for _, finding in check.run([a_version(text)], None)]


def perturbed(text: str, share: float, seed: int) -> str:
    """Every word of three letters or more, with chance `share`, with one letter lost, added, replaced or exchanged."""
    chance = random.Random(seed)

    def perturb(match: re.Match[str]) -> str:
        word, at = match[0], chance.randrange(len(match[0]))
        if chance.random() >= share:
            return word
        letter = chance.choice(string.ascii_lowercase)
        swapped = word[:at] + word[at + 1 : at + 2] + word[at] + word[at + 2 :]
        return chance.choice(
            [word[:at] + word[at + 1 :], word[:at] + letter + word[at:], word[:at] + letter + word[at + 1 :], swapped]
        )

    return re.sub(r"[a-z]{3,}", perturb, text)


def test_a_swarm_is_found_with_its_place(check: Typos) -> None:
    text = f"{PROSE}\n\n{SWARM}\n\n{PROSE}"

    (finding,) = found(check, text)

    assert finding.code == "typos.swarm"
    assert finding.severity is Severity.MEDIUM
    assert 0.5 <= finding.score <= 0.95
    assert finding.span is not None
    place = text[finding.span.start : finding.span.end]
    assert place in SWARM
    assert len(place) > len(SWARM) / 3
    assert "ATLAS:AML.T0068" in finding.tags
    assert not any(word in finding.message for word in ("harbour", "offise", "baot"))


@pytest.mark.parametrize("seed", range(8))
def test_every_third_word_misspelt_is_a_swarm_whatever_the_errors(check: Typos, seed: int) -> None:
    assert found(check, perturbed(PROSE, 0.35, seed))


@pytest.mark.parametrize("seed", range(8))
def test_a_slip_in_thirty_words_is_none(check: Typos, seed: int) -> None:
    assert not found(check, perturbed(PROSE, 0.03, seed))


@pytest.mark.parametrize("kind", LEGITIMATE)
def test_legitimate_writing_is_let_be(check: Typos, kind: str) -> None:
    assert not found(check, LEGITIMATE[kind])


@pytest.mark.parametrize("kind", ["German", "French", "Polish", "Indonesian", "Dutch", "Italian"])
def test_a_quotation_in_another_language_is_no_swarm(check: Typos, kind: str) -> None:
    assert not found(check, f"{PROSE} {LEGITIMATE[kind]} {PROSE}")


def test_what_the_author_writes_again_and_again_is_meant(check: Typos) -> None:
    terms = "The schemo holds a colum, a tabel and a rwo; every keye of the indax is a valeu. "

    assert found(check, terms)
    assert not found(check, terms * 3)


def test_limits_are_parameters_and_change_the_digest(check: Typos) -> None:
    strict = Typos(TyposParams(misspelt=30), check._spelling._vocabulary)

    assert not found(strict, SWARM)
    assert strict.digest != check.digest


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("harbour", "english"),
        ("the", "english"),
        ("thr", "misspelt"),  # replaced
        ("hte", "misspelt"),  # exchanged
        ("thhe", "misspelt"),  # added
        ("wich", "misspelt"),  # lost
        ("gauging", "known"),
        ("walnuts", "known"),  # inflected
        ("reheated", "known"),
        ("mornign", "misspelt"),
        ("wiederholung", "strange"),
        ("größe", "strange"),
        ("smth", "strange"),
        ("dtk", "short"),
    ],
)
def test_kinds_of_words(check: Typos, word: str, kind: str) -> None:
    assert check._spelling.kind(word) == kind


def test_the_gate_leaves_out_what_is_no_word_of_small_letters(check: Typos) -> None:
    spelling: Spelling = check._spelling

    assert set(spelling.unknown("Thr hte_x wben2 WBEN wbén the tje! tje/qzx " + "z" * 30)) == {"tje", "qzx"}


@given(st.text(st.characters(codec=None, exclude_categories=()), max_size=300))
def test_no_text_raises(check: Typos, text: str) -> None:
    for finding in found(check, text + SWARM):
        assert finding.span is not None
        assert 0 <= finding.span.start < finding.span.end <= len(text) + len(SWARM)


@pytest.mark.parametrize("text", ["a", "a ", "tje ", "\ud800", "\u0301", "hte\ud800 "])
def test_a_long_line_of_one_thing_is_no_swarm(check: Typos, text: str) -> None:
    assert not found(check, text * (2_000_000 // len(text)))
