"""Retrievals that other applications logged: spans of OpenTelemetry and OpenInference, exports of tools, plain records.

What is read
    OpenTelemetry GenAI   ``gen_ai.retrieval.documents`` (``id``, ``score``), ``gen_ai.retrieval.query.text``,
                          ``gen_ai.conversation.id`` (status *Development*: names may change)
    OpenInference         ``retrieval.documents.N.document.id`` and ``.score``, ``input.value``, ``session.id``, ``user.id``;
                          a chunk's id in the document's metadata (``chunk_id``) goes before ``id``
    Langfuse              observations of type RETRIEVER, alone or in the download of a trace
    plain                 ``query``, ``served`` (ids, or objects with id, score and shown), ``at``, ``session``, ``user_id``,
                          ``answer``, ``shown`` (ids), ``id``

Rules
    * a span or record without a list of texts is no retrieval, and is passed over; one with a list that cannot be read, or
      without a time, is refused;
    * a question that was not recorded is stored as an empty one: whom the texts reached is known all the same;
    * the same span or record, sent again, is the same retrieval; a span of our own retriever, which has logged it, is
      passed over;
    * everything is bounded, and nothing of it is quoted in a message: senders are not trusted.
"""

from __future__ import annotations

import json
import math
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, Final

from corpus_guard.corpus.retrieval_log import LoggedChunk, LoggedRetrieval, RetrievalLog
from corpus_guard.corpus.spans import LOGGED_AS
from corpus_guard.domain import JsonRecord, digest, replace_surrogates
from corpus_guard.errors import HostileInput
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.states import RetrievalOrigin
from corpus_guard.settings import Settings
from corpus_guard.traceback.importers import fields
from corpus_guard.traceback.importers.record import Mark
from corpus_guard.traceback.importers.source import exports

MAX_SPANS: Final = 10_000  # of one request
MAX_TEXTS: Final = 200  # of one retrieval
MAX_VALUES: Final = 20_000  # of one record, nested ones counted
MAX_DEPTH: Final = 8
CLOCK_TOLERANCE: Final = timedelta(minutes=5)  # how far ahead a time may lie
RECORDS_PER_TRANSACTION: Final = 500

_TEXTS = "retrieval.documents."
_QUERIES = ("gen_ai.retrieval.query.text", "input.value", "gen_ai.prompt")
_SESSIONS = ("session.id", "gen_ai.conversation.id")
_USERS = ("user.id", "enduser.id")
_PLAIN_QUERIES = ("query", "question", "input", "prompt")
_PLAIN_TIMES = ("at", "time", "timestamp", "created_at", "startTime", "start_time")
_PLAIN_SERVED = ("served", "retrieved", "chunks", "chunk_ids", "documents")
_PLAIN_SESSIONS = ("session", "session_id", "sessionId", "conversation_id", "thread_id")
_PLAIN_USERS = ("user_id", "userId", "user")
_PLAIN_ANSWERS = ("answer", "output", "response")
_IDS = ("chunk_id", "id", "document_id")


@dataclass(frozen=True, slots=True)
class IntakeCounts(JsonRecord):
    """Counts of what became of the records that were sent; they add up to `records`."""

    records: int
    new: int
    repeated: int  # were in the log already
    passed_over: int  # no retrievals
    expired: int  # older than the log keeps
    refused: int  # cannot be read
    reason: str = ""  # why the first one was refused


def import_retrievals(
    log: RetrievalLog, settings: Settings, source: str, file_format: str | None = None
) -> IntakeCounts:
    """Import what `source` names: a file, a pattern or a URL, as for `guard report import`.

    Raises:
        Misuse: the format is unknown, or a file has another one.
        SourceUnavailable: a file cannot be read.
    """

    def parsed() -> Iterator[LoggedRetrieval | HostileInput | None]:
        for export in exports(settings, source, Mark(), file_format):
            for record in export.records:
                if record.values is None:
                    yield HostileInput("retrieval.broken", record.message)
                    continue
                try:
                    yield from parse_record(record.values)
                except HostileInput as error:
                    yield error

    return add_retrievals(log, parsed())


