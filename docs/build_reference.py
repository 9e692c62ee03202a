"""Write the reference pages in docs/reference/ from the code, so that they cannot differ from it: ``make docs``.

``tests/test_docs.py`` compares the pages with what `render` returns.
"""

from __future__ import annotations

import ast
import inspect
import io
import itertools
import re
import sys
import textwrap
from collections.abc import Iterator
from enum import Enum
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import typer.main
from pydantic import BaseModel

from corpus_guard.cli.main import app
from corpus_guard.intake.sources.config import RowFields
from corpus_guard.intake.sources.sources_file import KINDS
from corpus_guard.screening.checks.instructions import load_rules
from corpus_guard.screening.policy import Retirement, ReviewRules, Threshold
from corpus_guard.screening.registry import CHECKS
from corpus_guard.settings import PROJECT, Settings
from corpus_guard.web.app import API, make_app

FOLDER = PROJECT / "docs" / "reference"
MEANINGS = {  # of keys whose name says it all in the code
    "trust": "`trusted`, `reviewed` or `open`: how far the content is trusted.",
    "text": "The column with the text.",
    "id": "The column with the id.",
    "title": "The column with the title.",
    "modified": "The column with the time of the last change.",
    "metadata": "Further columns to keep as declared metadata.",
    "fields": "Which column is what; see [Keys of `fields`](#keys-of-fields).",
    "pages": "A list of URLs.",
    "sitemap": "The URL of a sitemap.",
    "ports": "Ports that may be contacted.",
    "connection": "The name of a connection with the credentials.",
    "max_files": "More files than this are not read.",
    "watermark": "A column whose value changes whenever the row changes.",
    "unsafe_may_write": "Read a database for which the guard cannot make the transaction read-only.",
    "max_chars": "A longer text is refused.",
    "media_types": "Media types that may be published.",
}

INDEX = """
# Reference

Facts to look up. The command `make docs` writes these pages from the code, and a test compares them with the code.
The only page that people write is [Files and formats](formats.md).

| page | what it lists |
|---|---|
| [Commands](commands.md) | Every `guard` command with its options and its exit codes. |
| [Settings](settings.md) | Every `CORPUS_GUARD_…` environment variable with its default. |
| [Sources](sources.md) | The keys of each kind of source in `sources.yaml`, and the rules each kind follows. |
| [Policy](policy.md) | The keys of `policy.yaml`. |
| [Checks](checks.md) | Every screening check with its parameters, and the instruction rules. |
| [DAGs](dags.md) | What each Airflow DAG does, what it does not do, and what to do when a task fails. |
| [REST API](rest.md) | The routes of the review API. |
| [Files and formats](formats.md) | Files that you write or that the guard writes: feedback, labelled texts, verdicts, proofs. |
"""
COMMANDS = """
# Commands

| exit code | meaning |
|---|---|
| 0 | The command did what it was asked to do. |
| 1 | Something needs attention: `--fail-on` matched, a verification found a deviation, or a proof does not hold. |
| 2 | The command was used wrongly, or a setting is wrong. |
| 3 | A server or a disk failed. |
| 4 | Two things that must agree do not agree. |
| 5 | Another refresh is at work on the same sources. Nothing was done; wait for it, or add `--wait`. |
| 130 | Somebody interrupted the command (Ctrl-C). What was recorded is kept; run it again. |

Every command has `--help`. Commands that report something have `--json`.
"""
SETTINGS = """
# Settings

All settings are environment variables. A setting can also be a file with the name of the variable in lower case, in the folder
that `CORPUS_GUARD_SECRETS_DIR` names.

Verdicts depend on five settings only: `CORPUS_GUARD_POLICY_FILE`, `CORPUS_GUARD_EXTENSIONS_FOLDER`, `CORPUS_GUARD_EMBEDDER`,
`CORPUS_GUARD_LANGUAGE_MODEL` and `CORPUS_GUARD_CHUNK_TOKENS`.

"""
SOURCES = """
# Sources

`sources.yaml` has one key, `sources`: a list of declarations. Each kind of source has keys of its own. Unknown keys are refused.
How to add a source: [Your own documents](../how-to/sources.md).

## Keys of every kind

"""
CHECK_ORDER = """
# Checks

The checks run in this order; `expectation` runs after the others, because it reads their scores. The last check sees only the
documents that the other checks leave open. Each check has a section under `checks:` in `policy.yaml`, and each section accepts the
key `enabled`. Checks of your own: [Checks and rules of your own](../how-to/own-checks.md).
"""
POLICY = """
# Policy

`policy.yaml` decides what quarantines a document. These are its sections:

| section | content |
|---|---|
| `name` | Any name. |
| `quarantine` | One section for each trust level, with the thresholds below. |
| `sources` | Sources that need other thresholds than their trust level, by name, with the same keys. |
| `weights` | One number for each severity, for the risk of a document. |
| `reject` | Codes of findings that refuse a document without asking a person. |
| `shadow` | Checks and codes on trial: their findings are recorded and do not count. |
| `retire` | What happens to documents that vanished from their source; keys below. |
| `review` | Rules for reviewers; keys below. |
| `checks` | One section for each check: see [Checks](checks.md). |

"""
DAGS = """
# DAGs

Each section is the page that Airflow shows for the DAG.
"""
REST = """
# REST API

The review pages use this API, and so can a notebook or a SOAR. Airflow's API server serves it below
`/corpus-guard{api}`. Send a bearer token of Airflow, which `POST /auth/token` issues. Whatever changes something is JSON and carries
the header `X-Corpus-Guard`. `GET /corpus-guard{api}/openapi.json` returns the full description with all fields.

| method | path | what it does |
|---|---|---|
"""


