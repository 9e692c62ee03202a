"""Airflow's context of a task: the run's id and parameters, the person who answered, the connections of sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, NotRequired, TypedDict, TypeVar

from corpus_guard.errors import Misuse
from corpus_guard.invisible import reveal_invisible

if TYPE_CHECKING:
    from airflow.sdk import Connection, Context

    from corpus_guard.intake.sources.connections import Connection as SourceConnection

T = TypeVar("T")

APPROVE: Final = "Approve"
"""The only answer to a required action that changes something."""
MAX_KEY: Final = 120
"""Characters of a key that are shown: whoever triggers a run chooses them."""


class Responder(TypedDict):
    """The user who answered a required action."""

    id: str
    name: NotRequired[str]


class HumanAnswer(TypedDict, total=False):
    """The XCom that Airflow's human-in-the-loop operators push."""

    chosen_options: list[str]
    params_input: dict[str, object]  # what was entered in the form
    responded_by_user: Responder | None


def current_run_id() -> str:
    """Return the ledger's name of the current DAG run: ``<dag id>/<run id>``."""
    from airflow.sdk import get_current_context

    context = get_current_context()
    return f"{context['dag'].dag_id}/{context['run_id']}"


def refuse_unknown_parameters(context: Context) -> None:
    """Check that the run's configuration has no key but the names of the DAG's parameters (``pre_execute`` of every task).

    Airflow 3.3.2 passes over a key that no parameter has: misspelt, it would leave the default in force.

    Raises:
        AirflowFailException: a key is not a parameter; the task is not tried again.
    """
    from airflow.sdk.exceptions import AirflowFailException

    dag = context["dag"]
    names = sorted(dag.params)
    for key in map(str, context["dag_run"].conf or ()):
        if key not in names:
            nearest = get_close_matches(key, names, n=1)
            advice = f"Did you mean {nearest[0]}?" if nearest else f"It takes {', '.join(names) or 'none'}."
            shown = reveal_invisible(key[:MAX_KEY])
            raise AirflowFailException(
                f"{dag.dag_id} has no parameter {shown!r}. {advice} This task did nothing; trigger the DAG again"
            )


def responder_name(answer: HumanAnswer) -> str:
    """Return the name of the user who answered a required action.

    Raises:
        Misuse: the answer names no user; nothing may be done in nobody's name.
    """
    user = answer.get("responded_by_user")
    if not user or not user.get("id"):
        raise Misuse(
            "the answer names no user, so nothing was changed; clear the required action, sign in and answer again"
        )
    return user.get("name") or user["id"]


def is_approved(answer: HumanAnswer) -> bool:
    """Return whether a required action was answered with *Approve*."""
    return list(answer.get("chosen_options") or ()) == [APPROVE]


def all_results(results: Sequence[T] | None) -> list[T]:
    """Return what the mapped tasks returned, by one request; None: all were skipped.

    Whoever iterates over them asks for one after the other until there is none, which Airflow 3.3.2 logs as an error.
    """
    return [] if results is None else list(results[:])


def asset_event_extra(counts: Mapping[str, object], *names: str) -> dict[str, object]:
    """Return the extra of an asset event: run, digest of the manifest and these counts; never a document's name or text."""
    extra: dict[str, object] = {"run_id": counts["run_id"], "manifest_sha256": counts["manifest_sha256"]}
    return extra | {name: counts[name] for name in names if name in counts}


def find_connection(name: str) -> Connection | None:
    """Return Airflow's connection of this name; None if there is none.

    Raises:
        PermissionError: Airflow does not give it to this task.
        AirflowRuntimeError: Airflow does not answer.
    """
    from airflow.sdk import Connection
    from airflow.sdk.exceptions import AirflowNotFoundException

    try:
        connection: Connection = Connection.get(name)
    except AirflowNotFoundException:
        return None
    return connection


def source_connection(name: str) -> SourceConnection:
    """Return the credentials of a source: Airflow's connection of this name, else the environment's.

    Raises:
        PermissionError, AirflowRuntimeError: see `find_connection`.
        SettingsError: neither exists.
    """
    from corpus_guard.intake.sources.connections import Connection as SourceConnection
    from corpus_guard.intake.sources.connections import from_environment

    connection = find_connection(name)
    if connection is None:
        return from_environment(name)
    return SourceConnection(
        name,
        connection.conn_type or "",
        connection.host or "",
        connection.port,
        connection.login or "",
        connection.password or "",
        connection.schema or "",
        dict(connection.extra_dejson or {}),
    )
