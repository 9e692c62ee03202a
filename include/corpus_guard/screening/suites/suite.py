"""Suites of expectations in Great Expectations' own file format, as YAML or JSON.

name: freshness                       # of the suite, and of the file: freshness.yaml
meta:
  guard: {sources: [wiki], trust: [open]}   # which versions it is for; without them, all
expectations:
  - type: expect_column_values_to_be_between
    kwargs: {column: age_days, max_value: 730}
    severity: warning                 # critical: high; warning: medium; info: info
    notes: The page was not changed for two years.   # the sentence that a reviewer reads
    meta:
      guard: {rule: outdated}         # the finding's code is expectation.freshness.outdated

Rules
- Only expectations that name the rows that fail are taken, and only those whose answer for one row does not
  depend on the others: a verdict must not depend on which documents happen to share a batch. For the same
  reason ``mostly`` is refused.
- Unknown types, arguments, columns and keys are refused when the file is loaded, not when documents wait. A
  wrong value (a text where a number belongs) is met by `validation.try_suite`, which `guard expectations
  check` calls, and otherwise leaves every document unchecked.
- Nulls pass, as in Great Expectations; ``expect_column_values_to_not_be_null`` says otherwise.
- ``{"$PARAMETER": name}`` takes a value from the check's parameters, as suite parameters do; within notes and row
  conditions ``{$name}`` does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from corpus_guard.domain import Severity, TrustLevel, canonical_json, digest
from corpus_guard.errors import SettingsError
from corpus_guard.settings import load_yaml

SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})
PARAMETER: Final = "$PARAMETER"
_NAMED: Final = re.compile(r"\{\$(\w+)\}")

_RANGE: Final = frozenset({"min_value", "max_value", "strict_min", "strict_max"})
_COLUMNS: Final = ("column", "column_A", "column_B", "column_list")
_SHARED: Final = frozenset({"row_condition", "condition_parser", "ignore_row_if"})
ROW_EXPECTATIONS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "expect_column_values_to_be_between": _RANGE | {"column"},
        "expect_column_values_to_be_in_set": frozenset({"column", "value_set"}),
        "expect_column_values_to_not_be_in_set": frozenset({"column", "value_set"}),
        "expect_column_values_to_be_null": frozenset({"column"}),
        "expect_column_values_to_not_be_null": frozenset({"column"}),
        "expect_column_values_to_match_regex": frozenset({"column", "regex"}),
        "expect_column_values_to_not_match_regex": frozenset({"column", "regex"}),
        "expect_column_values_to_match_regex_list": frozenset({"column", "regex_list", "match_on"}),
        "expect_column_values_to_not_match_regex_list": frozenset({"column", "regex_list"}),
        "expect_column_values_to_be_dateutil_parseable": frozenset({"column"}),
        "expect_column_values_to_match_strftime_format": frozenset({"column", "strftime_format"}),
        "expect_column_value_lengths_to_be_between": _RANGE | {"column"},
        "expect_column_value_lengths_to_equal": frozenset({"column", "value"}),
        "expect_column_pair_values_a_to_be_greater_than_b": frozenset({"column_A", "column_B", "or_equal"}),
        "expect_column_pair_values_to_be_equal": frozenset({"column_A", "column_B"}),
        "expect_column_pair_values_to_be_in_set": frozenset({"column_A", "column_B", "value_pairs_set"}),
        "expect_multicolumn_values_to_be_equal": frozenset({"column_list"}),
        "expect_multicolumn_sum_to_equal": frozenset({"column_list", "sum_total"}),
        "expect_select_column_values_to_be_unique_within_record": frozenset({"column_list"}),
    }
)
"""Types that a suite may use, with the arguments of their own (great_expectations 1.24.1)."""

_Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,60}$")]
_BY_SEVERITY: Final[Mapping[str, tuple[Severity, float]]] = MappingProxyType(
    {"critical": (Severity.HIGH, 0.9), "warning": (Severity.MEDIUM, 0.5), "info": (Severity.INFO, 0.2)}
)
_PREFIX: Final = re.compile(r"^expect_(column_values_to_|column_|multicolumn_|select_column_)?")
_WORD: Final = re.compile(r"[A-Za-z_]\w*")


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ExpectationMarks(_Part):
    """Additions of the guard to an expectation, under ``meta.guard``."""

    rule: _Name | None = None
    severity: Severity | None = None
    score: float | None = Field(default=None, ge=0, le=1)


class _ExpectationMeta(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow")  # Great Expectations leaves it to its users

    guard: ExpectationMarks = ExpectationMarks()


class Expectation(_Part):
    """One expectation, and the finding for a row that breaks it."""

    type: str
    kwargs: dict[str, Any]
    severity: Literal["critical", "warning", "info"] = "critical"
    notes: str | None = Field(default=None, max_length=300)
    """The sentence of the finding; ``{value}`` is the row's value where that is a number."""
    meta: _ExpectationMeta = _ExpectationMeta()
    id: str | None = None
    description: str | None = None
    rendered_content: list[Any] | None = None

    @property
    def rule(self) -> str:
        """Return the last part of the finding's code."""
        default = "_".join([*self.columns[:1], _PREFIX.sub("", self.type)])
        return self.meta.guard.rule or default

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that the arguments name."""
        named = (self.kwargs.get(key) for key in _COLUMNS)
        return tuple(str(name) for value in named if value for name in (value if isinstance(value, list) else [value]))

    @property
    def strength(self) -> tuple[Severity, float]:
        """Return severity and score of the finding."""
        severity, score = _BY_SEVERITY[self.severity]
        marks = self.meta.guard
        return marks.severity or severity, score if marks.score is None else marks.score

    @property
    def message(self) -> str:
        """Return the sentence of the finding."""
        return self.notes or f"{', '.join(self.columns)}: {self.type.removeprefix('expect_').replace('_', ' ')} fails."

    def configuration(self, number: int) -> dict[str, Any]:
        """Return Great Expectations' configuration, marked with `number`."""
        return {"type": self.type, "kwargs": self.kwargs, "severity": self.severity, "meta": {"rule": number}}