def render() -> dict[Path, str]:
    """Return each page of the reference with its text."""
    pages = {
        "index": lambda page: page.write(INDEX),
        "commands": _commands,
        "settings": _settings,
        "sources": _sources,
        "checks": _checks,
        "policy": _policy,
        "dags": _dags,
        "rest": _rest,
    }
    return {FOLDER / f"{name}.md": _page(write) for name, write in pages.items()}


def _page(write: Any) -> str:
    page = io.StringIO()
    write(page)
    return page.getvalue().strip() + "\n"


def _commands(page: io.StringIO) -> None:
    page.write(COMMANDS)
    _command(page, typer.main.get_command(app), "guard")


def _command(page: io.StringIO, command: Any, path: str) -> None:
    for name, child in sorted(getattr(command, "commands", {}).items()):
        _command(page, child, f"{path} {name}")
    if getattr(command, "commands", None):
        return
    page.write(f"\n## `{path}`\n\n")
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    page.write(f"{_example(command.help)}\n\n")
    rows = [(p.metavar or str(p.name).upper(), p.help) for p in arguments]
    rows += [
        ("`, `".join([*p.opts, *p.secondary_opts]), p.help)
        for p in command.params
        if p.param_type_name == "option" and p.name != "help"
    ]
    if rows:
        page.write("| argument or option | meaning |\n|---|---|\n")
        page.writelines(f"| `{name}` | {_plain(meaning)} |\n" for name, meaning in rows)


def _example(text: str | None) -> str:
    """Return a command's help with each example on a line of its own."""
    return re.sub(r"\s+(Example[^:`]*:)", r"\n\n\1", _plain(text, cell=False))


def _settings(page: io.StringIO) -> None:
    page.write(SETTINGS)
    page.write("| variable | default | meaning |\n|---|---|---|\n")
    for name, field in Settings.model_fields.items():
        page.write(f"| `CORPUS_GUARD_{name.upper()}` | {_default(field)} | {_plain(field.description)} |\n")


def _sources(page: io.StringIO) -> None:
    page.write(SOURCES)
    kinds = {kind: import_module(place.partition(":")[0]) for kind, place in KINDS.items()}
    configs = {kind: getattr(module, KINDS[kind].partition(":")[2]).Config for kind, module in kinds.items()}
    shared = set.intersection(*(set(config.model_fields) for config in configs.values()))
    _fields(page, configs["folder"], only=shared)
    page.write("\n## Keys of `fields`\n\nThe kinds `rows` and `sql` name their columns under `fields`.\n\n")
    _fields(page, RowFields)
    for kind, module in kinds.items():
        page.write(f"\n## Kind `{kind}`\n\n")
        page.write(f"{_document(module)}\n\n")
        declaring = inspect.cleandoc(sys.modules[configs[kind].__module__].__doc__ or "")
        if "\n- kind:" in declaring and sys.modules[configs[kind].__module__] is not module:
            page.write(f"{_part(declaring[declaring.index('- kind:') :].partition(chr(10) * 2)[0])}\n\n")
        _fields(page, configs[kind], only=set(configs[kind].model_fields) - shared)


