"""Hostile configuration files: refused at once, with the file, the line and what to do."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from corpus_guard.errors import SettingsError
from corpus_guard.intake.sources.declarations import append_declaration, parse_declaration
from corpus_guard.intake.sources.sources_file import load_sources
from corpus_guard.screening.policy import load_policy
from corpus_guard.yaml_text import MAX_DEPTH, parse_yaml

LAUGHS = "a0: &a0 [ha, ha, ha, ha, ha, ha, ha, ha, ha, ha]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n" for level in range(1, 10)
)
"""A billion values in 700 characters."""
MERGES = "a0: &a0 {k: 1}\n" + "".join(
    f"a{level}: &a{level} {{<<: [{', '.join([f'*a{level - 1}'] * 10)}]}}\n" for level in range(1, 10)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LAUGHS, r"line 6: refused: more than 200,000 values once its aliases \(\*name\) are written out"),
        (MERGES, r"line \d: refused: more than 200,000 values"),
        ("sources: &all [*all]\n", r"line 1: refused: \*all stands inside the value that it names, which has no end"),
        ("a: " + "[" * 50_000, f"line 1: refused: values are nested more than {MAX_DEPTH} levels deep"),
        ("a: " + "x" * 5_000_000, "has 5,000,003 characters, the limit is 4,194,304"),
        ("when: 2026-99-99\n", "not valid YAML .*put quotes around the value"),
    ],
    ids=["billion laughs", "merged laughs", "recursive", "deep", "long", "no date"],
)
def test_is_refused_at_once(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "sources.yaml"
    file.write_text(text)
    began = time.process_time()

    with pytest.raises(SettingsError, match=rf"{file}.*{message}"):
        load_sources(file, max_bytes=1)
    with pytest.raises(SettingsError, match=message):
        load_policy(file)
    with pytest.raises(SettingsError, match=message):
        parse_declaration(text, "standard input")
    with pytest.raises(SettingsError, match=message):
        append_declaration(file, {"name": "more"}, max_bytes=1)

    assert time.process_time() - began < 5
    assert file.read_text() == text


def test_a_file_with_a_few_aliases_is_read() -> None:
    text = "usual: &usual {owner: desk, trust: open}\nsources:\n- {<<: *usual, name: a}\n- {<<: *usual, name: b}\n"

    assert parse_yaml(text, "sources.yaml")["sources"] == [
        {"owner": "desk", "trust": "open", "name": "a"},
        {"owner": "desk", "trust": "open", "name": "b"},
    ]


@example("[]:")
@example("{{ name }}: 1")
@given(st.text(alphabet="ab:-[]{}&*<!|> \n#'\"0", max_size=60))
def test_any_text_is_read_or_refused_in_plain_words(text: str) -> None:
    try:
        parse_yaml(text, "policy.yaml")
    except SettingsError as error:
        assert str(error).startswith("policy.yaml")
