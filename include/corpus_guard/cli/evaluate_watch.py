"""`guard evaluate watch`: measure the retrieval watch on generated logs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from corpus_guard.cli import console
from corpus_guard.cli.console import out
from corpus_guard.cli.options import Json

app = typer.Typer()


@app.command("watch")
def watch(
    seed: Annotated[list[int] | None, typer.Option(help="Random seed of a log; repeat for several.")] = None,
    documents: Annotated[int, typer.Option(min=500, help="Honest documents.")] = 5_000,
    retrievals: Annotated[int, typer.Option(min=10_000, help="Retrievals of four weeks.")] = 200_000,
    planted: Annotated[int, typer.Option(min=2, help="Planted attacks, half of them hubs and half bursts.")] = 20,
    as_json: Json = False,
) -> None:
    """Measure how many planted hubs and bursts the retrieval watch names, and how many honest documents.

    The logs are generated: four weeks of honest traffic with glossaries, news, monitors and authors who try their pages. The
    thresholds were set on the seeds 1 to 3; 11 and 12 were looked at while the watch was built. Takes 20 seconds a log.

    Example: `guard evaluate watch --seed 21 --seed 22`
    """
    from corpus_guard.evaluation.watch_logs import generate_log, measure_watch

    lines = {
        number: measure_watch(generate_log(number, documents, retrievals, planted)) for number in seed or [21, 22, 23]
    }
    if as_json:
        console.print_json(
            [
                {"seed": number, **asdict(line), "recall": line.recall, "false_alarm_rate": line.false_alarm_rate}
                for number, line in lines.items()
            ]
        )
        return
    rows = [
        (
            str(number),
            *(f"{line.alerted[kind]}/{line.planted[kind]}" for kind in ("hub", "burst", "group")),
            f"{line.recall:.0%}",
            f"{line.false_alarms} of {line.honest:,}",
            f"{line.false_alarm_rate:.3%}",
        )
        for number, line in lines.items()
    ]
    columns = ("seed", "hubs", "bursts", "groups", "recall", "honest named", "a week")
    out.print(console.table("Retrieval watch, generated logs", columns, rows, right=columns))
