"""A prefix of an object store as a source: every object below it is a document.

- kind: objects
  name: manuals
  url: s3://bucket/manuals          # also gs:// and az:// (untested here)
  connection: my_s3                 # Airflow's aws connection; its extra may hold region_name and endpoint_url
  include: ["**/*.pdf"]
  owner: docs@example.org
  trust: reviewed

Rules:

- One listing a run, a thousand objects a request. What it states of an object (ETag, size, time of the last
  write) is the validator: an object that did not change is not requested. The time is part of it because an
  ETag is often an MD5, and MD5 collisions can be made.
- An object is read on the condition that it still has the ETag it was listed with; where the bucket keeps
  versions, the stamp's revision is the one that was read.
- Names are data. Objects that stand for folders (a name that ends in a slash), names with a hidden part, and
  pictures, sounds, videos and fonts, by their extensions, are not documents. A name with an empty part, ``.`` or ``..``
  keeps the whole prefix from being listed (obstore refuses it): the run says so and what is served stays. So whoever may
  write to the bucket can stop its refresh.
- Without a connection the credentials are those of the process's environment (AWS_ACCESS_KEY_ID and the
  like); `anonymous` sends none.

`kind: folder` with an fsspec URL reads and hashes every object instead. The client is obstore, a Rust wheel
without dependencies, and not s3fs, because botocore, which s3fs needs, keeps python-dateutil below 3.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import unquote, urlsplit

from pydantic import Field, field_validator

from corpus_guard.errors import SourceUnavailable
from corpus_guard.intake.parsing import media
from corpus_guard.intake.sources.config import ConnectionName, PathGlobs, SourceConfig
from corpus_guard.intake.sources.connections import Connection
from corpus_guard.intake.sources.source import (
    ConfiguredSource,
    Fetched,
    FetchFailed,
    Outcome,
    SkipReason,
    SourceContext,
    SourceItem,
    as_utc,
    oversize_failure,
    public_url,
    why_left_out,
)

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ObjectStore

SCHEMES = ("s3", "gs", "az")
RETRIES = 3
SECONDS = 60  # of one request, and of all its retries together


class ObjectsConfig(SourceConfig, PathGlobs):
    """Objects below a prefix."""

    kind: Literal["objects"]
    url: Annotated[str, Field(min_length=1)]
    """``s3://bucket/prefix``, ``gs://`` or ``az://``."""
    connection: ConnectionName | None = None
    anonymous: bool = False
    """For public buckets."""

    @field_validator("url")
    @classmethod
    def _bucket_url(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in SCHEMES or not parts.netloc or "@" in parts.netloc or parts.query:
            examples = " or ".join(f"{scheme}://bucket/prefix" for scheme in SCHEMES)
            raise ValueError(f"expected {examples}; credentials and endpoint belong to the connection")
        return url


class ObjectSource(ConfiguredSource[ObjectsConfig]):
    """Source over the objects below a prefix; see the module's rules."""

    Config = ObjectsConfig

    def __init__(self, config: ObjectsConfig, context: SourceContext) -> None:
        super().__init__(config, context)
        self._matches = config.matcher()
        path = unquote(urlsplit(config.url).path).strip("/")
        self._prefix = f"{path}/" if path else ""

    def list(self) -> Iterator[SourceItem]:
        """Yield every object, in the order of the store; raise SourceUnavailable (see `Source`)."""
        import obstore

        empty = True
        self.skipped.clear()
        try:
            for page in obstore.list(self._open_store(), prefix=self._prefix or None, chunk_size=1_000):
                for metadata in page:
                    empty = False
                    key = metadata["path"]
                    relative = key.removeprefix(self._prefix)
                    if not key.startswith(self._prefix) or not relative:
                        continue  # the prefix itself
                    if any(name.startswith(".") for name in relative.split("/")):
                        self.skipped[SkipReason.HIDDEN] += 1
                    elif reason := why_left_out(relative, self._matches):
                        self.skipped[reason] += 1
                    else:
                        yield _make_item(relative, metadata)
        except Exception as error:
            # obstore's errors quote requests; the kind of error is enough to know where to look.
            kind = type(error).__name__
            advice = "check url, connection and endpoint_url, and that the key may list the bucket"
            if kind == "InvalidPathError":
                advice = (
                    "an object below it has an empty part, `.` or `..` in its name, which obstore cannot list; "
                    "remove or rename it"
                )
            raise SourceUnavailable(
                f"source {self.name}: {public_url(self._config.url)} cannot be listed ({kind}); {advice}"
            ) from None
        if empty:
            raise SourceUnavailable(
                f"source {self.name}: {public_url(self._config.url)} holds no object; an empty list would look as if "
                "every document had been deleted. Check the prefix"
            )

    def fetch(self, items: Sequence[SourceItem]) -> Iterator[Outcome]:
        """Yield the objects, in the order of `items`."""
        store = None
        for item in items:
            if item.size is not None and item.size > self._context.max_bytes:
                yield oversize_failure(item, item.size, self._context.max_bytes)
                continue
            store = store or self._open_store()
            yield self._fetch(store, item)

    def _fetch(self, store: ObjectStore, item: SourceItem) -> Outcome:
        import obstore
        from obstore.exceptions import NotFoundError, PreconditionError

        locator, limit = json.loads(item.locator), self._context.max_bytes
        try:
            options: Any = {"if_match": locator["etag"]} if locator["etag"] else {}
            result = obstore.get(store, locator["key"], options=options)
            content = bytearray()
            for piece in result.stream(min_chunk_size=2**20):
                content += bytes(piece)
                if len(content) > limit:
                    return oversize_failure(item, None, limit)
            revision = result.meta["version"]
        except (NotFoundError, FileNotFoundError):
            return FetchFailed(
                item, "intake.gone", "the object was listed and is gone; the next run will see it as vanished"
            )
        except PreconditionError:
            return FetchFailed(item, "intake.changed", "the object changed since it was listed; the next run reads it")
        except Exception as error:
            return FetchFailed(item, "intake.unreadable", f"the store refused the object ({type(error).__name__})")
        return Fetched(
            item,
            bytes(content),
            media.guess_by_name(item.uri),
            validator=item.validator,
            revision=str(revision) if revision else None,
        )

    def _open_store(self) -> ObjectStore:
        from obstore.store import from_url

        scheme, bucket = urlsplit(self._config.url)[:2]
        login = self._context.connections(self._config.connection) if self._config.connection else None
        options: dict[str, Any] = {}
        if login:
            options = _s3_options(login) if scheme == "s3" else dict(login.extra.get("store", {}))
        if self._config.anonymous:
            options["skip_signature"] = True
        plain_http = str(options.get("endpoint", "")).startswith("http://")
        return from_url(
            f"{scheme}://{bucket}",
            client_options={
                "timeout": timedelta(seconds=SECONDS),
                "connect_timeout": timedelta(seconds=10),
                "allow_http": plain_http,
            },
            retry_config={"max_retries": RETRIES, "retry_timeout": timedelta(seconds=SECONDS)},
            **options,
        )


def _s3_options(login: Connection) -> dict[str, Any]:
    """Translate Airflow's aws connection into obstore's options."""
    extra = login.extra
    options = {
        "access_key_id": login.login or extra.get("aws_access_key_id"),
        "secret_access_key": login.password or extra.get("aws_secret_access_key"),
        "session_token": extra.get("aws_session_token"),
        "region": extra.get("region_name") or "us-east-1",
        "endpoint": extra.get("endpoint_url") or (login.host if "://" in login.host else None),
    }
    return {name: str(value) for name, value in options.items() if value}


def _make_item(relative: str, metadata: ObjectMeta) -> SourceItem:
    modified, etag = as_utc(metadata["last_modified"]), metadata["e_tag"]
    validator = [etag, metadata["size"], modified.isoformat() if modified else None]
    locator = json.dumps({"key": metadata["path"], "etag": etag})
    return SourceItem(relative, metadata["size"], modified, locator, validator=json.dumps(validator) if etag else None)
