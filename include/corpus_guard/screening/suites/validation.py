"""Great Expectations, asked which rows of a frame fail a suite.

Rules
- A suite is asked for a yes or no first, a third of the work (1.24.1); what fails is asked again for its rows.
- Of the answer only the numbers of rows are read. Great Expectations keeps failing values in its results: they
  are written nowhere. `corpus_guard.pipeline.data_docs` shows counts.
- A result counts only when it is a clean pass, or a failure that names its rows. An exception inside a metric
  comes back as a failure without rows (1.24.1): that raises `Unvalidated`, and no row counts as checked.

Importing Great Expectations takes two seconds and, where a log level lets it, prints some 250 lines: only the
functions here do it, once a process.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from string import Template
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from corpus_guard.domain import Finding, Severity
from corpus_guard.errors import Inconsistent, SettingsError
from corpus_guard.screening.suites.frame import ROW, Value
from corpus_guard.screening.suites.suite import Expectation, Suite

if TYPE_CHECKING:
    import pandas as pd
    from great_expectations.core import ExpectationValidationResult
    from great_expectations.core.batch_definition import BatchDefinition

_ANY_VALUE: Final = {"trust": "open", "media_type": "text/plain"}
_lock = Lock()  # a GX context is not made for several threads


class Unvalidated(Inconsistent):
    """The suite did not say which rows pass and which fail."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A row that broke an expectation."""

    row: int
    expectation: Expectation


def find_failures(rows: Sequence[Mapping[str, Value]], expectations: Sequence[Expectation]) -> Iterator[Failure]:
    """Validate rows and yield what fails.

    Args:
        rows: dicts with ROW (0, 1, 2, …) and every column that an expectation names.

    Raises:
        Unvalidated: an expectation gave no clean answer. Failures already yielded must be thrown away.
    """
    import pandas as pd

    suite = dict(enumerate(expectations))
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
            raise Unvalidated(
                f"{expectation.type} on {', '.join(expectation.columns)}: no clean answer for {len(rows)} rows, expected a "
                "pass or the failing rows; all rows count as unchecked"
            )
        for entry in failing:
            yield Failure(int(entry[ROW]), expectation)


def describe_failure(
    check: str, code: str, failure: Failure, row: Mapping[str, Value], tags: tuple[str, ...] = ()
) -> Finding:
    """Return the finding for a failure; the row's value is shown only where it is a number."""
    severity, score = failure.expectation.strength
    columns = failure.expectation.columns
    message = failure.expectation.message.replace("{value}", _format(row[columns[0]]) if columns else "")
    return Finding(check, code, severity, score, message, tags=tags if severity.rank >= Severity.MEDIUM.rank else ())


def try_suite(suite: Suite, columns: Sequence[str]) -> None:
    """Validate a made-up row, so that an argument that Great Expectations refuses is met before documents wait.

    Raises:
        SettingsError: Great Expectations refuses an argument, or a condition cannot be read.
    """
    row: dict[str, Value] = {ROW: 0, **{column: _ANY_VALUE.get(column, 1) for column in columns}}
    for expectation in suite.expectations:
        text = {"regex", "regex_list", "strftime_format", "value"} & set(expectation.kwargs)
        lengths = expectation.type.startswith("expect_column_value_lengths") or "dateutil" in expectation.type
        sample = row | (dict.fromkeys(expectation.columns, "text") if text or lengths else {})
        try:
            list(find_failures([sample], [expectation]))
        except Exception as error:  # pydantic's, GX's or pandas' own; the row is made up, so the text may be shown
            reason = str(error).strip().splitlines()
            raise SettingsError(
                f"suite {suite.name}: {expectation.rule}: refused by Great Expectations: {' '.join(reason)[:300]}"
            ) from error


def word_expectation(expectation: Expectation) -> str:
    """Return the sentence in which Great Expectations' renderer states an expectation, as plain text."""
    _batch_definition()  # quiets it
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration
    from great_expectations.render.renderer.inline_renderer import InlineRenderer

    configuration = ExpectationConfiguration(type=expectation.type, kwargs=dict(expectation.kwargs))
    rendered = InlineRenderer(render_object=configuration).get_rendered_content()
    value = rendered[0].value
    values = {name: parameter["value"] for name, parameter in (value.params or {}).items()}
    return Template(value.template or expectation.type).safe_substitute(values)


def _validate(
    frame: pd.DataFrame, suite: Mapping[int, Expectation], result_format: Mapping[str, object]
) -> dict[int, ExpectationValidationResult]:
    """Return Great Expectations' answer to each rule of the suite, by its number."""
    with _lock:
        batch_definition = _batch_definition()
        import great_expectations as gx

        expectations = [expectation.configuration(number) for number, expectation in suite.items()]
        batch = batch_definition.get_batch(batch_parameters={"dataframe": frame})
        outcome = batch.validate(
            gx.ExpectationSuite(name="batch", expectations=expectations), result_format=dict(result_format)
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


def _format(value: Value) -> str:
    if isinstance(value, float):
        return f"{value:,.4g}"
    return f"{value:,}" if isinstance(value, int) else "none"
