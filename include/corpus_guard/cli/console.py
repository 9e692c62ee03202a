"""Terminal output: tables, progress, and hostile text made visible.

Every text that may come from a document goes through `visible` before it reaches a terminal.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from corpus_guard.domain import no_progress
from corpus_guard.errors import Misuse
from corpus_guard.invisible import is_invisible, reveal_invisible

# Neither :emoji: codes nor numbers and addresses are touched: what a document says is shown as it is.
out = Console(emoji=False, highlight=False)
err = Console(stderr=True, emoji=False, highlight=False)

SEVERITY_STYLE = {"critical": "bold red", "high": "red", "medium": "yellow", "low": "cyan", "info": "dim"}
STATE_STYLE = {
    "accept": "green", "accepted": "green", "released": "green", "published": "green", "sealed": "green",
    "active": "green", "closed": "dim", "replaced": "dim",
    "quarantine": "yellow", "quarantined": "yellow", "running": "yellow", "interrupted": "yellow",
    "reject": "red", "rejected": "red", "failed": "red", "open": "red", "healed": "red", "revoked": "red",
}  # fmt: skip

_TAG_BEGINS = re.compile(r"\[(?=[a-z#/@]|\Z)")
_BEFORE_BRACKET = re.compile(r"\\(?=\[)")


class Markup(str):
    """Text that is markup on purpose: hostile text in it has gone through `visible`."""

    __slots__ = ()


Cell = str | float | datetime | None
"""Content of a cell of a table; `shown_cell` says how it is shown."""

UNFOLDED = 16  # characters: an id, a time, a state
FOLDED = 8  # characters that a folded column needs
GAP = 2  # characters between columns


def visible(text: str, *, lines: bool = False) -> Markup:
    """Return `text` with every invisible or control character as its code point, safe for a terminal and for rich markup.

    Args:
        lines: keep line breaks and tabs.
    """
    keep = "\n\t" if lines else ""
    # Markup drops a backslash before a bracket, whether that begins a tag or not.
    shown = _BEFORE_BRACKET.sub(_code("\\"), reveal_invisible(text, keep))
    # An open bracket or a backslash at the end would join with the markup that follows.
    head, bracket, tail = shown.rpartition("]")
    shown = head + bracket + _TAG_BEGINS.sub(_code("["), tail)
    body = shown.rstrip("\\")
    return Markup(escape(body) + _code("\\") * (len(shown) - len(body)))


def as_json(value: Any, *, indent: int | None = None) -> str:
    """Return JSON that is safe for a terminal: letters stay readable, invisible and control characters are escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, default=str)
    if text.isascii() and "\x7f" not in text:
        return text
    return "".join(
        json.dumps(character)[1:-1] if character != "\n" and is_invisible(character) else character
        for character in text
    )


def say(text: str) -> None:
    """Print a line to standard output, as long as it is. It may hold markup, so hostile text must have gone through `visible`."""
    out.print(text, soft_wrap=True)


def say_rest(rows: Sized, shown: int, indent: str = "") -> None:
    """Say how many rows were left out after the first `shown`, and how to see them."""
    if len(rows) > shown:
        say(f"{indent}… and {len(rows) - shown:,} more; --json shows all")


def say_aside(text: str) -> None:
    """Print a line as `say` does, to standard error: no result, but what a person wants to know beside it."""
    err.print(text, soft_wrap=True)


def print_json(value: Any) -> None:
    """Write a value as indented JSON to standard output."""
    out.file.write(as_json(value, indent=2) + "\n")


def _code(character: str) -> str:
    return f"⟨U+{ord(character):04X}⟩"


def format_time(when: datetime | str | None, *, seconds: bool = False, missing: str = "") -> str:
    """Return a time in UTC as "2026-03-01 12:00".

    Args:
        when: a time with its zone, also as ISO 8601 text.
        seconds: show them: "2026-03-01 12:00:59".
        missing: shown where there is no time.
    """
    if not when:
        return missing
    moment = datetime.fromisoformat(when) if isinstance(when, str) else when
    return f"{moment.astimezone(UTC):{'%Y-%m-%d %H:%M:%S' if seconds else '%Y-%m-%d %H:%M'}}"


def styled(word: str, styles: dict[str, str] = STATE_STYLE) -> Markup:
    """Return a word in the colour of its meaning."""
    style = styles.get(word)
    shown = word.replace("_", " ")
    return Markup(f"[{style}]{shown}[/{style}]" if style else shown)


