"""Everything that can be typed, set or scheduled is in the docs; every link in them leads somewhere."""

from __future__ import annotations

import itertools
import re
import runpy
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import typer.main

from corpus_guard.cli.main import app
from corpus_guard.screening.policy import Policy
from corpus_guard.screening.registry import CHECKS
from corpus_guard.settings import PACKAGE, PROJECT, Settings

DOCS = PROJECT / "docs"
README = PROJECT / "README.md"
SITE = sorted(DOCS.rglob("*.md"))
PAGES = [*SITE, README]
LINKED = [*PAGES, *(PROJECT / name for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"))]
DAGS = sorted((PROJECT / "dags").glob("*.py"))
README_BYTES = 8_000

_FENCE = re.compile(r"^ *```.*?^ *```$", re.M | re.S)
_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.M)


@pytest.fixture(scope="module")
def docs() -> str:
    return "\n".join(page.read_text(encoding="utf-8") for page in PAGES)


def commands(command: click.Command, path: tuple[str, ...] = ("guard",)) -> Iterator[tuple[str, click.Command]]:
    below = getattr(command, "commands", None)
    if not below:
        yield " ".join(path), command
        return
    for name, child in sorted(below.items()):
        yield from commands(child, (*path, name))


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


def test_every_variable_that_the_docs_name_is_a_setting_or_one_of_the_stack(docs: str) -> None:
    settings = {f"CORPUS_GUARD_{name.upper()}" for name in Settings.model_fields}
    stack = "\n".join(
        path.read_text(encoding="utf-8")
        for path in [*Path(PROJECT / "docker").rglob("*"), PROJECT / "Makefile", *DAGS]
        if path.is_file() and path.suffix in {".py", ".yaml", ".conf", ".sh", ""}
    )

    named = set(re.findall(r"\bCORPUS_GUARD_[A-Z_]+[A-Z]\b", docs))
    assert {name for name in named - settings if name not in stack} == set()


def shown_commands() -> Iterator[tuple[str, list[str]]]:
    """Yield each `guard` command line of a code block with its flags, as the page shows them."""
    for page in LINKED:
        for block in _FENCE.findall(page.read_text(encoding="utf-8")):
            for line in re.sub(r"\\\n *", "", block).splitlines():
                if "guard " in line and (found := re.search(r"(?:\.venv/bin/|exec scheduler )(guard .*)", line)):
                    words = re.sub(r"\"[^\"]*\"|'[^']*'|#.*", "", found[1]).partition("|")[0].split()
                    name = " ".join(word for word in itertools.takewhile(re.compile("[a-z][a-z-]*").fullmatch, words))
                    yield name, [word for word in words if word.startswith("-")]


def test_the_commands_and_options_that_the_docs_show_exist() -> None:
    wrong = []
    for shown, flags in shown_commands():
        line = "guard trace follow" if shown == "guard trace" else shown  # a group with a default command
        name = next((name for name in COMMANDS if f"{line} ".startswith(f"{name} ")), "")
        options = COMMANDS[name].params if name else []
        known = {"--help", *(flag for option in options for flag in (*option.opts, *option.secondary_opts))}
        wrong += [f"{line} {flag}" for flag in flags if flag not in known] if name else [line]

    assert wrong == []


def test_airflow_is_called_in_a_shell_that_knows_the_local_stack() -> None:
    blocks = [block for page in PAGES for block in _FENCE.findall(page.read_text(encoding="utf-8"))]
    called = [block for block in blocks if ".venv/bin/airflow " in block]

    assert called
    assert [block for block in called if "stack.py env" not in block] == []


def test_the_make_targets_that_the_docs_show_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (PROJECT / "Makefile").read_text(encoding="utf-8"), re.M))
    shown = {
        target
        for page in LINKED
        for target in re.findall(r"(?:`|^)make ([a-z-]+)", page.read_text(encoding="utf-8"), re.M)
    }

    assert shown - targets == set()


def links(page: Path) -> list[str]:
    """Return the targets of a page's links and pictures, without those inside code."""
    text = _CODE.sub("", _FENCE.sub("", page.read_text(encoding="utf-8")))
    return [target for target in _LINK.findall(text) if not re.match(r"[a-z]+:", target)]


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings that are the same on the site and on a code host, and unique."""
    titles = [
        re.sub(r"[`*]", "", title) for title in _HEADING.findall(_FENCE.sub("", page.read_text(encoding="utf-8")))
    ]
    found = Counter(title for title in titles)
    site = {title: re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in found}
    host = {title: re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in found}
    return {site[title] for title, count in found.items() if count == 1 and site[title] == host[title]}


def test_the_way_of_a_document_leads_through_functions_that_exist() -> None:
    page = (DOCS / "explanation" / "architecture.md").read_text(encoding="utf-8")
    way = page.partition("### Follow one document")[2].partition("\n## ")[0]
    files: set[Path] = set()
    missing = []
    for row in re.findall(r"^\| \w+ \| (.+) \|$", way, re.M):
        functions: list[str] = []
        for name in re.findall(r"`([^`]+)`", row):
            if not name.endswith(".py"):
                functions.append(name)
                continue
            file = (PROJECT if name.startswith("dags/") else PACKAGE) / name
            defined = set(re.findall(r"^ *def (\w+)", file.read_text(encoding="utf-8"), re.M))
            missing += [f"{function} in {name}" for function in functions if function not in defined]
            files.add(file)
            functions = []

    assert missing == []
    assert f"Read these {len(files)} files" in way
    assert len(files) <= 25


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(PROJECT)))
def test_every_relative_link_leads_to_a_file_and_to_a_heading(page: Path) -> None:
    broken = []
    for target in links(page):
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(target)

    assert broken == []


@pytest.mark.parametrize("page", SITE, ids=lambda page: str(page.relative_to(DOCS)))
def test_no_link_of_the_site_leaves_the_site(page: Path) -> None:
    outside = [
        target
        for target in links(page)
        if target.partition("#")[0] and not (page.parent / target.partition("#")[0]).resolve().is_relative_to(DOCS)
    ]

    assert outside == []


def test_a_broken_link_and_a_broken_anchor_are_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One `two`\n\n## One `two` three\n\n[a](gone.md) [b](#one-two-three) `[c](code.md)`\n")

    assert links(page) == ["gone.md", "#one-two-three"]
    assert anchors(page) == {"one-two", "one-two-three"}


def test_every_page_is_in_the_navigation_of_the_site_once() -> None:
    def pages(entry: Any) -> Iterator[str]:
        if isinstance(entry, str):
            yield entry
        else:
            for inner in entry.values() if isinstance(entry, dict) else entry:
                yield from pages(inner)

    config = tomllib.loads((PROJECT / "zensical.toml").read_text(encoding="utf-8"))

    assert sorted(pages(config["project"]["nav"])) == [page.relative_to(DOCS).as_posix() for page in SITE]


def test_the_readme_is_short() -> None:
    assert README.stat().st_size <= README_BYTES


def test_the_reference_is_what_the_code_says() -> None:
    render = runpy.run_path(str(DOCS / "build_reference.py"))["render"]

    stale = [
        page.name for page, text in render().items() if not page.exists() or page.read_text(encoding="utf-8") != text
    ]
    assert stale == [], "run: make docs"