def add_otlp_request(log: RetrievalLog, request: object) -> IntakeCounts:
    """Add the retrievals in an ``ExportTraceServiceRequest`` (OTLP/HTTP, JSON).

    Raises:
        HostileInput: it is none, or has more than `MAX_SPANS` spans.
    """
    spans = list(islice(_spans(request), MAX_SPANS + 1))
    if len(spans) > MAX_SPANS:
        raise HostileInput("retrieval.too_many", f"more than {MAX_SPANS:,} spans in one request; send fewer at a time")

    def parsed() -> Iterator[LoggedRetrieval | HostileInput | None]:
        for span in spans:
            try:
                yield _parse_otlp_span(span)
            except HostileInput as error:
                yield error

    return add_retrievals(log, parsed())


def add_retrievals(log: RetrievalLog, parsed: Iterable[LoggedRetrieval | HostileInput | None]) -> IntakeCounts:
    """Add what could be read, in transactions of `RECORDS_PER_TRANSACTION`, and count the rest.

    Args:
        parsed: retrievals; None for what is none, and the error for what cannot be read.
    """
    counts: Counter[str] = Counter()
    reason = ""
    entries = iter(parsed)
    while batch := list(islice(entries, RECORDS_PER_TRANSACTION)):
        counts["records"] += len(batch)
        counts["passed_over"] += sum(entry is None for entry in batch)
        refused = [entry for entry in batch if isinstance(entry, HostileInput)]
        counts["refused"] += len(refused)
        reason = reason or (str(refused[0]) if refused else "")
        readable = [entry for entry in batch if isinstance(entry, LoggedRetrieval)]
        unexpired = [entry for entry in readable if entry.at is None or log.keeps(entry.at)]
        counts["expired"] += len(readable) - len(unexpired)
        ids = log.add(unexpired)
        counts["new"] += sum(retrieval_id is not None for retrieval_id in ids)
        counts["repeated"] += sum(retrieval_id is None for retrieval_id in ids)
    names = ("records", "new", "repeated", "passed_over", "expired", "refused")
    return IntakeCounts(**{name: counts[name] for name in names}, reason=reason)


def parse_record(values: Mapping[str, object]) -> list[LoggedRetrieval | None]:
    """Return the retrievals in a record of an export: a span, an observation or trace of Langfuse, or a plain one.

    Raises:
        HostileInput: a retrieval cannot be read.
    """
    observations = values.get("observations")
    if isinstance(observations, list):
        trace = values.get("trace") if isinstance(values.get("trace"), Mapping) else values
        inherited = {name: trace[name] for name in ("sessionId", "userId") if name in trace}  # type: ignore[index, operator]
        retrievers = [entry for entry in observations[:MAX_TEXTS] if isinstance(entry, Mapping)]
        return [_parse_observation({**inherited, **entry}) for entry in retrievers]
    if values.get("type") in {"RETRIEVER", "SPAN", "GENERATION"} and "traceId" in values:
        return [_parse_observation(values)]
    flat = dict(islice(_flatten(values, "", MAX_DEPTH), MAX_VALUES))
    attributes = {name.removeprefix("attributes."): value for name, value in flat.items()}
    if LOGGED_AS in attributes:
        return [None]
    if _tells_of_texts(attributes):
        at = fields.parse_time(fields.first_value(attributes, ("start_time", "startTime", "end_time", "timestamp")))
        key = fields.first_value(attributes, ("context.span_id", "span_id", "spanId", "id"))
        return [_from_attributes(attributes, at, f"span/{fields.text_or_empty(key)}", RetrievalOrigin.IMPORT)]
    return [_parse_plain(values)]


def _parse_plain(values: Mapping[str, object]) -> LoggedRetrieval | None:
    listed = fields.parse_json(fields.first_value(values, _PLAIN_SERVED))
    if listed is None:
        return None
    shown = fields.extract_chunk_ids(values.get("shown")) if values.get("shown") is not None else None
    answer = fields.first_value(values, _PLAIN_ANSWERS)
    return _retrieval(
        query=fields.first_value(values, _PLAIN_QUERIES),
        served=_chunks(listed, shown),
        at=fields.parse_time(fields.first_value(values, _PLAIN_TIMES)),
        session=fields.first_value(values, _PLAIN_SESSIONS),
        user=fields.first_value(values, _PLAIN_USERS),
        answer=None if answer is None else fields.extract_answer(answer),
        key=fields.text_or_empty(values.get("id")),
        origin=RetrievalOrigin.IMPORT,
    )


