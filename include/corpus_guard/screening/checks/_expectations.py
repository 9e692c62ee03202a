"""Great Expectations suite of the check `structure`.

Rules
- The frame holds ids, hashes, lengths, ratios and words from fixed lists. Never text: Great Expectations
  keeps failing values in its results, and its Data Docs print them unescaped (1.24.1).
- Map expectations skip nulls, so every expected column has a not-null expectation beside it.
- The suite is asked for a yes or no first, a third of the work (1.24.1); what fails is asked again for its rows.
- A result counts only when it is a clean pass, or a failure that names its rows. An exception inside a metric
  comes back as a failure without rows (1.24.1): that raises `Unvalidated`, and no row counts as checked.

Importing Great Expectations takes two seconds and, where a log level lets it, prints some 250 lines: only
`find_failures` does it, once a process.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from corpus_guard.domain import Severity
from corpus_guard.errors import Inconsistent

if TYPE_CHECKING:
    import pandas as pd
    from great_expectations.core import ExpectationValidationResult
    from great_expectations.core.batch_definition import BatchDefinition

ROW: Final = "row"  # column of the frame that names failing rows
_GX_SEVERITY: Final = {0: "info", 1: "info", 2: "warning", 3: "critical", 4: "critical"}  # by rank
_lock = Lock()  # a GX context is not made for several threads

Value: TypeAlias = str | int | float


class Unvalidated(Inconsistent):
    """The suite did not say which rows pass and which fail."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """Expectation on one column, and the finding for a row that breaks it."""

    code: str  # of the finding, after "structure."
    column: str
    expect: str  # a GX class without its prefix "ExpectColumnValuesTo"
    arguments: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    severity: Severity = Severity.HIGH
    score: float = 0.9  # 0..1
    message: str = ""  # may hold {value}: the row's value, for numbers only


@dataclass(frozen=True, slots=True)
class Failure:
    """A row that broke an expectation."""

    row: int
    expectation: Expectation


def find_failures(rows: Sequence[Mapping[str, Value]], expectations: Sequence[Expectation]) -> Iterator[Failure]:
    """Validate rows and yield what fails.

    Args:
        rows: dicts with ROW (0, 1, 2, …) and every column that an expectation names.
        expectations: the suite.

    Raises:
        Unvalidated: an expectation gave no clean answer. Failures already yielded must be thrown away.
    """
    import pandas as pd

    suite = dict(enumerate((*_not_null(expectations), *expectations)))
    frame = pd.DataFrame(list(rows))
    answers = _validate(frame, suite, {"result_format": "BOOLEAN_ONLY"})
    failed = {rule: suite[rule] for rule in suite if rule not in answers or not _is_pass(answers[rule])}
    if not failed:
        return
    named = {"result_format": "COMPLETE", "unexpected_index_column_names": [ROW]}
    answers = _validate(frame, failed, named)
    for rule, expectation in failed.items():
        answer = answers.get(rule)
        failing = answer.result.get("unexpected_index_list") if answer else None
        if (
            answer is None
            or _has_raised(answer.exception_info)
            or not failing
            or len(failing) != answer.result.get("unexpected_count")
        ):
            raise Unvalidated(_no_clean_answer(expectation, len(rows)))
        for entry in failing:
            yield Failure(int(entry[ROW]), expectation)


def _not_null(expectations: Sequence[Expectation]) -> Iterator[Expectation]:
    codes = {expectation.column: expectation.code for expectation in reversed(expectations)}
    for column, code in codes.items():
        yield Expectation(code, column, "NotBeNull", message=f"A measure is missing: {column}.")


def _validate(
    frame: pd.DataFrame, suite: Mapping[int, Expectation], result_format: Mapping[str, object]
) -> dict[int, ExpectationValidationResult]:
    """Return Great Expectations' answer to each rule of the suite, by its number."""
    with _lock:
        batch_definition = _batch_definition()
        import great_expectations as gx
        import great_expectations.expectations as gxe

        expectations = [
            getattr(gxe, f"ExpectColumnValuesTo{expectation.expect}")(
                column=expectation.column,
                severity=_GX_SEVERITY[expectation.severity.rank],
                meta={"rule": number, "code": expectation.code},
                **expectation.arguments,
            )
            for number, expectation in suite.items()
        ]
        batch = batch_definition.get_batch(batch_parameters={"dataframe": frame})
        outcome = batch.validate(
            gx.ExpectationSuite(name="structure", expectations=expectations), result_format=dict(result_format)
        )
        return {int(result.expectation_config.meta["rule"]): result for result in outcome.results}


@cache
def _batch_definition() -> BatchDefinition[Any]:
    os.environ["GX_ANALYTICS_ENABLED"] = "false"  # read at import
    logging.getLogger("great_expectations").setLevel(logging.WARNING)
    import great_expectations as gx
    from great_expectations.data_context.types.base import (
        DataContextConfig,
        InMemoryStoreBackendDefaults,
        ProgressBarsConfig,
    )

    # The default ephemeral context comes with a Data Docs site in a temporary folder; this one has none.
    config = DataContextConfig(
        store_backend_defaults=InMemoryStoreBackendDefaults(init_temp_docs_sites=False),
        analytics_enabled=False,
        progress_bars=ProgressBarsConfig(globally=False),
    )
    context = gx.get_context(mode="ephemeral", project_config=config)
    asset = context.data_sources.add_pandas("screening").add_dataframe_asset("versions")
    return asset.add_batch_definition_whole_dataframe("batch")


def _is_pass(result: ExpectationValidationResult) -> bool:
    return result.success is True and not _has_raised(result.exception_info)


def _has_raised(info: Mapping[str, object] | None) -> bool:
    # Two shapes (1.24.1): one record, or one record for each metric that failed.
    if not info:
        return False
    if "raised_exception" in info:
        return bool(info["raised_exception"])
    return any(not isinstance(record, Mapping) or record.get("raised_exception", True) for record in info.values())


def _no_clean_answer(expectation: Expectation, count: int) -> str:
    return (
        f"expectation {expectation.expect} on column {expectation.column}: no clean answer for {count} rows, expected a pass "
        "or the failing rows; all rows count as unchecked"
    )
