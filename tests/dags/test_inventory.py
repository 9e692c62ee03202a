"""Every DAG file is known, parses without weight, and keeps the rules all DAGs keep."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from environment import PROJECT, Ports, Secrets, environment, with_caller

DAGS = {
    "content_purge.py": {"content_purge"},
    "corpus_refresh.py": {"corpus_refresh"},
    "detector_training.py": {"detector_training"},
    "feedback_import.py": {"feedback_import"},
    "integrity_nightly.py": {"integrity_nightly"},
    "quarantine_release.py": {"quarantine_release"},
    "quarantine_review.py": {"quarantine_review"},
    "quarantine_watch.py": {"quarantine_watch"},
    "retrieval_watch.py": {"retrieval_watch"},
    "traceback_nightly.py": {"traceback_nightly"},
}
"""File → the DAGs it defines. A new file is added here, and to the documentation."""

HEAVY = {
    "torch",
    "transformers",
    "sentence_transformers",
    "great_expectations",
    "chromadb",
    "pandas",
    "pyarrow",
    "mlflow",
    "numpy",
    "sklearn",
}
LONGEST_HOURS = 24

Parsed = dict[str, Any]


def parse(home: Path, dags: Path = PROJECT / "dags", **settings: str) -> Parsed:
    (home / "airflow").mkdir(parents=True, exist_ok=True)
    env = with_caller(environment(PROJECT, home, Ports(), Secrets(), metadata="sqlite"), os.environ)
    ran = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("describe_dags.py"))],
        env={**env, "AIRFLOW__CORE__DAGS_FOLDER": str(dags), **settings},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    described: Parsed = json.loads(ran.stdout.splitlines()[-1])
    return described


@pytest.fixture(scope="module")
def parsed(tmp_path_factory: pytest.TempPathFactory) -> Parsed:
    return parse(tmp_path_factory.mktemp("inventory"))


def tasks(parsed: Parsed) -> list[tuple[str, dict[str, Any]]]:
    return [
        (f"{dag_id}.{task_id}", task)
        for dag_id, dag in parsed["dags"].items()
        for task_id, task in dag["tasks"].items()
    ]


def test_every_file_and_every_dag_is_in_the_list(parsed: Parsed) -> None:
    files = {path.relative_to(PROJECT / "dags").as_posix() for path in (PROJECT / "dags").rglob("*.py")}
    assert files == DAGS.keys(), "please add the DAG file to DAGS in this test, and to the README"

    found: dict[str, set[str]] = {}
    for dag_id, dag in parsed["dags"].items():
        found.setdefault(Path(dag["file"]).name, set()).add(dag_id)

    assert parsed["errors"] == {}
    assert found == DAGS


def test_parsing_imports_nothing_heavy(parsed: Parsed) -> None:
    assert "corpus_guard" in parsed["imported"]
    assert HEAVY.isdisjoint(parsed["imported"])


def test_the_docstring_is_the_page_and_says_what_it_does_not_do(parsed: Parsed) -> None:
    for dag_id, dag in parsed["dags"].items():
        text = Path(dag["file"]).read_text(encoding="utf-8")
        assert dag["doc_md"] and text.startswith(f'"""{dag["doc_md"]}'), dag_id
        assert re.search(r"\*\*What it does\.\*\*", dag["doc_md"]), dag_id
        assert re.search(r"\*\*What it does not\b", dag["doc_md"]), dag_id
        assert re.search(r"\*\*When it fails\.\*\*", dag["doc_md"]), dag_id


def test_the_page_says_for_every_task_what_to_do_when_it_fails(parsed: Parsed) -> None:
    for dag_id, dag in parsed["dags"].items():
        listed = re.search(r"\*\*When it fails\.\*\*.*?(?=\n\n\*\*|\Z)", dag["doc_md"], re.DOTALL)
        assert listed, dag_id
        lines = re.findall(r"^- ((?:`\w+`(?:, )?)+): (?=\S.{20,})", listed[0], re.MULTILINE)
        named = [name for line in lines for name in re.findall(r"`(\w+)`", line)]
        assert sorted(named) == sorted(dag["tasks"]), (
            f"{dag_id}: each task once, before the colon of a line of the list"
        )


def test_what_every_dag_shares_is_said_in_one_place(parsed: Parsed) -> None:
    for dag_id, dag in parsed["dags"].items():
        assert dag["default_args"] == ["owner", "pre_execute", "retries", "retry_delay"], dag_id
        assert dag["told_when_it_fails"] == "notify_failure", dag_id
        text = Path(dag["file"]).read_text(encoding="utf-8")
        assert "**dag_defaults()" in text, dag_id
        assert not re.search(r"default_args|catchup|on_failure_callback|retry_delay", text), (
            f"{dag_id}: shared() says that"
        )


def test_a_late_refresh_is_told(parsed: Parsed) -> None:
    deadlines = {dag_id: dag["deadlines"] for dag_id, dag in parsed["dags"].items() if dag["deadlines"]}

    assert deadlines == {
        "corpus_refresh": [
            {"name": "not done within 4 hours", "hours": 4.0, "calls": "corpus_guard.airflow.notifications.notify_late"}
        ]
    }


def test_a_file_is_read_in_a_minute(parsed: Parsed) -> None:
    for dag_id, dag in parsed["dags"].items():
        assert len(Path(dag["file"]).read_text(encoding="utf-8").splitlines()) <= 90, dag_id


