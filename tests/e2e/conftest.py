from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from deployment import MakeDeployment, Run, SharedAirflow, Workspace

from environment import PROJECT, Ports, Secrets, environment, with_caller
from sinks import Sink, mail_sink, webhook_sink


@pytest.fixture(scope="session")
def models(models_home: Path) -> Path:
    """Return the folder of the converted models; no test changes them."""
    return models_home / "models"


@pytest.fixture(scope="session")
def airflow_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated, empty metadata database to copy."""
    home = tmp_path_factory.mktemp("airflow")
    (home / "airflow").mkdir()
    env = with_caller(environment(PROJECT, home, Ports(), Secrets(), metadata="sqlite"), os.environ)
    subprocess.run([sys.executable, "-m", "airflow", "db", "migrate"], env=env, check=True, capture_output=True)
    return home / "airflow" / "airflow.db"


@pytest.fixture(scope="session")
def shared_airflow(tmp_path_factory: pytest.TempPathFactory, airflow_database: Path) -> Iterator[SharedAirflow]:
    """Airflow for the runs that need no process of their own."""
    home = tmp_path_factory.mktemp("shared-airflow")
    shutil.copyfile(airflow_database, home / "airflow.db")
    shared = SharedAirflow(home)
    yield shared
    shared.stop()


@pytest.fixture(scope="session")
def deploy(
    tmp_path_factory: pytest.TempPathFactory, models: Path, airflow_database: Path, shared_airflow: SharedAirflow
) -> Iterator[MakeDeployment]:
    """Make a deployment: an unread corpus, or what `snapshot` holds. Its Chroma server runs unless told otherwise."""
    made: list[Workspace] = []

    def make(name: str, snapshot: Path | None = None, *, chroma: bool = True) -> Workspace:
        one = Workspace(tmp_path_factory.mktemp(name), models, airflow_database, shared_airflow, snapshot)
        made.append(one)
        if chroma:
            one.start_chroma()
        return one

    yield make
    for one in made:
        one.stop()


@pytest.fixture(scope="session")
def undisturbed(deploy: MakeDeployment) -> tuple[Workspace, Run]:
    """A corpus that one run of the DAG took in; tests look at it and change nothing."""
    one = deploy("undisturbed")
    return one, one.run()


@pytest.fixture(scope="session")
def snapshot(undisturbed: tuple[Workspace, Run], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, to begin other deployments with."""
    folder = tmp_path_factory.mktemp("saved") / "snapshot"
    undisturbed[0].save(folder)
    return folder


@pytest.fixture(scope="module")
def mail() -> Iterator[Sink]:
    with mail_sink() as sink:
        yield sink


@pytest.fixture(scope="module")
def hook() -> Iterator[Sink]:
    with webhook_sink() as sink:
        yield sink
