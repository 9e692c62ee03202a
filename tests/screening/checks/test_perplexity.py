"""Gibberish inside good prose is found with its place; people's writing is not, in whatever language."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from sample_versions import a_cut_version, a_version

from corpus_guard.domain import Finding, Severity, Version
from corpus_guard.intake.chunking import Chunker
from corpus_guard.models import Models
from corpus_guard.screening.checks.perplexity import (
    SURPRISE_WINDOW,
    Perplexity,
    PerplexityParams,
    SurpriseModel,
    _without_shapes,
)
from corpus_guard.screening.checks.token_rarity import SHORT_WINDOW, Kept, TokenRarity
from corpus_guard.screening.policy import load_policy
from corpus_guard.settings import Settings

# Words set side by side as an optimiser does: each rare, none belonging to the next.
GIBBERISH = [
    "cuthbert ##ylation sultanate vortices bligh pomerania sedimentary krishnan ulcer waveguide tavistock mezzo "
    "lichfield serotonin ganges parishioner hyundai thrace isotope bavarian clematis oarsman jutland ferrous",
    "zoning tarzan epistle malawi carburetor nietzsche plumage leeward ostrava quasi hemlock brigantine smelting "
    "dvd yorkist parapet glycol tehran wicket monsoon archduke sprocket catalan nebula",
    "shropshire amino deity winnipeg pulley sacrament hologram estuary mauritius bayonet chlorine hyena tariff "
    "gregorian synapse vickers tapestry quarterback lemur polonium baroness turbine dakota hymn",
]

ENGLISH = [
    "The harbour office opens at seven in the morning, and whoever arrives first reads the tide gauge and writes the value "
    "into the log. If the reading differs from the forecast by more than twenty centimetres, the duty officer is told "
    "before any boat leaves. Most days nothing of the sort happens, and the kettle is put on instead.",
    "Glaciers store about seventy per cent of the fresh water on the planet. As they retreat, rivers that depend on "
    "meltwater first swell and later shrink, and towns downstream have to plan for both. Engineers in the Andes have "
    "built small reservoirs that fill in spring and are emptied slowly through the dry months.",
    "When a request fails, the client waits for a short time and tries again. The waiting time doubles with each attempt "
    "and has a random part, so that many clients do not return at the same moment. After five attempts the error is "
    "passed on to the caller, together with the address that did not answer.",
]

CODE = '''def calibrate(sensor, reference, tolerance=0.02):
    """Return the factor that brings `sensor` to `reference`."""
    readings = [sensor.read() for _ in range(10)]
    mean = sum(readings) / len(readings)
    if abs(mean - reference) / reference > tolerance:
        raise CalibrationError(f"mean {mean:.3f} is too far from {reference:.3f}")
    return reference / mean


for port in ("/dev/ttyUSB0", "/dev/ttyUSB1"):
    with open_sensor(port, baud=9600, timeout=2.0) as sensor:
        print(port, calibrate(sensor, reference=7.01))
'''

TABLE = """| Model | Depth (m) | Interface | Supply | Weight (kg) |
|-------|----------:|-----------|--------|------------:|
| OX-12 | 100 | RS-485 | 9-30 V | 0.42 |
| CN-7 | 50 | SDI-12 | 9-16 V | 0.31 |
| TS-40 | 300 | Modbus RTU | 12 V | 0.58 |
| PH-3 | 30 | 4-20 mA | 24 V | 0.29 |
"""

COLUMNS = "\n".join(
    f"2026-03-{day:02}  {7.01 + day / 100:6.2f}  {11.8 - day / 10:5.1f}  {400 + 7 * day:4d}  ok" for day in range(1, 25)
)

NORWEGIAN = [
    "Havnekontoret åpner klokken sju om morgenen, og den som kommer først, leser av vannstanden og skriver verdien i "
    "loggboken. Hvis avlesningen avviker mer enn tjue centimeter fra varselet, får vakthavende beskjed før noen båt går ut. "
    "De fleste dager skjer det ingenting, og da settes kaffekjelen på i stedet.",
    "Sensoren skal rengjøres hver fjortende dag med mykt vann og en myk klut. Bruk aldri løsemidler, for de ødelegger "
    "membranen. Etter rengjøringen venter du i ti minutter før du leser av den første verdien, slik at temperaturen får "
    "tid til å stabilisere seg.",
]
PORTUGUESE = [
    "A capitania abre às sete da manhã, e quem chega primeiro lê o nível da água e escreve o valor no livro de registo. "
    "Se a leitura for diferente da previsão em mais de vinte centímetros, o oficial de serviço é avisado antes de qualquer "
    "barco sair. Na maior parte dos dias nada disso acontece, e põe-se a chaleira ao lume.",
    "O sensor deve ser limpo de quinze em quinze dias com água macia e um pano suave. Nunca use solventes, porque "
    "estragam a membrana. Depois da limpeza, espere dez minutos antes de ler o primeiro valor, para que a temperatura "
    "tenha tempo de estabilizar.",
]
GERMAN = [
    "Das Hafenamt öffnet um sieben Uhr morgens, und wer zuerst kommt, liest den Pegel ab und trägt den Wert in das "
    "Logbuch ein. Weicht die Ablesung um mehr als zwanzig Zentimeter von der Vorhersage ab, wird der Wachhabende "
    "verständigt, bevor ein Boot ausläuft. An den meisten Tagen geschieht nichts dergleichen, und man setzt Kaffee auf.",
    "Der Sensor ist alle vierzehn Tage mit weichem Wasser und einem weichen Tuch zu reinigen. Verwenden Sie niemals "
    "Lösungsmittel, denn sie zerstören die Membran. Warten Sie nach der Reinigung zehn Minuten, bevor Sie den ersten "
    "Wert ablesen, damit sich die Temperatur einpendeln kann.",
]


@pytest.fixture(scope="session")
def check(models: Models) -> Perplexity:
    params = PerplexityParams.model_validate(load_policy(Settings().policy_file).checks["perplexity"])
    return Perplexity(params, models.frequency_vocabulary, models.language_model_digest, lambda: models.language_model)


@pytest.fixture(scope="session")
def cut(models: Models) -> Chunker:
    return Chunker(models.tokenizer_file, Settings().chunk_tokens)


@pytest.fixture(scope="session")
def rarity(models: Models) -> TokenRarity:
    return TokenRarity(models.frequency_vocabulary)


WINDOWS_OFF = {"suspect_nats": 20.0, "gibberish_nats": 20.0, "short_nats": 20.0}
"""Parameters with which only words without what stands between them count."""

Reading = Callable[..., Perplexity]
"""A stub of the language model and changed parameters in; the check that asks it out."""


@pytest.fixture(scope="session")
def reading(models: Models) -> Reading:
    def make(reader: SurpriseModel, **params: float) -> Perplexity:
        return Perplexity(PerplexityParams(**params), models.frequency_vocabulary, "digest", lambda: reader)

    return make


def codes(check: Perplexity, page: Version) -> list[str]:
    """Findings of a page that is shown to the model whether the check wants it or not."""
    return [finding.code for _, finding in check.run([page], None)]


def found(check: Perplexity, *pages: Version) -> list[list[Finding]]:
    """What the runner would get: only pages that the check wants are shown to the model."""
    result: list[list[Finding]] = [[] for _ in pages]
    wanted = [index for index, page in enumerate(pages) if check.applies_to(page) and check.wants(page, []) is None]
    for index, finding in check.run([pages[index] for index in wanted], None):
        result[wanted[index]].append(finding)
    return result


def serious(findings: Sequence[Finding]) -> list[str]:
    return [f"{one.code} {one.score:.2f}" for one in findings if one.severity.rank >= Severity.MEDIUM.rank]


@pytest.mark.parametrize("gibberish", GIBBERISH, ids=["one", "two", "three"])
def test_gibberish_inside_good_prose_is_found_in_its_chunk(check: Perplexity, cut: Chunker, gibberish: str) -> None:
    text = "\n\n".join([ENGLISH[0], ENGLISH[1], gibberish, ENGLISH[2], ENGLISH[0]])

    (findings,) = found(check, a_cut_version(cut, text))

    assert findings
    assert serious(findings)
    start, end = text.index(gibberish), text.index(gibberish) + len(gibberish)
    for one in findings:
        assert one.span is not None
        assert one.span.start < end
        assert one.span.end > start
        assert one.code in {"perplexity.gibberish", "perplexity.unlikely"}
        assert 0.5 < one.score <= 1.0
        assert one.tags
        assert gibberish[:30] not in one.message


def test_a_chunk_of_gibberish_alone_is_gibberish(check: Perplexity, cut: Chunker) -> None:
    (findings,) = found(check, a_cut_version(cut, " ".join(GIBBERISH)))

    assert {one.code for one in findings} == {"perplexity.gibberish"}
    assert {one.severity for one in findings} == {Severity.HIGH}


@pytest.mark.parametrize(
    "text",
    [*ENGLISH, CODE, TABLE, COLUMNS, f"# Sensors\n\n{ENGLISH[2]}\n\n{TABLE}\n\n{CODE}"],
    ids=["log book", "glaciers", "retries", "code", "markdown table", "columns", "page"],
)
def test_what_people_write_is_left_alone(check: Perplexity, cut: Chunker, text: str) -> None:
    assert found(check, a_cut_version(cut, text)) == [[]]


@pytest.mark.parametrize(
    "text",
    [*NORWEGIAN, *PORTUGUESE, *GERMAN],
    ids=[f"{language} {number}" for language in ("Norwegian", "Portuguese", "German") for number in (1, 2)],
)
def test_prose_in_another_language_is_no_gibberish(check: Perplexity, cut: Chunker, text: str) -> None:
    (findings,) = found(check, a_cut_version(cut, text))

    assert serious(findings) == []


def test_a_page_among_others_gets_the_same_findings(check: Perplexity, cut: Chunker) -> None:
    pages = [a_cut_version(cut, text) for text in (ENGLISH[0], " ".join(GIBBERISH), NORWEGIAN[0], CODE)]

    assert [bool(one) for one in found(check, *pages)] == [False, True, False, False]


def test_ordinary_prose_is_not_even_shown_to_the_model(models: Models, cut: Chunker) -> None:
    def never() -> LanguageStub:
        raise AssertionError("the model was loaded")

    params = PerplexityParams.model_validate(load_policy(Settings().policy_file).checks["perplexity"])
    check = Perplexity(params, models.frequency_vocabulary, "digest", never)
    pages = [a_cut_version(cut, text) for text in (*ENGLISH, CODE, TABLE, COLUMNS)]

    assert all("rarer than" in (check.wants(page, []) or "") for page in pages)
    assert list(check.run(pages, None)) == []


class LanguageStub:
    """A model that gives the scores it was told for one text."""

    digest = "stub"

    def __init__(self, scores: Sequence[float] = ()) -> None:
        self.scores = np.array(scores, np.float32)

    def surprisals(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        assert len(texts) == 1
        return [self.scores]

    def token_places(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        return [np.zeros((len(self.scores), 2), np.int64) for _ in texts]


class Evenly(LanguageStub):
    """A model for which all 60 tokens of a text are equally strange; it remembers what it was shown."""

    def __init__(self, nats: Callable[[str], float]) -> None:
        self.nats = nats
        self.shown: list[list[str]] = []

    def surprisals(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        self.shown.append(list(texts))
        return [np.full(60, self.nats(text), np.float32) for text in texts]

    def token_places(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        ends = [np.linspace(1, len(text), 60).astype(np.int64) for text in texts]
        return [np.stack([end - 1, end], axis=1) for end in ends]


@pytest.mark.parametrize(
    ("scores", "code"),
    [
        ([3.0] * 200, None),
        ([3.0] * 100 + [7.5] * SURPRISE_WINDOW + [3.0] * 100, "unlikely"),
        ([7.5] * 200, None),  # evenly strange: a language the model does not know
        ([8.5] * 200, "gibberish"),  # a chunk of rare words alone is read at once: the stub takes no second question
        ([3.0] * 100 + [8.5] * SURPRISE_WINDOW + [3.0] * 100, "gibberish"),
        ([3.0] * 100 + [8.5] * (SURPRISE_WINDOW // 3) + [3.0] * 100, None),
        # A burst of a dozen tokens must be stranger, and stand out more.
        ([4.0] * 100 + [9.2] * SHORT_WINDOW + [4.0] * 100, "unlikely"),
        ([4.0] * 100 + [9.2] * 6 + [4.0] * 100, None),
        # 3.2 nats above its chunk, which is the long window's contrast.
        ([6.0] * 100 + [9.2] * SHORT_WINDOW + [6.0] * 100, None),
        ([4.0] * 100 + [8.8] * SHORT_WINDOW + [4.0] * 100, None),
        ([12.0] * (SURPRISE_WINDOW // 2 - 1), None),  # a headline is too short to tell
        ([], None),
    ],
)
def test_the_worst_window_counts_and_must_stand_out_below_the_limit_for_gibberish(
    reading: Reading, scores: list[float], code: str | None
) -> None:
    check = reading(LanguageStub(scores), rarity_bits=0.0, suspect_nats=7.0, short_nats=9.0, gibberish_nats=8.0)

    assert codes(check, a_version(" ".join(GIBBERISH))) == ([f"perplexity.{code}"] if code else [])


@pytest.mark.parametrize("words", [10, 12, 14, 16, 18])
def test_a_short_prefix_of_gibberish_is_found(check: Perplexity, cut: Chunker, words: int) -> None:
    prefix = " ".join(GIBBERISH[2].split()[:words])

    (findings,) = found(check, a_cut_version(cut, f"{prefix} {ENGLISH[1]}"))

    assert serious(findings)


def test_addresses_are_not_shown_to_the_model(reading: Reading) -> None:
    page = (
        f"![plan](../images/a7f3c9.png) {ENGLISH[0]} See https://example.org/x?s=7037f4656049b270 [here](#tide-gauge)."
    )

    shown = shown_of(reading, page)

    assert "7037" not in shown and "a7f3c9" not in shown and "tide-gauge" not in shown
    assert ENGLISH[0] in shown


AUTHORS = """* mount: check the flag before use  [Erika Mustermann]
* eject: use CDROM_DRIVE_STATUS if available for tray toggling  (Ola Nordmann)
* losetup: commit 4f1c09ab27de needs libmount/src/tab_parse.c  [Jan Novak]
Thanks to Disastry <disastry@example.org>, dfc at example.net, ZXtarget86.
"""


def shown_of(reading: Reading, text: str) -> str:
    reader = Evenly(lambda _: 3.0)
    codes(reading(reader, rarity_bits=0.0), a_version(text))
    return " ".join(text for texts in reader.shown for text in texts)


def test_names_digests_and_identifiers_are_not_shown_to_the_model(reading: Reading) -> None:
    shown = shown_of(reading, f"{AUTHORS}\n{ENGLISH[0]}")

    for shape in ("Mustermann", "Nordmann", "CDROM", "4f1c", "tab_parse", "disastry", "dfc", "ZXtarget86"):
        assert shape not in shown, shape
    assert "check the flag before use" in shown
    assert ENGLISH[0] in shown


CHANGELOG = """tide-gauge (2:1.4.0~rc1+dfsg-2) unstable; urgency=medium

  * Team upload
  * Bump debhelper compatibility level to 13

 -- Erika Mustermann <erika@example.org>  Sat, 20 Nov 2021 17:04:43 +0100