class SuiteMarks(_Part):
    """Additions of the guard to a suite, under ``meta.guard``: which versions it is for."""

    sources: frozenset[str] = frozenset()
    trust: frozenset[TrustLevel] = frozenset()


class _SuiteMeta(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow")

    guard: SuiteMarks = SuiteMarks()


class SuiteFile(_Part):
    """A suite file, as `great_expectations.ExpectationSuite.to_json_dict` writes it."""

    name: _Name
    expectations: tuple[Expectation, ...] = Field(min_length=1)
    meta: _SuiteMeta = _SuiteMeta()
    id: str | None = None
    notes: str | list[str] | None = None
    suite_parameters: dict[str, Any] = Field(default_factory=dict)


@dataclass(frozen=True)
class Suite:
    """Expectations that versions of some sources must meet."""

    name: str
    expectations: tuple[Expectation, ...]
    marks: SuiteMarks

    def applies_to(self, source: str, trust: TrustLevel) -> bool:
        """Return True if the suite is for versions of this source and trust level."""
        marks = self.marks
        return (not marks.sources or source in marks.sources) and (not marks.trust or trust in marks.trust)

    @property
    def digest(self) -> str:
        """Return the identity of everything that decides."""
        marks = {"sources": sorted(self.marks.sources), "trust": sorted(self.marks.trust)}
        rules = [expectation.model_dump(mode="json") for expectation in self.expectations]
        return digest("suite/v1", [self.name, canonical_json([marks, rules]).decode()])

    def columns(self, known_columns: Collection[str]) -> set[str]:
        """Return the columns that the frame needs, those of row conditions included."""
        conditions = (str(expectation.kwargs.get("row_condition") or "") for expectation in self.expectations)
        in_conditions = {word for condition in conditions for word in _WORD.findall(condition)}
        declared = {word for word in in_conditions if word.startswith("declared_")}
        named = {column for expectation in self.expectations for column in expectation.columns}
        return named | declared | (in_conditions & set(known_columns))


def load_suite(
    path: Path, known_columns: Collection[str], parameters: Mapping[str, object] = MappingProxyType({})
) -> Suite:
    """Read one suite file.

    Args:
        path: the file; its name without the suffix is the suite's.
        known_columns: of the frame; ``declared_…`` are known always.
        parameters: values for ``{"$PARAMETER": name}``.

    Raises:
        SettingsError: the file is malformed, or uses an unknown type, argument, column or parameter.
    """
    file = load_yaml(path, SuiteFile)
    if file.name != path.stem:
        raise SettingsError(f"{path}: name: {file.name}, expected {path.stem}: a suite has the name of its file")
    values = {**file.suite_parameters, **parameters}
    expectations = []
    for position, expectation in enumerate(file.expectations):
        problem = next(_problems(expectation, known_columns), None)
        if problem:
            raise SettingsError(f"{path}: expectations.{position}: {problem}")
        kwargs = {key: _replace_parameters(value, values, path) for key, value in expectation.kwargs.items()}
        if condition := kwargs.get("row_condition"):
            kwargs["row_condition"] = _fill_in(str(condition), values, path, str)
        notes = expectation.notes and _fill_in(expectation.notes, values, path, _format)
        expectations.append(expectation.model_copy(update={"kwargs": kwargs, "notes": notes}))
    return Suite(file.name, tuple(expectations), file.meta.guard)


def load_suites(folder: Path, known_columns: Collection[str]) -> tuple[Suite, ...]:
    """Read every suite of a folder, by name. Raise SettingsError as `load_suite` does."""
    files = sorted(path for path in folder.glob("*") if path.suffix in SUFFIXES) if folder.is_dir() else []
    suites = [load_suite(path, known_columns) for path in files]
    for first, second in pairwise(files):
        if first.stem == second.stem:
            raise SettingsError(f"{second}: the suite {second.stem} is in {first.name} already; rename one of the two")
    return tuple(suites)


def _problems(expectation: Expectation, known_columns: Collection[str]) -> Iterator[str]:
    own = ROW_EXPECTATIONS.get(expectation.type)
    if own is None:
        names = ", ".join(sorted(ROW_EXPECTATIONS))
        yield f"type: {expectation.type} is unknown, or does not name the rows that fail; expected one of: {names}"
        return
    if expectation.kwargs.get("mostly", 1) != 1:
        yield "kwargs.mostly: a verdict must not depend on the other documents of a batch; remove it"
    unknown = sorted(set(expectation.kwargs) - own - _SHARED - {"mostly"})
    if unknown:
        yield f"kwargs.{unknown[0]}: unknown argument; {expectation.type} takes: {', '.join(sorted(own | _SHARED))}"
    needed = sorted(key for key in _COLUMNS if key in own and key not in expectation.kwargs)
    if needed:
        yield f"kwargs.{needed[0]}: missing; name the column"
    for column in expectation.columns:
        if column not in known_columns and not column.startswith("declared_"):
            yield f"kwargs: no column {column}; known: {', '.join(sorted(known_columns))}, and declared_ with a name of a declared value"


def _replace_parameters(value: Any, parameters: Mapping[str, object], path: Path) -> Any:
    if not isinstance(value, dict) or set(value) != {PARAMETER}:
        return value
    if value[PARAMETER] not in parameters:
        raise SettingsError(
            f"{path}: no parameter {value[PARAMETER]}; known: {', '.join(sorted(parameters)) or 'none'}"
        )
    given_value = parameters[value[PARAMETER]]
    return list(given_value) if isinstance(given_value, tuple) else given_value


def _fill_in(text: str, parameters: Mapping[str, object], path: Path, write: Callable[[object], str]) -> str:
    """Return the text with the value of each ``{$name}`` in its place."""
    return _NAMED.sub(lambda match: write(_replace_parameters({PARAMETER: match[1]}, parameters, path)), text)


def _format(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
