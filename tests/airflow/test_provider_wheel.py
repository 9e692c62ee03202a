"""The provider's wheel in an environment that has nothing else: pip brings Airflow, and Airflow finds it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from environment import PROJECT

PROVIDER = PROJECT / "include" / "airflow-provider-corpus-guard"
COMMON_AI = "apache-airflow-providers-common-ai==1.0.0"  # its operator loads the documents of the example
EXAMPLE = """
import json, logging, pathlib, airflow_provider_corpus_guard as package
logging.disable()
from airflow.models import DagBag
bag = DagBag(str(pathlib.Path(package.__file__).with_name("example_dags")))
dags = {name: [task.task_id for task in dag.tasks] for name, dag in bag.dags.items()}
print(json.dumps([dags, bag.import_errors]))
"""


@pytest.mark.slow
@pytest.mark.hours  # it downloads Airflow
def test_it_installs_with_its_dependencies_and_airflow_lists_it(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"AIRFLOW_HOME": str(tmp_path / "airflow"), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}

    def run(*command: str | Path) -> str:
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=1_200
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path / "dist", PROVIDER)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    run(sys.executable, "-m", "venv", tmp_path / "empty")
    binaries = tmp_path / "empty" / "bin"
    run(binaries / "pip", "install", "--quiet", wheel, COMMON_AI)

    providers = json.loads(run(binaries / "airflow", "providers", "list", "--output", "json"))
    assert {"airflow-provider-corpus-guard": "0.2.0"}.items() <= {
        each["package_name"]: each["version"] for each in providers
    }.items()
    dags, errors = json.loads(run(binaries / "python", "-c", EXAMPLE).splitlines()[-1])
    assert (dags, errors) == ({"example_corpus_guard_screen": ["load", "screen", "embed"]}, {})
    assert (
        run(binaries / "python", "-c", "import importlib.util as u; print(u.find_spec('corpus_guard'))").strip()
        == "None"
    )