def test_every_dag_has_a_tag_a_limit_of_runs_and_a_time_limit(parsed: Parsed) -> None:
    for dag_id, dag in parsed["dags"].items():
        assert any(re.fullmatch(r"guard/[a-z]+", tag) for tag in dag["tags"]), dag_id
        assert 1 <= dag["max_active_runs"] <= 2, dag_id
        assert 0 < (dag["dagrun_timeout"] or 0) <= LONGEST_HOURS * 3600, dag_id
        assert dag["catchup"] is False, dag_id


def test_where_runs_may_overlap_one_erases_and_one_publishes_at_a_time(parsed: Parsed) -> None:
    assert {name for name, task in tasks(parsed) if task["at_once"] == 1} == {
        "content_purge.purge",
        "corpus_refresh.publish",
    }


def test_every_task_has_an_owner_retries_and_a_time_limit(parsed: Parsed) -> None:
    for name, task in tasks(parsed):
        assert task["owner"] == "corpus-guard", name
        asks = name.partition(".")[2].startswith("approve_")  # a person who said no is not asked again
        assert task["retries"] == 0 if asks else task["retries"] >= 1, name
        assert 0 < (task["timeout"] or 0) <= LONGEST_HOURS * 3600, name


def test_tasks_that_load_a_model_share_one_slot(parsed: Parsed) -> None:
    pooled = {name for name, task in tasks(parsed) if task["pool"] == "models"}

    assert pooled == {
        "corpus_refresh.embed",
        "corpus_refresh.screen",
        "corpus_refresh.seal",
        "detector_training.train_filter",
        "detector_training.train_judge",
        "detector_training.train_probe",
        "quarantine_release.apply",
        "traceback_nightly.summarise",
        "traceback_nightly.trace",
        "traceback_nightly.withdraw",
    }


def test_tasks_stay_in_the_default_queue_unless_the_setting_parts_them(parsed: Parsed, tmp_path: Path) -> None:
    assert {task["queue"] for _, task in tasks(parsed)} == {"default"}

    parted = parse(tmp_path, CORPUS_GUARD_TASK_QUEUES="true")
    queues = {name: task["queue"] for name, task in tasks(parted)}
    assert queues["corpus_refresh.intake"] == "parse"
    assert {name for name, queue in queues.items() if queue == "embed"} == {
        "corpus_refresh.embed",
        "quarantine_release.apply",
    }
    in_pool = {name for name, task in tasks(parted) if task["pool"] == "models"}
    assert in_pool == {name for name, queue in queues.items() if queue in {"embed", "language-model"}}

    values = yaml.safe_load((PROJECT / "docker" / "kubernetes" / "values.yaml").read_text(encoding="utf-8"))
    workers = values["workers"]["celery"]
    assert {workers["queue"], *(each["queue"] for each in workers["sets"])} == set(queues.values())


def test_thresholds_are_no_parameters(parsed: Parsed) -> None:
    # Whoever may trigger a run must not be able to loosen the policy for it.
    assert parsed["dags"]["corpus_refresh"]["params"].keys() == {"sources"}
    assert parsed["dags"]["quarantine_release"]["params"] == {}
    assert parsed["dags"]["quarantine_review"]["params"] == {}
    assert parsed["dags"]["quarantine_watch"]["params"] == {}
    assert parsed["dags"]["integrity_nightly"]["params"] == {}
    assert parsed["dags"]["traceback_nightly"]["params"] == {}
    assert parsed["dags"]["detector_training"]["params"] == {}
    assert parsed["dags"]["content_purge"]["params"].keys() == {"chunks", "documents", "sources", "hashes", "reason"}


def test_every_parameter_has_a_title_and_says_what_to_enter(parsed: Parsed) -> None:
    bare = [
        f"{dag_id}.{name}"
        for dag_id, dag in parsed["dags"].items()
        for name, schema in dag["params"].items()
        if not (schema.get("title") and schema.get("description"))
    ]

    assert bare == []


def test_the_form_offers_exactly_the_sources_of_the_file(parsed: Parsed) -> None:
    schema = parsed["dags"]["corpus_refresh"]["params"]["sources"]

    assert schema["items"]["enum"] == ["handbook", "product", "community", "tickets"]


@pytest.mark.parametrize(
    "content", ["sources: [\n", "sources:\n  - {kind: folder}\n", None], ids=["no YAML", "a key is missing", "no file"]
)
def test_with_broken_sources_every_dag_stays(tmp_path: Path, content: str | None) -> None:
    """A DAG whose file fails to load is not scheduled, and nobody is notified: the task `discover` has to fail instead."""
    broken = tmp_path / "my-sources.yaml"
    if content is not None:
        broken.write_text(content)

    parsed = parse(tmp_path, CORPUS_GUARD_SOURCES_FILE=str(broken))

    assert parsed["errors"] == {}
    assert parsed["dags"].keys() == set().union(*DAGS.values())
    assert parsed["dags"]["corpus_refresh"]["params"]["sources"]["items"] == {"type": "string"}


def test_a_file_that_is_not_in_the_list_would_be_seen(tmp_path: Path) -> None:
    """The inventory's own proof: the parser finds a stray DAG, so the list above would not match."""
    folder = tmp_path / "dags"
    folder.mkdir()
    (folder / "stray.py").write_text(
        "from airflow.sdk import dag\n\n\n@dag(schedule=None)\ndef stray():\n    import pyarrow\n\n\nstray()\n"
    )

    parsed = parse(tmp_path, folder)

    assert "stray" in parsed["dags"]
    assert "pyarrow" in parsed["imported"], "a heavy import inside the DAG function runs at parse time, and is seen"
