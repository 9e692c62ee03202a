"""Pages from templates, which escape every value (`corpus_guard.exports.html_templates`).

Links are relative to the page (`base`), so that they work below any prefix a proxy adds.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment
from markupsafe import Markup, escape

from corpus_guard.domain import plural
from corpus_guard.exports.html_templates import load_templates
from corpus_guard.forensics import pictures
from corpus_guard.invisible import reveal_invisible
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.runs import run_folder
from corpus_guard.web.wording import REASON_TEMPLATES, SHORTCUTS, UNDONE

ROOT: Final = Path(__file__).parent
STATIC: Final = {
    "pages.css": "text/css",
    "pictures.css": "text/css",
    "pages.js": "text/javascript",
    "theme.js": "text/javascript",
    "icon.svg": "image/svg+xml",
    "icon-dark.svg": "image/svg+xml",
}
"""Static files and their media types."""
MAX_FIELD_CHARS: Final = 500  # of a field in a list
_BACKTICKS: Final = re.compile(r"`([^`\n]+)`")


PAGE_DAGS: Final[Mapping[str, tuple[str, ...]]] = {
    "queue": ("quarantine_release", "corpus_refresh"),
    "item": ("quarantine_release",),
    "history": ("quarantine_release",),
    "corpus": ("corpus_refresh",),
    "reports": ("traceback_nightly", "feedback_import"),
    "trace": ("quarantine_release", "traceback_nightly"),
    "cases": ("quarantine_release",),
    "case": ("quarantine_release",),
    "watch": ("retrieval_watch",),
    "health": ("integrity_nightly",),
    "incident": ("integrity_nightly",),
}
"""Section → the DAGs on whose next run its page relies."""


def static_file_path(name: str) -> Path:
    """Return where a static file lies: the styles of pictures lie beside what draws them."""
    return pictures.STYLES if name == pictures.STYLES.name else ROOT / "static" / name


def render_page(request: Request, template: str, status_code: int = 200, **values: object) -> HTMLResponse:
    """Return an HTML page."""
    reviewer = getattr(request.state, "reviewer", None)
    section = template.partition(".")[0]
    context = {
        "base": _base(request),
        "reviewer": reviewer,
        "asset": asset_version(),
        "now": now(),
        "section": section,
        "paused": _list_paused(request, section) if reviewer else (),
        **values,
    }
    if "may_decide" not in context:
        context["may_decide"] = bool(reviewer) and request.app.state.access.may_decide(request)
    return HTMLResponse(environment().get_template(template).render(context), status_code)


@cache
def environment() -> Environment:
    """Return the template environment, created once per process."""
    created = load_templates(ROOT / "templates")
    created.filters |= {
        "moment": moment,
        "age": age,
        "number": lambda value: f"{value:,}",
        "counted": plural,
        "share": share,
        "cut": cut,
        "name": name,
        "query": query,
        "commands": commands,
        "run_folder": lambda run_id: run_folder(run_id).removeprefix("runs/"),
    }
    created.globals |= {"reason_templates": REASON_TEMPLATES, "shortcuts": SHORTCUTS, "undone": UNDONE}
    return created


@cache
def asset_version() -> str:
    """Return a digest that changes with any static file."""
    content = b"".join(static_file_path(name).read_bytes() for name in sorted(STATIC))
    return hashlib.sha256(content).hexdigest()[:12]


def moment(when: datetime | str | None) -> str:
    """Return a time in UTC, such as ``2026-11-21 18:40``."""
    if not when:
        return "–"
    if isinstance(when, str):
        when = datetime.fromisoformat(when)
    return f"{when.astimezone(UTC):%Y-%m-%d %H:%M}"


def age(when: datetime | float | None, since: datetime | None = None) -> str:
    """Return the time passed, in one unit, such as ``3 h``. Takes the moment it began, or seconds."""
    if when is None:
        return "–"
    seconds = when if isinstance(when, int | float) else ((since or now()) - when).total_seconds()
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}" if seconds >= 10 * size else f"{seconds / size:.1f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def share(value: float | None) -> str:
    """Return a percentage, such as ``12 %``."""
    return "–" if value is None else f"{100 * value:.0f} %"


def cut(text: str, max_chars: int = MAX_FIELD_CHARS) -> str:
    """Return the beginning of a long text, and its length."""
    return text if len(text) <= max_chars else f"{text[:max_chars]}… ({len(text):,} characters)"


def name(text: str, max_chars: int = MAX_FIELD_CHARS) -> str:
    """Return a name on one line: a line break in it is a code point, so that no other name looks the same."""
    return reveal_invisible(cut(text, max_chars))


def commands(text: str) -> Markup:
    """Return a message of the library, with what stands between backticks as code."""
    return Markup(_BACKTICKS.sub(r"<code>\1</code>", str(escape(reveal_invisible(text, "\n\t")))))  # noqa: S704 - escaped


def query(values: Mapping[str, object], **changes: object) -> str:
    """Return a query string without empty values."""
    merged = {name: value for name, value in {**values, **changes}.items() if value not in (None, "", ())}
    return urlencode(merged, errors="replace")


def _list_paused(request: Request, section: str) -> list[str]:
    """Return the paused DAGs on which a page relies."""
    needed, switch = PAGE_DAGS.get(section, ()), request.app.state.access.dags
    paused = switch.list_paused(needed) if switch and needed else ()
    return [dag_id for dag_id in needed if dag_id in paused]


def _base(request: Request) -> str:
    """Return the relative path from the page to the app's root."""
    root, path = request.scope.get("root_path", ""), request.scope["path"]
    inside = path.removeprefix(root) if root else path
    return "../" * max(inside.count("/") - 1, 0) or "./"
