"""Where a sentence is cut, and where it stays whole."""

from __future__ import annotations

import pytest

from corpus_guard.claims.clauses import split_clauses


@pytest.mark.parametrize(
    ("sentence", "parts"),
    [
        ("It weighs 2 kg and the lid is made of steel.", ["It weighs 2 kg", "and the lid is made of steel."]),
        ("The grant is paid monthly and need not be repaid.", ["The grant is paid monthly", "and need not be repaid."]),
        ("If you ask me, the lid is safe.", ["If you ask me", "the lid is safe."]),
        ("The cheese, which is dyed, cannot be eaten.", ["The cheese", "which is dyed", "cannot be eaten."]),
        (
            "My uncle says that the lid is safe, so I bought two.",
            ["My uncle says that", "the lid is safe", "so I bought two."],
        ),
        ("The pump, the valve and the hose must be replaced.", ["The pump, the valve and the hose must be replaced."]),
        ("Advice by telephone: +49 30 5550 1234.", ["Advice by telephone: +49 30 5550 1234."]),
        ("Many people think that the lid is safe.", ["Many people think that the lid is safe."]),
        ("Restart it after the update and before the backup.", ["Restart it after the update and before the backup."]),
    ],
)
def test_a_sentence_is_cut_where_both_parts_can_stand_alone(sentence: str, parts: list[str]) -> None:
    assert [sentence[clause.start : clause.end] for clause in split_clauses(sentence)] == parts


def test_a_condition_states_nothing_and_a_clause_without_subject_is_continued() -> None:
    condition, main, continued = split_clauses("If it rains, the gate is closed and must be locked.")

    assert condition.is_supposed
    assert not main.is_supposed
    assert not main.is_continued
    assert continued.is_continued


def test_a_sentence_of_one_clause_is_no_mere_condition() -> None:
    (clause,) = split_clauses("In case of fire call 112.")

    assert not clause.is_supposed
