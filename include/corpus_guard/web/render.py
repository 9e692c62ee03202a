"""Templates, and what every value goes through before it is written.

Rules
    * every value is escaped: autoescape is on for all templates, whatever they are called;
    * every string is shown with its invisible and steering characters as code points: `finalize` sees to it, so that no template can
      forget. Only what a template itself writes is markup;
    * links are relative to the page (`base`), so that they hold below any prefix a proxy adds.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from corpus_guard._unseen import in_brackets
from corpus_guard.ledger.ledger import now

HERE = Path(__file__).parent
STATIC = {
    "pages.css": "text/css",
    "pages.js": "text/javascript",
    "theme.js": "text/javascript",
    "icon.svg": "image/svg+xml",
    "icon-dark.svg": "image/svg+xml",
}
"""Every file that is served as it lies, and its type."""
LONGEST_FIELD = 500  # characters of a field in a list


def page(request: Request, name: str, code: int = 200, **values: Any) -> HTMLResponse:
    """An HTML page."""
    reviewer = getattr(request.state, "reviewer", None)
    shown = {
        "base": _base(request),
        "reviewer": reviewer,
        "may_decide": bool(reviewer) and request.app.state.door.may_decide(request),
        "asset": asset_version(),
        "now": now(),
        "section": name.partition(".")[0],
        **values,
    }
    return HTMLResponse(environment().get_template(name).render(shown), code)


@cache
def environment() -> Environment:
    """The templates, compiled once a process."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "moment": moment,
        "age": age,
        "number": lambda value: f"{value:,}",
        "share": share,
        "cut": cut,
        "query": query,
    }
    return made


@cache
def asset_version() -> str:
    """Changes when a file that browsers keep does."""
    both = b"".join((HERE / "static" / name).read_bytes() for name in sorted(STATIC))
    return hashlib.sha256(both).hexdigest()[:12]


def moment(when: datetime | str | None) -> str:
    """``2026-11-21 18:40``, UTC."""
    if not when:
        return "–"
    if isinstance(when, str):
        when = datetime.fromisoformat(when)
    return f"{when.astimezone(UTC):%Y-%m-%d %H:%M}"


def age(when: datetime | float | None, since: datetime | None = None) -> str:
    """A time that passed, in one unit: ``3 h``. Takes the moment it began, or seconds."""
    if when is None:
        return "–"
    seconds = when if isinstance(when, int | float) else ((since or now()) - when).total_seconds()
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}" if seconds >= 10 * size else f"{seconds / size:.1f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def share(value: float | None, digits: int = 0) -> str:
    """``12 %``."""
    return "–" if value is None else f"{100 * value:.{digits}f} %"


def cut(text: str, most: int = LONGEST_FIELD) -> str:
    """The beginning of a long field."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"


def query(values: dict[str, Any], **changes: Any) -> str:
    """A query string; what is empty is left out."""
    merged = {name: value for name, value in {**values, **changes}.items() if value not in (None, "", ())}
    return urlencode(merged, errors="replace")


def _finalize(value: Any) -> Any:
    if value is None:
        return ""
    return in_brackets(value, "\n\t") if isinstance(value, str) and not isinstance(value, Markup) else value


def _base(request: Request) -> str:
    root, path = request.scope.get("root_path", ""), request.scope["path"]
    inside = path.removeprefix(root) if root else path
    return "../" * max(inside.count("/") - 1, 0) or "./"
