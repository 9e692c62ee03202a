"""The provider's example on real Airflow: the common.ai provider loads, the guard screens, and a task gets the rest."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from deployment import MakeDeployment, Run, Workspace

from deploying import BAD, GOOD
from environment import PROJECT

pytestmark = pytest.mark.slow

PROVIDER = PROJECT / "include" / "airflow-provider-corpus-guard"
EXAMPLES = PROVIDER / "airflow_provider_corpus_guard" / "example_dags"
# The common.ai provider, installed without its dependencies: `pip install --no-deps --target …`, see `make frameworks`.
COMMON_AI = Path(os.environ.get("GUARD_TEST_COMMON_AI", PROJECT / "var" / "common-ai"))


@pytest.mark.skipif(not COMMON_AI.is_dir(), reason="no common.ai provider: make frameworks")
def test_loaded_documents_are_screened_before_they_are_embedded(deploy: MakeDeployment, tmp_path: Path) -> None:
    workspace = deploy("provider", chroma=False)
    for name, text in {"gauge.md": GOOD, "pump.md": GOOD.replace("boat", "pump"), "order.md": BAD}.items():
        (tmp_path / name).write_text(text.replace("{title}", name))
    run = _run(workspace, "example_corpus_guard_screen", AIRFLOW_VAR_EXAMPLE_DOCUMENTS=str(tmp_path))

    assert run.succeeded, run.log[-4_000:]
    assert "2 of 3 documents may go on, 1 are held back" in run.log
    assert "['gauge.md', 'pump.md']" in run.log
    assert "send their password" not in run.log
    assert not run.heavy  # the guard runs in a process, and may run in an environment, of its own


def test_a_corpus_is_refreshed_and_the_sensor_sees_its_seal(deploy: MakeDeployment) -> None:
    workspace = deploy("provider-refresh")
    run = _run(workspace, "refreshes", AIRFLOW__CORE__DAGS_FOLDER=str(Path(__file__).with_name("provider_dags")))

    assert run.succeeded, run.log[-4_000:]
    assert not run.heavy
    counts = workspace.ask_runs()[0].counts
    assert counts["accepted"]
    assert f"accepted {counts['accepted']}, manifest {counts['manifest_sha256']}" in run.log
    workspace.everything_agrees()


def _run(workspace: Workspace, dag: str, **environment: str) -> Run:
    extra = {
        "command": str(Path(sys.executable).with_name("guard")),
        "home": str(workspace.home),
        "models_folder": str(workspace.models),
        "sources_file": str(workspace.sources_file),
        "chroma_url": workspace.url,
    }
    connection = {"conn_type": "corpus_guard", "extra": extra}
    changes = {
        "AIRFLOW__CORE__DAGS_FOLDER": str(EXAMPLES),
        "AIRFLOW_CONN_CORPUS_GUARD_DEFAULT": json.dumps(connection),
        "PYTHONPATH": os.pathsep.join([str(PROJECT / "include"), str(PROVIDER), str(COMMON_AI)]),
    }
    return workspace.start(dag, **changes | environment).finish()
