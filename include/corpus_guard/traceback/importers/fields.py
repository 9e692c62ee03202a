"""Values of an export as a report needs them: a question, an answer, a time, ids.

Rules
    * what a tool calls input or output may be text, JSON in text, a chat's messages or an object with one telling key; the question is
      what the user said last, the answer what the assistant said last;
    * a time without a zone is UTC; a number is seconds since 1970, or milliseconds;
    * what is not understood raises, and the record is put aside; nothing is guessed from the text itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from corpus_guard.errors import HostileInput

DEEPEST = 6  # objects in objects that are looked into
LONGEST_JSON = 1_000_000  # characters of a text that are tried as JSON
MILLISECONDS = 100_000_000_000  # a larger number of seconds lies after the year 5000

_QUESTION = ("messages", "question", "query", "input", "inputs", "prompt", "user_input", "text", "content", "message")
_ANSWER = (
    "messages",
    "choices",
    "answer",
    "output",
    "outputs",
    "response",
    "result",
    "completion",
    "text",
    "content",
    "message",
)
_SECONDS = re.compile(r"\d{9,16}(\.\d{1,9})?", re.ASCII)
_IDS = ("chunk_id", "chunkId", "id", "document_id")


def first(values: Mapping[str, Any], names: Sequence[str]) -> Any:
    """The value of the first of `names` that has one; None where none has."""
    for name in names:
        value = values.get(name)
        if value is not None and value != "":
            return value
    return None


def question(value: Any) -> str:
    """The question in what a tool recorded as input.

    Raises:
        HostileInput: ``report.no_query``.
    """
    found = _said(value, "user", _QUESTION, DEEPEST)
    if found is None:
        raise HostileInput(
            "report.no_query", "no question in the record; expected text, messages, or an object with one"
        )
    return found


def answer(value: Any) -> str:
    """The answer in what a tool recorded as output.

    Raises:
        HostileInput: ``report.no_output``.
    """
    found = _said(value, "assistant", _ANSWER, DEEPEST)
    if found is None:
        raise HostileInput(
            "report.no_output", "no answer in the record; expected text, messages, or an object with one"
        )
    return found


def moment(value: Any) -> datetime:
    """A point in time, UTC.

    Raises:
        HostileInput: ``report.no_time``, or ``report.bad_time``.
    """
    if value is None or value == "":
        raise HostileInput("report.no_time", "no time in the record; expected one such as 2026-03-01T12:00:00Z")
    try:
        if isinstance(value, datetime):
            return as_utc(value)
        if isinstance(value, str) and _SECONDS.fullmatch(value.strip()):  # fromisoformat reads ten digits as a date
            value = float(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value / 1000 if abs(value) >= MILLISECONDS else value, UTC)
        return as_utc(datetime.fromisoformat(str(value).strip()))
    except (ValueError, OverflowError, OSError):
        raise HostileInput(
            "report.bad_time", "the time cannot be read; expected one such as 2026-03-01T12:00:00Z"
        ) from None


def as_utc(value: datetime) -> datetime:
    """`value` in UTC; without a zone it is UTC already."""
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def text(value: Any) -> str:
    """A name or an id; empty for nothing, an object or a list."""
    return "" if value is None or isinstance(value, Mapping | list | tuple) else str(value)


def chunk_ids(value: Any) -> tuple[str, ...]:
    """Ids of served chunks: a list of ids or of documents that hold one, JSON of it, or ids with ``;`` between them."""
    value = parsed(value)
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(";") if part.strip())
    if isinstance(value, Mapping):
        value = first(value, ("documents", "chunks", "results", *_IDS)) or []
        return chunk_ids(value) if isinstance(value, list | str) else ()
    if not isinstance(value, list | tuple):
        return ()
    return tuple(found for one in value if (found := _id_of(one)))


def parsed(value: Any) -> Any:
    """Text that is JSON as what it says; anything else as it is."""
    if not isinstance(value, str) or len(value) > LONGEST_JSON or value.lstrip()[:1] not in {"{", "[", '"'}:
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _id_of(value: Any) -> str:
    if not isinstance(value, Mapping):
        return text(value).strip()
    metadata = value.get("metadata")
    inner = first(metadata, _IDS) if isinstance(metadata, Mapping) else None
    return text(first(value, _IDS[:2]) or inner or first(value, _IDS)).strip()


def _said(value: Any, role: str, keys: Sequence[str], depth: int) -> str | None:
    """What `role` said last in `value`; None where nothing is understood."""
    if isinstance(value, str):
        inner = parsed(value)
        # Text that happens to be JSON and says nothing to us is the text itself.
        return (_said(inner, role, keys, depth - 1) or value) if inner is not value and depth else value
    if isinstance(value, int | float):
        return json.dumps(value)
    if isinstance(value, Mapping) and depth:
        return _told(value, role, keys, depth)
    return _last(value, role, keys, depth) if isinstance(value, list | tuple) and depth else None


def _told(value: Mapping[str, Any], role: str, keys: Sequence[str], depth: int) -> str | None:
    for key in keys:
        if (found := value.get(key)) is not None and (said := _said(found, role, keys, depth - 1)) is not None:
            return said
    only = list(value.values())
    return only[0] if len(only) == 1 and isinstance(only[0], str) else None


def _last(value: Sequence[Any], role: str, keys: Sequence[str], depth: int) -> str | None:
    messages = [one for one in value if isinstance(one, Mapping)]
    spoken = [one for one in messages if one.get("role", one.get("type")) in (role, *_ROLES[role])]
    if spoken:
        return _said(spoken[-1].get("content"), role, keys, depth - 1)
    parts = [one["text"] for one in messages if isinstance(one.get("text"), str)]
    if parts:  # the parts of one message
        return "".join(parts)
    if any("role" in one for one in messages):
        return None
    return _said(value[-1], role, keys, depth - 1) if value else None


_ROLES = {"user": ("human",), "assistant": ("ai", "model")}
