"""The RAG model of the baselines, embedded and behind an endpoint; and all six by their names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from baselines.talking import COMPLAINT, LIE, PAGE, TRUTH, Talker, a_suspect
from corpus_guard.evaluation.baselines import BASELINES, BaselineMaterial
from corpus_guard.evaluation.baselines.interface import EmbeddedBaselineRag, create_baseline_rag
from corpus_guard.ledger.states import Label
from corpus_guard.models import Models
from corpus_guard.settings import Settings
from corpus_guard.traceback.judges import JudgeConclusion
from endpoint import Asked, Reply, says, scripted

NAMES = ["ppl-100", "ppl-90", "expgen", "rkm", "tkm", "poifor"]


def test_the_registry_holds_all_six_by_their_names(models: Models) -> None:
    material = BaselineMaterial(models, Talker(), [LIE, PAGE])

    assert list(BASELINES) == NAMES
    made = {name: make(material) for name, make in BASELINES.items()}
    assert {name: judge.name for name, judge in made.items()} == {name: name for name in NAMES}
    assert len({judge.digest for judge in made.values()}) == 6
    assert all(len(judge.digest) <= 200 for judge in made.values())
    assert all(judge.conclude(COMPLAINT, []) == JudgeConclusion() for judge in made.values())


@pytest.mark.parametrize("name", ["ppl-90", "expgen", "rkm", "tkm", "poifor"])
def test_each_judges_with_the_embedded_models(name: str, models: Models, tmp_path: Path) -> None:
    rag = create_baseline_rag(Settings(home=tmp_path), models)
    assert isinstance(rag, EmbeddedBaselineRag)
    material = BaselineMaterial(models, rag, [PAGE, TRUTH, f"{PAGE} The ferry leaves at noon."])
    new = [a_suspect(LIE, 0), a_suspect(PAGE, 90)]

    opinions = BASELINES[name](material).judge(COMPLAINT, new, new)

    assert len(opinions) == 2
    assert all(0 <= one.score <= 1 and one.label in set(Label) and len(one.explanation) < 200 for one in opinions)
    assert not any(text in one.explanation for one in opinions for text in ("Ben", "quay"))
    if name in {"rkm", "tkm", "poifor"}:
        assert [one.label for one in opinions] == [Label.POISONED, Label.BENIGN]


def test_a_chat_model_does_the_same_behind_an_endpoint(models: Models, tmp_path: Path) -> None:
    def script(asked: Asked) -> Reply:
        if "two groups" in asked.last:
            return says("<think>hm</think>Group A: 1\nGroup B: 2")
        if "two lines" in asked.last:
            return says("Answer: Ben Ray\nPassages: 1")
        return says("Ben Ray" if LIE in asked.last else "It was built in 1870")

    with scripted(script) as endpoint:
        settings = Settings(home=tmp_path, rag_model="chat", chat_url=endpoint.url, chat_model="m")
        material = BaselineMaterial(models, create_baseline_rag(settings, models), [PAGE])
        new = [a_suspect(LIE), a_suspect(PAGE)]
        for name in ("expgen", "rkm", "poifor"):
            opinions = BASELINES[name](material).judge(COMPLAINT, new, new)
            assert [one.label for one in opinions] == [Label.POISONED, Label.BENIGN], name
        asked = len(endpoint.asked)
        assert material.rag.answers([(COMPLAINT.query, [LIE]), (COMPLAINT.query, [LIE])]) == ["Ben Ray"] * 2
        assert len(endpoint.asked) == asked  # each question is asked once
        assert material.rag.splits

    shown = endpoint.asked[0].last
    assert re.search(r"=== (\w+) passage 1 ===\n.*\n=== \1 end ===", shown, re.DOTALL)
