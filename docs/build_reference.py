"""Write docs/reference.md from the code, so that it cannot drift: ``make docs``; a test compares the two."""

from __future__ import annotations

import ast
import io
from pathlib import Path
from typing import Any

import typer.main
from pydantic import BaseModel

from corpus_guard.cli import app
from corpus_guard.screening.instructions import PACK, load_pack
from corpus_guard.screening.policy import Retirement, ReviewRules, Threshold
from corpus_guard.screening.registry import CHECKS
from corpus_guard.settings import PROJECT, Settings

TARGET = PROJECT / "docs" / "reference.md"

COMMANDS = """
## Commands

`guard` exits with 0 when done, 1 when `--fail-on` asks for attention, 2 on misuse, 3 when a server or a disk failed, 4 when two
things that must agree do not.
"""
SETTINGS = """
## Settings

Environment variables. Verdicts depend on none of them but `CORPUS_GUARD_POLICY_FILE`, `CORPUS_GUARD_EMBEDDER`,
`CORPUS_GUARD_LANGUAGE_MODEL` and `CORPUS_GUARD_CHUNK_TOKENS`.
"""
POLICY = """
## policy.yaml

`name` is free. `quarantine` has one section a trust level, `sources` one with the same keys for each source that needs another
threshold than its trust level's, `weights` one number a severity, `reject` a list of codes, `shadow` a list of checks and codes whose
findings are recorded and weigh nothing, `retire` and `review` the keys below, `checks` one section a check.

"""
CHECK_ORDER = """
## Checks

In the order they run; the last one sees only what the others leave open. Each has a section under `checks:` in policy.yaml; every
section takes `enabled`.
"""


def render() -> str:
    """The whole page."""
    page = io.StringIO()
    page.write("# Reference\n\nWritten by `make docs` from the code.\n")
    _commands(page)
    _settings(page)
    _checks(page)
    _policy(page)
    _dags(page)
    return page.getvalue()


def _commands(page: io.StringIO) -> None:
    page.write(COMMANDS)
    _command(page, typer.main.get_command(app), "guard")


def _command(page: io.StringIO, command: Any, path: str) -> None:
    for name, child in sorted(getattr(command, "commands", {}).items()):
        _command(page, child, f"{path} {name}")
    if getattr(command, "commands", None):
        return
    arguments = " ".join(p.metavar or p.name.upper() for p in command.params if p.param_type_name == "argument")
    page.write(f"\n### `{' '.join(filter(None, (path, arguments)))}`\n\n{_plain(command.help)}\n\n")
    options = [p for p in command.params if p.param_type_name == "option" and p.name != "help"]
    if options:
        page.write("| option | meaning |\n|---|---|\n")
        for option in options:
            page.write(f"| `{'`, `'.join([*option.opts, *option.secondary_opts])}` | {_plain(option.help)} |\n")


def _settings(page: io.StringIO) -> None:
    page.write(SETTINGS)
    page.write("\n| variable | default | meaning |\n|---|---|---|\n")
    for name, field in Settings.model_fields.items():
        default = field.default
        if isinstance(default, Path) and default.is_absolute():
            default = default.relative_to(PROJECT)
        page.write(
            f"| `CORPUS_GUARD_{name.upper()}` | `{default if default != '' else '(empty)'}` | {_plain(field.description)} |\n"
        )


def _checks(page: io.StringIO) -> None:
    page.write(CHECK_ORDER)
    for name, (params, _build) in CHECKS.items():
        module = PROJECT / "include" / "corpus_guard" / "screening" / f"{params.__module__.rpartition('.')[2]}.py"
        doc = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or ""
        page.write(f"\n### `{name}`\n\n{_plain(doc.split(chr(10) * 2)[0])}\n\n")
        _fields(page, params, skip=("enabled",))
    page.write("\n### Rules of `instructions`\n\n| rule | severity | score | what it sees |\n|---|---|---|---|\n")
    for rule in load_pack(PACK).rules:
        page.write(
            f"| `instructions.{rule.id}` | {rule.severity.value} | {rule.score} | {_plain(rule.description)} |\n"
        )


def _policy(page: io.StringIO) -> None:
    page.write(POLICY)
    _fields(page, Threshold, prefix="quarantine.<level>.")
    page.write("\n")
    _fields(page, Retirement, prefix="retire.")
    page.write("\n")
    _fields(page, ReviewRules, prefix="review.")


def _fields(page: io.StringIO, model: type[BaseModel], prefix: str = "", skip: tuple[str, ...] = ()) -> None:
    fields = {name: field for name, field in model.model_fields.items() if name not in skip}
    if not fields:
        return
    page.write("| key | default | meaning |\n|---|---|---|\n")
    for name, field in fields.items():
        default = "required" if field.is_required() else f"`{field.default}`"
        page.write(f"| `{prefix}{name}` | {default} | {_plain(field.description)} |\n")


def _dags(page: io.StringIO) -> None:
    page.write("\n## DAGs\n")
    for file in sorted((PROJECT / "dags").glob("*.py")):
        doc = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
        page.write(f"\n### `{file.stem}`\n\n{doc.partition(chr(10) * 2)[2].strip()}\n")


def _plain(text: str | None) -> str:
    return " ".join((text or "").replace("``", "`").replace("|", "\\|").split())


if __name__ == "__main__":
    TARGET.write_text(render(), encoding="utf-8")
