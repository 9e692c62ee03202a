"""Words of paths and identifiers: what many programs have, from what can be read."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from corpus_guard.detectors.technical_words import FILES, count_technical_words
from corpus_guard.errors import Misuse
from corpus_guard.screening.checks.token_rarity import TECHNICAL_WORDS_FILE, technical_words


def programs(folder: Path, count: int, text: str) -> Path:
    for number in range(count):
        program = folder / f"program{number}"
        program.mkdir(parents=True)
        (program / "main.py").write_text(text, encoding="utf-8")
    return folder


def test_words_of_names_are_counted_and_those_of_sentences_are_not(tmp_path: Path) -> None:
    text = "The harbour is quiet: see tide_gauge.readings, crewRoster and pilot@quay.example."

    words = count_technical_words([programs(tmp_path, 3, text)])

    assert {"tide", "gauge", "readings", "crew", "roster", "pilot", "quay", "example"} <= set(words)
    assert not {"harbour", "quiet", "the", "see"} & set(words)
    assert words == sorted(set(words))


def test_a_word_of_one_program_however_often_it_writes_it_is_none(tmp_path: Path) -> None:
    programs(tmp_path, 3, "tide_gauge")
    for number in range(9):
        (tmp_path / "program0" / f"{number}.py").write_text("zoning_tarzan " * 50, encoding="utf-8")

    words = count_technical_words([tmp_path])

    assert "tide" in words and "zoning" not in words


def test_what_is_damaged_binary_or_a_circle_is_passed_over(tmp_path: Path) -> None:
    programs(tmp_path, 3, "tide_gauge")
    (tmp_path / "program0" / "changelog.gz").write_bytes(gzip.compress(b"crew_roster " * 40)[:30])
    (tmp_path / "program1" / "noise.txt").write_bytes(b"\xff\xfe\x00crew_roster")
    (tmp_path / "program2" / "again").symlink_to(tmp_path)
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")

    assert "tide" in count_technical_words([tmp_path])


def test_the_same_seed_reads_the_same_part_of_a_program(tmp_path: Path) -> None:
    programs(tmp_path, 2, "tide_gauge")
    letters = "abcdefghijklmnopqrst"
    for letter in letters:
        for program in ("program0", "program1"):
            (tmp_path / program / f"{letter}.md").write_text(f"pier{letter}_x", encoding="utf-8")

    first, again, other = (
        {word for word in count_technical_words([tmp_path], programs=2, seed=seed) if word.startswith("pier")}
        for seed in (0, 0, 1)
    )

    assert first == again != other
    assert 0 < len(first) <= FILES < len(letters)


def test_what_teaches_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Misuse, match="no such folder"):
        count_technical_words([tmp_path / "nowhere"])
    with pytest.raises(Misuse, match="no word in common"):
        count_technical_words([tmp_path])


def test_the_words_in_use_are_plain_and_many() -> None:
    words = technical_words()

    assert len(words) > 10_000
    assert {"usr", "json", "init", "readme"} <= words and not {"acupuncture", "tarzan", "sultanate"} & words
    lines = TECHNICAL_WORDS_FILE.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("# ") and lines[1:] == sorted(words)
