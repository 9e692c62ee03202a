"""Pictures as SVG: the map, the risk histogram, and a case's timeline. No script, no style, no address of another host.

Rules
    * every text is escaped, and its invisible characters are shown as code points: names come from documents;
    * colours are classes of `pictures.css`, which follows the reader's light or dark theme; shape tells the same, so that
      nobody needs to see colours: a ring waits, a dot is served, a cross is accused;
    * whoever hovers over a mark, or reads it aloud, gets its `title`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from html import escape
from pathlib import Path
from typing import Final

from corpus_guard.errors import require_one_of
from corpus_guard.forensics.map import CorpusMap, MapPoint, RiskHistogram
from corpus_guard.forensics.timeline import TimelineEntry
from corpus_guard.invisible import reveal_invisible

STYLES: Final = Path(__file__).with_name("pictures.css")
"""Colours and lines of all pictures."""
WIDTH: Final = 900  # of every picture, in SVG units
MAP_HEIGHT: Final = 560
BAR_HEIGHT: Final = 150
MAX_LEGEND: Final = 8  # groups with a colour of their own; the others share one
MAX_CHARACTERS: Final = 160  # of a name in a title
LANES: Final[Mapping[str, tuple[str, ...]]] = {
    "arrived": ("judged", "rejudged", "decided", "reopened", "configured"),
    "served": ("published", "unpublished", "sealed", "retired"),
    "seen": ("retrieved", "reported", "filed"),
    "traced": ("traced", "asked_again", "incident_opened"),
    "removed": ("withdrawn", "restored", "withdrawal_refused", "purge_began", "purged", "re_embedded", "healed"),
}
"""Rows of a timeline's picture, and the kinds of events in each; everything else is about the case itself."""
CASE_LANE: Final = "case"
_STATES: Final = {
    "accepted": "good",
    "released": "second",
    "quarantined": "warn",
    "reopened": "warn",
    "rejected": "bad",
}
_TRUSTS: Final = {"trusted": "good", "reviewed": "second", "open": "warn"}
COLORINGS: Final[Mapping[str, Callable[[MapPoint], str]]] = {
    "state": lambda point: point.state,
    "trust": lambda point: point.trust,
    "source": lambda point: point.source,
    "campaign": lambda point: point.campaign[:8],
}
"""Property that a map can be coloured by → the group of a point."""


def map_svg(drawn: CorpusMap, coloring: str = "state") -> str:
    """Return the map.

    Args:
        coloring: a key of `COLORINGS`.

    Raises:
        Misuse: there is no such coloring.
    """
    require_one_of("colour by", coloring, COLORINGS)
    classes = map_classes(drawn, coloring)
    label = f"Map of {len(drawn.points):,} chunks, coloured by {coloring}"
    order = sorted(drawn.points, key=lambda point: (point.is_accused, point.waits))
    marks = "".join(_mark(point, classes[point.chunk_id]) for point in order)
    return (
        f'<svg class="picture" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {MAP_HEIGHT}" role="img" '
        f'aria-label="{label}"><rect class="ground" width="{WIDTH}" height="{MAP_HEIGHT}" rx="8"/>{marks}</svg>'
    )


def map_legend(drawn: CorpusMap, coloring: str = "state") -> list[tuple[str, str, int]]:
    """Return the groups of a map: class of the colour, name (hostile text), number of points; the largest first."""
    counts = Counter(COLORINGS[coloring](point) for point in drawn.points)
    classes = _classes(coloring, counts)
    legend = [(classes[name], name or "none", count) for name, count in counts.most_common() if name in classes]
    rest = sum(counts.values()) - sum(count for _, _, count in legend)
    return [*legend, ("other", "others", rest)] if rest else legend


def map_classes(drawn: CorpusMap, coloring: str) -> dict[str, str]:
    """Return the class of the colour of each point, by chunk id; ``other`` for groups without a colour of their own."""
    group_of = COLORINGS[coloring]
    classes = _classes(coloring, Counter(group_of(point) for point in drawn.points))
    return {point.chunk_id: classes.get(group_of(point), "other") for point in drawn.points}


