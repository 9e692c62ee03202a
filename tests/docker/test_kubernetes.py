"""The values for Airflow's Helm chart: what they share with the guard is right. The chart itself is not here to render them."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from corpus_guard.settings import Settings
from environment import PROJECT


@pytest.fixture(scope="module")
def values() -> Any:
    return yaml.safe_load((PROJECT / "docker" / "kubernetes" / "values.yaml").read_text(encoding="utf-8"))


def test_every_variable_of_the_guard_is_a_setting_with_a_valid_value(values: Any) -> None:
    variables = {entry["name"]: entry["value"] for entry in values["env"]}
    assert all(isinstance(value, str) for value in variables.values()), "Kubernetes takes strings"
    own = {name.removeprefix("CORPUS_GUARD_").lower(): value for name, value in variables.items() if "GUARD" in name}
    folder = own.pop("secrets_dir")

    assert own.keys() <= Settings.model_fields.keys()
    settings = Settings.model_validate({**own, "ledger_url": "postgresql://from.a.secret/ledger"})
    assert settings.task_queues
    assert {mount["mountPath"] for mount in values["volumeMounts"]} == {folder, str(settings.keys_folder)}
    assert str(settings.sources_file.parent) == folder
    assert {mount["name"] for mount in values["volumeMounts"]} == {volume["name"] for volume in values["volumes"]}


def test_no_value_is_a_secret(values: Any) -> None:
    assert not any("@" in entry["value"] or "password" in entry["name"].lower() for entry in values["env"])
    assert values["data"].keys() == {"metadataSecretName"}


def test_each_set_of_workers_scales_by_itself_and_leaves_room_for_its_work(values: Any) -> None:
    workers = values["workers"]["celery"]
    sets = [workers, *workers["sets"]]
    assert len({each["queue"] for each in sets}) == len(sets) == 4
    for each in sets:
        assert each["keda"]["enabled"] and each["keda"]["minReplicaCount"] < each["keda"]["maxReplicaCount"]
    parse = next(each for each in sets if each["queue"] == "parse")
    limit = int(parse["resources"]["limits"]["memory"].removesuffix("Gi")) * 2**30
    assert limit > Settings.model_fields["parse_memory_bytes"].default
    assert values["config"]["celery"]["worker_concurrency"] == 1


def test_the_image_is_of_this_release_and_of_the_locked_airflow(values: Any) -> None:
    from importlib.metadata import version

    assert values["airflowVersion"] == version("apache-airflow")
    assert values["images"]["airflow"]["tag"] == version("corpus-guard")