def _parse_observation(values: Mapping[str, object]) -> LoggedRetrieval | None:
    """Return the retrieval of a Langfuse observation; None if it is of another type."""
    if values.get("type") != "RETRIEVER":
        return None
    return _retrieval(
        query=values.get("input"),
        served=_chunks(fields.parse_json(values.get("output"))),
        at=fields.parse_time(fields.first_value(values, ("startTime", "start_time", "timestamp"))),
        session=fields.first_value(values, _PLAIN_SESSIONS),
        user=fields.first_value(values, _PLAIN_USERS),
        answer=None,
        key=f"langfuse/{fields.text_or_empty(values.get('id'))}",
        origin=RetrievalOrigin.IMPORT,
    )


def _spans(request: object) -> Iterator[Mapping[str, object]]:
    """Yield the spans of a request."""
    if not isinstance(request, Mapping) or not isinstance(request.get("resourceSpans"), list):
        raise HostileInput("retrieval.no_otlp", "expected the JSON of an ExportTraceServiceRequest with resourceSpans")
    for resource in request["resourceSpans"]:
        for scope in _objects(_value(resource, "scopeSpans")):
            yield from _objects(_value(scope, "spans"))


def _parse_otlp_span(span: Mapping[str, object]) -> LoggedRetrieval | None:
    attributes: dict[str, object] = {}
    for entry in islice(_objects(span.get("attributes")), MAX_VALUES):
        attributes[str(entry.get("key"))] = _any_value(entry.get("value"), MAX_DEPTH)
    if not _tells_of_texts(attributes):
        return None
    try:
        nanoseconds = int(str(span.get("startTimeUnixNano")))
        at = datetime.fromtimestamp(nanoseconds / 1e9, UTC)
    except (ValueError, OverflowError, OSError):
        raise HostileInput("retrieval.no_time", "a span has no startTimeUnixNano that can be read") from None
    key = f"{fields.text_or_empty(span.get('traceId'))}/{fields.text_or_empty(span.get('spanId'))}"
    return _from_attributes(attributes, at, f"otlp/{key}", RetrievalOrigin.OTLP)


def _tells_of_texts(attributes: Mapping[str, object]) -> bool:
    """Return whether a span describes a retrieval that is not in the log yet."""
    is_told = "gen_ai.retrieval.documents" in attributes or any(name.startswith(_TEXTS) for name in attributes)
    return is_told and LOGGED_AS not in attributes


def _from_attributes(
    attributes: Mapping[str, object], at: datetime, key: str, origin: RetrievalOrigin
) -> LoggedRetrieval:
    """Return the retrieval that a span describes."""
    listed = attributes.get("gen_ai.retrieval.documents")
    if listed is None:
        by_number: dict[int, dict[str, object]] = {}
        for name, value in attributes.items():
            number, _, rest = name.removeprefix(_TEXTS).partition(".document.")
            if name.startswith(_TEXTS) and number.isascii() and number.isdigit() and len(number) < 5:
                by_number.setdefault(int(number), {})[rest] = value
        listed = [_with_metadata(by_number[number]) for number in sorted(by_number)]
    return _retrieval(
        query=fields.first_value(attributes, _QUERIES),
        served=_chunks(fields.parse_json(listed)),
        at=at,
        session=fields.first_value(attributes, _SESSIONS),
        user=fields.first_value(attributes, _USERS),
        answer=None,
        key=key,
        origin=origin,
    )


def _with_metadata(document: Mapping[str, object]) -> dict[str, object]:
    metadata = fields.parse_json(document.get("metadata"))
    named = document.get("metadata.chunk_id") or (metadata.get("chunk_id") if isinstance(metadata, Mapping) else None)
    return {"id": named or document.get("id"), "score": document.get("score")}


def _chunks(listed: object, shown: Iterable[str] | None = None) -> tuple[LoggedChunk, ...]:
    """Return the texts of a list of ids, or of objects with one.

    Raises:
        HostileInput: ``retrieval.bad_texts``.
    """
    if isinstance(listed, Mapping):
        listed = fields.first_value(listed, _PLAIN_SERVED)
    if isinstance(listed, str):
        listed = list(fields.extract_chunk_ids(listed))
    if not isinstance(listed, list | tuple):
        raise HostileInput("retrieval.bad_texts", "the retrieved texts are no list of ids, or of objects with an id")
    shown_ids = None if shown is None else set(shown)
    texts = []
    for entry in listed[:MAX_TEXTS]:
        metadata = entry.get("metadata") if isinstance(entry, Mapping) else None
        inner = fields.first_value(metadata, _IDS[:1]) if isinstance(metadata, Mapping) else None
        name = inner or (fields.first_value(entry, _IDS) if isinstance(entry, Mapping) else entry)
        chunk_id = fields.text_or_empty(name)
        if not chunk_id:
            raise HostileInput("retrieval.bad_texts", "a retrieved text has no id")
        declared = entry.get("shown") if isinstance(entry, Mapping) else None
        is_shown = declared if isinstance(declared, bool) else None if shown_ids is None else chunk_id in shown_ids
        texts.append(LoggedChunk(chunk_id, _score(entry), is_shown))
    return tuple(texts)


