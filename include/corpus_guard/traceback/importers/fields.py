"""Fields of a report in the values of an export: a question, an answer, a time, ids.

Rules
    * what a tool calls input or output may be text, JSON in text, a chat's messages, or an object with one
      known key; the question is what the user said last, the answer what the assistant said last;
    * a time without a zone is UTC; a number is seconds since 1970, or milliseconds;
    * a value that is not understood raises, and the record is put aside; nothing is guessed from the text
      itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from corpus_guard.errors import HostileInput

MAX_DEPTH = 6  # of nested objects that are searched
MAX_JSON_LENGTH = 1_000_000  # characters of a text that is parsed as JSON
MIN_MILLISECONDS = 100_000_000_000  # a larger number of seconds lies after the year 5000

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


def first_value(values: Mapping[str, object], names: Sequence[str]) -> object:
    """Return the value of the first of `names` that has one; None if none has."""
    for name in names:
        value = values.get(name)
        if value is not None and value != "":
            return value
    return None


def extract_question(value: object) -> str:
    """Return the question in what a tool recorded as input.

    Raises:
        HostileInput: ``report.no_query``.
    """
    question = _text_of_role(value, "user", _QUESTION, MAX_DEPTH)
    if question is None:
        raise HostileInput(
            "report.no_query", "no question in the record; expected text, messages, or an object with one"
        )
    return question


def extract_answer(value: object) -> str:
    """Return the answer in what a tool recorded as output.

    Raises:
        HostileInput: ``report.no_output``.
    """
    answer = _text_of_role(value, "assistant", _ANSWER, MAX_DEPTH)
    if answer is None:
        raise HostileInput(
            "report.no_output", "no answer in the record; expected text, messages, or an object with one"
        )
    return answer


def parse_time(value: object) -> datetime:
    """Return a point in time, in UTC.

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
            return datetime.fromtimestamp(value / 1000 if abs(value) >= MIN_MILLISECONDS else value, UTC)
        return as_utc(datetime.fromisoformat(str(value).strip()))
    except (ValueError, OverflowError, OSError):
        raise HostileInput(
            "report.bad_time", "the time cannot be read; expected one such as 2026-03-01T12:00:00Z"
        ) from None


def as_utc(value: datetime) -> datetime:
    """Return `value` in UTC; a time without a zone is UTC already."""
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def text_or_empty(value: object) -> str:
    """Return a name or an id; empty for None, an object or a list."""
    return "" if value is None or isinstance(value, Mapping | list | tuple) else str(value)


def extract_chunk_ids(value: object) -> tuple[str, ...]:
    """Return the ids of served chunks.

    Args:
        value: a list of ids or of documents that hold one, JSON of it, or ids separated by ``;``.
    """
    value = parse_json(value)
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(";") if part.strip())
    if isinstance(value, Mapping):
        documents = first_value(value, ("documents", "chunks", "results", *_IDS)) or []
        return extract_chunk_ids(documents) if isinstance(documents, list | str) else ()
    if not isinstance(value, list | tuple):
        return ()
    return tuple(chunk_id for document in value if (chunk_id := _id_of(document)))


def parse_json(value: object) -> object:
    """Return the value of text that is JSON; anything else unchanged."""
    if not isinstance(value, str) or len(value) > MAX_JSON_LENGTH or value.lstrip()[:1] not in {"{", "[", '"'}:
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _id_of(value: object) -> str:
    if not isinstance(value, Mapping):
        return text_or_empty(value).strip()
    metadata = value.get("metadata")
    inner = first_value(metadata, _IDS) if isinstance(metadata, Mapping) else None
    return text_or_empty(first_value(value, _IDS[:2]) or inner or first_value(value, _IDS)).strip()


def _text_of_role(value: object, role: str, keys: Sequence[str], depth: int) -> str | None:
    """Return what `role` said last in `value`; None if the value is not understood."""
    if isinstance(value, str):
        inner = parse_json(value)
        # Text that happens to be JSON without a known key is the text itself.
        return (_text_of_role(inner, role, keys, depth - 1) or value) if inner is not value and depth else value
    if isinstance(value, int | float):
        return json.dumps(value)
    if isinstance(value, Mapping) and depth:
        return _text_in_mapping(value, role, keys, depth)
    return _text_in_list(value, role, keys, depth) if isinstance(value, list | tuple) and depth else None


def _text_in_mapping(value: Mapping[str, object], role: str, keys: Sequence[str], depth: int) -> str | None:
    for key in keys:
        if (inner := value.get(key)) is not None:
            text = _text_of_role(inner, role, keys, depth - 1)
            if text is not None:
                return text
    values = list(value.values())
    return values[0] if len(values) == 1 and isinstance(values[0], str) else None


def _text_in_list(value: Sequence[object], role: str, keys: Sequence[str], depth: int) -> str | None:
    messages = [message for message in value if isinstance(message, Mapping)]
    of_role = [message for message in messages if message.get("role", message.get("type")) in (role, *_ROLES[role])]
    if of_role:
        return _text_of_role(of_role[-1].get("content"), role, keys, depth - 1)
    parts = [part["text"] for part in messages if isinstance(part.get("text"), str)]
    if parts:  # the parts of one message
        return "".join(parts)
    if any("role" in message for message in messages):
        return None
    return _text_of_role(value[-1], role, keys, depth - 1) if value else None


_ROLES = {"user": ("human",), "assistant": ("ai", "model")}
