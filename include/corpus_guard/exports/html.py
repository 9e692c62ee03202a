"""Pages of one file: a case, or a map, with their pictures inside. They open without a network, and load nothing.

Rules
    * every value is escaped, and its invisible characters are shown as code points; only pictures are markup;
    * no script; styles and pictures are in the file; a policy in the page forbids everything else, whatever a name holds;
    * light or dark, as the reader's machine asks for; printable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jinja2 import Environment

from corpus_guard import __version__
from corpus_guard.exports.html_templates import load_templates
from corpus_guard.forensics import pictures
from corpus_guard.forensics.cases import Case
from corpus_guard.forensics.map import CorpusMap, RiskHistogram
from corpus_guard.forensics.pictures import COLORINGS
from corpus_guard.forensics.timeline import TimelineEntry

if TYPE_CHECKING:
    from corpus_guard.forensics.exposure import Exposure
    from corpus_guard.forensics.plan import PlannedStep
    from corpus_guard.forensics.root_cause import RootCause

TEMPLATES: Final = Path(__file__).with_name("templates")
MAX_CHARACTERS: Final = 400  # of a name or a reason


def map_page(drawn: CorpusMap, histogram: RiskHistogram, written_at: datetime) -> str:
    """Return the map of the corpus in every colouring, and the risk histogram."""
    return _render("map.html", written_at, drawn=drawn, maps=_maps(drawn), histogram=pictures.histogram_svg(histogram))


def case_page(
    case: Case,
    cause: RootCause,
    timeline: Sequence[TimelineEntry],
    steps: Sequence[PlannedStep],
    exposure: Exposure | None,
    drawn: CorpusMap | None,
    histogram: RiskHistogram,
    written_at: datetime,
) -> str:
    """Return the report of a case; `drawn` is None where there is no map."""
    return _render(
        "case.html",
        written_at,
        case=case,
        cause=cause,
        timeline=timeline,
        steps=steps,
        exposure=exposure,
        drawn=drawn,
        maps=_maps(drawn) if drawn else {},
        picture=pictures.timeline_svg(timeline),
        histogram=pictures.histogram_svg(histogram),
    )


def _maps(drawn: CorpusMap) -> Mapping[str, tuple[str, list[tuple[str, str, int]]]]:
    return {name: (pictures.map_svg(drawn, name), pictures.map_legend(drawn, name)) for name in COLORINGS}


def _render(template: str, written_at: datetime, **values: object) -> str:
    styles = "\n".join(path.read_text(encoding="utf-8") for path in (TEMPLATES / "report.css", pictures.STYLES))
    page = _environment().get_template(template)
    return page.render(styles=styles, version=__version__, written_at=written_at, **values)


@cache
def _environment() -> Environment:
    created = load_templates(TEMPLATES)
    created.filters["moment"] = lambda when: f"{when:%Y-%m-%d %H:%M}" if when else "–"
    created.filters["cut"] = lambda text, size=MAX_CHARACTERS: text if len(text) <= size else f"{text[:size]}…"
    return created
