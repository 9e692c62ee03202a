"""`guard expectations` and `guard checks`: from an empty folder to a suite, a check and a rule pack."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deploying import Typed


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CORPUS_GUARD_EXTENSIONS_FOLDER", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "250")
    return tmp_path


def test_a_suite_is_written_checked_and_refused_with_its_mistake(folder: Path, typed: Typed) -> None:
    assert typed("expectations", "new", "pages")[0] == 0
    code, out, _ = typed("expectations", "check", "--json")
    assert (code, json.loads(out)["suites"]) == (0, {"pages": ["title"]})
    code, out, _ = typed("expectations", "check")
    assert code == 0 and "pages for every version: expectation.pages.title" in out

    file = folder / "expectations" / "pages.yaml"
    for before, after, says in [
        ("to_not_be_null", "to_not_be_nul", "expect_column_values_to_not_be_nul is unknown"),
        (
            "declared_title}",
            "age_days, row_condition: 'chars >', condition_parser: pandas}",
            "refused by Great Expectations",
        ),
    ]:
        good = file.read_text()
        file.write_text(good.replace(before, after))
        code, _, err = typed("expectations", "check")
        assert code == 2 and says in err, err
        file.write_text(good)


def test_columns_are_listed_with_the_scores_of_the_checks(folder: Path, typed: Typed) -> None:
    (folder / "rules").mkdir()
    assert typed("checks", "new", "shop", "--rules")[0] == 0
    names = json.loads(typed("expectations", "columns", "--json")[1])

    assert {"age_days", "chars", "score_parsing", "score_unicode", "score_shop"} <= set(names)
    assert "age_days" in typed("expectations", "columns")[1]


def test_checks_are_written_tried_and_listed(folder: Path, typed: Typed) -> None:
    assert "There is none" in typed("checks", "list")[1]
    assert typed("checks", "new", "adverts")[0] == typed("checks", "new", "shop", "--rules")[0] == 0
    code, out, _ = typed("checks", "test")
    assert code == 0 and "adverts: holds" in out and "shop: holds" in out
    rows = json.loads(typed("checks", "list", "--json")[1])
    assert [(row["name"], row["state"]) for row in rows] == [("adverts", "on trial"), ("shop", "on trial")]

    rules = folder / "rules" / "shop.yaml"
    rules.write_text(rules.read_text().replace("Order today here", "Order it somewhere"))
    code, out, _ = typed("checks", "test", "--json")
    assert code == 1 and "misses its example" in json.loads(out)["shop"][0]


@pytest.mark.parametrize("name", ["../x", "Name", "a.b", "", "1a"])
def test_a_name_that_cannot_be_a_code_is_refused(name: str, folder: Path, typed: Typed) -> None:
    for words in (("expectations", "new"), ("checks", "new")):
        code, _, err = typed(*words, name)
        assert code == 2 and "expected a name" in err
    assert list(folder.iterdir()) == []


def test_an_existing_file_is_never_overwritten(folder: Path, typed: Typed) -> None:
    typed("checks", "new", "adverts")
    file = folder / "checks" / "adverts.py"
    file.write_text("mine")

    code, _, err = typed("checks", "new", "adverts")
    assert code == 2 and "exists already" in err
    assert file.read_text() == "mine"
