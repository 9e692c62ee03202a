"""What the cases are, and how many contradictions of trusted texts are found with the real embedder."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from corpus_guard.claims.languages import load_languages
from corpus_guard.detectors.samples import Half
from corpus_guard.domain import TrustLevel
from corpus_guard.evaluation.contradictions.cases import FOLDER, CaseGroup, Origin, load_cases
from corpus_guard.evaluation.contradictions.figures import (
    ContradictionFigure,
    contradicted_texts,
    measure_contradictions,
)
from corpus_guard.evaluation.contradictions.honest import measure_honest
from corpus_guard.models import Models
from corpus_guard.screening.survey.nearby_chunks import PlacedChunk
from corpus_guard.screening.wording import load_wording
from corpus_guard.yaml_text import parse_yaml


def test_there_are_enough_cases_of_every_kind_over_many_domains() -> None:
    trusted, cases = load_cases()

    generated = Counter(case.group for case in cases if case.origin is Origin.GENERATED)
    written = Counter(case.group for case in cases if case.origin is Origin.WRITTEN)
    assert min(generated.values()) >= 60
    assert written[CaseGroup.CONTRADICTION] >= 20
    assert len({case.domain for case in cases}) >= 6
    assert {"value", "date", "name", "negation", "unit", "contact"} <= {case.kind for case in cases}
    assert len(trusted) == len({document.text for document in trusted})


def test_a_seed_chooses_wordings_and_the_same_seed_the_same() -> None:
    assert load_cases(3) == load_cases(3)
    assert load_cases(3) != load_cases(4)


@pytest.fixture(scope="module")
def figures(models: Models) -> list[ContradictionFigure]:
    wording = load_wording(models.frequency_vocabulary)
    return measure_contradictions(models.embedder, wording, without=[Origin.PARAPHRASE])


def share(figures: list[ContradictionFigure], *groups: CaseGroup, origin: Origin, half: Half | None = None) -> float:
    chosen = [
        figure
        for figure in figures
        if figure.group in groups and figure.origin is origin and half in {None, figure.half}
    ]
    return sum(figure.contradicted for figure in chosen) / sum(figure.texts for figure in chosen)


def test_generated_contradictions_are_found(figures: list[ContradictionFigure]) -> None:
    for half in (Half.TUNING, Half.VALIDATION):
        assert share(figures, CaseGroup.CONTRADICTION, origin=Origin.GENERATED, half=half) >= 0.9
    assert share(figures, CaseGroup.NEAR_COPY, origin=Origin.GENERATED) >= 0.95


def test_hardly_an_honest_text_is_taken_for_one(figures: list[ContradictionFigure]) -> None:
    honest = (CaseGroup.RESTATEMENT, CaseGroup.UPDATE)

    assert share(figures, *honest, origin=Origin.GENERATED) <= 0.01
    assert share(figures, CaseGroup.UPDATE, origin=Origin.WRITTEN) <= 0.05


def test_what_people_write_freely_is_found_less_often(figures: list[ContradictionFigure]) -> None:
    """No target that is met: the figure that must not get worse."""
    assert share(figures, CaseGroup.CONTRADICTION, origin=Origin.WRITTEN) >= 0.85
    assert share(figures, CaseGroup.CONTRADICTION, origin=Origin.FREE) >= 0.55
    assert share(figures, CaseGroup.CONTRADICTION, origin=Origin.REPLY) >= 0.05
    assert share(figures, CaseGroup.CONTRADICTION, origin=Origin.PAGE) >= 0.8
    assert share(figures, CaseGroup.RESTATEMENT, CaseGroup.UPDATE, origin=Origin.FREE) <= 0.04
    assert share(figures, CaseGroup.UPDATE, origin=Origin.PAGE) <= 0.05
    assert share(figures, CaseGroup.UPDATE, origin=Origin.REPLY) <= 0.04


@pytest.mark.parametrize(("origin", "most_flagged"), [(Origin.LANGUAGE, 0.02), (Origin.DETAIL, 0.1)])
def test_other_languages_and_details_are_read(
    figures: list[ContradictionFigure], origin: Origin, most_flagged: float
) -> None:
    assert share(figures, CaseGroup.CONTRADICTION, origin=origin, half=Half.VALIDATION) >= 0.8
    assert share(figures, CaseGroup.UPDATE, origin=origin) <= most_flagged  # two of twenty details


def test_each_language_that_is_read_has_cases() -> None:
    domains = {case.domain.partition(" ")[0] for case in load_cases()[1] if case.origin is Origin.LANGUAGE}

    assert domains == load_languages().keys()


def test_what_strangers_write_is_hardly_found(figures: list[ContradictionFigure]) -> None:
    """No target that is met: what writers who know nothing of the rules say is the figure to raise (goal: 0.9)."""
    assert share(figures, CaseGroup.CONTRADICTION, origin=Origin.INDEPENDENT) >= 0.02
    assert share(figures, CaseGroup.UPDATE, origin=Origin.INDEPENDENT) <= 0.06


@pytest.mark.slow
def test_what_they_say_of_one_statement_is_hardly_found_either(models: Models) -> None:
    wording = load_wording(models.frequency_vocabulary)

    figures = measure_contradictions(models.embedder, wording)

    assert share(figures, CaseGroup.CONTRADICTION, origin=Origin.PARAPHRASE) >= 0.04
    assert share(figures, CaseGroup.RESTATEMENT, CaseGroup.UPDATE, origin=Origin.PARAPHRASE) <= 0.02


def test_every_paraphrase_is_about_a_statement_of_its_trusted_text() -> None:
    files = sorted(FOLDER.glob("paraphrases_*.yaml"))
    assert files
    for path in files:
        for entry in parse_yaml(path.read_text("utf-8"), path.name):
            trusted = " ".join(entry["trusted"].split())
            texts = [text for group in ("contradictions", "same", "other") for text in entry[group]]
            assert all(" ".join(text["of"].split()) in trusted for text in texts), entry["trusted"]


def test_honest_texts_arrive_beside_trusted_ones_of_other_documents(
    models: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("corpus_guard.evaluation.contradictions.honest.ARRIVING", 2)
    rows = [
        {"repo": "kestrel", "path": f"docs/k{number}.md", "text": f"The Kestrel K4 drone weighs {number} kg."}
        for number in (2, 3, 4)
    ]
    file = tmp_path / "pages.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in [*rows, {**rows[0], "text": rows[1]["text"]}]))
    wording = load_wording(models.frequency_vocabulary)

    results = list(measure_honest(file, models.embedder, wording, [Half.TUNING, Half.VALIDATION]))

    (figure, flagged), (empty, _) = sorted(results, key=lambda result: -result[0].texts)
    assert (figure.texts, figure.trusted, empty.texts) == (2, 2, 0), "all pages of a repository are in one half"
    assert figure.flagged == len(flagged) > 0
    assert figure.embedding_ms > 0 and figure.comparison_ms > 0
    assert all(each.text.document != each.trusted.document for each in flagged)
    assert all("weighs" in sentence for each in flagged for sentence in each.sentences())


def test_what_trusted_texts_disagree_about_is_not_counted(models: Models) -> None:
    texts = [f"The Kestrel K4 drone weighs {number} kg." for number in (2, 3, 3, 4)]
    trusts = [TrustLevel.TRUSTED] * 2 + [TrustLevel.OPEN] * 2
    places = [PlacedChunk(f"d{n}", f"v{n}", f"c{n}", 0, 0, trust) for n, trust in enumerate(trusts)]

    found = contradicted_texts(places, texts, models.embedder.embed(texts), load_wording(models.frequency_vocabulary))

    assert found.keys() == {"v3"}


def test_trusted_texts_that_come_late_contradict_what_is_served(models: Models) -> None:
    wording = load_wording(models.frequency_vocabulary)
    texts = ["The Kestrel K4 drone weighs 2 kg.", "It weighs 5 kg, the Kestrel K4.", "The Kestrel K4 flies 9 km."]
    trusts = [TrustLevel.TRUSTED, TrustLevel.OPEN, TrustLevel.OPEN]
    places = [PlacedChunk(f"d{n}", f"v{n}", f"c{n}", 0, 0, trust) for n, trust in enumerate(trusts)]
    vectors = models.embedder.embed(texts)

    late = contradicted_texts(places, texts, vectors, wording, late=True)

    assert late.keys() == contradicted_texts(places, texts, vectors, wording).keys() == {"v1"}
    found = late["v1"]
    assert (found.is_served, found.trust, found.other.version_id) == (True, TrustLevel.TRUSTED, "v0")
    values = [
        text[value.start : value.end] for text, (value,) in ((texts[1], found.values), (texts[0], found.other.values))
    ]
    assert values == ["5 kg", "2 kg"]
    none = contradicted_texts(places[:1], texts[:1], vectors[:1], wording, late=True)
    assert none == {}
