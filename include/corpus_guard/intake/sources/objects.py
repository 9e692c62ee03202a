"""A prefix of an object store as a source: every object below it is a document.

- kind: objects
  name: manuals
  url: s3://bucket/manuals          # also gs:// and az:// (untried here)
  connection: my_s3                 # Airflow's aws connection: login and password are key and secret; extra: region_name, endpoint_url
  include: ["**/*.pdf"]
  owner: docs@example.org
  trust: reviewed

Rules:

- One listing a run, a thousand objects a request. What it says of an object (ETag, size, time of the last write) is the validator: an
  object that did not change is not asked for. The time belongs to it because an ETag is often an MD5, and MD5 can be made to collide.
- An object is read under the condition that it still has the ETag it was listed with; where the bucket keeps versions, the stamp's
  revision is the one that was read.
- Names are data. Objects that stand for folders (a name that ends in a slash) and names with a hidden part are no documents. A name
  with an empty part, ``.`` or ``..`` keeps the whole prefix from being listed (obstore refuses it): the run says so, what is served
  stays, and whoever may write to the bucket can stop its refresh in this way.
- Without a connection the credentials are those of the process's environment (AWS_ACCESS_KEY_ID and its like); `anonymous` sends none.

`kind: folder` with an fsspec URL reads and hashes every object instead. obstore, a Rust wheel without dependencies, is what talks to the
store: s3fs is not used, because botocore, on which it stands, keeps python-dateutil below 3.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Annotated, Any, Literal
from urllib.parse import unquote, urlsplit

from pydantic import Field, field_validator

from corpus_guard.errors import SourceUnavailable
from corpus_guard.intake.parsing import media
from corpus_guard.intake.sources._glob import globbing
from corpus_guard.intake.sources.connections import Connection
from corpus_guard.intake.sources.declared import ConnectionName, Declared, Globs
from corpus_guard.intake.sources.source import (
    Fetched,
    FetchFailed,
    Item,
    Opening,
    Outcome,
    as_utc,
    public_url,
    too_large,
)

SCHEMES = ("s3", "gs", "az")
RETRIES = 3
SECONDS = 60  # of one request, and of all its retries together


class ObjectsConfig(Declared, Globs):
    """Objects below a prefix."""

    kind: Literal["objects"]
    url: Annotated[str, Field(min_length=1)]
    """``s3://bucket/prefix``, ``gs://`` or ``az://``."""
    connection: ConnectionName | None = None
    anonymous: bool = False
    """For public buckets."""

    @field_validator("url")
    @classmethod
    def _store(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in SCHEMES or not parts.netloc or "@" in parts.netloc or parts.query:
            raise ValueError(
                f"expected {' or '.join(f'{one}://bucket/prefix' for one in SCHEMES)}; credentials and endpoint belong to the connection"
            )
        return url


class ObjectSource:
    """See the module's rules."""

    Config = ObjectsConfig

    def __init__(self, config: ObjectsConfig, opening: Opening) -> None:
        self.name = config.name
        self.owner = config.owner
        self.trust = config.trust
        self._config = config
        self._opening = opening
        self._wanted = globbing(config)
        path = unquote(urlsplit(config.url).path).strip("/")
        self._prefix = f"{path}/" if path else ""

    def list(self) -> Iterator[Item]:
        """Every object, in the order of the store; raises SourceUnavailable (see `Source`)."""
        import obstore

        empty = True
        try:
            for part in obstore.list(self._store(), prefix=self._prefix or None, chunk_size=1_000):
                for found in part:
                    empty = False
                    key = found["path"]
                    relative = key.removeprefix(self._prefix)
                    hidden = any(name.startswith(".") for name in relative.split("/"))
                    if key.startswith(self._prefix) and relative and not hidden and self._wanted(relative):
                        yield _item(relative, key, found)
        except Exception as error:
            # obstore's errors quote requests; what kind it was is enough to know where to look.
            kind = type(error).__name__
            what = "check url, connection and endpoint_url, and that the key may list the bucket"
            if kind == "InvalidPathError":
                what = "an object below it has an empty part, `.` or `..` in its name, which obstore cannot list; remove or rename it"
            raise SourceUnavailable(
                f"source {self.name}: {public_url(self._config.url)} cannot be listed ({kind}); {what}"
            ) from None
        if empty:
            raise SourceUnavailable(
                f"source {self.name}: {public_url(self._config.url)} holds no object; an empty list would look like every document having "
                "gone. Check the prefix"
            )

    def fetch(self, items: Sequence[Item]) -> Iterator[Outcome]:
        """The objects, in the order asked for."""
        store = None
        for item in items:
            if item.size is not None and item.size > self._opening.max_bytes:
                yield too_large(item, item.size, self._opening.max_bytes)
                continue
            store = store or self._store()
            yield self._fetch(store, item)

    def _fetch(self, store: Any, item: Item) -> Outcome:
        import obstore
        from obstore.exceptions import NotFoundError, PreconditionError

        where, limit = json.loads(item.locator), self._opening.max_bytes
        try:
            answer = obstore.get(store, where["key"], options={"if_match": where["etag"]} if where["etag"] else {})
            content = bytearray()
            for piece in answer.stream(min_chunk_size=2**20):
                content += bytes(piece)
                if len(content) > limit:
                    return too_large(item, None, limit)
            revision = answer.meta["version"]
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
            media.by_name(item.uri),
            validator=item.validator,
            revision=str(revision) if revision else None,
        )

    def _store(self) -> Any:
        from obstore.store import from_url

        scheme, bucket = urlsplit(self._config.url)[:2]
        login = self._opening.connections(self._config.connection) if self._config.connection else None
        said = _s3(login) if login and scheme == "s3" else dict(login.extra.get("store", {})) if login else {}
        if self._config.anonymous:
            said["skip_signature"] = True
        plain = str(said.get("endpoint", "")).startswith("http://")
        client = {"timeout": timedelta(seconds=SECONDS), "connect_timeout": timedelta(seconds=10), "allow_http": plain}
        retry = {"max_retries": RETRIES, "retry_timeout": timedelta(seconds=SECONDS)}
        return from_url(f"{scheme}://{bucket}", client_options=client, retry_config=retry, **said)  # type: ignore[call-overload]


def _s3(login: Connection) -> dict[str, Any]:
    """Airflow's aws connection in obstore's words."""
    extra = login.extra
    said = {
        "access_key_id": login.login or extra.get("aws_access_key_id"),
        "secret_access_key": login.password or extra.get("aws_secret_access_key"),
        "session_token": extra.get("aws_session_token"),
        "region": extra.get("region_name") or "us-east-1",
        "endpoint": extra.get("endpoint_url") or (login.host if "://" in login.host else None),
    }
    return {name: str(value) for name, value in said.items() if value}


def _item(relative: str, key: str, found: Any) -> Item:
    when, etag = as_utc(found["last_modified"]), found["e_tag"]
    said = [etag, found["size"], when.isoformat() if when else None]
    locator = json.dumps({"key": key, "etag": etag})
    return Item(relative, found["size"], when, locator, validator=json.dumps(said) if etag else None)
