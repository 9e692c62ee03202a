"""Appending to sources.yaml: what stands there stays, what is appended is what was meant, or nothing is written."""

from __future__ import annotations

import multiprocessing
import os
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from corpus_guard.errors import Misuse, SettingsError
from corpus_guard.intake.sources import load_sources
from corpus_guard.intake.sources.declarations import (
    append_declaration,
    declaration_from_options,
    open_declaration,
    parse_declaration,
    source_location,
)
from corpus_guard.intake.sources.sources_file import read_declarations
from corpus_guard.yaml_text import append_entry

LIMIT = 1_000_000
FIRST = {"name": "first", "kind": "folder", "url": "a", "owner": "a@example.org", "trust": "open"}
NEW = {"name": "new", "kind": "folder", "url": "docs/new", "owner": "n@example.org", "trust": "reviewed"}

FILES = {
    "as it comes": "# head\nsources:\n  - name: first  # one\n    kind: folder\n    url: a\n    owner: a@example.org\n    trust: open\n",
    "no newline at the end": "sources:\n- {name: first, kind: folder, url: a, owner: a@example.org, trust: open}",
    "comments behind": "sources:\n- {name: first, kind: folder, url: a, owner: a@example.org, trust: open}\n\n# the end\n",
    "a list in brackets last": (
        "sources:\n  - kind: folder\n    name: first\n    url: a\n    owner: a@example.org\n    trust: open\n    include: ['*.md']  # why\n"
    ),
    "a list of lines last": (
        "sources:\n  - kind: folder\n    name: first\n    url: a\n    owner: a@example.org\n    trust: open\n    include:\n"
        "      - '*.md'\n      # not yet\n      # - '*.txt'\n"
    ),
    "a text of lines last": (
        "sources:\n  - kind: folder\n    name: first\n    url: a\n    trust: open\n    owner: |-\n      a@example.org\n\n# end\n"
    ),
    "empty list": "# nothing yet\nsources: []  # so far\n",
    "no list": "sources:\n",
    "no file": "",
    "line ends of Windows": "sources:\r\n- name: first\r\n  kind: folder\r\n  url: a\r\n  owner: a\r\n  trust: open\r\n",
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "sources.yaml"


def write(file: Path, text: str) -> Path:
    with file.open("w", encoding="utf-8", newline="") as stream:
        stream.write(text)
    return file


@pytest.mark.parametrize("text", FILES.values(), ids=FILES)
def test_every_line_stays_and_the_new_source_is_the_last(file: Path, text: str) -> None:
    if text:
        write(file, text)

    append_declaration(file, NEW, max_bytes=LIMIT)

    with file.open(encoding="utf-8", newline="") as stream:
        after = stream.read()
    assert [
        line for line in text.splitlines() if line.replace(" []", "") not in after.splitlines() and "[]" not in line
    ] == []
    assert [
        one
        for one in ("# head", "# one", "# the end", "# why", "# not yet", "# so far", "# end")
        if one in text and one not in after
    ] == []
    assert read_declarations(file)[-1].name == "new"
    assert len(read_declarations(file)) == len((yaml.safe_load(text) or {}).get("sources") or []) + 1
    assert ("\r\n" in after) == ("\r\n" in text)
    assert after.count("\r\n") in {0, after.count("\n")}
    assert [path.name for path in file.parent.iterdir()] == ["sources.yaml"], "no draft is left"


def test_a_blank_line_between_sources_is_kept_up(file: Path) -> None:
    one = "  - {{name: {}, kind: folder, url: a, owner: a, trust: open}}\n"
    write(file, "sources:\n" + one.format("first") + "\n" + one.format("second"))

    append_declaration(file, NEW, max_bytes=LIMIT)

    assert "\n\n  - name: new\n    kind: folder\n" in file.read_text()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({**NEW, "name": "first"}, "'first' is already the name"),
        ({**NEW, "trust": "blind"}, "trust"),
        ({**NEW, "colour": "red"}, "colour"),
        ({**NEW, "name": "../x"}, "name"),
        ({key: value for key, value in NEW.items() if key != "url"}, "url"),
        ({**NEW, "kind": "pigeon"}, "pigeon"),
    ],
    ids=["taken", "no such trust", "unknown key", "name", "missing", "kind"],
)
def test_what_is_wrong_is_named_and_nothing_is_written(file: Path, given: dict[str, Any], says: str) -> None:
    before = write(file, FILES["as it comes"]).read_bytes()

    with pytest.raises(SettingsError) as caught:
        append_declaration(file, given, max_bytes=LIMIT)

    assert str(caught.value).startswith("the new source: ") and says in str(caught.value)
    assert ".sources.yaml." not in str(caught.value), "the draft is nobody's business"
    assert file.read_bytes() == before
    assert len(list(file.parent.iterdir())) == 1


