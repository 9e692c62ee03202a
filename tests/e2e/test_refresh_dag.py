"""`corpus_refresh` through Airflow: good documents and hostile ones side by side, once, and once more with nothing new."""

from __future__ import annotations

import json
import re
import sqlite3
from typing import Any

import pytest
from deployment import Run, Workspace
from small_corpus import BAD, GOOD, GOOD_ROWS, ODD_NAME, POISONED_NAME, POISONED_TEXT, SECRET, TEMPLATE

from corpus_guard.domain import sha256_text

STORAGE_NAME = re.compile(
    r"runs/[0-9a-f]{16}/(boat|tickets)-\d{5}\.json|batches/[0-9a-f]{32}(/(judgements|vectors)-[0-9a-f]{32}\.parquet)?"
)
WORDS = {"", "boat", "tickets"}
MODEL = re.compile(r"all-minilm-l6-v2@sha256:[0-9a-f]{12}/\w+")
SHA256 = re.compile(r"[0-9a-f]{64}")  # of a stored file


@pytest.fixture(scope="module")
def again(undisturbed: tuple[Workspace, Run]) -> Run:
    return undisturbed[0].start().finish()


@pytest.fixture
def one(undisturbed: tuple[Workspace, Run]) -> Workspace:
    return undisturbed[0]


@pytest.fixture
def run(undisturbed: tuple[Workspace, Run]) -> Run:
    return undisturbed[1]


def test_the_run_succeeds_and_everything_agrees(one: Workspace, run: Run) -> None:
    assert run.succeeded, run.log[-3000:]
    assert "XCom not found" not in run.log, (
        "what mapped tasks returned is asked for at once, not until there is no more"
    )
    one.everything_agrees()


def test_the_counts_balance(one: Workspace, run: Run) -> None:
    first = one.ask_runs()[0]
    counts = first.counts

    assert first.state == "sealed"
    assert counts["documents"] == len(one.states()) == len(GOOD) + len(GOOD_ROWS) + len(BAD) + 3
    assert counts["documents"] == sum(
        counts[name] for name in ("accepted", "quarantined", "rejected", "unchanged", "failed")
    )
    assert [counts[name] for name in ("unchanged", "failed", "vanished", "retired")] == [0, 0, 0, 0]
    assert counts["served"] == counts["published"] == len(one.served())


def test_the_run_that_judged_has_data_docs(one: Workspace, run: Run) -> None:
    (file,) = (one.home / "storage" / "runs").glob("*/data-docs.json")
    suites = {suite["name"]: suite["documents"] for suite in json.loads(file.read_text())["suites"]}

    assert {"structure", "freshness"} <= suites.keys()
    assert set(suites.values()) == {len(one.states())}


def test_several_shards_were_mapped(run: Run) -> None:
    for task in ("intake", "embed", "screen", "publish"):
        indexes = {int(index) for index in re.findall(rf"starting task_id={task} map_index=(-?\d+)", run.log)}
        assert indexes >= {0, 1, 2, 3, 4}, task


@pytest.mark.slow
def test_a_second_run_finds_nothing_new_and_loads_nothing_heavy(one: Workspace, run: Run, again: Run) -> None:
    assert again.succeeded, again.log[-3000:]
    first, second = (made.counts for made in one.ask_runs()[:2])

    assert second["unchanged"] == second["documents"] == first["documents"]
    assert second["manifest_sha256"] == first["manifest_sha256"]
    assert again.heavy == set()
    # The observation itself works: the run that had work to do loaded what it needed.
    assert {"torch", "sentence_transformers", "great_expectations", "chromadb"} <= run.heavy


# --- hostile documents -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", BAD)
def test_a_bad_document_is_kept_out_with_a_finding_that_says_what_and_where(one: Workspace, place: str) -> None:
    expected = BAD[place]
    findings = one.findings(place)

    assert one.states()[place] in expected.states
    assert expected.code in findings
    assert expected.says in findings[expected.code]