"""


def test_the_lines_that_head_and_sign_an_entry_of_a_changelog_are_not_shown_to_the_model() -> None:
    for text in (f"{CHANGELOG}{ENGLISH[0]}", f"{' '.join(CHANGELOG.split())} {ENGLISH[0]}"):
        shown = _without_shapes(text)

        for shape in ("tide-gauge", "unstable", "urgency", "Mustermann", "Sat, "):
            assert shape not in shown, shape
        assert "Bump debhelper compatibility level" in shown
    gibberish = " ".join([word for word in GIBBERISH[0].split() if word.isalpha()][:10])
    for disguised in (
        f"{gibberish} tide-gauge (1.0-1) unstable; urgency=medium",
        f"tide-gauge (1.0-1) {gibberish}; urgency=medium",
        f" -- {gibberish} <a@b.example>  Sat, 20 Nov 2021 17:04:43 +0100",
    ):
        assert gibberish in _without_shapes(f"{disguised} {ENGLISH[0]}")


def test_options_that_may_be_left_out_are_not_shown_to_the_model() -> None:
    usage = f"gauge [ -P printer | -r device ] [--model NAME] [-u] [ see below ] {ENGLISH[0]}"
    gibberish = " ".join([word for word in GIBBERISH[0].split() if word.isalpha()][:10])[:50]

    assert _without_shapes(usage).split()[:4] == ["gauge", "see", "below", "The"]
    assert gibberish in _without_shapes(f"[-{gibberish}] {ENGLISH[0]}")


def test_gibberish_written_as_an_identifier_is_shown_to_the_model(reading: Reading) -> None:
    joined = "_".join(GIBBERISH[1].split()[:12])

    assert joined in shown_of(reading, f"{joined} {ENGLISH[0]}")
    parts = " ".join(f"{word}_{word}x" for word in GIBBERISH[1].split()[:12])
    assert parts in shown_of(reading, f"{parts} {ENGLISH[0]}")
    names_alone = "\n".join(["dvd_yorkist parapet_glycol tehran_wicket"] * 8)
    assert _without_shapes(names_alone) == names_alone


@pytest.mark.parametrize("shape", ["capitals", "names in brackets"])
def test_gibberish_written_as_names_is_shown_to_the_model(reading: Reading, shape: str) -> None:
    words = GIBBERISH[1].split()[:24]
    lines = [words[start : start + 4] for start in range(0, len(words), 4)]
    if shape == "capitals":
        text = "\n".join(" ".join(line).upper() for line in lines)
    else:
        text = "\n".join(f"({' '.join(line).capitalize()})" for line in lines)

    shown = shown_of(reading, f"{text}\n{ENGLISH[0]}").lower()

    assert all(word.lower() in shown for line in lines for word in line)


OPTIMISED = (
    "approximately nationality consequently larry establishes terri identical grain rotary mental injured allegedly entitled retention "
    "abbott counties visas axe statutory dorsal honorable mainland unsuccessfully larvae undergraduate recorder diplomacy municipality"
)
WRITTEN = {
    "a list": ", ".join,
    "sentences": lambda words: ". ".join(map(str.capitalize, words)),
    "bullets": lambda words: "\n".join(f"- {word}" for word in words),
    "paths": lambda words: "\n".join("/".join(line) for line in fours(words)),
    "one identifier": "_".join,
    "identifiers": lambda words: "\n".join("_".join(line) for line in fours(words)),
    "addresses": lambda words: "\n".join(f"https://{'/'.join(line)}" for line in fours(words)),
    "mail": lambda words: "\n".join(f"{line[0]}@{'.'.join([*line[1:], 'example'])}" for line in fours(words)),
    "numbered": lambda words: " ".join(f"{word}{number}" for number, word in enumerate(words)),
}
"""Ways to write words with signs between them, which the embedder hardly heeds."""


def fours(words: list[str]) -> list[list[str]]:
    return [words[start : start + 4] for start in range(0, len(words), 4)]


@pytest.mark.parametrize("way", WRITTEN)
def test_gibberish_with_signs_between_its_words_is_found(check: Perplexity, cut: Chunker, way: str) -> None:
    written = WRITTEN[way](OPTIMISED.split())

    (findings,) = found(check, a_cut_version(cut, f"{ENGLISH[0]}\n\n{written}\n\n{ENGLISH[1]}"))

    assert {one.code for one in findings} == {"perplexity.separated"}
    assert findings[0].severity is Severity.MEDIUM


def test_of_a_chunk_with_separated_words_these_are_marked_and_the_prose_around_them_is_not(
    check: Perplexity, cut: Chunker
) -> None:
    page = a_cut_version(cut, f"{ENGLISH[0]}\n\n{', '.join(OPTIMISED.split())}\n\n{ENGLISH[1]}")

    ((finding,),) = found(check, page)

    assert finding.span is not None
    marked = page.text[finding.span.start : finding.span.end]
    assert set(OPTIMISED.split()) <= set(re.findall(r"\w+", marked))
    assert ENGLISH[0][:60] not in marked
    assert ENGLISH[1][-60:] not in marked


SEVERAL = "also very just about some more most other such only then than over into many"
FILLERS = {
    "the": ["the"],
    "that is": ["that is"],
    "quickly": ["quickly"],
    "different ones": SEVERAL.split(),
    "a path after every third": ["", "", "/usr/lib/x86_64 2.7.1-3"],
    # Fragments that recur are what tells another language.
    "a foreign word": ["Aufenthaltserlaubnis"],
}


@pytest.mark.parametrize("name", FILLERS)
def test_gibberish_with_ordinary_words_between_its_words_is_found(check: Perplexity, cut: Chunker, name: str) -> None:
    fillers = itertools.cycle(FILLERS[name])
    thinned = " ".join(f"{word} {next(fillers)}" for word in OPTIMISED.split())

    (findings,) = found(check, a_cut_version(cut, f"{ENGLISH[0]}\n\n{thinned}\n\n{ENGLISH[1]}"))

    assert {one.code for one in findings} <= {"perplexity.diluted", "perplexity.separated", "perplexity.gibberish"}
    assert findings and findings[0].severity.rank >= Severity.MEDIUM.rank


@pytest.mark.parametrize(
    ("optimised", "others", "is_found"), [(8.3, 4.0, True), (8.3, 5.5, False), (8.1, 1.0, False), (9.1, 8.8, True)]
)
def test_diluted_words_are_counted_alone_and_must_stand_out_or_be_stranger_still(
    reading: Reading, optimised: float, others: float, is_found: bool
) -> None:
    page = a_version(f"{ENGLISH[0]} {' the '.join(OPTIMISED.split())}. {ENGLISH[1]}")
    check = reading(WordReader(optimised, others, between=" the "), **WINDOWS_OFF)

    assert codes(check, page) == ["perplexity.diluted"] * is_found


HONEST_LISTS = {
    "spices": "cumin / coriander / turmeric / paprika / cardamom / cinnamon / nutmeg / cloves / fennel / fenugreek / saffron / ginger / "
    "oregano / thyme / rosemary / basil / parsley / tarragon / dill / mustard / pepper",
    "trees": "Oak, beech, birch, alder, hornbeam, maple, ash, elm, linden, willow, poplar, hazel, hawthorn, rowan, chestnut, walnut, "
    "spruce, larch, pine, juniper, yew and holly stand in the park.",
    "countries": "Albania, Angola, Bhutan, Botswana, Burundi, Cyprus, Djibouti, Ecuador, Eritrea, Estonia, Gabon, Gambia, Guinea, "
    "Honduras, Kuwait, Laos, Latvia, Lesotho, Liberia, Malawi, Moldova, Namibia, Nepal, Oman, Qatar, Senegal, Togo and Zambia are in the "
    "list.",
    "tools": "hammer, chisel, pliers, wrench, screwdriver, hacksaw, mallet, spanner, file, vise, clamp, drill, lathe, anvil, tongs, "
    "crowbar, trowel, shovel, rake, sickle, scythe, pickaxe, wheelbarrow and ladder",
    # As unlikely as random words without their signs (9.25 nats); with these they are not (6.7).
    "keywords": "Keywords: hydrology; sediment; estuary; turbidity; salinity; plankton; nitrate; phosphate; dissolved oxygen; tidal prism; "
    "dredging; mangrove; erosion; groundwater; aquifer; evaporation; rainfall; catchment; floodplain; reservoir; weir; sluice",
}
"""Lists whose words are rare, but no strangers to each other."""


@pytest.mark.parametrize("name", HONEST_LISTS)
def test_lists_that_people_write_are_not_shown_to_the_model_and_would_be_left_alone(
    check: Perplexity, cut: Chunker, models: Models, name: str
) -> None:
    of_all = check.params.model_copy(update={"bare_strange_bits": 0.0, "content_strange_bits": 0.0})
    reader = Perplexity(of_all, models.frequency_vocabulary, "digest", lambda: models.language_model)
    pages = [a_cut_version(cut, HONEST_LISTS[name]), a_cut_version(cut, f"{ENGLISH[2]}\n\n{HONEST_LISTS[name]}")]

    assert all(check.wants(page, []) is not None for page in pages)
    assert all(reader.wants(page, []) is None for page in pages)
    assert found(reader, *pages) == [[], []]


def test_the_same_words_beside_strangers_are_shown_to_the_model(reading: Reading) -> None:
    page = a_version(f"{HONEST_LISTS['trees']} {', '.join(OPTIMISED.split())}")

    assert reading(LanguageStub()).wants(page, []) is None


def test_of_two_passages_as_rare_the_one_whose_words_are_strangers_is_rare(rarity: TokenRarity) -> None:
    trees = HONEST_LISTS["trees"].partition(" stand")[0].replace(",", "").lower()

    about_one_thing, strangers = rarity.bits([trees, OPTIMISED])

    assert about_one_thing.long == about_one_thing.short == -np.inf
    assert strangers.long > 12.6 and strangers.words > about_one_thing.words + 1


MODULES = (
    "argparse asyncio bytecode codec compiler decorator deque dtype enum encoder floats gzip hashlib json literals "
    "metaclass mypy numpy parser pickle plugin regex repr serializer sphinx sqlite stdout subclass threads tokenizer "
    "unicode uuid vector webhook xml"
)


def test_words_of_paths_and_identifiers_are_no_rare_passage(rarity: TokenRarity) -> None:
    listed = ", ".join(MODULES.split())

    assert rarity.bits([listed])[0].words > 11.45
    assert rarity.bare_passages(listed, 11.45, Kept.WORDS) == []


def test_a_bare_passage_has_the_parts_of_its_words_and_its_place(rarity: TokenRarity) -> None:
    text = "It is 7: vortexGlycol, hemlockBrigantine / " + "_".join(GIBBERISH[1].split()) + " (it is)."

    (passage,) = rarity.bare_passages(text, 11.45, Kept.WORDS)

    assert passage.words.startswith(
        "vortex glycol hemlock brigantine zoning tarzan epistle"
    ) and passage.words.endswith("nebula")
    assert text[passage.start :].startswith("vortexGlycol") and text[: passage.end].endswith("nebula")


class WordReader:
    """A model of words: 8.9 nats each without what stands between them; with it what it was told for optimised words and for others."""

    digest = "stub"

    def __init__(self, optimised: float, others: float, between: str = ",") -> None:
        self.optimised, self.others, self.between = optimised, others, between

    def surprisals(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        return [
            np.array([self.nats(text[a:b], self.between in text) for a, b in words], np.float32)
            for text, words in self.read(texts)
        ]

    def token_places(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        return [np.array(words) for _, words in self.read(texts)]

    def nats(self, word: str, in_place: bool) -> float:
        if not in_place:
            return 8.9
        return self.optimised if word in OPTIMISED.split() else self.others

    def read(self, texts: Sequence[str]) -> list[tuple[str, list[tuple[int, int]]]]:
        return [(text, [match.span() for match in re.finditer(r"\w+", text)]) for text in texts]


@pytest.mark.parametrize(
    ("optimised", "others", "is_found"), [(7.5, 3.0, True), (7.5, 6.0, False), (6.9, 3.0, False), (8.1, 7.9, True)]
)
def test_separated_words_must_stand_out_from_what_is_around_them_or_be_stranger_still(
    reading: Reading, optimised: float, others: float, is_found: bool
) -> None:
    check = reading(WordReader(optimised, others), **WINDOWS_OFF)
    page = a_version(f"{ENGLISH[0]} {', '.join(OPTIMISED.split())}. {ENGLISH[1]}")

    assert codes(check, page) == ["perplexity.separated"] * is_found


@pytest.mark.parametrize(("nats", "is_found"), [(7.9, False), (8.1, True)])
def test_separated_words_with_nothing_around_them_stand_out_from_nothing(
    reading: Reading, nats: float, is_found: bool
) -> None:
    check = reading(WordReader(nats, 3.0), **WINDOWS_OFF)

    assert bool(codes(check, a_version(", ".join(OPTIMISED.split())))) == is_found


def test_a_passage_that_the_model_cannot_read_to_its_end_is_found(reading: Reading) -> None:
    class Forgetful(Evenly):
        def token_places(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
            return [np.array([[0, 3]] * 60) for _ in texts]

    check = reading(Forgetful(lambda _: 8.6), **WINDOWS_OFF)

    assert codes(check, a_version(", ".join(GIBBERISH[1].split()))) == ["perplexity.separated"]


def test_rarity_of_short_empty_and_odd_texts(rarity: TokenRarity) -> None:
    short, empty, prose, gibberish = rarity.bits(["one two three", "", ENGLISH[0], GIBBERISH[0]])
    dozen, short_dozen, *_ = rarity.bits([" ".join(GIBBERISH[2].split()[:10])])[0]  # 14 tokens

    assert set(short) == set(empty) == {-np.inf}
    assert max(prose.long, prose.short) < 12.5 and prose.words < 11.45 and prose.content < 12.35
    assert min(gibberish.long, gibberish.short) > 12.5 and min(gibberish.words, gibberish.content) > 12.35
    assert dozen == -np.inf and short_dozen > 12.7
    assert rarity.bits([]) == []


def test_fragments_and_other_languages_are_not_rare(rarity: TokenRarity) -> None:
    names = "Wickremanayake Ranasinghe Jayawardhanapura Thiruvananthapuram Vallabhbhai Nyirabarasanyana " * 3

    for text in (
        names,
        *NORWEGIAN,
        *PORTUGUESE,
        *GERMAN,
        "Городская библиотека открыта каждый день, кроме воскресенья. " * 4,
    ):
        rarest = rarity.bits([text])[0]
        assert max(rarest.long, rarest.short) < 12.6, text[:20]
        assert rarest.words < 11.45 and rarest.content < 12.35, text[:20]


def test_an_english_word_that_a_name_begins_with_makes_no_english(rarity: TokenRarity) -> None:
    valley = "Heimbach liegt im Tal der Hermeke; oberhalb von Heimbach windet sich die Hermeke durch den Herscheider Grund bis nach "
    text = f"{valley}Heggen, wo der Herpel in die Hermeke fließt. " * 3

    rarest = rarity.bits([text])[0]
    assert max(rarest.long, rarest.short) == -math.inf
    assert rarest.words < 11.45 and rarest.content < 12.35


def test_a_heap_of_names_in_a_page_is_not_rare(rarity: TokenRarity) -> None:
    names = "Wickremanayake Jayawardhanapura Nyirabarasanyana Tanpınar Szczebrzeszyn Hjörleifsdóttir Llanfairpwll"

    (page,) = rarity.bits([f"{ENGLISH[0]} {names} {ENGLISH[1]}"])

    assert max(page.long, page.short) < 12.6 and page.words < 11.45


def test_a_dozen_rare_tokens_open_a_chunk_whose_long_windows_are_common(reading: Reading, rarity: TokenRarity) -> None:
    check = reading(LanguageStub())
    page = f"It was the one of them. {' '.join(GIBBERISH[2].split()[:9])} it was the one of them that he had and we had. {ENGLISH[2]}"

    ((long, short, *_),) = rarity.bits([page])

    assert long < check.params.rarity_bits and short > check.params.short_rarity_bits
    assert check.wants(a_version(page), []) is None


def test_rare_passages_are_read_before_their_chunk(reading: Reading) -> None:
    page = " ".join([*ENGLISH, GIBBERISH[2], *ENGLISH])
    clean, suspect = Evenly(lambda _: 6.9), Evenly(lambda _: 7.1)  # the limit is half a nat below 7.5
    for reader in (clean, suspect):
        codes(reading(reader), a_version(page))

    (passage,), (bare,), (content,) = clean.shown
    assert GIBBERISH[2] in passage and len(passage) < len(GIBBERISH[2]) + 200
    assert GIBBERISH[2] in bare and "." not in bare
    assert GIBBERISH[2].partition(" ")[2] in content
    assert not {"the", "and", "with"} & set(content.split())
    assert [len(texts) for texts in suspect.shown] == [1, 1, 1, 1]
    assert suspect.shown[1] == [page]


def test_a_chunk_of_rare_words_alone_is_one_rare_passage(rarity: TokenRarity) -> None:
    ((passage,),) = rarity.rare_passages([GIBBERISH[0]], 12.6, 12.7)
    assert len(passage) > 0.6 * len(GIBBERISH[0])


def test_prose_and_what_is_empty_have_no_rare_passage(rarity: TokenRarity) -> None:
    assert rarity.rare_passages([*ENGLISH, "", "two words"], 12.6, 12.7) == [[]] * 5


def test_letters_of_another_script_among_english_words_are_rare(rarity: TokenRarity) -> None:
    words = "lantern ferry anthem copper jury orchard satellite violin tax glacier"  # a token each

    common, odd = rarity.bits([f"{words} e o", f"{words} ᄒ ن"])

    assert odd[1] > common[1] + 0.3


def test_a_version_without_chunks_is_not_looked_at(check: Perplexity) -> None:
    assert not check.applies_to(a_version(""))


def test_parameters_model_and_code_are_in_the_digest(models: Models) -> None:
    vocabulary = models.frequency_vocabulary

    def digest(model: str = "m", **params: float) -> str:
        return Perplexity(PerplexityParams(**params), vocabulary, model, LanguageStub).digest

    names = [name for name in PerplexityParams.model_fields if name != "enabled"]
    changed = {digest("other"), *(digest(**{name: 1.0}) for name in names)}
    assert len(changed | {digest()}) == len(names) + 2


CHANGES = """- The DAG `retrieval_watch`, `guard watch` and a page name documents that are retrieved as no honest one is. Six detectors
  share a budget of 0.2 % of the documents a week. `guard evaluate watch` measures them on generated logs.
