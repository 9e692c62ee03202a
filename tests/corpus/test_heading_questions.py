"""Questions made from headings of trusted documents: what they say, when they are made, and that a purge takes them."""

from __future__ import annotations

import logging

import orjson
import pytest

from corpus_guard.batches import Storage
from corpus_guard.corpus import heading_questions
from corpus_guard.corpus.chroma_store import ChromaStore
from corpus_guard.corpus.heading_questions import (
    MAX_PER_DOCUMENT,
    TrustedVersion,
    load_heading_questions,
    make_questions,
    stored_questions,
)
from corpus_guard.corpus.query_bank import ERASED_QUESTION, QueryBank, erase_questions
from corpus_guard.domain import TrustLevel, Verdict, Version
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.states import QueryOrigin
from hashed_models import HashedModels
from material import Shelf, a_version, add_question

MANUAL = (
    "# OX-12 manual\n\nMeasures oxygen.\n\n## Calibration interval\n\nEvery six months.\n\n## Cleaning\n\nWith water.\n"
)


@pytest.mark.parametrize(
    ("title", "text", "questions"),
    [
        ("OX-12 manual", "## Calibration interval\n", ["OX-12: Calibration interval?"]),
        ("OX-12 manual | Tideway", "# OX-12\n## Cleaning\n", ["OX-12: Cleaning?"]),
        ("", MANUAL, ["OX-12: Calibration interval?", "OX-12: Cleaning?"]),
        ("Why does it drift?", "", ["Why does it drift?"]),
        ("Harbour", "## How deep is it?\n", ["Harbour: How deep is it?"]),
        ("Harbour", "## 3.2 **Depth** of the [inner](x.md) harbour ##\n", ["Depth of the inner harbour?"]),
        ("Harbour", "## Overview\n## References\n## Harbour\n", []),
        ("Harbour", "```\n# a comment in code\n```\n## Depth\n", ["Harbour: Depth?"]),
        ("Harbour", "```\n# a comment in code that never ends\n", []),
        ("Handbuch für Boote", "## Größe über alles\n", ["Handbuch für Boote: Größe über alles?"]),
        ("Harbour", "", []),
        ("", "## Depth without a title\n", []),
        ("42", "## 7.1\n## ---\n", []),
        ("x" * 101, "", []),
        ("", "", []),
    ],
)
def test_titles_and_headings_become_questions(title: str, text: str, questions: list[str]) -> None:
    assert make_questions(title, text) == questions


def test_a_document_gives_a_limited_number_of_different_questions() -> None:
    text = "".join(f"## Part {number}\n## Part {number}\n" for number in range(100))

    questions = make_questions("Harbour", text)

    assert len(set(questions)) == len(questions) == MAX_PER_DOCUMENT


def test_hostile_headings_take_no_time() -> None:
    for text in ("#" * 300_000, "# " + "[" * 300_000, "```\n" * 100_000, "# a\n" * 100_000, "# " + " " * 300_000):
        assert len(make_questions("Harbour", text)) <= MAX_PER_DOCUMENT


@pytest.fixture
def shelf(sqlite_ledger: Ledger, storage: Storage) -> Shelf:
    """Without Chroma: nothing here is published."""
    return Shelf(sqlite_ledger, storage, ChromaStore("http://127.0.0.1:1", "guard", lambda: sqlite_ledger))


def a_manual(uri: str = "manual.md", *passages: str, **options: object) -> Version:
    options = {"trust": TrustLevel.TRUSTED, "declared": {}, **options}
    return a_version(uri, passages or (MANUAL,), **options)  # type: ignore[arg-type]


def loaded(shelf: Shelf, *arriving: TrustedVersion) -> list[str]:
    return load_heading_questions(shelf.ledger, shelf.storage, arriving)


def test_only_served_documents_of_trusted_sources_count(shelf: Shelf) -> None:
    shelf.accept(
        a_manual(),
        a_version("open.md", ("# Open page\n",), declared={}),
        a_version("reviewed.md", ("# Reviewed page\n",), trust=TrustLevel.REVIEWED, declared={}),
    )
    shelf.record((a_manual("waits.md", "# A page that waits\n"), Verdict.QUARANTINE))

    assert loaded(shelf) == ["OX-12: Calibration interval?", "OX-12: Cleaning?"]


def test_the_first_questions_of_all_documents_come_first(shelf: Shelf) -> None:
    shelf.accept(a_manual(), a_manual("harbour.md", "# Harbour\n\n## Depth\n\n## Locks\n"))

    questions = loaded(shelf)

    assert set(questions[:2]) == {"OX-12: Calibration interval?", "Harbour: Depth?"}
    assert set(questions[2:]) == {"OX-12: Cleaning?", "Harbour: Locks?"}
    assert loaded(shelf) == questions


