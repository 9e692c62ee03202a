"""HTML templates that no value can break out of.

Rules
    * every value is escaped: autoescape is on for all templates, whatever their names;
    * invisible and control characters of every string are shown as code points: `finalize` does it, so no
      template can forget. Only what a template itself writes is markup.
"""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from corpus_guard.invisible import reveal_invisible


def load_templates(folder: Path) -> Environment:
    """Return an environment for the templates of a folder; a name that a template does not get is an error."""
    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _finalize(value: object) -> object:
    if value is None:
        return ""
    return reveal_invisible(value, "\n\t") if isinstance(value, str) and not isinstance(value, Markup) else value