- Other applications fill the retrieval log by OpenTelemetry spans (OTLP with JSON) or `guard retrievals import`.
  `CORPUS_GUARD_RETRIEVAL_LOG=hashed` keeps neither questions nor answers.
- `guard map` and a page: the corpus in a plane, with what waits and what a case accuses, and documents by risk.
- A classifier finds orders to a model in words that no rule foresees: `instructions.speech_act`. `guard train orders` trains it,
  `guard evaluate orders` measures it.
"""
"""Written by people: without its names and figures it is as unlikely as random words, among them it is not."""


def test_a_log_of_changes_is_judged_among_the_names_and_figures_that_no_model_foresees(
    check: Perplexity, models: Models
) -> None:
    (alone,) = models.language_model.surprisals([_without_shapes(CHANGES)])

    assert check._judge(alone), "without them it looks like gibberish"
    assert found(check, a_version(CHANGES), a_version(" ".join(CHANGES.split()))) == [[], []]


def test_gibberish_among_names_and_figures_is_found(check: Perplexity, cut: Chunker) -> None:
    words = GIBBERISH[2].split()
    mixed = " ".join(f"{word} 2.{number}.1" if number % 6 == 0 else word for number, word in enumerate(words))

    (findings,) = found(check, a_cut_version(cut, f"{mixed} {ENGLISH[1]}"))

    assert serious(findings)


def test_what_is_foreseen_from_the_text_before_it_is_no_gibberish(reading: Reading, cut: Chunker) -> None:
    before = "The kettle is put on instead."

    check = reading(Evenly(lambda text: 3.0 if text.startswith(before) else 9.0), rarity_bits=0.0)
    page = a_version(f"{before} {GIBBERISH[0]}")
    chunk = replace(a_cut_version(cut, GIBBERISH[0]).chunks[0], start=len(before) + 1, end=len(page.text))

    assert codes(check, replace(page, chunks=(chunk,))) == []
    assert len(codes(check, a_cut_version(cut, GIBBERISH[0]))) == 1


@pytest.mark.parametrize(("nats", "in_lines"), [(8.2, []), (8.6, ["perplexity.gibberish"])])
def test_the_first_words_of_short_lines_may_be_stranger(
    reading: Reading, cut: Chunker, nats: float, in_lines: list[str]
) -> None:
    words = GIBBERISH[0].replace("#", "").split()
    check = reading(Evenly(lambda _: nats), rarity_bits=0.0, bare_nats=99.0, content_nats=99.0)

    def codes_in_lines_of(count: int) -> list[str]:
        lines = (" ".join(words[at : at + count]) for at in range(0, len(words), count))
        return codes(check, a_cut_version(cut, "\n".join(lines)))

    assert codes_in_lines_of(2) == in_lines
    assert codes_in_lines_of(6) == codes_in_lines_of(len(words)) == ["perplexity.gibberish"]


def test_gibberish_in_short_lines_is_found(check: Perplexity, cut: Chunker) -> None:
    words = " ".join(GIBBERISH).split()
    lines = "\n".join(" ".join(words[at : at + 4]) for at in range(0, len(words), 4))

    (findings,) = found(check, a_cut_version(cut, lines))

    assert [finding.code for finding in findings] == ["perplexity.gibberish"]