def shown_cell(value: Cell) -> str:
    """Return a cell as markup: text is escaped unless it is `Markup`, numbers have separators or two decimals, times are UTC."""
    match value:
        case Markup():
            return value
        case str():
            return visible(value)
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:.2f}"
        case _:
            return format_time(value)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Cell]], right: Sequence[str] = ()) -> Table:
    """Return a plain table without the columns that are empty in all rows; ids, times and states are folded last.

    Args:
        rows: cells as `shown_cell` shows them.
        right: columns to align right, beside those that hold numbers alone.
    """
    result = Table(
        title=title, title_justify="left", header_style="bold", box=None, pad_edge=False, padding=(0, GAP, 0, 0)
    )
    given = list(rows)
    numbers = {name for name, *cells in zip(columns, *given, strict=True) if {*map(type, cells)} <= {int, float}}
    listed = [[shown_cell(cell) for cell in row] for row in given]
    shown = [number for number in range(len(columns)) if not listed or any(row[number] for row in listed)]
    cells = [[columns[number], *(Text.from_markup(row[number]).plain for row in listed)] for number in shown]
    for number, width in zip(shown, _share_width(cells), strict=True):
        justify: JustifyMethod = "right" if columns[number] in {*right, *numbers} else "left"
        result.add_column(columns[number], justify=justify, overflow="fold", width=width)
    for row in listed:
        result.add_row(*(row[number] for number in shown))
    return result


def _share_width(columns: Sequence[Sequence[str]]) -> list[int | None]:
    """Return the width of each column; None: as it comes. Short cells are folded last, and first between words.

    What is spare goes to all alike until a column has what it wants: no long cell takes the room of the others.
    """
    wanted = [max(map(cell_len, cells)) for cells in columns]
    room = out.width - GAP * len(columns)
    for split in (lambda cell: [cell], str.split):
        longest = [max(cell_len(part) for cell in cells for part in split(cell) or [""]) for cells in columns]
        least = [width if width <= UNFOLDED else FOLDED for width in longest]
        spare = room - sum(least)
        if 0 <= spare < sum(wanted) - sum(least):
            widths: list[int | None] = list(least)
            missing = [full - width for width, full in zip(least, wanted, strict=True)]
            for served, number in enumerate(sorted(range(len(least)), key=missing.__getitem__)):
                more = min(missing[number], spare // (len(least) - served))
                widths[number] = least[number] + more
                spare -= more
            return widths
    return [None] * len(columns)


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Cell]], right: Sequence[str] = ()) -> None:
    """Print a title, however wide, and below it what `table` returns, to standard output."""
    say(f"[italic]{title}[/italic]")
    out.print(table("", columns, rows, right))


@contextlib.contextmanager
def progress(show: bool) -> Iterator[Callable[[str, int, int | None], None]]:
    """Show a progress bar on standard error, if `show` and if it is a terminal."""
    if not (show and err.is_terminal):
        yield no_progress
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task("starting", total=None)
        counted = ""

        def show_step(what: str, done: int, total: int | None) -> None:
            nonlocal counted
            if what != counted:  # another activity, at another speed: the estimate begins anew
                counted = what
                bar.reset(task, description=what, completed=done, total=total or None)
            else:
                bar.update(task, completed=done, total=total or None)

        yield show_step


@contextlib.contextmanager
def resumable(command: str) -> Iterator[None]:
    """Say what to do next if somebody interrupts a command that may be killed and run again."""
    try:
        yield
    except KeyboardInterrupt:
        again = f"Run `{command}` again: it does what is not done yet"
        say_aside(f"[bold red]guard:[/bold red] interrupted; what was recorded is kept. {again}")
        raise


def write_figures(figures: Any, path: Path | None) -> None:
    """Write figures as JSON to a file and name it, or to standard output if `path` is ``-``; None: nowhere."""
    if path == Path("-"):
        print_json(figures)
    elif path is not None:
        with writing(path) as write:
            write(as_json(figures, indent=1) + "\n")
        say_aside(f"All figures: {visible(str(path))}")


@contextlib.contextmanager
def writing(path: Path | None) -> Iterator[Callable[[str], object]]:
    """Write text to `path`, completely or not at all; to standard output if None.

    Raises:
        Misuse: it is a folder.
    """
    if path is None:
        yield out.file.write
        return
    if path.is_dir():
        raise Misuse(f"{path}: this is a folder; name a file in it")
    if path.exists() and not path.is_file():  # a pipe or a device: cannot be replaced
        with path.open("w", encoding="utf-8") as file:
            yield file.write
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")  # hidden, so that it is no document of a folder it may lie in
    try:
        with draft.open("w", encoding="utf-8") as file:
            yield file.write
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
