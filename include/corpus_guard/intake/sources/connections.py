"""Where credentials come from: a source names a connection, and whoever runs the refresh says what stands behind the name.

In Airflow that is Airflow's own connection (`corpus_guard.airflow_tasks`). Elsewhere it is an environment variable,
``CORPUS_GUARD_CONNECTION_MY_S3`` or, as Airflow spells it, ``AIRFLOW_CONN_MY_S3``: a URI or a JSON object, in Airflow's own form.

Rules: nothing of a connection but its name is ever part of a message, a `repr` or a log; a URL in ``sources.yaml`` holds no password.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from corpus_guard.errors import SettingsError

VARIABLES = ("CORPUS_GUARD_CONNECTION_", "AIRFLOW_CONN_")


@dataclass(frozen=True, slots=True)
class Connection:
    """What a name stands for; the fields are Airflow's."""

    name: str
    kind: str = ""  # aws, postgres, …
    host: str = field(default="", repr=False)
    port: int | None = field(default=None, repr=False)
    login: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    schema: str = field(default="", repr=False)  # of databases: the database
    extra: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}), repr=False)


Connections = Callable[[str], Connection]
"""From a name to the connection; raises SettingsError, which names the variable to set, where there is none."""


def from_environment(name: str) -> Connection:
    """The connection `name` from the process's environment.

    Raises:
        SettingsError: no variable has it, or its value is neither a URI nor a JSON object. The value is not shown.
    """
    for prefix in VARIABLES:
        variable = f"{prefix}{name.upper()}"
        value = os.environ.get(variable, "").strip()
        if not value:
            continue
        try:
            return _from_json(name, value) if value.startswith("{") else _from_uri(name, value)
        except (ValueError, TypeError, AttributeError):
            # `from None`: the parser's message quotes the value with its password.
            raise SettingsError(
                f"environment variable {variable}: is neither a URI (kind://login:password@host:port/schema?key=value) nor a JSON "
                "object with Airflow's keys (conn_type, host, port, login, password, schema, extra)"
            ) from None
    raise SettingsError(
        f"connection {name!r} is not known: make it in Airflow (airflow connections add {name} …), or set "
        f"{VARIABLES[0]}{name.upper()} to a URI or a JSON object as Airflow's AIRFLOW_CONN_ variables hold them"
    )


def _from_json(name: str, value: str) -> Connection:
    said = json.loads(value)
    extra = said.get("extra") or {}
    return Connection(
        name,
        str(said.get("conn_type") or ""),
        str(said.get("host") or ""),
        int(said["port"]) if said.get("port") else None,
        str(said.get("login") or ""),
        str(said.get("password") or ""),
        str(said.get("schema") or ""),
        MappingProxyType(dict(json.loads(extra) if isinstance(extra, str) else extra)),
    )


def _from_uri(name: str, value: str) -> Connection:
    parts = urlsplit(value)
    if not parts.scheme or "://" not in value:
        raise ValueError("no scheme")
    extra: dict[str, Any] = dict(parse_qsl(parts.query, keep_blank_values=True))
    if "__extra__" in extra:  # how Airflow writes an extra that is no flat set of texts
        extra = dict(json.loads(extra["__extra__"]))
    return Connection(
        name,
        parts.scheme.replace("-", "_"),
        unquote(parts.hostname or ""),
        parts.port,
        unquote(parts.username or ""),
        unquote(parts.password or ""),
        unquote(parts.path.lstrip("/")),
        MappingProxyType(extra),
    )
