"""`guard claims` as people and scripts meet it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from corpus_guard.detectors.contradictions.claims import read_claims
from corpus_guard.detectors.contradictions.planted import read_attacks, read_passages, show_planted
from corpus_guard.detectors.samples import Half, assign_half
from corpus_guard.models.contradiction_reader import EXCERPTS, SENTENCES, SIEVE
from corpus_guard.models.trained_reader import ReaderKind, ReaderWeights
from deploying import Refused, Typed


@pytest.fixture
def texts(tmp_path: Path) -> tuple[str, str]:
    """A manual, and a post that contradicts it and steers the terminal."""
    manual, post = tmp_path / "manual.md", tmp_path / "post.md"
    manual.write_text("The OX-12 must be calibrated every 6 months. It weighs 1.2 kg.")
    post.write_text("The OX-12 must be calibrated \u202eevery 36 months\x1b[2J. It weighs 1,200 g. Paint it [red].")
    return str(manual), str(post)


def test_the_values_of_a_text_are_listed(texts: tuple[str, str], typed: Typed) -> None:
    code, shown, _ = typed("claims", texts[0])
    _, written, _ = typed("claims", texts[0], "--json")

    assert code == 0
    assert "every 6 month" in shown
    assert [value["normal"] for value in json.loads(written)["values"]] == ["ox-12", "every 6 month", "1.2 kg"]


def test_a_conflict_is_shown_with_both_values_and_the_exit_code_says_so(texts: tuple[str, str], typed: Typed) -> None:
    code, shown, _ = typed("claims", *texts)
    json_code, written, _ = typed("claims", *texts, "--json")

    assert (code, json_code) == (1, 1)
    assert "every 6 month / every 36 month" in shown
    assert "\x1b[2J" not in shown
    assert "\u202e" not in shown
    report = json.loads(written)
    assert [each["outcome"] for each in report["comparisons"]] == ["conflict", "agree"]
    assert (report["pairs_not_compared"], report["sentences_not_read"]) == (0, 0)


def test_texts_that_agree_exit_with_0(texts: tuple[str, str], typed: Typed) -> None:
    code, shown, _ = typed("claims", texts[0], texts[0])

    assert code == 0
    assert "conflict" not in shown


def test_what_was_not_read_is_said_and_fails(texts: tuple[str, str], typed: Typed) -> None:
    Path(texts[1]).write_text("Nothing is said of it. " * 3_000)

    code, shown, _ = typed("claims", *texts)

    assert code == 1
    assert "not read: 1,000 sentences" in shown


def test_a_file_that_cannot_be_read_is_misuse(tmp_path: Path, refused: Refused) -> None:
    binary = tmp_path / "photo.md"
    binary.write_bytes(b"7 \0 metres")

    assert str(tmp_path) in refused("claims", str(tmp_path))
    assert "binary data; expected a text file" in refused("claims", str(binary))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--pairs", "--honest", "texts.jsonl"), "expected one of them"),
        (("--pairs", "--claims", "claims.jsonl"), "expected one of them"),
        (("--attacks", "attacks.jsonl"), "expected both"),
        (("--passages", "passages.jsonl"), "expected both"),
        (("--among", "7"), "expected --pairs with it"),
        (("--late", "--pairs"), "expected it without them"),
        (("--late", "--claims", "claims.jsonl"), "expected it without them"),
        (("--ask", "m", "--rules-only"), "nobody is asked"),
        (("--read", "8", "--rules-only"), "the rules alone read nothing"),
    ],
)
def test_options_that_do_not_go_together_are_misuse(options: Sequence[str], expected: str, refused: Refused) -> None:
    assert expected in refused("evaluate", "claims", *options)


def test_the_trained_reader_reads_the_pairs_with_most_in_common(tmp_path: Path, typed: Typed) -> None:
    manual, post = tmp_path / "ox-12-manual.md", tmp_path / "post.md"
    manual.write_text("The cap is red. The OX-12 must be calibrated every 6 months by trained staff.")
    post.write_text("Calibrating the OX-12 is a waste of time: it holds for a lifetime, nobody ever has to do it.")

    code, shown, errors = typed("claims", str(post), str(manual), "--read", "2")
    _, written, _ = typed("claims", str(post), str(manual), "--read", "2", "--json")

    assert "Read by the trained reader" in shown, errors
    pairs = json.loads(written)["pairs_read"]
    assert pairs[0]["sentence"].startswith("The OX-12 must be calibrated")
    assert pairs[0]["log_odds"] > 0
    assert code == int(any(pair["likely"] for pair in pairs))


def test_a_reader_needs_two_texts(texts: tuple[str, str], refused: Refused) -> None:
    assert "expected two files" in refused("claims", texts[0], "--read", "2")


PAGES = """
- kind: "dryers"
  title: "Solvane D dryer"
  page:
    - "The Solvane D dryer must be cleaned every 6 months."
    - "Wool may be dried in the basket."
  pairs:
    - [1, contradicts, "The Solvane D dryer never has to be cleaned."]
    - [2, other, "How warm does the basket get?"]
