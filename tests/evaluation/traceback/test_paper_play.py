"""The paper's experiments on six questions, over a real Chroma: each cell is measured once, and a stopped play continues."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attacked_questions import QUESTIONS, Containing, a_row, write_rows
from corpus_guard.detectors.attack_simulation import PoisonedCorpus
from corpus_guard.detectors.planting import Attack
from corpus_guard.detectors.target_questions import TargetQuestion
from corpus_guard.errors import JudgeFailed, Misuse
from corpus_guard.evaluation.traceback.evaluated_judges import EvaluatedJudge, Events
from corpus_guard.evaluation.traceback.judge_factory import JudgeFactory
from corpus_guard.evaluation.traceback.mlflow_log import PAPER_EXPERIMENT, log_paper
from corpus_guard.evaluation.traceback.paper_plan import PaperPart, PaperPlan
from corpus_guard.evaluation.traceback.paper_play import CELLS_FILE, PaperRequest, play_paper
from corpus_guard.evaluation.traceback.paper_report import markdown
from corpus_guard.evaluation.traceback.rag_events import observe_events
from corpus_guard.models import Models
from corpus_guard.settings import Settings
from corpus_guard.traceback.judges import Judge
from corpus_guard.traceback.judges.embedded import SHIPPED_MODEL, EmbeddedJudge
from corpus_guard.traceback.retrieval import RetrievedText

ATTACKS = (Attack.POISONEDRAG_B, Attack.INSTRUINJECT)
PLAN = PaperPlan(
    parts=(PaperPart.TABLE_1, PaperPart.TABLE_2, PaperPart.TABLE_4, PaperPart.FIGURES),
    data=("NQ",),
    attacks=ATTACKS,
    baselines=(EvaluatedJudge.TKM,),
    defences=(),
    planted=(5, 7),
)


@pytest.fixture
def targets(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "nq.jsonl", [a_row(number) for number in range(len(QUESTIONS))])


def containing(factory: JudgeFactory, name: EvaluatedJudge) -> Judge:
    return Containing()


def no_judge(factory: JudgeFactory, name: EvaluatedJudge) -> Judge:
    raise AssertionError(f"measured again: {name}")


def test_a_play_measures_each_cell_once_and_continues(
    settings: Settings, models: Models, targets: Path, tmp_path: Path
) -> None:
    from mlflow import MlflowClient

    folder = tmp_path / "paper"
    request = PaperRequest({"NQ": targets}, PLAN, limit=2)
    result = play_paper(settings, request, folder, models=models, make=containing)

    lines = (folder / CELLS_FILE).read_text().splitlines()
    # Two attacks: two judges, one disguised, and M = 7; table 2 and M = 5 share the cells of table 1.
    assert len(lines) == len(result.cells) == 2 * (2 + 1 + 1)
    first = result.cells["NQ/poisonedrag-b/none/m5/k5/judge embedded"]
    assert (first["dacc"], first["poisoned"], first["queries"]) == (1.0, 10, 2)
    assert result.cells["NQ/poisonedrag-b/none/m7/k5/judge embedded"]["poisoned"] == 14
    assert (result.about["sample"], result.about["sampled_texts"]) == (1_000, {"NQ": 12}), (
        "there are no more clean texts"
    )
    assert "* sampled texts: {'NQ': 12}\n" in markdown(result, "")

    (folder / CELLS_FILE).write_text("\n".join([*lines, '{"context": "cut of']))
    again = play_paper(settings, request, folder, models=models, make=no_judge)
    assert again.cells == result.cells

    other = PaperRequest({"NQ": targets}, PLAN, limit=2, seed=1)
    with pytest.raises(AssertionError, match="measured again"):
        play_paper(settings, other, folder, models=models, make=no_judge)

    run = log_paper(settings, result, "guard evaluate ragforensics")
    client = MlflowClient(f"sqlite:///{settings.home / 'mlflow' / 'mlflow.db'}")
    assert client.get_experiment(client.get_run(run).info.experiment_id).name == PAPER_EXPERIMENT
    assert {file.path for file in client.list_artifacts(run)} == {"tables.md", "evaluation.json", "figure-nq.png"}
    kept = next((settings.home / "mlflow").rglob("evaluation.json")).read_text()
    assert "violet" not in kept
    assert json.loads(kept)["cells"]


def test_a_defence_without_a_trace_needs_no_judge_and_a_data_set_may_have_its_own(
    settings: Settings, models: Models, targets: Path, tmp_path: Path
) -> None:
    plan = PaperPlan(
        parts=(PaperPart.TABLE_6,), data=("NQ",), attacks=ATTACKS[:1], defences=("none", "ptr"), baselines=()
    )
    folder, own = tmp_path / "paper", tmp_path / "own.json"
    request = PaperRequest({"NQ": targets}, replace(plan, defences=("none",)), limit=1)
    play_paper(settings, request, folder, models=models, make=no_judge)

    shipped = json.loads(SHIPPED_MODEL.read_bytes())
    own.write_text(json.dumps({**shipped, "trained_on": "another data set"}))
    request = PaperRequest({"NQ": targets}, plan, {"NQ": own}, limit=1)
    with pytest.raises(AssertionError, match="measured again: embedded"):
        play_paper(settings, request, folder, models=models, make=no_judge)
    played = play_paper(settings, request, folder, models=models)

    lines = [json.loads(line)["cell"] for line in (folder / CELLS_FILE).read_text().splitlines()]
    assert lines == [f"NQ/poisonedrag-b/none/m5/k5/defence {name}" for name in ("none", "ptr")]
    (judges,) = played.about["judges"].values()
    assert judges["embedded"] == EmbeddedJudge.from_file(models, own).digest != EmbeddedJudge.shipped(models).digest
    with pytest.raises(Misuse, match="judge of 'HotpotQA': no such data set is played; expected NQ"):
        PaperRequest({"NQ": targets}, plan, {"HotpotQA": own})


def test_a_play_needs_known_data_sets_and_defences(targets: Path) -> None:
    with pytest.raises(Misuse, match="got none; expected files for some of NQ, HotpotQA, MS-MARCO"):
        PaperRequest({}, PLAN)
    with pytest.raises(Misuse, match="--defence 'prayer': unknown"):
        PaperRequest({"NQ": targets}, PaperPlan(defences=("prayer",)))


@pytest.mark.slow
def test_every_part_is_played_with_the_real_models(settings: Settings, models: Models, tmp_path: Path) -> None:
    targets = write_rows(tmp_path / "nq.jsonl", [a_row(1)])
    plan = PaperPlan(data=("NQ",), planted=(5,), retrieved=(5,))
    request = PaperRequest({"NQ": targets}, plan, limit=1, optimised_texts=1, sample=3)

    result = play_paper(settings, request, tmp_path / "paper", models=models)

    assert set(result.cells) == {cell.key for cells in plan.cells().values() for cell in cells}
    undefended, removed = (
        result.cells[f"NQ/poisonedrag-b/none/m5/k5/defence {name}"]["asr"] for name in ("none", "ptr")
    )
    assert undefended in {0.0, 1.0}, "whether a small model repeats one lie differs with the processor"
    assert removed == 0.0


class FirstText:
    """Answers with the first text it is given; some questions it refuses."""

    name = "first text"

    def answer(self, question: str, texts: list[str]) -> str:
        if "ropes" in question:
            raise JudgeFailed("no answer")
        return f"I read: {texts[0]}"


class Lists:
    """Corpus that retrieves what is listed for a question."""

    def __init__(self, texts: dict[str, str]) -> None:
        self._texts = texts

    def retrieve(self, query: str, k: int) -> list[RetrievedText]:
        import numpy as np

        return [RetrievedText("id", self._texts[query], 1.0, np.ones(1, np.float32))]


def test_only_answers_that_match_the_attackers_are_events() -> None:
    rows = [a_row(number) for number in (0, 1, 5)]
    targets = tuple(
        TargetQuestion(str(row["id"]), row["question"], (row["correct_answer"],), (row["incorrect_answer"],), (), ())
        for row in rows
    )
    texts = {rows[0]["question"]: "It is violet.", rows[1]["question"]: "It is Ada Moss.", rows[2]["question"]: "?"}
    corpus: Any = Lists(texts)
    poisoned = PoisonedCorpus(targets, {}, corpus, (), 0, 3, 1)

    events = observe_events(poisoned, 5, FirstText())  # type: ignore[arg-type]

    ((target, complaint),) = events.succeeded
    assert (target.id, complaint.output) == ("q0", "I read: It is violet.")
    assert events.as_dict() == {
        "rag_model": "first text",
        "attacks": 3,
        "attacks_succeeded": 1,
        "attacks_without_an_answer": 1,
    }
    assert Events.RAG.value == "rag"
