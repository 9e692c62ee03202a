"""Parse the DAG files and print what a test asks of them as JSON.

A process of its own: Airflow reads its environment once, when it is imported, and what parsing imports can only be seen in a process
that imported nothing else.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import airflow.models  # noqa: F401 - what Airflow itself imports is not what a DAG file imports

before = set(sys.modules)

from airflow.models import DagBag  # noqa: E402


def _described(param: Any) -> dict[str, Any]:
    return {**param.schema, "description": param.description}


def describe() -> dict[str, Any]:
    bag = DagBag()
    return {
        "errors": bag.import_errors,
        "imported": sorted({name.partition(".")[0] for name in set(sys.modules) - before}),
        "dags": {dag.dag_id: _dag(dag) for dag in bag.dags.values()},
    }


def _dag(dag: Any) -> dict[str, Any]:
    return {
        "file": dag.fileloc,
        "doc_md": dag.doc_md,
        "tags": sorted(dag.tags),
        "max_active_runs": dag.max_active_runs,
        "dagrun_timeout": dag.dagrun_timeout and dag.dagrun_timeout.total_seconds(),
        "catchup": dag.catchup,
        "default_args": sorted(dag.default_args),
        "told_when_it_fails": getattr(dag.on_failure_callback, "__name__", None),
        "deadlines": [
            {"name": one.name, "hours": one.interval.total_seconds() / 3600, "calls": one.callback.path}
            for one in dag.deadline or []
        ],
        "params": {name: _described(dag.params.get_param(name)) for name in dag.params},
        "tasks": {task.task_id: _task(task) for task in dag.tasks},
    }


def _task(task: Any) -> dict[str, Any]:
    return {
        "owner": task.owner,
        "retries": task.retries,
        "timeout": task.execution_timeout and task.execution_timeout.total_seconds(),
        "pool": task.pool,
        "queue": task.queue,
        "at_once": task.max_active_tis_per_dag,
        "outlets": sorted(outlet.name for outlet in task.outlets),
        "upstream": sorted(task.upstream_task_ids),
    }


if __name__ == "__main__":
    found = describe()
    sys.stdout.write("\n" + json.dumps(found) + "\n")
