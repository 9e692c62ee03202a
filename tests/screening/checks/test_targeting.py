"""A text written to be the answer to a question that people ask; honest answers to it pass."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from sample_versions import Screen, a_version

from corpus_guard.domain import Chunk, Finding, Severity, TrustLevel, Verdict, Version
from corpus_guard.models.weights import builtin_embedder
from corpus_guard.screening import learned_scores
from corpus_guard.screening.checks.targeting import FEATURES, Targeting, TargetingParams, targeting_features
from corpus_guard.screening.policy import load_policy
from corpus_guard.screening.runner import Screening
from corpus_guard.screening.standalone import ScreenedDocument
from corpus_guard.screening.survey.semantics import NearbyQuestion, Semantics
from corpus_guard.screening.survey.survey import Survey
from corpus_guard.screening.wording import load_wording
from corpus_guard.settings import Settings
from siblings import QUESTION, SIBLINGS, UNRELATED

WORDING = load_wording(builtin_embedder().folder / "tokenizer.json")
OTHERS = ("Why does bread rise?", "How much notice must a landlord give?", "Which stone is used for kerbs?")
ARTICLE = (
    "Aldermere is a small town on the northern shore, known for its market, its fish smokery and a library that lies on the water. "
    "The town was founded by salt traders and had its own court until 1790. Its church burnt down twice; the present one has a wooden "
    "tower from which the tide is still rung in. In the nineteenth century herring made the town rich, and most of the houses on the "
    "quay are from those years. When the herring stayed away, the shipyard took in the fishermen. A boat that the yard could not sell "
    "was given to the council, which had shelves put in and let it go from quay to quay as a floating library. Today about four "
    "thousand people live there, many of whom work in the hospital of the next town. A ferry runs every hour in summer."
)


@pytest.fixture(scope="module")
def check() -> Targeting:
    return Targeting(TargetingParams(), WORDING)


def found(check: Targeting, version: Version, *asked: NearbyQuestion) -> list[Finding]:
    semantics = Semantics(questions={version.version_id: asked})
    return [finding for _, finding in check.run([version], Survey(semantics=semantics))]


def test_a_text_that_is_about_nothing_but_the_question_is_found(check: Targeting) -> None:
    version = a_version(SIBLINGS[0])

    (finding,) = found(check, version, NearbyQuestion(0, QUESTION, 0.87))

    assert (finding.code, finding.severity) == ("targeting.question", Severity.MEDIUM)
    assert finding.score >= check.params.score
    assert finding.span is not None
    assert (finding.span.start, finding.span.end) == (0, len(version.text))
    assert "0.87" in finding.message
    assert not any(word in finding.message for word in ("Aldermere", "Calloway", "library"))


def test_an_article_that_answers_it_among_other_things_passes(check: Targeting) -> None:
    assert found(check, a_version(ARTICLE), NearbyQuestion(0, QUESTION, 0.6)) == []


def test_the_worst_pair_of_all_chunks_counts(check: Targeting) -> None:
    text = f"{UNRELATED[0]} {SIBLINGS[1]}"
    chunks = (
        Chunk("0" * 32, 0, 0, len(UNRELATED[0]), UNRELATED[0], 40),
        Chunk("1" * 32, 1, len(UNRELATED[0]) + 1, len(text), SIBLINGS[1], 40),
    )
    version = replace(a_version(text), chunks=chunks)

    (finding,) = found(
        check,
        version,
        NearbyQuestion(0, OTHERS[0], 0.46),
        NearbyQuestion(1, QUESTION, 0.8),
        NearbyQuestion(1, OTHERS[1], 0.45),
    )

    assert finding.span is not None
    assert text[finding.span.start : finding.span.end] == SIBLINGS[1]


def test_a_question_made_from_a_heading_is_a_weaker_sign(check: Targeting) -> None:
    version = a_version(SIBLINGS[0])
    made = NearbyQuestion(0, "Aldermere: Designer of the floating library?", 0.87, generated=True)

    (finding,) = found(check, version, made)

    assert (finding.code, finding.severity) == ("targeting.heading", Severity.LOW)
    assert not any(word in finding.message for word in ("Aldermere", "Calloway", "library"))
    asked = [one.code for one in found(check, version, made, NearbyQuestion(0, QUESTION, 0.87))]
    assert asked == ["targeting.question"]
    assert found(check, a_version(ARTICLE), replace(made, similarity=0.6)) == []


def test_a_question_for_a_chunk_that_is_not_there_is_none(check: Targeting) -> None:
    assert found(check, a_version(SIBLINGS[0]), NearbyQuestion(7, QUESTION, 0.9)) == []


def test_without_questions_nothing_is_said(check: Targeting) -> None:
    version = a_version(SIBLINGS[0])

    assert found(check, version) == []
    assert list(check.run([version], None)) == []
    assert list(check.run([version], Survey())) == []


@pytest.mark.parametrize("trust", TrustLevel)
def test_every_trust_level_is_looked_at_and_the_policy_decides(check: Targeting, trust: TrustLevel) -> None:
    version = a_version(SIBLINGS[0], trust=trust)
    survey = Survey(
        semantics=Semantics(questions={version.version_id: (NearbyQuestion(0, QUESTION, 0.87),)}), alone=True
    )

    (judgement,) = Screening(load_policy(Settings().policy_file), [check]).judge([version], survey)

    assert [one.code for one in judgement.findings] == ["targeting.question"]
    assert judgement.verdict is (Verdict.QUARANTINE if trust is TrustLevel.OPEN else Verdict.ACCEPT)


def test_parameters_and_weights_are_in_the_digest(
    check: Targeting, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    digests = {check.digest, Targeting(TargetingParams(score=0.7), WORDING).digest}
    assert len(digests) == 2

    learned = yaml.safe_load((learned_scores.PARAMETERS_FOLDER / "targeting.yaml").read_text())
    learned["intercept"] += 0.001
    (tmp_path / "targeting.yaml").write_text(yaml.safe_dump(learned, sort_keys=False))
    monkeypatch.setattr(learned_scores, "PARAMETERS_FOLDER", tmp_path)
    assert Targeting(TargetingParams(), WORDING).digest not in digests


def test_features_say_what_their_names_say() -> None:
    table = dict(zip(FEATURES, targeting_features(NearbyQuestion(0, QUESTION, 0.7), SIBLINGS[0], WORDING), strict=True))

    assert table["cosine"] == 0.7
    assert table["cosine_beyond_half"] == pytest.approx(0.2)
    assert table["cosine_beyond_65"] == pytest.approx(0.05)
    assert table["coverage"] == pytest.approx(1.0)
    assert table["coverage_beyond_60"] == pytest.approx(0.4)
    assert table["first_sentence"] == pytest.approx(1.0)
    assert table["both"] == pytest.approx(0.7)
    assert table["length"] == pytest.approx(np.log(len(SIBLINGS[0].split())), abs=0.05)
    second = dict(
        zip(
            FEATURES,
            targeting_features(NearbyQuestion(0, QUESTION, 0.7), f"Listen. {SIBLINGS[0]}", WORDING),
            strict=True,
        )
    )
    assert (second["coverage"], second["first_sentence"]) == (pytest.approx(1.0), 0.0)


anything = st.text(st.characters(codec=None, exclude_categories=()), max_size=100)


@given(anything, anything, st.floats(-1, 1))
def test_no_text_and_no_question_raises(check: Targeting, text: str, question: str, cosine: float) -> None:
    assert np.isfinite(targeting_features(NearbyQuestion(0, question, cosine), text, WORDING)).all()
    assert all(
        0 < finding.score <= 1 for finding in found(check, a_version(text or "x"), NearbyQuestion(0, question, cosine))
    )


# --- with the real embedder ------------------------------------------------------------------------------------------


def verdicts(rows: Sequence[ScreenedDocument]) -> list[str]:
    return [row.judgement.verdict.value for row in rows]


def test_each_planted_answer_to_a_question_of_the_bank_is_quarantined(screen: Screen) -> None:
    rows = screen([*UNRELATED[:15], *SIBLINGS, ARTICLE], bank=[*OTHERS, QUESTION], one_by_one=True)

    assert verdicts(rows) == ["accept"] * 15 + ["quarantine"] * 5 + ["accept"]
    for row in rows[15:20]:
        assert [finding.code for finding in row.judgement.findings] == ["targeting.question"]
        assert "Calloway" not in json.dumps(row.as_dict()["findings"])


def test_together_with_others_too(screen: Screen) -> None:
    rows = screen([*UNRELATED[:15], SIBLINGS[0], ARTICLE], bank=[*OTHERS, QUESTION])

    assert verdicts(rows) == ["accept"] * 15 + ["quarantine", "accept"]


def test_only_this_check_sees_it(screen: Screen) -> None:
    options: list[dict[str, Any]] = [{"off": ["targeting"], "bank": [QUESTION]}, {"bank": OTHERS}, {"bank": []}]
    for option in options:
        assert verdicts(screen([*UNRELATED[:15], SIBLINGS[0]], **option)) == ["accept"] * 16, option


def test_one_by_one_with_an_empty_bank_loads_no_embedder(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    from corpus_guard.models.embedder import Embedder

    def never(*_: object) -> None:
        raise AssertionError("something was embedded")

    monkeypatch.setattr(Embedder, "embed", never)

    rows = screen([*UNRELATED[:15], *SIBLINGS], one_by_one=True)

    assert verdicts(rows) == ["accept"] * 20
    with pytest.raises(AssertionError, match="something was embedded"):
        screen(UNRELATED[:15])