def _score(entry: object) -> float | None:
    value = entry.get("score") if isinstance(entry, Mapping) else None
    try:
        score = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return score if math.isfinite(score) else None


def _retrieval(
    *,
    query: object,
    served: tuple[LoggedChunk, ...],
    at: datetime,
    session: object,
    user: object,
    answer: str | None,
    key: str,
    origin: RetrievalOrigin,
) -> LoggedRetrieval:
    if at > now() + CLOCK_TOLERANCE:
        raise HostileInput("retrieval.future", "a time is later than now; check the clock that wrote it")
    question = "" if query is None else fields.extract_question(query)
    session, user = fields.text_or_empty(session), fields.text_or_empty(user)
    # The whole record is in the key: whoever repeats an id with another content overwrites nothing.
    content = [key, at.isoformat(), question, session, user, *(chunk.chunk_id for chunk in served)]
    return LoggedRetrieval(
        query=question,
        served=served,
        at=at,
        session=session,
        user_id=user or None,
        answer=answer,
        origin=origin.value,
        record_key=digest("retrieval/v1", [replace_surrogates(part) for part in content])[:32],
    )


def _any_value(value: object, depth: int) -> object:
    """Return the Python value of OTLP's AnyValue."""
    if not isinstance(value, Mapping) or depth <= 0:
        return None
    for name in ("stringValue", "boolValue", "doubleValue"):
        if name in value:
            return value[name]
    if "intValue" in value:
        return fields.text_or_empty(value["intValue"])  # OTLP writes 64-bit numbers as text
    if "arrayValue" in value:
        values = _value(value["arrayValue"], "values")
        return [_any_value(entry, depth - 1) for entry in (values if isinstance(values, list) else [])[:MAX_TEXTS]]
    if "kvlistValue" in value:
        pairs = islice(_objects(_value(value["kvlistValue"], "values")), MAX_TEXTS)
        return {str(entry.get("key")): _any_value(entry.get("value"), depth - 1) for entry in pairs}
    return None


def _value(container: object, name: str) -> object:
    return container.get(name) if isinstance(container, Mapping) else None


def _objects(values: object) -> Iterator[Mapping[str, object]]:
    return (value for value in (values if isinstance(values, list) else ()) if isinstance(value, Mapping))


def _flatten(values: Mapping[str, Any], prefix: str, depth: int) -> Iterator[tuple[str, object]]:
    """Yield nested values with dots between their names; lists of documents by number."""
    for key, value in values.items():
        name = f"{prefix}{key}"
        member = fields.parse_json(value) if name in {"attributes", "context"} else value
        if name.endswith("gen_ai.retrieval.documents") or depth <= 0:
            yield name, member
        elif isinstance(member, Mapping):
            yield from _flatten(member, f"{name}.", depth - 1)
        elif isinstance(member, list) and name.endswith("retrieval.documents"):
            for number, entry in enumerate(member[:MAX_TEXTS]):
                if isinstance(entry, Mapping):
                    yield from _flatten(entry, f"{name}.{number}.", depth - 1)
        else:
            yield name, member


def read_otlp_json(body: bytes) -> object:
    """Return the JSON of a request.

    Raises:
        HostileInput: it is no JSON.
    """
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise HostileInput("retrieval.broken", "the body is no JSON; expected an ExportTraceServiceRequest") from None


def unpack_gzip(body: bytes, limit: int) -> bytes:
    """Return the content of a gzip file.

    Raises:
        HostileInput: it is none, is cut, or has more than `limit` bytes.
    """
    unpacker = zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        content = unpacker.decompress(body, limit + 1)
    except zlib.error:
        raise HostileInput("retrieval.broken", "the body is no gzip") from None
    if len(content) > limit:
        raise HostileInput(
            "retrieval.too_many", f"unpacked, the body has more than {limit:,} bytes; send fewer spans at a time"
        )
    if not unpacker.eof:
        raise HostileInput("retrieval.broken", "the gzip is cut")
    return content