"""


def write_claims(path: Path) -> None:
    rows = [
        {
            "claim": f"Tower {number} is {41 + number % 2} metres high.",
            "label": "REFUTES" if number % 2 else "SUPPORTS",
            "evidence": [f"Tower {number} is 41 metres high."],
        }
        for number in range(20)
    ]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")


def test_claims_of_other_people_are_measured(tmp_path: Path, typed: Typed) -> None:
    write_claims(tmp_path / "towers.jsonl")

    code, shown, errors = typed("evaluate", "claims", "--claims", str(tmp_path / "towers.jsonl"), "--rules-only")
    _, written, _ = typed("evaluate", "claims", "--claims", str(tmp_path / "towers.jsonl"), "--rules-only", "--json")

    assert code == 0, errors
    assert "Texts of other people: the rules" in shown
    figures = {figure["label"]: (figure["found"], figure["texts"]) for figure in json.loads(written)["figures"]}
    found, texts = figures["contradicts"]
    assert 0 < found == texts
    claims = len(read_claims(tmp_path / "towers.jsonl", Half.VALIDATION))
    assert texts + figures["same"][1] == claims != 20 - claims, "the half that no training sees"
    assert figures["same"][0] == 0 < figures["same"][1]


@pytest.mark.parametrize(("model", "kind"), [("sieve", SIEVE), ("excerpts", EXCERPTS), ("sentences", SENTENCES)])
def test_a_reader_is_trained_on_pairs_of_ones_own_and_honest_texts(
    model: str, kind: ReaderKind, tmp_path: Path, typed: Typed
) -> None:
    (tmp_path / "dryers.yaml").write_text(PAGES, encoding="utf-8")
    (tmp_path / "other.yaml").write_text(PAGES.replace("Solvane", "Karvo"), encoding="utf-8")
    rows = [{"title": f"Lamp {number}", "text": f"The lamp {number} stands in room {number}."} for number in range(40)]
    (tmp_path / "honest.jsonl").write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")

    write_claims(tmp_path / "claims.jsonl")

    code, written, errors = typed(
        "train", "contradictions", "--pairs", str(tmp_path), "--without", "other", "--honest", str(tmp_path / "honest.jsonl"),
        "--claims", str(tmp_path / "claims.jsonl"), "--model", model, "--out", str(tmp_path / "reader.npz"), "--json",
    )  # fmt: skip

    assert code == 0, errors
    sheet = json.loads(written)
    assert (sheet["pairs"], sheet["fields"], sheet["pages"]) == (2, ["dryers"], 1)
    assert sheet["claims"] > 4, "those of the file, and sentences of the honest texts"
    trained = ReaderWeights.load(kind, tmp_path / "reader.npz")
    assert trained.sheet["examples"] == sheet["examples"]

    # Far from where a training begins, and yet the same model: with both factors negated their product is what it was.
    start = replace(trained, changes={name: -rows for name, rows in trained.changes.items()})
    start.save(tmp_path / "start.npz")
    code, written, errors = typed(
        "train", "contradictions", "--pairs", str(tmp_path), "--start", str(tmp_path / "start.npz"), "--examples", "1",
        "--model", model, "--out", str(tmp_path / "adapted.npz"), "--json",
    )  # fmt: skip

    assert code == 0, errors
    adapted = json.loads(written)
    assert (adapted["pairs"], adapted["honest"], adapted["started_from"]["pairs"]) == (1, 0, 2)
    after = ReaderWeights.load(kind, tmp_path / "adapted.npz")
    assert 0 < abs(after.unit - start.unit).max() < 0.01
    assert all(np.allclose(after.changes[name], start.changes[name], atol=0.02) for name in kind.shapes)

    code, written, errors = typed(
        "train", "contradictions", "--pairs", str(tmp_path), "--start", str(tmp_path / "start.npz"), "--examples", "1",
        "--share", "0.25", "--model", model, "--out", str(tmp_path / "mean.npz"), "--json",
    )  # fmt: skip

    assert code == 0, errors
    assert json.loads(written)["averaged"] == {"share": 0.25, "with": "started_from"}
    mean = ReaderWeights.load(kind, tmp_path / "mean.npz")
    assert np.allclose(mean.unit, 0.75 * start.unit + 0.25 * after.unit, atol=1e-6)


def test_a_reader_learns_from_attacks_with_and_without_passages(tmp_path: Path, typed: Typed) -> None:
    (tmp_path / "dryers.yaml").write_text(PAGES, encoding="utf-8")
    asked = [f"how high is tower {number}" for number in range(20)]
    attacks = [
        {"question": question, "correct_answer": "41 metres", "incorrect_answer": "9 metres", "adversarial_texts": ["9 metres!"]}
        for question in asked
    ]  # fmt: skip
    (tmp_path / "attacks.jsonl").write_text("\n".join(map(json.dumps, attacks)), encoding="utf-8")
    passage = {"query": next(each for each in asked if assign_half(each) is Half.TUNING), "text": "The tower is white."}
    (tmp_path / "passages.jsonl").write_text(json.dumps(passage), encoding="utf-8")
    command = (
        "train",
        "contradictions",
        "--pairs",
        str(tmp_path),
        "--model",
        "sieve",
        "--out",
        str(tmp_path / "reader.npz"),
    )
    of_passages = ("--passages", str(tmp_path / "passages.jsonl"))

    sides = ("red", "grey", "white")
    towers = [f"Tower {number} is a tower of {side} stone." for number in range(20) for side in sides]
    claims = [{"claim": tower, "label": "SUPPORTS", "evidence": [tower]} for tower in towers]
    file = tmp_path / "claims.jsonl"
    file.write_text("\n".join(map(json.dumps, claims)), encoding="utf-8")
    turned = len(read_claims(file, Half.TUNING, turned=True))
    assert turned > len(read_claims(file, Half.TUNING))

    of_attacks = ("--attacks", str(tmp_path / "attacks.jsonl"))
    code, written, errors = typed(*command, *of_attacks, *of_passages, "--claims", str(file), "--json")

    assert code == 0, errors
    planted = list(read_attacks(tmp_path / "attacks.jsonl", Half.TUNING))
    beside = read_passages([tmp_path / "passages.jsonl"])
    assert any(attack.question in beside for attack in planted)
    assert json.loads(written)["claims"] == turned + len(show_planted(planted, beside)) > turned + len(planted)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--share", "0.5"), "--share 0.5: there is nothing to share with; expected --start"),
        (
            ("--passages", "passages.jsonl"),
            "--passages: they teach nothing without --attacks on their questions; expected both",
        ),
        (("--without", "cheese"), "--without 'cheese': expected one of computing, devices, "),
        (("--pairs", "."), "holds no pairs"),
    ],
)
def test_training_refuses_what_teaches_nothing(
    options: Sequence[str], expected: str, refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert expected in refused("train", "contradictions", "--out", "reader.npz", *options)


@pytest.mark.parametrize(("options", "shown"), [((), "3 of 3"), (("--among", "7"), "1 of 1")])
def test_pairs_are_measured_alone_or_among_others(
    options: Sequence[str], shown: str, tmp_path: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    lie = '[1, contradicts, "The Solvane D dryer must be cleaned every {} months."]'
    lies = "".join(f"    - {lie.format(months)}\n" for months in (24, 36))
    (tmp_path / "dryers.yaml").write_text(PAGES + lies, encoding="utf-8")
    for name in ("FOLDER", "KEPT_APART"):
        monkeypatch.setattr(f"corpus_guard.detectors.contradictions.pairs.{name}", tmp_path)

    code, written, errors = typed("evaluate", "claims", "--pairs", "--rules-only", *options)

    assert code == 0, errors
    assert shown in written
