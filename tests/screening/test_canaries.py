"""Canaries: every family is caught by the shipped policy, the innocent pass, and a check that sleeps is noticed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from corpus_guard.errors import SettingsError
from corpus_guard.intake.chunking import Chunker
from corpus_guard.models import Models
from corpus_guard.screening.canaries import (
    CANARIES_FILE,
    CanaryPack,
    CanaryReport,
    load_canaries,
    plant_canaries,
    screen_pack,
)
from corpus_guard.screening.policy import Policy
from corpus_guard.screening.registry import build_screening
from corpus_guard.screening.runner import Screening
from corpus_guard.settings import Settings

VALUES = yaml.safe_load(Settings().policy_file.read_text())
Screen = Callable[..., Screening]


@pytest.fixture(scope="module")
def chunker(models: Models) -> Chunker:
    return Chunker(models.tokenizer_file, Settings().chunk_tokens)


@pytest.fixture
def screening(models: Models) -> Screen:
    """The shipped policy with other parameters of some checks, or another `shadow`."""

    def build(shadow: tuple[str, ...] = (), **checks: Any) -> Screening:
        values = {**VALUES, "shadow": shadow, "checks": {**VALUES["checks"], **checks}}
        return build_screening(Policy.model_validate(values), models)

    return build


def fare(screening: Screening, chunker: Chunker, seed: str = "r1", pack: CanaryPack | None = None) -> CanaryReport:
    return screen_pack(screening, Settings(), chunker, seed, pack)


@pytest.mark.parametrize("seed", ["r1", "manual__2026-01-01T00:00:00+00:00", "", "\udcff"])
def test_the_shipped_policy_catches_every_attack_and_lets_the_innocent_pass(
    screening: Screen, chunker: Chunker, seed: str
) -> None:
    caught = fare(screening(), chunker, seed)

    assert (caught["missed"], caught["shadowed"], caught["false_alarms"]) == ([], [], [])
    assert caught["caught"] == caught["planted"] == len(load_canaries().attacks) >= 12
    assert caught["innocent"] == len(load_canaries().innocent) >= 4


@pytest.mark.parametrize(
    ("check", "missed"),
    [
        ("perplexity", {"gibberish"}),
        ("question_led", {"question_led"}),
        ("instructions", {"override", "hidden_html", "html_comment", "assistant_aside", "encoded", "exfiltration"}),
    ],
)
def test_a_check_that_is_switched_off_is_noticed(
    screening: Screen, chunker: Chunker, check: str, missed: set[str]
) -> None:
    caught = fare(screening(**{check: {"enabled": False}}), chunker)

    assert set(caught["missed"]) == missed
    assert caught["caught"] == caught["planted"] - len(missed)


def test_a_canary_of_typos_needs_two_checks_to_be_missed(screening: Screen, chunker: Chunker) -> None:
    off = {"enabled": False}  # misspelt words are rare and surprising, too

    assert fare(screening(typos=off), chunker)["missed"] == []
    assert set(fare(screening(typos=off, perplexity=off), chunker)["missed"]) == {"typo_swarm", "gibberish"}


def test_a_canary_of_smuggled_letters_needs_two_checks_to_be_missed(screening: Screen, chunker: Chunker) -> None:
    off = {"enabled": False}

    assert not {"zero_width", "tag_characters", "homoglyphs"} & set(fare(screening(unicode=off), chunker)["missed"])
    assert {"zero_width", "tag_characters", "homoglyphs"} <= set(
        fare(screening(unicode=off, instructions=off), chunker)["missed"]
    )


def test_what_only_a_shadowed_check_sees_is_told_apart(screening: Screen, chunker: Chunker) -> None:
    caught = fare(screening(shadow=("perplexity",)), chunker)

    assert (caught["shadowed"], caught["missed"]) == (["gibberish"], [])
    assert caught["caught"] == caught["planted"] - 1


def test_a_check_that_fails_has_caught_nothing_and_stops_the_innocent(
    screening: Screen, chunker: Chunker, monkeypatch: pytest.MonkeyPatch
) -> None:
    from corpus_guard.screening.checks.instructions import Instructions

    def fail(*_: object) -> Any:
        raise ValueError

    monkeypatch.setattr(Instructions, "run", fail)

    caught = fare(screening(), chunker)

    assert "override" in caught["missed"]
    assert "maintenance" in caught["false_alarms"]


def test_slots_are_filled_anew_for_each_run_and_the_same_for_the_same(chunker: Chunker) -> None:
    first, again, other = (
        [version.text + version.hidden for version in plant_canaries(load_canaries(), Settings(), chunker, seed)]
        for seed in ("r1", "r1", "r2")
    )

    assert first == again
    assert all(one != two for one, two in zip(first, other, strict=True))
    assert not any(re.search(r"\{\w+(\|\w+)?\}", text) for text in first)


def test_a_word_is_the_same_throughout_a_document(chunker: Chunker) -> None:
    pack = CanaryPack.model_validate(
        {
            "words": {"town": ["A", "B", "C", "D"], "both": ["{town} and {town}"]},
            "attacks": [{"name": "x", "family": "f", "file": "x.txt", "text": "{town} {both} {town}"}],
            "innocent": [],
        }
    )

    for seed in map(str, range(8)):
        (version,) = plant_canaries(pack, Settings(), chunker, seed)
        assert re.fullmatch(r"(\w) \1 and \1 \1", version.text.strip())


def test_nothing_is_left_behind(models: Models, chunker: Chunker) -> None:
    class Remembers:
        def load(self, keys: Any) -> Any:
            raise AssertionError("asked")

        def save(self, results: Any) -> None:
            raise AssertionError("kept")

    built = build_screening(Policy.model_validate(VALUES), models, Remembers())

    assert fare(built, chunker)["missed"] == []


def test_a_canary_is_a_document_of_an_open_source(chunker: Chunker) -> None:
    versions = plant_canaries(load_canaries(), Settings(), chunker, "r1")

    assert {version.stamp.trust.value for version in versions} == {"open"}
    assert any(version.hidden for version in versions)
    assert all(version.chunks for version in versions)
    assert {problem.code for version in versions for problem in version.problems} == {"parsing.hidden_text"}


def test_no_canary_is_one_of_the_rules_own_examples() -> None:
    pack = CANARIES_FILE.read_text()
    rules = (CANARIES_FILE.parent / "rules" / "instructions.yaml").read_text()
    examples = [line.strip(" -\"'") for line in rules.splitlines() if line.startswith("      - ")]

    assert [line for line in examples if len(line.split()) > 5 and line in pack] == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"text": "{nobody}"}, r"\{nobody\}: no such words; expected one of: "),
        ({"text": "{town|rot26}"}, r"\{town\|rot26\}: no such change; expected one of: base64"),
        ({"name": "page"}, "page: two canaries have this name; rename one"),
        ({"name": "No Name"}, "attacks.0.name: "),
        ({"colour": "red"}, "attacks.0.colour: unknown key"),
    ],
)
def test_a_broken_pack_says_what_is_wrong(tmp_path: Path, change: dict[str, str], message: str) -> None:
    values = yaml.safe_load(CANARIES_FILE.read_text())
    values["attacks"][0] = {**values["attacks"][0], **change}
    path = tmp_path / "canaries.yaml"
    path.write_text(yaml.safe_dump(values))

    with pytest.raises(SettingsError, match=message):
        load_canaries(path)