def test_a_text_is_read_once_and_only_changed_documents_are_read_again(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    real = shelf.storage.read_table

    def counting(name: str, **options: object) -> object:
        read.append(name)
        return real(name, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(shelf.storage, "read_table", counting)
    shelf.accept(a_manual())
    first = loaded(shelf)
    assert sum(name.startswith("batches/") for name in read) == 1
    read.clear()

    assert loaded(shelf) == first
    assert not any(name.startswith("batches/") for name in read)

    shelf.accept(a_manual("harbour.md", "# Harbour\n## Depth\n"))
    assert set(loaded(shelf)) == {*first, "Harbour: Depth?"}
    assert sum(name.startswith("batches/") for name in read) == 1


def test_a_new_version_and_a_retired_document_take_their_old_questions_along(shelf: Shelf) -> None:
    old = a_manual()
    shelf.accept(old, a_manual("harbour.md", "# Harbour\n## Depth\n"))
    loaded(shelf)

    shelf.accept(a_manual("manual.md", "# OX-13 manual\n## Range\n", minute=5))
    shelf.retire(a_manual("harbour.md").doc_id)

    assert loaded(shelf) == ["OX-13: Range?"]
    assert old.version_id not in stored_questions(shelf.storage)


def test_a_trusted_document_that_arrives_counts_before_it_is_judged(shelf: Shelf) -> None:
    """On day one nothing is served yet: a run's own trusted pages are what there is to ask about."""
    version = a_manual()
    shelf.record((version, Verdict.QUARANTINE))
    (batch,) = (name for name in shelf.storage.names() if name.endswith("versions.parquet"))

    assert loaded(shelf) == []
    assert loaded(shelf, TrustedVersion(version.doc_id, version.version_id, batch))[0] == "OX-12: Calibration interval?"


def test_a_batch_that_is_gone_costs_its_questions_and_a_warning(shelf: Shelf, caplog: pytest.LogCaptureFixture) -> None:
    shelf.accept(a_manual())
    shelf.accept(a_manual("harbour.md", "# Harbour\n## Depth\n", minute=5))
    gone = TrustedVersion("0" * 32, "1" * 32, "batches/gone/versions.parquet")

    with caplog.at_level(logging.WARNING):
        questions = loaded(shelf, gone)

    assert set(questions) >= {"OX-12: Cleaning?", "Harbour: Depth?"}
    assert "batches/gone/versions.parquet" in caplog.text


def test_of_many_documents_the_same_few_count(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heading_questions, "MAX_DOCUMENTS", 3)
    pages = [a_manual(f"{number}.md", f"# Harbour {number} north\n## Depth\n") for number in range(8)]
    shelf.accept(*pages)
    chosen = [f"Harbour {page.stamp.uri[0]} north: Depth?" for page in sorted(pages, key=lambda page: page.doc_id)[:3]]

    assert sorted(loaded(shelf)) == sorted(chosen)
    assert sorted(loaded(shelf, *(TrustedVersion(page.doc_id, page.version_id, "-") for page in pages))) == sorted(
        chosen
    )


def test_a_damaged_file_is_made_again(shelf: Shelf) -> None:
    shelf.accept(a_manual())
    questions = loaded(shelf)
    shelf.storage.write(heading_questions.FILE, b"not a table")

    assert loaded(shelf) == questions


def test_what_people_ask_comes_first_and_generated_questions_are_marked(
    shelf: Shelf, hashed_models: HashedModels
) -> None:
    shelf.accept(a_manual())
    add_question(shelf.ledger, "How deep is the harbour?", QueryOrigin.LOG)
    add_question(shelf.ledger, "ox-12: cleaning", QueryOrigin.LOG)  # equal but for its spelling: it is asked

    bank = QueryBank.load(shelf.ledger, shelf.storage, hashed_models)

    assert set(bank.questions[: bank.asked_count]) == {"How deep is the harbour?", "ox-12: cleaning"}
    assert bank.questions[bank.asked_count :] == ("OX-12: Calibration interval?",)
    assert bank.vectors.shape[0] == len(bank) == 3
    assert QueryBank.load(shelf.ledger, shelf.storage, hashed_models, max_questions=2).questions == bank.questions[:2]


def test_a_purge_erases_questions_vectors_and_what_surveys_repeat(shelf: Shelf, hashed_models: HashedModels) -> None:
    purged, kept = a_manual(), a_manual("harbour.md", "# Harbour\n## Depth\n")
    shelf.accept(purged, kept)
    full = QueryBank.load(shelf.ledger, shelf.storage, hashed_models)
    (vectors,) = (name for name in shelf.storage.names() if name.startswith("query-bank/"))
    before = shelf.storage.read_table(vectors)
    survey = {"questions": {"v": [[0, "OX-12: Calibration interval?", 0.7], [1, "Harbour: Depth?", 0.6]]}}
    shelf.storage.write_json(f"runs/0/survey-{32 * 'a'}.json", survey)

    erase_questions(shelf.ledger, shelf.storage, [purged.version_id])

    assert stored_questions(shelf.storage) == {kept.version_id: ["Harbour: Depth?"]}
    assert len(before) == len(full) == 3
    assert len(shelf.storage.read_table(vectors)) == 1
    rows = orjson.loads(shelf.storage.read(f"runs/0/survey-{32 * 'a'}.json"))["questions"]["v"]
    assert [row[1] for row in rows] == [ERASED_QUESTION, "Harbour: Depth?"]
    assert len(QueryBank.load(shelf.ledger, shelf.storage, hashed_models)) == 3  # it is served until it is retired


def test_a_question_that_the_bank_forgot_is_erased_from_surveys(shelf: Shelf) -> None:
    old = a_manual()
    shelf.accept(old)
    loaded(shelf)
    shelf.storage.write_json("runs/0/survey.json", {"q": ["OX-12: Cleaning?"]})
    shelf.accept(a_manual("manual.md", "# OX-13 manual\n## Range\n", minute=5))
    loaded(shelf)

    erase_questions(shelf.ledger, shelf.storage, [old.version_id])

    assert b"Cleaning" not in shelf.storage.read("runs/0/survey.json")
