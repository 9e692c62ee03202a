"""The provider package: what Airflow is told of it, and how its operators fail closed."""

from __future__ import annotations

import json
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from environment import PROJECT

PROVIDER = PROJECT / "include" / "airflow-provider-corpus-guard"
DOCUMENTS = [
    {"text": f"page {number} {{{{ conn.x.password }}}}", "metadata": {"file_name": f"{number}.md"}}
    for number in range(3)
]


class TaskInstance:
    """Keeps what is pushed."""

    def __init__(self) -> None:
        self.pushed: dict[str, Any] = {}

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed[key] = value


@pytest.fixture(autouse=True)
def provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PROVIDER))


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Put a script in the place of `guard`: the real one never breaks as these tests need it to."""

    def put(script: str) -> Path:
        path = tmp_path / "guard"
        path.write_text(f"#!{sys.executable}\nimport json, os, sys\n{script}")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        extra = {"command": str(path), "policy_file": "/etc/policy.yaml"}
        connection = {"conn_type": "corpus_guard", "password": "postgresql://u:p@h/d", "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_CORPUS_GUARD_DEFAULT", json.dumps(connection))
        return path

    return put


ANSWER = """
rows = [json.loads(line) for line in open(sys.argv[2])]
verdicts = ["accept", "quarantine", "accept"]
for row in rows:
    finding = {"code": "instructions.override"}
    print(json.dumps({"id": row["id"], "verdict": verdicts[int(row["id"])], "risk": 0.5, "findings": [finding]}))
"""


def screen(documents: Any = DOCUMENTS, **options: Any) -> tuple[list[Any], list[Any]]:
    from airflow_provider_corpus_guard.operators import CorpusGuardScreenOperator

    operator = CorpusGuardScreenOperator(task_id="screen", documents=documents, **options)
    instance = TaskInstance()
    context: Any = {"ti": instance}
    operator.render_template_fields(context)
    passed = operator.execute(context)
    return passed, instance.pushed["held"]


def test_airflow_accepts_what_the_provider_says_of_itself() -> None:
    import airflow_provider_corpus_guard as package
    import jsonschema
    from airflow_provider_corpus_guard import hooks, operators, sensors

    import airflow

    info = package.get_provider_info()
    schema = json.loads((Path(airflow.__file__).parent / "provider_info.schema.json").read_text())
    jsonschema.validate(info, schema)
    (kind,) = info["connection-types"]
    assert kind["connection-type"] == hooks.CorpusGuardHook.conn_type
    assert set(kind["conn-fields"]) == {"command", *hooks.SETTINGS}
    assert operators.CorpusGuardScreenOperator and sensors.CorpusGuardSealedSensor
    assert f'version = "{package.__version__}"' in (PROVIDER / "pyproject.toml").read_text()


def test_the_asset_of_the_sensor_is_that_of_the_refresh() -> None:
    from airflow_provider_corpus_guard.sensors import CORPUS

    from corpus_guard.airflow import assets

    assert assets.CORPUS == CORPUS


def test_documents_go_on_unchanged_without_those_that_are_held_back(command: Callable[[str], Path]) -> None:
    command(ANSWER)
    passed, held = screen()

    assert passed == [DOCUMENTS[0], DOCUMENTS[2]]  # and no template in them was rendered
    assert held == [
        {
            "position": 1,
            "metadata": {"file_name": "1.md"},
            "verdict": "quarantine",
            "risk": 0.5,
            "codes": ["instructions.override"],
        }
    ]
    assert screen([]) == ([], [])


def test_the_command_gets_its_settings_from_the_connection_alone(
    command: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_provider_corpus_guard.hooks import CorpusGuardHook

    command("print(json.dumps({k: v for k, v in os.environ.items() if k.startswith('CORPUS_GUARD_')}))")
    monkeypatch.setenv("CORPUS_GUARD_HOME", "/somebody/elses")

    assert CorpusGuardHook().run_json(["status"]) == {
        "CORPUS_GUARD_POLICY_FILE": "/etc/policy.yaml",
        "CORPUS_GUARD_LEDGER_URL": "postgresql://u:p@h/d",
    }


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("", "0 verdicts for 3 documents"),
        (ANSWER.replace("in rows:", "in rows[:2]:"), "2 verdicts for 3 documents"),
        (ANSWER.replace('row["id"], "verdict"', '"7", "verdict"'), "verdicts for 3 documents"),
        ("sys.exit('guard: policy.yaml: missing')", "0 verdicts"),
        (
            "print('x', file=sys.stderr); print('guard: no policy', file=sys.stderr); sys.exit(2)",
            "exit code 2: guard: no policy",
        ),
        ("import time; time.sleep(60)", "no answer within 1 seconds"),
    ],
)
def test_without_a_verdict_for_every_document_nothing_goes_on(
    script: str, says: str, command: Callable[[str], Path]
) -> None:
    from airflow.sdk.exceptions import AirflowException

    command(script)
    with pytest.raises(AirflowException, match=says):
        screen(timeout=1)


def test_a_missing_command_or_text_is_named(command: Callable[[str], Path]) -> None:
    from airflow.sdk.exceptions import AirflowException

    command("").unlink()
    with pytest.raises(AirflowException, match="no command"):
        screen()
    with pytest.raises(AirflowException, match="document 1: no text under 'text'"):
        screen([{"text": "a"}, {"content": "b"}])


def test_a_task_can_fail_where_something_is_held_back(command: Callable[[str], Path]) -> None:
    from airflow.sdk.exceptions import AirflowException

    command(ANSWER)
    with pytest.raises(AirflowException, match="1 of 3 documents are held back"):
        screen(fail_on_held=True)