@pytest.mark.parametrize(
    "text", ["sources: [{name: a}]\n", "- a\n", "sources: {a: b}\n", "sources: [\n", "a: [1, &x 2]\nsources: *x\n"]
)
def test_what_cannot_be_appended_to_is_refused(file: Path, text: str) -> None:
    write(file, text)

    with pytest.raises(Misuse, match=r"one entry per line|line 2: not valid YAML"):
        append_declaration(file, NEW, max_bytes=LIMIT)

    assert file.read_text() == text


def test_mode_and_link_stay(file: Path, tmp_path: Path) -> None:
    real = tmp_path / "elsewhere" / "real.yaml"
    real.parent.mkdir()
    write(real, FILES["as it comes"]).chmod(0o640)
    file.symlink_to(real)

    append_declaration(file, NEW, max_bytes=LIMIT)

    assert file.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert [one.name for one in read_declarations(real)] == ["first", "new"]


def test_a_candidate_opens_beside_the_others_and_leaves_nothing(file: Path, tmp_path: Path) -> None:
    write(file, FILES["as it comes"])
    (tmp_path / "docs" / "new").mkdir(parents=True)
    (tmp_path / "docs" / "new" / "a.md").write_text("hello")

    source = open_declaration(file, NEW, max_bytes=LIMIT)

    assert [item.uri for item in source.list()] == ["a.md"], "its URL is relative to the folder of sources.yaml"
    assert file.read_text() == FILES["as it comes"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["docs", "sources.yaml"]
    with pytest.raises(SettingsError, match="already the name"):
        open_declaration(file, FIRST, max_bytes=LIMIT)


def _append(file: str, number: int) -> None:
    append_declaration(Path(file), {**NEW, "name": f"new{number}"}, max_bytes=LIMIT)


def test_many_at_once_lose_nothing(file: Path) -> None:
    write(file, FILES["as it comes"])
    with multiprocessing.get_context("forkserver").Pool(4) as pool:
        pool.starmap(_append, [(str(file), number) for number in range(12)])

    assert sorted(one.name for one in read_declarations(file)) == sorted(
        ["first", *(f"new{number}" for number in range(12))]
    )


TEXTS = st.text(st.characters(blacklist_categories=("Cs",)), min_size=1, max_size=40)


@settings(max_examples=150)
@given(owner=TEXTS, url=TEXTS, text=st.sampled_from([*FILES.values()]))
def test_any_text_is_appended_as_data(owner: str, url: str, text: str) -> None:
    given = {**NEW, "owner": owner, "url": url}
    before = (yaml.safe_load(text) or {}).get("sources") or []

    after = yaml.safe_load(append_entry(text, "sources", given, "sources.yaml"))

    assert after == {"sources": [*before, given]}


def test_options_become_a_declaration() -> None:
    found = declaration_from_options(
        {"name": "faq", "kind": "rows", "owner": ""}, ["fields.id=number", "fields.metadata=[a, b]", "n=3"]
    )

    assert found == {"name": "faq", "kind": "rows", "fields": {"id": "number", "metadata": ["a", "b"]}, "n": 3}
    for wrong in ("fields", "=x", "a..b=1", "kind.below=1", "x=[1"):
        with pytest.raises(Misuse, match="--set"):
            declaration_from_options({"kind": "rows"}, [wrong])


def test_a_file_holds_one_declaration() -> None:
    assert parse_declaration("name: a\nkind: folder\n", "x.yaml") == {"name": "a", "kind": "folder"}
    assert parse_declaration("sources:\n- name: a\n", "x.yaml") == {"name": "a"}
    for wrong in ("", "- a", "sources: []", "sources: [{name: a}, {name: b}]", "a: [", "!!python/object:os.system {}"):
        with pytest.raises(Misuse, match=r"x\.yaml"):
            parse_declaration(wrong, "x.yaml")


def test_a_place_is_shown_without_its_password(file: Path) -> None:
    write(
        file,
        "sources:\n- {name: first, kind: folder, url: 'ftp://me:secret@host/docs?token=x', owner: a, trust: open}\n",
    )

    assert source_location(read_declarations(file)[0]) == "ftp://host/docs"
    assert load_sources(file)[0].name == "first"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_named(file: Path) -> None:
    write(file, FILES["as it comes"])
    file.parent.chmod(0o500)
    try:
        with pytest.raises(SettingsError, match="CORPUS_GUARD_SOURCES_FILE"):
            append_declaration(file, NEW, max_bytes=LIMIT)
    finally:
        file.parent.chmod(0o700)
