"""The map of the corpus as PNG, for a report or a slide: the same points, colours and shapes as the SVG."""

from __future__ import annotations

import io
import re
from functools import cache

from corpus_guard.errors import Misuse, require_one_of
from corpus_guard.forensics.map import CorpusMap
from corpus_guard.forensics.pictures import COLORINGS, MAP_HEIGHT, STYLES, WIDTH, map_classes, map_legend
from corpus_guard.invisible import reveal_invisible

DOTS_PER_INCH = 160
MAX_CHARACTERS = 40  # of a name in the legend


def map_png(drawn: CorpusMap, coloring: str = "state") -> bytes:
    """Return the map as a picture of 1,440 x 896 points, with a legend.

    Raises:
        Misuse: there is no such colouring, or matplotlib is not installed.
    """
    require_one_of("colour by", coloring, COLORINGS)
    try:
        from matplotlib.figure import Figure  # takes a second to import
    except ImportError:
        raise Misuse("a .png is drawn with matplotlib, which is not installed; write an .svg or .html") from None
    figure = Figure(figsize=(WIDTH / 100, MAP_HEIGHT / 100), dpi=DOTS_PER_INCH, layout="constrained")
    axes = figure.add_subplot()
    axes.set(xlim=(0, 1), ylim=(0, 1), xticks=[], yticks=[])
    classes = map_classes(drawn, coloring)
    for color, name, _ in map_legend(drawn, coloring):
        points = [point for point in drawn.points if classes[point.chunk_id] == color and not point.is_accused]
        for waits in (False, True):
            shown = [point for point in points if point.waits is waits]
            if shown:
                axes.scatter(
                    [point.x for point in shown],
                    [point.y for point in shown],
                    s=22,
                    facecolors="none" if waits else _shades()[color],
                    edgecolors=_shades()[color],
                    linewidths=1.2 if waits else 0,
                    label=f"{_plain(name)}{' (waits)' if waits else ''}: {len(shown):,}",
                )
    accused = [point for point in drawn.points if point.is_accused]
    if accused:
        x, y = [point.x for point in accused], [point.y for point in accused]
        axes.scatter(x, y, s=40, marker="x", color=_shades()["bad"], label=f"accused: {len(accused):,}")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=7, frameon=False)
    content = io.BytesIO()
    figure.savefig(content, format="png", metadata={"Title": "Map of the corpus"})
    return content.getvalue()


def _plain(name: str) -> str:
    """Return a name as the legend shows it; a dollar sign would begin a formula, an underscore hide the entry."""
    shown = reveal_invisible(name, "")[:MAX_CHARACTERS].replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown or "none"


@cache
def _shades() -> dict[str, str]:
    """Return the colours of the light theme, by class, from the styles of the pictures."""
    light = STYLES.read_text(encoding="utf-8").partition(".key")[0]
    shades: dict[str, str] = {}
    for name, color in re.findall(r"\.(\w+) \{ --shade: (#[0-9a-f]{6})", light):
        shades.setdefault(name, color)
    return shades
