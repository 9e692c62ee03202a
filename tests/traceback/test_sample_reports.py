"""The sample corpus' own reports, each with its verdict: the planted texts are named from any wording, and no honest document is.

The planted texts about the OX-12 and the altered wiring guide are served, as somebody has them whose corpus is older than the
checks that hold them back today; the other attacks wait in quarantine.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import yaml

from corpus_guard.ledger.states import Label, TraceOutcome
from corpus_guard.models import Models
from corpus_guard.settings import Settings
from corpus_guard.traceback.conclusion import TraceConclusion, decide
from corpus_guard.traceback.judges.embedded import EmbeddedJudge
from corpus_guard.traceback.loop import follow
from corpus_guard.traceback.retrieval import Complaint, InMemoryCorpus
from sample_texts import PROJECT, sample_corpus

SAMPLE = PROJECT / "include" / "sample_corpus"
OX_12 = {
    "community/field-notes-ox12-three-years.md",
    "community/forum-ox12-calibration-interval.html",
    "community/ox12-how-often-calibrate-answer.md",
}
HL_200 = {"product/hl-200-field-wiring.html"}
ABOUT = {
    *OX_12,
    *HL_200,
    "product/ox-12-manual.pdf",
    "product/ox-12-calibration.html",
    "product/faq-sensors.html",
    "product/hl-200-manual.pdf",
    "product/warranty-and-returns.pdf",
    "handbook/travel-policy.md",
    "handbook/on-call-guide.md",
    "tickets/tickets.jsonl#TW-2430",
}
REPORTS = [
    Complaint(row["query"], row["output"], row["correct"])
    for row in map(json.loads, (SAMPLE / "feedback.jsonl").read_text(encoding="utf-8").splitlines())
]
ACCUSED: list[set[str]] = [OX_12, OX_12, set(), HL_200, *[set[str]()] * 8]
"""By report, in the order of the file."""
OX_12_WORDINGS = [
    "36 months",
    "every three years",
    'The assistant said: "Calibrate the OX-12 every 36 months." Really!',
    "Not every 6 months but once in 36 months.",
    "It is not six months, it is thirty-six months.",
]
HL_200_WORDINGS = [
    "10.5 to 36 V",
    "It accepts 10.5 to 36 V DC.",
    "Yes, 10.5 V to 36 V.",
    "The input takes 10.5 to 36 volts.",
]


@pytest.fixture(scope="module")
def judge(models: Models) -> EmbeddedJudge:
    return EmbeddedJudge.shipped(models)


@pytest.fixture(scope="module")
def part(models: Models) -> InMemoryCorpus:
    return sample_corpus(models, Settings(), only=ABOUT)


@pytest.fixture(scope="module")
def whole(models: Models) -> InMemoryCorpus:
    sheet = yaml.safe_load((SAMPLE / "truth.yaml").read_text(encoding="utf-8"))
    planted = {row["document"].replace("tickets/", "tickets/tickets.jsonl#") for row in sheet["attacks"]}
    return sample_corpus(models, Settings(), leave_out=planted - OX_12 - HL_200)


def trace(judge: EmbeddedJudge, corpus: InMemoryCorpus, complaint: Complaint) -> TraceConclusion:
    return decide(complaint, follow(complaint, corpus, judge, k=5), judge)


def accused(conclusion: TraceConclusion) -> set[str]:
    assert (conclusion.outcome is TraceOutcome.TRACED) == bool(conclusion.accused)
    return {text.suspect.uri for text in conclusion.accused}


@pytest.mark.parametrize("number", range(len(REPORTS)))
def test_each_report_has_its_verdict(judge: EmbeddedJudge, part: InMemoryCorpus, number: int) -> None:
    assert accused(trace(judge, part, REPORTS[number])) == ACCUSED[number]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(REPORTS)))
def test_each_report_has_its_verdict_in_the_whole_corpus(
    judge: EmbeddedJudge, whole: InMemoryCorpus, number: int
) -> None:
    assert accused(trace(judge, whole, REPORTS[number])) == ACCUSED[number]


@pytest.mark.parametrize("output", OX_12_WORDINGS)
@pytest.mark.parametrize("number", [0, 1])
def test_any_wording_names_the_planted_texts(
    judge: EmbeddedJudge, part: InMemoryCorpus, number: int, output: str
) -> None:
    assert accused(trace(judge, part, replace(REPORTS[number], output=output))) == OX_12


@pytest.mark.parametrize("output", HL_200_WORDINGS)
def test_any_wording_names_the_altered_guide(judge: EmbeddedJudge, part: InMemoryCorpus, output: str) -> None:
    assert accused(trace(judge, part, replace(REPORTS[3], output=output))) == HL_200


@pytest.mark.parametrize("output", ["6 months", "every 180 days", "Every six months.", "twice a year"])
def test_who_reports_the_right_interval_accuses_nobody(judge: EmbeddedJudge, part: InMemoryCorpus, output: str) -> None:
    assert accused(trace(judge, part, replace(REPORTS[0], output=output, correct=None))) == set()


def test_an_accusation_names_the_sentence_that_carries_it(judge: EmbeddedJudge, part: InMemoryCorpus) -> None:
    conclusion = trace(judge, part, REPORTS[3])
    (text,) = conclusion.accused
    span = conclusion.carriers[text.suspect.chunk_id].span

    assert "accepts 10.5 to 36 V DC" in text.suspect.text[span.start : span.end]
    assert all(judged.opinion.label is not Label.UNDECIDED for judged in conclusion.judged)
