"""Hook that runs the `guard` command of a connection.

Rules
    * the command gets a list of arguments, never a shell; documents go through a file that only this user can read;
    * settings come from the connection alone: variables ``CORPUS_GUARD_…`` of the worker are not passed on, because
      somebody who may set one could name another policy;
    * exit code 1 ("something needs attention") is an answer; any other one that is not 0 fails the task, with the
      command's one line of error, which never holds a document's text.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, Final

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowException

SETTINGS: Final = ("home", "sources_file", "policy_file", "extensions_folder", "models_folder", "chroma_url")
"""Extras of the connection that become ``CORPUS_GUARD_…`` variables."""


class CorpusGuardHook(BaseHook):
    """The `guard` command of one deployment."""

    conn_name_attr = "corpus_guard_conn_id"
    default_conn_name = "corpus_guard_default"
    conn_type = "corpus_guard"
    hook_name = "Corpus Guard"

    def __init__(self, corpus_guard_conn_id: str = default_conn_name, timeout: float = 3600) -> None:
        """
        Args:
            corpus_guard_conn_id: the connection.
            timeout: seconds that one command may take.
        """
        super().__init__()
        self.corpus_guard_conn_id, self.timeout = corpus_guard_conn_id, timeout

    def get_conn(self) -> tuple[str, dict[str, str]]:
        """Return the command and its environment."""
        connection = self.get_connection(self.corpus_guard_conn_id)
        extra: Mapping[str, Any] = connection.extra_dejson or {}
        environment = {name: value for name, value in os.environ.items() if not name.startswith("CORPUS_GUARD_")}
        environment |= {f"CORPUS_GUARD_{name.upper()}": str(extra[name]) for name in SETTINGS if extra.get(name)}
        if connection.password:
            environment["CORPUS_GUARD_LEDGER_URL"] = connection.password
        return str(extra.get("command") or "guard"), environment

    def run(self, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run the command; exit codes 0 and 1 return, others raise.

        Raises:
            AirflowException: the command is not there, takes too long, or fails.
        """
        command, environment = self.get_conn()
        try:
            done = subprocess.run(
                [command, *arguments],
                env=environment,
                capture_output=True,
                text=True,
                timeout=self.timeout,
                check=False,
            )
        except FileNotFoundError:
            raise AirflowException(
                f"connection {self.corpus_guard_conn_id}: no command {command}; install corpus-guard, or name its command in the "
                "connection"
            ) from None
        except subprocess.TimeoutExpired:
            raise AirflowException(
                f"guard {arguments[0]}: no answer within {self.timeout:,.0f} seconds; give it more, or fewer documents"
            ) from None
        if done.returncode not in {0, 1}:
            lines = done.stderr.strip().splitlines()
            raise AirflowException(
                f"guard {arguments[0]}: exit code {done.returncode}: {lines[-1] if lines else 'no message'}"
            )
        return done

    def run_json(self, arguments: Sequence[str]) -> Any:
        """Run a command that has ``--json`` and return what it writes."""
        done = self.run([*arguments, "--json"])
        try:
            return json.loads(done.stdout)
        except json.JSONDecodeError:
            raise AirflowException(
                f"guard {arguments[0]}: expected JSON on standard output, got something else"
            ) from None

    def test_connection(self) -> tuple[bool, str]:
        """Return whether the command answers, for the button in the UI."""
        try:
            return True, self.run(["--version"]).stdout.strip()
        except AirflowException as error:
            return False, str(error)
