"""Access control of the review pages.

Rules
    * every route requires somebody who is signed in and may see the review DAG
      (`AccessControl.authorize_view`). The app itself has this dependency, so no route can be added without
      it;
    * every request that changes something also requires the human-in-the-loop permission on that DAG
      (`AccessControl.authorize_decision`), the same origin, JSON, and the header ``X-Corpus-Guard``; a form
      or a link on another site can supply neither;
    * a person makes at most `DECISIONS_PER_MINUTE` decisions a minute, however many items each covers.

It knows no users: an `AccessControl` does; Airflow's is in `corpus_guard.airflow.auth`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Annotated, Final, Protocol
from urllib.parse import urlsplit

from fastapi import Depends, Header, HTTPException, Request

from corpus_guard.domain import plural
from corpus_guard.review.reviewer import Reviewer

REQUEST_HEADER: Final = "X-Corpus-Guard"
DECISIONS_PER_MINUTE: Final = 60  # decisions, previews and undone decisions of one person
MAX_TRACKED_PEOPLE: Final = 10_000


class DagSwitch(Protocol):
    """Switch of the DAGs that bring decisions into effect; whoever asks has passed `AccessControl.authorize_view`."""

    def list_paused(self, dag_ids: Collection[str]) -> Collection[str]:
        """Return those of `dag_ids` that are paused."""

    def resume(self, request: Request, dag_id: str) -> None:
        """Let a paused DAG run again; raise 403 if the signed-in user may not edit it."""


@dataclass(frozen=True)
class AccessControl:
    """Two FastAPI dependencies that return a `Reviewer` or raise 401 or 403, one question, and what belongs to the sign-in."""

    authorize_view: Callable[..., Reviewer]
    """Require somebody who is signed in and may see the review DAG."""
    authorize_decision: Callable[..., Reviewer]
    """Require somebody who may also answer the DAG's human-in-the-loop tasks."""
    may_decide: Callable[[Request], bool]
    """Tell if a user who passed `authorize_view` would pass `authorize_decision`; used only to hide controls."""
    origins: tuple[str, ...] = ()
    """Our own ``scheme://host[:port]``, for proxies that change the Host header."""
    sign_in: Callable[[Request], str] | None = None
    """Address at which a stranger signs in and then comes back to this request's page; None: there is none."""
    dags: DagSwitch | None = None
    """The DAGs behind the pages; None where no scheduler is beside them."""


@dataclass
class RateLimit:
    """A token bucket for each person: `max_actions` tokens that refill within `seconds`."""

    max_actions: int = DECISIONS_PER_MINUTE
    seconds: float = 60.0
    clock: Callable[[], float] = time.monotonic
    _buckets: dict[str, tuple[float, float]] = field(default_factory=dict)  # person → (tokens, time)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def seconds_to_wait(self, person: str) -> float:
        """Take a token and return 0; if there is none, return the seconds until there is one."""
        now = self.clock()
        with self._lock:
            tokens, since = self._buckets.pop(person, (float(self.max_actions), now))
            tokens = min(float(self.max_actions), tokens + (now - since) * self.max_actions / self.seconds)
            allowed = tokens >= 1
            self._buckets[person] = (tokens - allowed, now)
            while len(self._buckets) > MAX_TRACKED_PEOPLE:
                self._buckets.pop(next(iter(self._buckets)))
        return 0.0 if allowed else (1 - tokens) * self.seconds / self.max_actions


SPAN_TYPES: Final = ("application/json", "application/x-protobuf")


def require_same_origin(
    request: Request,
    request_header: Annotated[
        str | None, Header(alias=REQUEST_HEADER, description="Any value; another site's page cannot send it.")
    ] = None,
) -> None:
    """Refuse requests that another site could have sent.

    Raises:
        HTTPException: 403 for another origin or a missing header, 415 for another content type.
    """
    _require_own_request(request, request_header, ("application/json",))


def require_same_origin_of_spans(
    request: Request,
    request_header: Annotated[str | None, Header(alias=REQUEST_HEADER, description="Any value.")] = None,
) -> None:
    """Refuse requests that another site could have sent; spans may be Protobuf, which no form can send either.

    Raises:
        HTTPException: 403 for another origin or a missing header, 415 for another content type.
    """
    _require_own_request(request, request_header, SPAN_TYPES)


def _require_own_request(request: Request, request_header: str | None, content_types: tuple[str, ...]) -> None:
    headers = request.headers
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None and site != "same-origin":
        raise HTTPException(403, "the request comes from another site; nothing was changed")
    if origin is not None and not _is_own_origin(request, origin):
        raise HTTPException(403, "the request comes from another origin; nothing was changed")
    if site is None and origin is None and not headers.get("authorization", "").lower().startswith("bearer "):
        raise HTTPException(
            403, "a cookie is accepted only together with an Origin header; send a bearer token instead"
        )
    if not request_header:
        raise HTTPException(403, f"the header {REQUEST_HEADER} is missing; nothing was changed")
    if headers.get("content-type", "").partition(";")[0].strip().lower() not in content_types:
        raise HTTPException(415, f"the content type must be {' or '.join(content_types)}; nothing was changed")


SameOrigin = Depends(require_same_origin)
SameOriginOfSpans = Depends(require_same_origin_of_spans)


def enforce_rate_limit(request: Request, reviewer: Reviewer) -> None:
    """Count one decision of `reviewer`.

    Raises:
        HTTPException: 429, with the seconds to wait.
    """
    limit: RateLimit = request.app.state.rate_limit
    seconds = limit.seconds_to_wait(f"{reviewer.auth}\n{reviewer.id}")
    if seconds:
        retry_after = int(seconds) + 1
        raise HTTPException(
            429,
            f"more than {limit.max_actions} decisions in {limit.seconds:g} seconds; nothing was changed. "
            f"Try again in {plural(retry_after, 'second')}",
            headers={"Retry-After": str(retry_after)},
        )


def _is_own_origin(request: Request, origin: str) -> bool:
    access: AccessControl = request.app.state.access
    if origin in access.origins:
        return True
    host = request.headers.get("host", "")
    return bool(host) and urlsplit(origin).netloc.lower() == host.lower() and origin != "null"
