"""Everything that can be typed, set or scheduled is in the docs."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import typer.main

from corpus_guard.cli import app
from corpus_guard.screening.policy import Policy
from corpus_guard.screening.registry import CHECKS
from corpus_guard.settings import PROJECT, Settings

PAGES = [*sorted((PROJECT / "docs").rglob("*.md")), *PROJECT.glob("README.md")]
DAGS = sorted((PROJECT / "dags").glob("*.py"))


@pytest.fixture(scope="module")
def docs() -> str:
    return "\n".join(page.read_text(encoding="utf-8") for page in PAGES)


def commands(command: click.Command, path: tuple[str, ...] = ("guard",)) -> Iterator[tuple[str, click.Command]]:
    below = getattr(command, "commands", None)
    if not below:
        yield " ".join(path), command
        return
    for name, one in sorted(below.items()):
        yield from commands(one, (*path, name))


COMMANDS = dict(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_in_the_docs(docs: str, command: str) -> None:
    assert command in docs


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_of_a_command_is_in_the_docs(docs: str, command: str) -> None:
    flags = [max(option.opts, key=len) for option in COMMANDS[command].params if option.opts[0].startswith("-")]

    assert [flag for flag in flags if flag not in docs and flag != "--help"] == []


@pytest.mark.parametrize("setting", [f"CORPUS_GUARD_{name.upper()}" for name in Settings.model_fields])
def test_every_setting_is_in_the_docs(docs: str, setting: str) -> None:
    assert re.search(rf"\b{setting}\b", docs)


@pytest.mark.parametrize("check", CHECKS)
def test_every_check_is_in_the_docs(docs: str, check: str) -> None:
    assert f"`{check}`" in docs


@pytest.mark.parametrize("section", Policy.model_fields)
def test_every_section_of_the_policy_is_in_the_docs(docs: str, section: str) -> None:
    assert f"`{section}`" in docs or f"{section}:" in docs


@pytest.mark.parametrize("dag", [path.stem for path in DAGS])
def test_every_dag_is_in_the_docs(docs: str, dag: str) -> None:
    assert f"`{dag}`" in docs


def test_every_file_that_the_docs_name_by_a_link_exists() -> None:
    lost = [
        f"{page.name}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]

    assert lost == []


def test_every_variable_that_the_docs_name_is_a_setting_or_one_of_the_stack(docs: str) -> None:
    known = {f"CORPUS_GUARD_{name.upper()}" for name in Settings.model_fields}
    stack = "\n".join(
        path.read_text(encoding="utf-8")
        for path in [*Path(PROJECT / "docker").rglob("*"), PROJECT / "Makefile", *DAGS]
        if path.is_file() and path.suffix in {".py", ".yaml", ".conf", ".sh", ""}
    )

    named = set(re.findall(r"\bCORPUS_GUARD_[A-Z_]+[A-Z]\b", docs))
    assert {one for one in named - known if one not in stack} == set()


def test_the_reference_is_what_the_code_says() -> None:
    written = runpy.run_path(str(PROJECT / "docs" / "build_reference.py"))

    assert written["TARGET"].read_text(encoding="utf-8") == written["render"](), "run: make docs"
