"""`guard evaluate orders`: the classifier of orders on what it never saw."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from corpus_guard.cli import console
from corpus_guard.cli.console import print_json, print_table, say
from corpus_guard.cli.options import (
    READER_RUNS,
    HonestSentences,
    Json,
    ManyFiles,
    MaxSentences,
    ReaderRuns,
    Translations,
)

if TYPE_CHECKING:
    from corpus_guard.evaluation.orders import LeftOutTable

app = typer.Typer()


class OrdersTable(StrEnum):
    """Tables of the evaluation."""

    APART = "apart"
    FAMILY = "family"
    LANGUAGE = "language"
    SOURCE = "source"
    SLICES = "slices"


@app.command("orders", cls=ManyFiles)
def orders(
    honest: HonestSentences,
    translations: Translations = None,
    poison: Annotated[
        list[Path] | None, typer.Option("--poison", help="JSONL with attacks; several files allowed.")
    ] = None,
    clean: Annotated[
        list[Path] | None, typer.Option("--clean", help="JSONL with honest texts; several allowed.")
    ] = None,
    by: Annotated[list[OrdersTable] | None, typer.Option(help="Only these tables; repeat for several.")] = None,
    sentences: MaxSentences = 8_000,
    sample: Annotated[int, typer.Option(min=1, help="Maximum number of documents per slice.")] = 1_000,
    runs: ReaderRuns = READER_RUNS,
    seed: Annotated[int, typer.Option(help="Random seed of the samples and of the trainings.")] = 0,
    as_json: Json = False,
) -> None:
    """Judge sentences kept apart; leave families, languages and sources out of training and judge them; then judge documents.

    Documents are judged by the check `instructions` as it is installed, by rules alone and with the classifier: the validation
    half of each file.

    Example: `guard evaluate orders --honest /usr/share/doc --poison bipia.jsonl --clean wiki.jsonl docs.jsonl`
    """
    from corpus_guard.detectors.orders.training import OrdersData, read_training_texts
    from corpus_guard.detectors.samples import Half, limit_per_slice, read_samples
    from corpus_guard.evaluation.orders import LEFT_OUT, judge_kept_apart, leave_out, measure_slices
    from corpus_guard.screening.checks.instructions import InstructionsParams

    params = InstructionsParams()
    tables = by or list(OrdersTable)
    left_out = judge_kept_apart(params) if OrdersTable.APART in tables else []
    if chosen := [table for table in LEFT_OUT if table in tables]:
        with console.progress(not as_json) as progress:
            texts = read_training_texts(honest, translations or (), sentences, seed)
            data = OrdersData(texts, runs=runs, seed=seed, progress=progress)
            left_out += [leave_out(data, table, params.order_probability) for table in chosen]
    samples = read_samples(poison or (), clean or ()).samples if OrdersTable.SLICES in tables else ()
    judged = limit_per_slice([each for each in samples if each.half is not Half.TUNING], sample, seed)
    slices = list(measure_slices(judged, params))
    if as_json:
        print_json(
            {
                "left_out": [asdict(row) for table in left_out for row in table.rows],
                "at_goal": [asdict(table.at_goal) for table in left_out],
                "slices": [asdict(row) for row in slices],
            }
        )
        return
    for table in left_out:
        _print_left_out(table)
    if slices:
        documents = [
            (row.name, "attack" if row.is_attack else "honest", row.texts, row.held_by_rules, row.held)
            for row in slices
        ]
        print_table("Documents of an open source", ("slice", "", "documents", "held by rules", "held"), documents)


def _print_left_out(table: LeftOutTable) -> None:
    from corpus_guard.evaluation.orders import LEFT_OUT

    goal = table.at_goal
    is_trained = goal.by in LEFT_OUT
    columns = (goal.by if is_trained else "family", "orders caught", "honest alarms")
    rows = [(row.kind, f"{row.caught}/{row.orders}", f"{row.alarms}/{row.honest}") for row in table.rows]
    title = f"Left out: {goal.by}" if is_trained else goal.by.capitalize()
    print_table(title, columns, rows, right=columns[1:])
    caught, alarms = sum(row.caught for row in table.rows), sum(row.alarms for row in table.rows)
    say(f"In all: {caught}/{goal.orders} orders caught, {alarms}/{goal.honest} honest alarms")
    say(
        f"With a limit of {goal.probability:.3f}, chosen by these look-alikes: {goal.caught}/{goal.orders} orders caught, "
        f"{goal.alarms}/{goal.honest} honest alarms"
    )