def _checks(page: io.StringIO) -> None:
    page.write(CHECK_ORDER)
    for name, (params, _build) in CHECKS.items():
        doc = inspect.cleandoc(sys.modules[params.__module__].__doc__ or "")
        page.write(f"\n## `{name}`\n\n{_plain(doc.split(chr(10) * 2)[0], cell=False)}\n\n")
        _fields(page, params, only=set(params.model_fields) - {"enabled"})
    page.write("\n## Rules of `instructions`\n\n| rule | severity | score | what it detects |\n|---|---|---|---|\n")
    for rule in load_rules().rules:
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


def _fields(page: io.StringIO, model: type[BaseModel], prefix: str = "", only: set[str] | None = None) -> None:
    fields = {name: field for name, field in model.model_fields.items() if only is None or name in only}
    if not fields:
        return
    said = _attribute_docstrings(model)
    page.write("| key | default | meaning |\n|---|---|---|\n")
    for name, field in fields.items():
        page.write(
            f"| `{prefix}{name}` | {_default(field)} | {_plain(field.description or said.get(name) or MEANINGS.get(name))} |\n"
        )


def _attribute_docstrings(model: type[BaseModel]) -> dict[str, str]:
    """Return the string below each field of a class and of the classes it derives from."""
    said: dict[str, str] = {}
    for cls in reversed(model.__mro__):
        if not issubclass(cls, BaseModel) or cls is BaseModel:
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0].body  # type: ignore[attr-defined]
        for field, below in itertools.pairwise(body):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(below, ast.Expr)
                and isinstance(below.value, ast.Constant)
            ):
                said[field.target.id] = str(below.value.value)  # type: ignore[union-attr]
    return said


def _dags(page: io.StringIO) -> None:
    page.write(DAGS)
    for file in sorted((PROJECT / "dags").glob("*.py")):
        doc = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
        text = re.sub(r"^#{1,6} .*\n+", "", doc) if doc.startswith("#") else doc.partition("\n\n")[2]
        page.write(f"\n## `{file.stem}`\n\n{_lowered(text.strip())}\n")


def _lowered(text: str) -> str:
    """Return a text whose headings stand below those of a section."""
    return re.sub(r"^#{1,4} ", "### ", text, flags=re.M)


def _rest(page: io.StringIO) -> None:
    page.write(REST.format(api=API))
    access: Any = SimpleNamespace(authorize_view=lambda: None, authorize_decision=lambda: None)
    for method, path, summary in _routes(make_app(lambda: None, access)):  # type: ignore[arg-type, return-value]
        page.write(f"| {method} | `{path.removeprefix(API)}` | {_plain(summary)} |\n")


def _routes(web: Any) -> Iterator[tuple[str, str, str]]:
    for route in web.routes:
        if getattr(route, "include_in_schema", False):
            for method in sorted(route.methods):
                yield method, route.path, route.summary or route.name


def _default(field: Any) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, Path) and value.is_absolute():
        value = value.relative_to(PROJECT)
    if value is None or value == "":
        return "(empty)"
    if isinstance(value, tuple | frozenset):
        names = [str(item.value if isinstance(item, Enum) else item) for item in value]
        return ", ".join(f"`{name}`" for name in (names if isinstance(value, tuple) else sorted(names))) or "(empty)"
    return f"`{getattr(value, 'get_secret_value', lambda: value)()}`" if str(value) else "(empty)"


def _document(module: Any) -> str:
    """Return a module's docstring as Markdown: an example of YAML is fenced, a list of rules is a list."""
    parts = inspect.cleandoc(module.__doc__ or "").split("\n\n")
    return "\n\n".join(_part(part) for part in parts)


def _part(part: str) -> str:
    if part.startswith("- kind:"):
        return f"```yaml\n{part}\n```"
    part = re.sub(r"^    ([*-] |  )", r"\1", part, flags=re.M).replace("``", "`")
    return re.sub(r"^(\w[^\n]*)\n(?=[*-] )", r"\1\n\n", part)


def _plain(text: str | None, *, cell: bool = True) -> str:
    line = " ".join((text or "").replace("``", "`").split())
    return line.replace("|", "\\|") if cell else line


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for path, text in render().items():
        path.write_text(text, encoding="utf-8")
