"""What people see of the command line: tables, progress, and hostile text made visible.

Everything that may come from a document goes through `visible` before it reaches a terminal.
"""

from __future__ import annotations

import contextlib
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

out = Console()
err = Console(stderr=True)

SEVERITY_STYLE = {"critical": "bold red", "high": "red", "medium": "yellow", "low": "cyan", "info": "dim"}
STATE_STYLE = {
    "accept": "green", "accepted": "green", "released": "green", "published": "green", "sealed": "green",
    "quarantine": "yellow", "quarantined": "yellow", "running": "yellow",
    "reject": "red", "rejected": "red", "failed": "red",
}  # fmt: skip

_SHOWN_AS_CODE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def visible(text: str, *, lines: bool = False) -> str:
    """`text` with every invisible or steering character as its code point, safe for a terminal and for rich markup.

    Args:
        text: anything.
        lines: keep line breaks and tabs.
    """
    kept = "\n\t" if lines else ""
    shown = "".join(
        f"⟨U+{ord(character):04X}⟩"
        if character not in kept and unicodedata.category(character) in _SHOWN_AS_CODE
        else character
        for character in text
    )
    return escape(shown)


def styled(word: str, styles: dict[str, str] = STATE_STYLE) -> str:
    """A word in the colour of what it means."""
    style = styles.get(word)
    return f"[{style}]{word}[/{style}]" if style else word


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[str] = ()) -> Table:
    """A plain table; cells may hold markup, so hostile ones must have gone through `visible`."""
    result = Table(
        title=title, title_justify="left", header_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0)
    )
    for column in columns:
        result.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        result.add_row(*row)
    return result


@contextlib.contextmanager
def progress(show: bool) -> Iterator[Callable[[str, int, int | None], None]]:
    """A bar on standard error that says what is being done; nothing where nobody looks."""
    if not (show and err.is_terminal):
        yield lambda what, done, total: None
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task("starting", total=None)
        yield lambda what, done, total: bar.update(task, description=what, completed=done, total=total or None)
