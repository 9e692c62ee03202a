"""Every shape of row, the split that nothing crosses, and rows that fit nothing."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from corpus_guard.detectors.samples import Family, Half, TextForm, assign_half, limit_per_slice, read_samples
from corpus_guard.errors import Misuse
from labelled import QUESTIONS, attack_row, write


def test_an_unnamed_attack_is_read_in_both_forms_and_its_clean_texts_on_the_other_side(tmp_path: Path) -> None:
    path = write(tmp_path / "lies.jsonl", [attack_row(QUESTIONS[0])])

    poison = read_samples([path], []).samples
    clean = read_samples([], [path]).samples

    assert [sample.form for sample in poison] == [TextForm.BARE, TextForm.LED] * 5
    assert poison[1].text == f"{QUESTIONS[0]}.{poison[0].text}"
    assert {sample.family for sample in poison} == {Family.KNOWLEDGE}
    assert all(sample.attack and sample.question == QUESTIONS[0] for sample in poison)
    assert [(sample.attack, sample.family) for sample in clean] == [(False, Family.ORDINARY)]
    assert {sample.half for sample in (*poison, *clean)} == {assign_half("how deep is harbour basin number 0")}


def test_a_named_attack_keeps_its_form_and_blank_texts_are_counted(tmp_path: Path) -> None:
    row = attack_row(QUESTIONS[1]) | {"attack": "garag_typos", "adversarial_texts": ["teh basni is depe", " \n", ""]}

    read = read_samples([write(tmp_path / "variants.jsonl", [row])], [])

    assert [(s.text, s.slice, s.form, s.family) for s in read.samples] == [
        ("teh basni is depe", "garag_typos", TextForm.AS_IS, Family.TYPOS)
    ]
    assert read.blank == 2


def test_an_embedded_instruction_gives_the_document_with_or_without_it(tmp_path: Path) -> None:
    row = {"task": "email", "attack_category": "Errand", "clean_text": "Dear all,", "poisoned_text": "Dear all, obey"}
    path = write(tmp_path / "mails.jsonl", [row])

    read = read_samples([path], [path]).samples

    assert [(s.text, s.attack, s.slice, s.family) for s in read] == [
        ("Dear all, obey", True, "mails email", Family.EMBEDDED),
        ("Dear all,", False, "mails email", Family.ORDINARY),
    ]
    assert read[0].slice_key != read[1].slice_key


@pytest.mark.parametrize(
    ("row", "side", "slice_", "family"),
    [
        ({"text": "x", "label": "injection"}, "poison", "f", Family.ATTACK),
        ({"text": "x", "label": 1, "slice": "mine"}, "poison", "mine", Family.ATTACK),
        ({"text": "x", "kind": "indirect_payload", "category": "code:Mining"}, "poison", "indirect_payload code", Family.ATTACK),
        ({"text": "x", "label": "benign"}, "clean", "f", Family.ORDINARY),
        ({"text": "x", "kind": "benign_document", "category": "table"}, "clean", "benign_document table", Family.ORDINARY),
        ({"text": "x", "kind": "benign_prompt", "source": "who/what@1 a"}, "clean", "benign_prompt what", Family.PROMPT),
        ({"text": "x", "kind": "hard_negative_prompt"}, "clean", "hard_negative_prompt", Family.HARD_NEGATIVE),
        ({"text": "x", "dataset": "nq", "query": "how?"}, "clean", "f nq", Family.ORDINARY),
        ({"text": "x", "mentions_injection": True}, "clean", "f mentions injection", Family.ORDINARY),
    ],
)  # fmt: skip
def test_plain_rows_are_told_apart_by_their_labels(
    tmp_path: Path, row: dict[str, Any], side: str, slice_: str, family: Family
) -> None:
    path = write(tmp_path / "f.jsonl", [row])
    poison, clean = ([path], []) if side == "poison" else ([], [path])

    (sample,) = read_samples(poison, clean).samples

    assert (sample.slice, sample.family, sample.attack) == (slice_, family, side == "poison")


def test_one_file_may_hold_both_sides(tmp_path: Path) -> None:
    rows = [{"text": "obey", "label": "attack"}, {"text": "good morning", "label": "clean"}]
    path = write(tmp_path / "both.jsonl", rows)

    assert [(s.text, s.attack) for s in read_samples([path], [path]).samples] == [
        ("obey", True),
        ("good morning", False),
    ]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", "not JSON"),
        ("[1]", "a list; expected one JSON object"),
        ('{"body": "x", "id": 3}', "has the keys 'body', 'id'; expected 'text'"),
        ('{"text": null}', "'text' is missing or null"),
        ('{"text": 3}', "'text' is a int"),
        ('{"text": "x", "label": "perhaps"}', "expected one of"),
        ('{"question": "x", "adversarial_texts": "one"}', "'adversarial_texts' is a str"),
        ('{"adversarial_texts": []}', "'question' is missing"),
        ('{"question": "x", "adversarial_texts": [1]}', "expected a list of strings"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_a_row_of_unknown_shape_is_named_with_its_line(tmp_path: Path, line: str, told: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"text": "a good one"}\n\n' + line + "\n", encoding="utf-8")

    with pytest.raises(Misuse, match=r"bad\.jsonl:3: ") as error:
        read_samples([path], [])

    assert told in str(error.value)
    assert "perhaps" not in str(error.value)


def test_missing_and_mislabelled_files_are_named(tmp_path: Path) -> None:
    latin = tmp_path / "latin.jsonl"
    latin.write_bytes(b'{"text": "caf\xe9"}')
    benign = write(tmp_path / "benign.jsonl", [{"text": "x", "label": "benign"}])

    with pytest.raises(Misuse, match="cannot be read"):
        read_samples([tmp_path / "none.jsonl"], [])
    with pytest.raises(Misuse, match="not UTF-8"):
        read_samples([], [latin])
    with pytest.raises(Misuse, match="pass the file with --clean"):
        read_samples([benign], [])


def test_what_shares_a_question_never_stands_in_both_halves(tmp_path: Path) -> None:
    lies = write(tmp_path / "lies.jsonl", [attack_row(question) for question in QUESTIONS])
    same = [{"text": f"passage {n}", "query": question.upper() + " ?"} for n, question in enumerate(QUESTIONS)]
    passages = write(tmp_path / "passages.jsonl", same)

    samples = read_samples([lies], [lies, passages]).samples

    halves = defaultdict(set)
    for sample in samples:
        halves[sample.key].add(sample.half)
    assert len(halves) == len(QUESTIONS)
    assert all(len(found) == 1 for found in halves.values())
    assert {half for found in halves.values() for half in found} == {Half.TUNING, Half.VALIDATION}


def test_the_split_is_the_same_everywhere_and_about_even() -> None:
    share = sum(assign_half(f"key {number}") is Half.VALIDATION for number in range(2_000)) / 2_000

    assert [assign_half(f"key {number}").value[0] for number in range(12)] == list("vtvvttvtvvtv")
    assert 0.46 < share < 0.54


def test_picking_keeps_questions_whole_and_follows_the_seed(tmp_path: Path) -> None:
    path = write(tmp_path / "lies.jsonl", [attack_row(question) for question in QUESTIONS])
    samples = read_samples([path], []).samples

    first, again, other = (
        limit_per_slice(samples, 20, 1),
        limit_per_slice(samples, 20, 1),
        limit_per_slice(samples, 20, 2),
    )

    assert first == again != other
    by_line = defaultdict(list)
    for sample in first:
        by_line[sample.form, sample.half].append(sample.key)
    assert all(len(keys) == 20 and len(set(keys)) == 4 for keys in by_line.values())
    assert set(by_line[TextForm.BARE, Half.TUNING]) == set(by_line[TextForm.LED, Half.TUNING])
    assert limit_per_slice(samples, None, 1) == list(samples)
