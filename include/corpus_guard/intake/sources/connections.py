"""Credentials by name: a source names a connection, and whoever runs the refresh defines it.

In Airflow it is one of Airflow's connections (`corpus_guard.airflow.context`). Elsewhere it is an environment
variable, ``CORPUS_GUARD_CONNECTION_MY_S3`` or, as Airflow spells it, ``AIRFLOW_CONN_MY_S3``: a URI or a JSON
object, in Airflow's own form.

Rules: only the name of a connection ever appears in a message, a `repr` or a log; a URL in ``sources.yaml``
holds no password.
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

PREFIXES = ("CORPUS_GUARD_CONNECTION_", "AIRFLOW_CONN_")


@dataclass(frozen=True, slots=True)
class Connection:
    """Host and credentials behind a name; the fields are Airflow's."""

    name: str
    kind: str = ""  # aws, postgres, …
    host: str = field(default="", repr=False)
    port: int | None = field(default=None, repr=False)
    login: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    schema: str = field(default="", repr=False)  # of databases: the database
    extra: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}), repr=False)


Connections = Callable[[str], Connection]
"""Lookup of a connection by name; raises SettingsError, which names the variable to set, where there is none."""


def from_environment(name: str) -> Connection:
    """Return the connection `name` from the process's environment.

    Raises:
        SettingsError: no variable defines it, or the value is neither a URI nor a JSON object. The value is
            not shown.
    """
    for prefix in PREFIXES:
        variable = f"{prefix}{name.upper()}"
        value = os.environ.get(variable, "").strip()
        if not value:
            continue
        try:
            return _from_json(name, value) if value.startswith("{") else _from_uri(name, value)
        except (ValueError, TypeError, AttributeError):
            # `from None`: the parser's message quotes the value with its password.
            raise SettingsError(
                f"environment variable {variable}: expected a URI (kind://login:password@host:port/schema?key=value) "
                "or a JSON object with Airflow's keys (conn_type, host, port, login, password, schema, extra)"
            ) from None
    raise SettingsError(
        f"connection {name!r} does not exist: create it in Airflow (airflow connections add {name} …), or set "
        f"{PREFIXES[0]}{name.upper()} to a URI or a JSON object, as in Airflow's AIRFLOW_CONN_ variables"
    )


def _from_json(name: str, value: str) -> Connection:
    fields = json.loads(value)
    extra = fields.get("extra") or {}
    return Connection(
        name,
        str(fields.get("conn_type") or ""),
        str(fields.get("host") or ""),
        int(fields["port"]) if fields.get("port") else None,
        str(fields.get("login") or ""),
        str(fields.get("password") or ""),
        str(fields.get("schema") or ""),
        MappingProxyType(dict(json.loads(extra) if isinstance(extra, str) else extra)),
    )


def _from_uri(name: str, value: str) -> Connection:
    parts = urlsplit(value)
    if not parts.scheme or "://" not in value:
        raise ValueError("no scheme")
    extra: dict[str, Any] = dict(parse_qsl(parts.query, keep_blank_values=True))
    if "__extra__" in extra:  # how Airflow writes an extra that is not a flat set of texts
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
