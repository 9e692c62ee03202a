"""Great Expectations suites as files: what is refused, and what a failing row becomes."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from sample_versions import a_policy, a_version, finding

from corpus_guard.domain import Severity, TrustLevel, Verdict, Version
from corpus_guard.errors import SettingsError
from corpus_guard.screening.checks.expectation import Expectations
from corpus_guard.screening.runner import Screening
from corpus_guard.screening.suites.frame import DECLARED_CHARS, build_frame, column_meanings
from corpus_guard.screening.suites.suite import ROW_EXPECTATIONS, load_suite, load_suites
from corpus_guard.screening.suites.validation import try_suite
from corpus_guard.settings import PROJECT

COLUMNS = column_meanings(("parsing", "unicode"))
NOT_NULL = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "declared_title"}}
BETWEEN = "expect_column_values_to_be_between"
SHIPPED = PROJECT / "include" / "expectations"

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def call(*expectations: dict[str, Any], name: str = "mine", suffix: str = "yaml", **more: Any) -> Path:
        value = {"name": name, "expectations": list(expectations), **more}
        path = tmp_path / f"{name}.{suffix}"
        path.write_text(json.dumps(value) if suffix == "json" else yaml.safe_dump(value))
        return path

    return call


def check(*paths: Path, columns: Any = COLUMNS) -> Expectations:
    return Expectations(None, [load_suite(path, columns) for path in paths], tuple(columns))


def codes(check: Expectations, *batch: Version) -> list[tuple[int, str]]:
    return [(position, finding.code) for position, finding in check.run(batch, None)]


def between(column: str, **limits: Any) -> dict[str, Any]:
    return {"type": BETWEEN, "kwargs": {"column": column, **limits}}


# Files


@pytest.mark.parametrize(
    ("expectation", "says"),
    [
        ({"type": "expect_nonsense", "kwargs": {}}, "type: expect_nonsense is unknown"),
        ({"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 1}}, "does not name the rows"),
        ({"type": "expect_column_values_to_be_unique", "kwargs": {"column": "chars"}}, "does not name the rows"),
        (between("chars", max_vlue=3), "kwargs.max_vlue: unknown argument"),
        ({"type": BETWEEN, "kwargs": {"max_value": 3}}, "kwargs.column: missing"),
        (between("agedays", max_value=3), "no column agedays"),
        (between("score_nobody", max_value=1), "no column score_nobody"),
        (between("chars", max_value=3, mostly=0.9), "kwargs.mostly"),
        (between("chars", max_value={"$PARAMETER": "most"}), "no parameter most"),
        ({**NOT_NULL, "severity": "terrible"}, "severity"),
        ({**NOT_NULL, "meta": {"guard": {"rule": "Not A Rule"}}}, "rule"),
        ({**NOT_NULL, "meta": {"guard": {"sevrity": "low"}}}, "sevrity"),
        ({**NOT_NULL, "expectation": 1}, "expectation"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_mistake_is_refused_when_the_file_is_loaded(expectation: dict[str, Any], says: str, write: Write) -> None:
    path = write(expectation)
    with pytest.raises(SettingsError, match=says) as refused:
        load_suite(path, COLUMNS)
    assert "mine.yaml" in str(refused.value)


def test_a_suite_has_the_name_of_its_file_and_stands_once(write: Write, tmp_path: Path) -> None:
    write(NOT_NULL, suffix="json")
    assert [suite.name for suite in load_suites(tmp_path, COLUMNS)] == ["mine"]
    write(NOT_NULL)
    with pytest.raises(SettingsError, match=r"is in mine\.json already"):
        load_suites(tmp_path, COLUMNS)
    (tmp_path / "mine.yaml").rename(tmp_path / "other.yaml")
    with pytest.raises(SettingsError, match="name: mine, expected other"):
        load_suites(tmp_path, COLUMNS)


def test_the_types_and_arguments_are_those_of_the_installed_great_expectations() -> None:
    from great_expectations.expectations.registry import get_expectation_impl

    for name, arguments in ROW_EXPECTATIONS.items():
        fields = get_expectation_impl(name).__fields__
        assert arguments <= set(fields), name
        assert {key for key, field in fields.items() if field.required} <= arguments | {"type"}, name


def test_a_suite_that_great_expectations_writes_is_read(write: Write, tmp_path: Path) -> None:
    import great_expectations as gx

    suite = gx.ExpectationSuite(name="exported", expectations=[between("chars", max_value=5)], notes="from a notebook")
    (tmp_path / "exported.json").write_text(json.dumps(suite.to_json_dict()))

    assert codes(check(tmp_path / "exported.json"), a_version()) == [(0, "expectation.exported.chars_be_between")]


def test_a_wrong_value_is_met_before_documents_wait(write: Write) -> None:
    suite = load_suite(write(between("chars", max_value=[1])), COLUMNS)
    with pytest.raises(SettingsError, match="suite mine: chars_be_between: refused by Great Expectations"):
        try_suite(suite, ["chars"])


# What a failing row becomes


def test_each_failing_row_is_a_finding_with_the_suites_code_severity_and_sentence(write: Write) -> None:
    marked = {"rule": "no_title", "score": 0.3}
    path = write(
        {**NOT_NULL, "severity": "info", "notes": "No title.", "meta": {"guard": marked}},
        {**between("chars", max_value=20), "notes": "{value} characters."},
    )
    versions = [a_version("short and plain"), a_version(declared={"title": "Pumps"})]
    hits = [(place, it.code, it.severity, it.score, it.message) for place, it in check(path).run(versions, None)]

    assert hits == [
        (0, "expectation.mine.no_title", Severity.INFO, 0.3, "No title."),
        (1, "expectation.mine.chars_be_between", Severity.HIGH, 0.9, "92 characters."),
    ]


def test_a_declared_text_is_in_no_message_and_cut_in_the_frame(write: Write) -> None:
    path = write(
        {
            "type": "expect_column_values_to_not_match_regex",
            "kwargs": {"column": "declared_title", "regex": "Zanzibar"},
            "notes": "The title is {value}.",
        }
    )
    version = a_version(declared={"title": "Zanzibar" * 1_000})
    ((_, hit),) = check(path).run([version], None)

    assert hit.message == "The title is none."
    assert build_frame([version], ["declared_title"]) == [
        {"row": 0, "declared_title": ("Zanzibar" * 25)[:DECLARED_CHARS]}
    ]


def test_a_suite_is_for_its_sources_and_trust_levels(write: Write) -> None:
    path = write(NOT_NULL, meta={"guard": {"sources": ["wiki"], "trust": ["open"]}})
    batch = [
        a_version(source="wiki", trust=TrustLevel.TRUSTED),
        a_version(source="handbook"),
        a_version(source="wiki"),
        a_version(source="wiki", uri="b", declared={"title": "x"}),
    ]
    suite = check(path)

    assert codes(suite, *batch) == [(2, "expectation.mine.declared_title_not_be_null")]
    assert [suite.applies_to(version) for version in batch] == [False, False, True, True]


@pytest.mark.parametrize("condition", ['source == "wiki"', 'declared_author == "Ada"', "score_unicode > 0.5"])
def test_a_row_condition_can_name_any_column(condition: str, write: Write) -> None:
    path = write(between("chars", max_value=5, row_condition=condition, condition_parser="pandas"))
    chosen = a_version(source="wiki", declared={"author": "Ada"})
    other = a_version(uri="other")
    suite = check(path).reading({chosen.version_id: [finding("unicode.bidi", score=0.9)]})

    assert codes(suite, other, chosen) == [(1, "expectation.mine.chars_be_between")]  # type: ignore[arg-type]


def test_an_age_is_days_from_the_last_change_to_the_fetch() -> None:
    changed = a_version(modified_at=datetime(2026, 2, 27, 12, tzinfo=UTC))
    assert build_frame([changed, a_version()], ["age_days"]) == [
        {"row": 0, "age_days": 2.0},
        {"row": 1, "age_days": None},
    ]


def test_every_column_has_a_value_for_an_ordinary_version() -> None:
    (row,) = build_frame([a_version(modified_at=datetime(2026, 2, 27, tzinfo=UTC), revision="r1")], list(COLUMNS))
    assert [column for column, value in row.items() if value is None] == []


# In a screening


def test_scores_are_of_findings_that_count_and_the_verdict_follows(write: Write) -> None:
    path = write({**between("score_unicode", max_value=0.4), "meta": {"guard": {"rule": "tricks"}}})

    class Unicode(Expectations):
        name = "unicode"
        reads_findings = False

        def applies_to(self, version: Version) -> bool:
            return True

        def run(self, batch: Any, survey: Any) -> Any:
            yield 0, finding("unicode.bidi", score=0.5)

    def verdict(**policy: Any) -> tuple[Verdict, list[str]]:
        (judgement,) = Screening(a_policy(**policy), [check(path), Unicode()]).judge([a_version()], None)
        return judgement.verdict, [it.code for it in judgement.findings]

    assert verdict() == (Verdict.QUARANTINE, ["expectation.mine.tricks", "unicode.bidi"])
    assert verdict(shadow=["unicode"]) == (Verdict.ACCEPT, ["unicode.bidi"])


def test_a_suite_without_a_clean_answer_leaves_the_version_unchecked(write: Write) -> None:
    path = write(between("chars", max_value=5, row_condition="source ==", condition_parser="pandas"))
    (judgement,) = Screening(a_policy(), [check(path)]).judge([a_version()], None)

    assert judgement.verdict is Verdict.QUARANTINE
    assert [it.code for it in judgement.findings] == ["expectation.unchecked"]


def test_an_edited_suite_is_another_digest(write: Write) -> None:
    first = check(write(between("chars", max_value=5))).digest
    assert check(write(between("chars", max_value=5))).digest == first
    assert check(write(between("chars", max_value=6))).digest != first
    assert check(write(between("chars", max_value=5), meta={"guard": {"trust": ["open"]}})).digest != first


# Those that come with the guard


def test_the_shipped_suites_are_accepted_by_great_expectations_and_pass_ordinary_versions() -> None:
    suites = load_suites(SHIPPED, COLUMNS)
    assert {suite.name for suite in suites} == {"freshness", "metadata", "origin"}
    for suite in suites:
        try_suite(suite, sorted(suite.columns(COLUMNS)))
    honest = [
        a_version(),
        a_version(uri="b.md", declared={"title": "Pumps\n", "author": "Åsa"}),
        a_version(uri="日本.md"),
    ]

    assert codes(Expectations(None, suites, tuple(COLUMNS)), *honest) == []


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (a_version(modified_at=datetime(2026, 3, 3, tzinfo=UTC)), "freshness.future"),
        (a_version(modified_at=datetime(1970, 1, 1, tzinfo=UTC)), "freshness.unset"),
        (a_version(owner=""), "origin.owner"),
        (a_version(uri=""), "origin.place"),
        (a_version(uri="a\x1b[2Jb"), "origin.control"),
        (a_version(declared={"title": "a\x00"}), "metadata.title_control"),
        (a_version(declared={"author": "a\x1b"}), "metadata.author_control"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_shipped_suites_find_what_they_are_for(version: Version, code: str) -> None:
    suites = load_suites(SHIPPED, COLUMNS)
    assert codes(Expectations(None, suites, tuple(COLUMNS)), a_version(uri="c"), version) == [
        (1, f"expectation.{code}")
    ]
