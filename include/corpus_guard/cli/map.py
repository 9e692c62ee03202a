"""`guard map`: the corpus as a picture."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from corpus_guard import errors
from corpus_guard.cli import console
from corpus_guard.cli.console import say, visible
from corpus_guard.cli.options import Json
from corpus_guard.deployment import Deployment
from corpus_guard.domain import plural

app = typer.Typer()

FORMATS = (".html", ".svg", ".png")


@app.command("map")
def map_(
    output: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Output file: .html (every colouring, with the risk histogram), .svg or .png (one)."
        ),
    ] = None,
    by: Annotated[str, typer.Option(help="Colour of an .svg or .png: state, trust, source or campaign.")] = "state",
    case: Annotated[
        str | None, typer.Option(help="Id of a case, or a prefix of it: what it accuses is marked.")
    ] = None,
    limit: Annotated[int, typer.Option(min=3, max=50_000, help="Served chunks that are drawn at most.")] = 3_000,
    as_json: Json = False,
) -> None:
    """Draw the corpus in a plane: what is served, what waits, and what a case accuses. The map decides nothing.

    The plane is fitted once for each seal; newcomers are placed in it. The files hold ids and places, no text, and load nothing.

    Example: `guard map --out map.html`, or `guard map --out map.svg --by source`
    """
    from corpus_guard.exports.html import map_page
    from corpus_guard.exports.map_image import map_png
    from corpus_guard.forensics.cases import find_case
    from corpus_guard.forensics.map import corpus_map, policy_thresholds, risk_histogram
    from corpus_guard.forensics.pictures import map_svg, standalone_svg
    from corpus_guard.forensics.scope import scope_of

    if output is not None and output.suffix not in FORMATS:
        raise errors.Misuse(f"--out {output}: expected a file that ends in .html, .svg or .png")
    if output is None and not as_json:
        raise errors.Misuse("give --out and a file that ends in .html, .svg or .png, or --json")
    with Deployment() as deployment:
        ledger = deployment.ledger
        accused = scope_of(ledger, find_case(ledger, case)).versions if case else ()
        drawn = corpus_map(ledger, deployment.storage, deployment.settings.map_cache, accused, limit)
        histogram = risk_histogram(ledger, policy_thresholds(deployment.policy))
    if as_json:
        console.print_json(drawn.as_dict())
    if output is None:
        return
    if output.suffix == ".png":
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_bytes(map_png(drawn, by))
    else:
        page = (
            map_page(drawn, histogram, datetime.now(UTC))
            if output.suffix == ".html"
            else standalone_svg(map_svg(drawn, by))
        )
        with console.writing(output) as write:
            write(page)
    if not as_json:
        left_out = f", {drawn.left_out:,} left out" if drawn.left_out else ""
        say(f"{plural(len(drawn.points), 'chunk')} drawn{left_out}: {visible(str(output))}")