def histogram_svg(histogram: RiskHistogram) -> str:
    """Return the bars of a risk histogram, with the thresholds as lines; heights are square roots, so that few show beside many."""
    bins = len(histogram.counts)
    step = WIDTH / bins
    top = max(histogram.counts, default=0) ** 0.5 or 1.0
    base = BAR_HEIGHT + 22
    bars = []
    for number, (count, waiting) in enumerate(zip(histogram.counts, histogram.waiting, strict=True)):
        if count:
            title = (
                f"risk {number / bins:.2f} to {(number + 1) / bins:.2f}: {count:,} documents, {waiting:,} of them held"
            )
            height = BAR_HEIGHT * count**0.5 / top
            waiting_height = height * waiting / count
            x, width = step * number + 1, step - 2
            bars.append(
                f"<g><title>{title}</title>{_rect('bar', x, base - height, width, height - waiting_height)}"
                f"{_rect('bar held', x, base - waiting_height, width, waiting_height)}</g>"
            )
    lines = []
    for number, (name, risk) in enumerate(sorted(histogram.thresholds.items(), key=lambda item: item[1])):
        x, y = WIDTH * risk, 12 + 13 * (number % 3)
        anchor = "end" if risk > 0.5 else "start"
        lines.append(
            f'<line class="limit" x1="{x:.1f}" x2="{x:.1f}" y1="4" y2="{base}"/>'
            f'<text x="{x + (-4 if anchor == "end" else 4):.1f}" y="{y}" text-anchor="{anchor}">{_text(name)} {risk:g}</text>'
        )
    ticks = "".join(
        f'<text x="{WIDTH * part:.0f}" y="{base + 16}" text-anchor="{anchor}">{part:g}</text>'
        for part, anchor in ((0, "start"), (0.25, "middle"), (0.5, "middle"), (0.75, "middle"), (1, "end"))
    )
    return (
        f'<svg class="picture" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {base + 22}" role="img" '
        f'aria-label="Documents by risk"><line class="axis" x1="0" x2="{WIDTH}" y1="{base}" y2="{base}"/>'
        f"{''.join(bars)}{''.join(lines)}{ticks}</svg>"
    )


def timeline_svg(lines: Sequence[TimelineEntry]) -> str:
    """Return a case's timeline: a row for each kind of thing, time from left to right."""
    names = [*LANES, CASE_LANE]
    kinds = {kind: lane for lane, listed in LANES.items() for kind in listed}
    start, end = (edge(line.at for line in lines) for edge in (min, max)) if lines else (None, None)
    start_x, row, end_x = 84, 30, WIDTH - 16
    height = row * len(names) + 26
    rows = "".join(
        f'<line class="axis" x1="{start_x}" x2="{end_x}" y1="{row * n + 18}" y2="{row * n + 18}"/>'
        f'<text class="label" x="0" y="{row * n + 22}">{name}</text>'
        for n, name in enumerate(names)
    )
    marks = []
    for line in lines:
        lane = kinds.get(line.kind, CASE_LANE)
        x = start_x + (end_x - start_x) * _share(line.at, start, end)
        y = row * names.index(lane) + 18
        title = f"{line.at:%Y-%m-%d %H:%M} UTC: {_text(line.text)} ({_text(line.proof)})"
        signed = "signed" if line.is_signed else "unsigned"
        marks.append(
            f'<circle class="event {lane} {signed}" cx="{x:.1f}" cy="{y}" r="5"><title>{title}</title></circle>'
        )
    ends = "".join(
        f'<text x="{x}" y="{height - 4}" text-anchor="{anchor}">{at:%Y-%m-%d %H:%M}</text>'
        for x, anchor, at in ((start_x, "start", start), (end_x, "end", end))
        if at is not None
    )
    return (
        f'<svg class="picture" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="Timeline of {len(lines)} lines">{rows}{"".join(marks)}{ends}</svg>'
    )


def standalone_svg(picture: str) -> str:
    """Return a picture as a file of its own: with the styles in it."""
    head, _, rest = picture.partition(">")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{head}><style>{STYLES.read_text(encoding="utf-8")}</style>{rest}\n'


def _classes(coloring: str, counts: Counter[str]) -> dict[str, str]:
    """Return a class for each group that has a colour of its own."""
    fixed = {"state": _STATES, "trust": _TRUSTS}.get(coloring)
    if fixed is not None:
        return {name: fixed[name] for name in counts if name in fixed}
    largest = sorted((name for name in counts if name), key=lambda name: (-counts[name], name))[:MAX_LEGEND]
    return {name: f"group{number}" for number, name in enumerate(largest)}


def _mark(point: MapPoint, color: str) -> str:
    x, y = WIDTH * point.x, MAP_HEIGHT * (1 - point.y)
    what = f"{point.source}/{point.uri}: {point.state}, risk {point.risk:.2f}" + (
        f", {point.reason}" if point.reason else ""
    )
    accused = ", accused by this case" if point.is_accused else ""
    title = f"<title>{_text(what)}{accused}</title>"
    if point.is_accused:
        cross = f"M{x - 6:.1f} {y - 6:.1f}L{x + 6:.1f} {y + 6:.1f}M{x - 6:.1f} {y + 6:.1f}L{x + 6:.1f} {y - 6:.1f}"
        return f'<path class="accused" d="{cross}">{title}</path>'
    waits = " waits" if point.waits else ""
    return f'<circle class="point {color}{waits}" cx="{x:.1f}" cy="{y:.1f}" r="{5 if waits else 4}">{title}</circle>'


def _rect(name: str, x: float, y: float, width: float, height: float) -> str:
    return f'<rect class="{name}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{max(height, 0):.1f}"/>'


def _share(at: datetime, start: datetime | None, end: datetime | None) -> float:
    if start is None or end is None or end <= start:
        return 0.0
    return (at - start) / (end - start)


def _text(text: str) -> str:
    shown = reveal_invisible(text, "")
    return escape(shown if len(shown) <= MAX_CHARACTERS else f"{shown[:MAX_CHARACTERS]}…")