def test_the_neighbours_of_bad_documents_are_accepted_whole(one: Workspace) -> None:
    states, texts = one.states(), one.texts()

    for name, text in GOOD.items():
        assert states[name] == "accepted", name
        if name.endswith(".md"):
            assert texts[name].split() == text.split(), name
    for key, text in GOOD_ROWS.items():
        assert states[f"tickets.jsonl#{key}"] == "accepted", key
        assert texts[f"tickets.jsonl#{key}"] == text


def test_nothing_that_was_kept_out_is_served(one: Workspace) -> None:
    served = {place for place, state in one.states().items() if state == "accepted"}

    assert one.texts().keys() == served
    assert served.isdisjoint(place for place, bad in BAD.items() if "accepted" not in bad.states)


def test_wrongly_encoded_text_is_read_right_and_says_so(one: Workspace) -> None:
    assert "Öl für die Lüftung" in one.texts()["bad/latin.txt"]


def test_a_name_with_line_breaks_and_dots_is_data(one: Workspace) -> None:
    assert one.states()[ODD_NAME] == "accepted"
    assert ODD_NAME in one.texts()
    # No path was made from it: every stored file has a name of ours.
    storage = one.home / "storage"
    names = [path.relative_to(storage).as_posix() for path in storage.rglob("*") if path.is_file()]
    assert names
    assert [name for name in names if not re.fullmatch(r"deployment|[a-z]+/[0-9a-z./-]+", name) or ".." in name] == []


# --- what travels between tasks --------------------------------------------------------------------------------------


def test_a_template_in_a_name_and_in_a_text_is_never_rendered(one: Workspace, run: Run) -> None:
    assert one.states()[POISONED_NAME] == "accepted"
    assert one.texts()[POISONED_NAME] == POISONED_TEXT
    assert {line["uri"] for line in one.manifest()} >= {POISONED_NAME}

    assert SECRET not in run.log
    for path in (one.home / "ledger.sqlite", run.airflow / "airflow.db"):
        assert SECRET.encode() not in path.read_bytes(), path


def test_between_tasks_travel_storage_names_and_counts_only(run: Run) -> None:
    pushed = _xcoms(run)
    strings = {text for _, value in pushed for text in _strings(value)}

    assert {task for task, _ in pushed} >= {"discover", "intake", "changed", "embed", "survey", "screen", "publish"}
    forms = (STORAGE_NAME, MODEL, SHA256)
    assert [text for text in strings if text not in WORDS and not any(form.fullmatch(text) for form in forms)] == []
    assert TEMPLATE not in json.dumps([value for _, value in pushed])


def test_assets_say_how_much_and_nothing_else(run: Run) -> None:
    with sqlite3.connect(run.airflow / "airflow.db") as connection:
        rows = connection.execute(
            "SELECT asset.name, asset_event.extra FROM asset_event JOIN asset ON asset.id = asset_event.asset_id"
        ).fetchall()
    extras = {name: json.loads(extra) for name, extra in rows}

    counted = {"documents", "accepted", "unchanged", "vanished", "published", "retired", "chunks"}
    assert extras["corpus"].keys() == {*counted, "run_id", "manifest_sha256"}
    assert extras["quarantine"].keys() == {"quarantined", "rejected", "run_id", "manifest_sha256"}


def test_served_texts_have_the_hashes_of_the_manifest(one: Workspace) -> None:
    texts, manifest = one.texts(), one.manifest()

    assert manifest
    for line in manifest:
        assert sha256_text(texts[line["uri"]]) == line["text_sha256"], line["uri"]


def _xcoms(run: Run) -> list[tuple[str, Any]]:
    with sqlite3.connect(run.airflow / "airflow.db") as connection:
        rows = connection.execute("SELECT task_id, value FROM xcom WHERE key = 'return_value'").fetchall()
    return [(task, json.loads(value)) for task, value in rows]


def _strings(value: Any) -> list[str]:
    match value:
        case str():
            return [value]
        case dict():
            return [text for one in value.values() for text in _strings(one)]
        case list():
            return [text for one in value for text in _strings(one)]
    return []
