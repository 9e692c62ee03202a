from __future__ import annotations

from pathlib import Path

import pytest

from corpus_guard.domain import TrustLevel
from corpus_guard.errors import SettingsError
from corpus_guard.intake.sources import load_sources

FOLDER = "- {kind: folder, name: handbook, url: docs, owner: docs@example.org, trust: trusted}"
ROWS = "- {kind: rows, name: tickets, url: t.jsonl, owner: o, trust: open, fields: {text: body}}"


def write(folder: Path, *sources: str) -> Path:
    file = folder / "sources.yaml"
    file.write_text("sources:\n" + "".join(f"  {source}\n" for source in sources))
    return file


def test_relative_urls_start_at_the_yaml_files_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("hello")
    (tmp_path / "t.jsonl").write_text('{"body": "x"}\n')
    file = write(tmp_path, FOLDER, ROWS)
    monkeypatch.chdir("/")
    folder, rows = load_sources(file)
    assert (folder.name, folder.owner, folder.trust) == ("handbook", "docs@example.org", TrustLevel.TRUSTED)
    assert [item.uri for item in folder.list()] == ["a.md"]
    assert [item.uri for item in rows.list()] == ["t.jsonl#row-1"]


def test_nothing_is_contacted_while_loading(tmp_path: Path) -> None:
    url = "s3://bucket-that-is-not/there"
    load_sources(write(tmp_path, FOLDER.replace("docs,", f"'{url}',")))


@pytest.mark.parametrize(
    ("sources", "words"),
    [
        ((FOLDER, FOLDER), ["sources.1.name", "'handbook'", "name of its own"]),
        ((FOLDER.replace("handbook", "Hand/book"),), ["sources.0.folder.name"]),
        ((FOLDER.replace("kind: folder", "kind: ftp"),), ["sources.0", "ftp"]),
        ((FOLDER.replace("owner", "ovner"),), ["sources.0.folder"]),
        ((FOLDER.replace("trusted", "very"),), ["sources.0.folder.trust"]),
        ((ROWS.replace("t.jsonl", "t.xlsx"),), ["sources.0.rows.url", ".jsonl"]),
        ((ROWS.replace("text: body", "id: n"),), ["sources.0.rows.fields.text"]),
        (
            (FOLDER.replace("docs,", 'docs, include: "*.md",'),),
            ["sources.0.folder.include: expected a list, such as [\"*.md\"] (got '*.md')"],
        ),
        (
            (FOLDER.replace("docs,", "docs, include: {a: b},"),),
            ['sources.0.folder.include: expected a list, each entry after a dash (got {"a": "b"})'],
        ),
        ((FOLDER.replace("docs@example.org", "3"),), ['sources.0.folder.owner: expected text, such as "3" (got 3)']),
        ((FOLDER.replace("trusted", "very"),), ["trust: expected 'trusted', 'reviewed' or 'open' (got 'very')"]),
        (("- handbook",), ["sources.0: expected keys and values, such as {key: value} (got 'handbook')"]),
    ],
)
def test_a_mistake_is_named_with_file_key_and_fix(tmp_path: Path, sources: tuple[str, ...], words: list[str]) -> None:
    file = write(tmp_path, *sources)
    with pytest.raises(SettingsError) as caught:
        load_sources(file)
    for word in (str(file), *words):
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sources:\n", "sources: expected a list, each entry after a dash (got nothing)"),
        ("sources: {a: 1}\n", 'sources: expected a list, each entry after a dash (got {"a": 1})'),
        ("sources: handbook\n", "sources: expected a list, each entry after a dash (got 'handbook')"),
    ],
)
def test_sources_that_are_no_list_are_named_in_plain_words(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "sources.yaml"
    file.write_text(text)

    with pytest.raises(SettingsError) as caught:
        load_sources(file)

    assert str(caught.value) == f"{file}: {words}"


def test_a_wrong_value_is_shown_without_its_password_and_cut(tmp_path: Path) -> None:
    url = "https://user:hunter2@example.org/" + "a" * 1_000
    file = write(tmp_path, FOLDER.replace("docs,", f"docs, include: {{a: '{url}'}},"))

    with pytest.raises(SettingsError) as caught:
        load_sources(file)

    assert "hunter2" not in str(caught.value)
    assert len(str(caught.value)) < len(str(file)) + 400
