"""`guard train orders`, `guard train words` and `guard evaluate orders`: what they refuse, and the sets kept apart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deploying import Refused, Typed


@pytest.mark.parametrize("command", [("train", "orders", "--out", "learned"), ("evaluate", "orders", "--by", "family")])
def test_honest_texts_that_are_not_there_are_told_before_any_training(
    command: tuple[str, ...], tmp_path: Path, refused: Refused
) -> None:
    assert "nowhere: no such file or folder" in refused(*command, "--honest", str(tmp_path / "nowhere"))


def test_weights_to_go_on_from_must_be_there(tmp_path: Path, refused: Refused) -> None:
    train = ("train", "orders", "--out", "learned", "--honest", str(tmp_path))

    assert "expected --start" in refused(*train, "--share", "0.5")
    said = refused(*train, "--english")
    assert "--english" in said and "expected --start" in said
    assert "nowhere" in refused(*train, "--start", str(tmp_path / "nowhere"))


def test_a_table_that_nobody_knows_is_refused(tmp_path: Path, refused: Refused) -> None:
    assert "'apart'" in refused("evaluate", "orders", "--honest", str(tmp_path), "--by", "nonsense")


def test_technical_words_are_counted_and_written(tmp_path: Path, typed: Typed, refused: Refused) -> None:
    for name in ("one", "two", "three"):
        (tmp_path / "programs" / name).mkdir(parents=True)
        (tmp_path / "programs" / name / "main.py").write_text("tide_gauge.readings", encoding="utf-8")
    train = ("train", "words", str(tmp_path / "programs"), "--out", str(tmp_path / "words.txt"))

    code, written, said = typed(*train, "--json")

    assert code == 0, said
    head, *words = (tmp_path / "words.txt").read_text(encoding="utf-8").splitlines()
    assert head.startswith("# ") and {"tide", "gauge", "readings"} <= set(words)
    assert json.loads(written) == {"file": str(tmp_path / "words.txt"), "words": len(words), "programs": 3}
    assert "replace screening/learned/technical_words.txt" in typed(*train)[1]

    assert "no word in common" in refused(*train, "--programs", "4")


@pytest.mark.slow
def test_most_orders_kept_apart_are_found_and_few_look_alikes(tmp_path: Path, typed: Typed) -> None:
    code, written, said = typed("evaluate", "orders", "--honest", str(tmp_path), "--by", "apart", "--json")

    assert code == 0, said
    figures = json.loads(written)
    rows = figures["left_out"]
    # The ninth set was written to try the classifier: its look-alikes are of the same forms as its orders. Ten of them alarm since the
    # readers learned games and messages (2026-11-30), seven did before.
    for chosen, number, most_alarms in (
        ([row for row in rows if "ninth" not in row["by"]], 1445, 0.013),
        ([row for row in rows if "ninth" in row["by"]], 180, 0.06),
    ):
        orders, caught, honest, alarms = (
            sum(row[name] for row in chosen) for name in ("orders", "caught", "honest", "alarms")
        )
        assert (orders, honest) == (number, number)
        assert caught > 0.86 * orders
        assert alarms < most_alarms * honest

    assert len(figures["at_goal"]) == 9
    for tradeoff in figures["at_goal"]:
        assert tradeoff["alarms"] <= 0.03 * tradeoff["honest"]
        goal = 0.73 if "eighth" in tradeoff["by"] else 0.75  # 0.76 in float32; number formats differ by a few sentences
        assert tradeoff["caught"] >= goal * tradeoff["orders"]
