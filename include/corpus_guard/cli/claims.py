"""`guard claims`: the values that a text states, and where two texts agree or contradict each other."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corpus_guard import errors
from corpus_guard.cli import console
from corpus_guard.cli.console import Markup, print_table, say
from corpus_guard.cli.options import Json, read_file
from corpus_guard.domain import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from corpus_guard.claims.outcome import Comparison
    from corpus_guard.claims.statements import Statement, Statements
    from corpus_guard.claims.text_comparison import Comparisons
    from corpus_guard.claims.value import Value

app = typer.Typer()

MAX_BYTES = 10_000_000


@app.command("claims")
def claims(
    path: Annotated[Path, typer.Argument(help="A text file (UTF-8).", metavar="FILE")],
    other: Annotated[
        Path | None, typer.Argument(help="A second one: shows where the two agree and conflict.", metavar="OTHER")
    ] = None,
    pairs_read: Annotated[
        int,
        typer.Option(
            "--read",
            min=0,
            help="Pairs that the trained reader reads too: a post of FILE and an excerpt of OTHER, as the page. Loads a model.",
        ),
    ] = 0,
    as_json: Json = False,
) -> None:
    """Show the values that a text states, or where two texts agree or contradict each other. Reads only the files.

    Deterministic; loads no model without --read. Exits with code 1 if the texts conflict, or if not everything was compared.

    Example: `guard claims forum-post.md manual.md --read 3`
    """
    from corpus_guard.claims.statements import read_statements
    from corpus_guard.claims.text_comparison import compare_texts

    text = _read(path)
    first = read_statements(text)
    if other is None:
        if pairs_read:
            raise errors.Misuse("--read: nothing to compare with; expected two files")
        _show_values(first, as_json)
        return
    page = _read(other)
    second = read_statements(page)
    result = compare_texts(first.statements, second.statements)
    not_read = first.not_read + second.not_read
    pairs = _read_pairs(text, page, other, pairs_read) if pairs_read else []
    _show_comparisons(result, not_read, pairs, as_json)
    conflicts = any(each.outcome.value == "conflict" for each in result.comparisons) or any(
        each.likely for each in pairs
    )
    if not_read or not result.is_complete or conflicts:
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True)
class _ReadPair:
    """Judgement of the reader about a post and an excerpt of the page."""

    post: str
    excerpt: str
    sentence: str  # of it, that the post contradicts most
    log_odds: float
    likely: bool  # a contradiction, as the policy of the package has it


def _read_pairs(text: str, page: str, other: Path, count: int) -> list[_ReadPair]:
    from corpus_guard.claims.passages import StatedPassage
    from corpus_guard.models import Models
    from corpus_guard.screening.checks.conflict import ConflictParams
    from corpus_guard.screening.survey.likely_contradictions import TrustedPassage, choose_pairs, read_pairs
    from corpus_guard.screening.survey.nearby_chunks import document_title
    from corpus_guard.screening.wording import load_wording
    from corpus_guard.settings import load_settings

    models, title = Models(load_settings()), document_title("", other.name)
    rarity = load_wording(models.frequency_vocabulary).rarity
    chosen = choose_pairs(
        StatedPassage(text, rarity), [TrustedPassage(StatedPassage(page, rarity, title), title)], count
    )
    limit = ConflictParams().likely_log_odds
    return [
        _ReadPair(pair.shown.post, pair.shown.excerpt, read.sentences.text, read.log_odds, read.log_odds >= limit)
        for pair, read in zip(chosen, read_pairs(models.contradiction_reader, chosen), strict=True)
    ]


def _read(path: Path) -> str:
    content = read_file(path, "a text file")
    if len(content) > MAX_BYTES:
        raise errors.Misuse(f"{path}: {len(content):,} bytes; at most {MAX_BYTES:,} are read, split the file")
    if b"\0" in content:
        raise errors.Misuse(f"{path}: binary data; expected a text file in UTF-8")
    return content.decode("utf-8-sig", errors="replace")


def _show_values(read: Statements, as_json: bool) -> None:
    values = [(value, statement) for statement in read.statements for value in statement.values]
    if as_json:
        console.print_json({"values": [_value(value) for value, _ in values], "sentences_not_read": read.not_read})
        return
    rows = [(value.span.start, value.kind.value, value.normal, statement.text) for value, statement in values]
    print_table("Values", ("at", "kind", "normal form", "sentence"), rows)
    if read.not_read:
        say(f"[red]Not read: {plural(read.not_read, 'sentence')}[/red]")


def _show_comparisons(result: Comparisons, not_read: int, pairs: Sequence[_ReadPair], as_json: bool) -> None:
    if as_json:
        console.print_json(
            {
                "comparisons": [_comparison(comparison) for comparison in result.comparisons],
                "pairs_compared": result.compared,
                "pairs_not_compared": result.not_compared,
                "sentences_not_read": not_read,
                "pairs_read": [asdict(pair) for pair in pairs],
            }
        )
        return
    rows = [
        (
            Markup("[red]conflict[/red]") if comparison.outcome.value == "conflict" else comparison.outcome.value,
            "one denies it" if comparison.is_denial else _differences(comparison.values),
            comparison.statement.text,
            comparison.other.text,
        )
        for comparison in result.comparisons
    ]
    print_table("Statements", ("outcome", "values", "first text", "second text"), rows)
    if pairs:
        read = [
            (
                Markup("[red]likely conflict[/red]") if pair.likely else None,
                f"{pair.log_odds:+.1f}",
                pair.post,
                pair.sentence if pair.likely else pair.excerpt,
            )
            for pair in pairs
        ]
        columns = ("outcome", "log-odds", "first text", "second text")
        print_table("Read by the trained reader", columns, read, right=("log-odds",))
    if not_read or not result.is_complete:
        say(
            f"[red]Not compared: {plural(result.not_compared, 'pair')} of sentences; "
            f"not read: {plural(not_read, 'sentence')}[/red]"
        )


def _differences(pairs: Sequence[tuple[Value, Value]]) -> str:
    return "; ".join(
        value.normal if value.normal == other.normal else f"{value.normal} / {other.normal}" for value, other in pairs
    )


def _value(value: Value) -> dict[str, Any]:
    return {
        "kind": value.kind.value,
        "start": value.span.start,
        "end": value.span.end,
        "normal": value.normal,
        "denied": value.is_denied,
    }


def _comparison(comparison: Comparison) -> dict[str, Any]:
    return {
        "outcome": comparison.outcome.value,
        "sameness": round(comparison.sameness, 3),
        "denial": comparison.is_denial,
        "values": [[_value(value), _value(other)] for value, other in comparison.values],
        "first": _statement(comparison.statement),
        "second": _statement(comparison.other),
    }


def _statement(statement: Statement) -> dict[str, Any]:
    return {"start": statement.span.start, "end": statement.span.end, "text": statement.text}
