"""Who may come in, and what a request that changes something must look like.

Rules
    * every route needs somebody who is signed in and may see the review DAG (`Door.see`); the app has it as its own dependency, so that a
      route cannot be added without it;
    * whatever changes something needs the human-in-the-loop permission on that DAG besides (`Door.decide`), comes from the same origin,
      is JSON and carries the header ``X-Corpus-Guard``: a form or a link on another site can give neither;
    * a person decides at most `A_MINUTE` times a minute, however many items each time.

What it does not do: know users. A `Door` does; Airflow's is `corpus_guard.web.airflow_door`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import Depends, Header, HTTPException, Request

from corpus_guard.review.reviewer import Reviewer

HEADER = "X-Corpus-Guard"
A_MINUTE = 60  # decisions, previews and withdrawals of one person
REMEMBERED = 10_000  # people whose pace is kept


@dataclass(frozen=True)
class Door:
    """Two dependencies of FastAPI that give a `Reviewer` or raise 401 or 403, and one question."""

    see: Callable[..., Any]
    """Signed in, and may see the review DAG."""
    decide: Callable[..., Any]
    """The same, and may answer its human-in-the-loop tasks."""
    may_decide: Callable[[Request], bool]
    """Whether the user of a request that `see` let in would pass `decide`: what the pages offer depends on it, nothing else."""
    origins: tuple[str, ...] = ()
    """``scheme://host[:port]`` that are ours, where a proxy changes the Host header."""


@dataclass
class Pace:
    """How often a person may do something: a bucket of `most` tokens that fills in `seconds`."""

    most: int = A_MINUTE
    seconds: float = 60.0
    clock: Callable[[], float] = time.monotonic
    _left: dict[str, tuple[float, float]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def wait(self, who: str) -> float:
        """Take a token; 0 when there was one, else the seconds until there is."""
        now = self.clock()
        with self._lock:
            left, since = self._left.pop(who, (float(self.most), now))
            left = min(float(self.most), left + (now - since) * self.most / self.seconds)
            taken = left >= 1
            self._left[who] = (left - taken, now)
            while len(self._left) > REMEMBERED:
                self._left.pop(next(iter(self._left)))
        return 0.0 if taken else (1 - left) * self.seconds / self.most


def same_origin(
    request: Request,
    asked_by: Annotated[
        str | None, Header(alias=HEADER, description="Any value; a foreign page cannot send it.")
    ] = None,
) -> None:
    """Refuse what another site could have sent.

    Raises:
        HTTPException: 403 for another origin or a missing header, 415 for another content type.
    """
    headers = request.headers
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None and site != "same-origin":
        raise HTTPException(403, "the request comes from another site; nothing was changed")
    if origin is not None and not _ours(request, origin):
        raise HTTPException(403, "the request comes from another origin; nothing was changed")
    if site is None and origin is None and not headers.get("authorization", "").lower().startswith("bearer "):
        raise HTTPException(403, "a cookie counts only with an Origin; give a bearer token, or ask from the page")
    if not asked_by:
        raise HTTPException(403, f"the header {HEADER} is missing; nothing was changed")
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "expected application/json; nothing was changed")


def _ours(request: Request, origin: str) -> bool:
    if origin in request.app.state.door.origins:
        return True
    host = request.headers.get("host", "")
    return bool(host) and urlsplit(origin).netloc.lower() == host.lower() and origin != "null"


def paced(request: Request, reviewer: Reviewer) -> None:
    """Count one decision.

    Raises:
        HTTPException: 429, with the seconds to wait.
    """
    seconds = request.app.state.pace.wait(f"{reviewer.auth}\n{reviewer.id}")
    if seconds:
        raise HTTPException(
            429, "too many decisions in a minute; nothing was changed", headers={"Retry-After": str(int(seconds) + 1)}
        )


SameOrigin = Depends(same_origin)
