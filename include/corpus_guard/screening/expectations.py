"""The Great Expectations suite of the check `structure`, and how it is run.

Rules
- The frame holds ids, hashes, lengths, ratios and words from fixed lists. Never text: Great Expectations keeps failing
  values in its results, and its Data Docs print them unescaped (1.24.1).
- Map expectations skip nulls, so every column a rule looks at has a not-null expectation beside it.
- A result counts only when it is a clean pass, or a failure that names its rows. An exception inside a metric comes
  back as a failure without rows (1.24.1): that is `Unvalidated`, and nothing is known of any row.

Importing Great Expectations takes two seconds and, where a log level lets it, prints some 250 lines: only `failures`
does it, once a process.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from threading import Lock
from types import MappingProxyType
from typing import Any, Final

from corpus_guard.domain import Severity
from corpus_guard.errors import Inconsistent

ROW: Final = "row"  # the frame's column by which failing rows are named
_SEVERITY: Final = {0: "info", 1: "info", 2: "warning", 3: "critical", 4: "critical"}  # by rank, in GX's words
_lock = Lock()  # a GX context is not made for several threads


class Unvalidated(Inconsistent):
    """The suite did not say which rows pass and which fail."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One expectation on one column."""

    code: str  # of the finding: "structure.<what>"
    column: str
    expect: str  # a GX class without its prefix "ExpectColumnValuesTo"
    arguments: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    severity: Severity = Severity.HIGH
    score: float = 0.9  # 0..1
    message: str = ""  # plain language; may hold {found}: the row's value, for numbers only


@dataclass(frozen=True, slots=True)
class Failure:
    """A row that broke a rule."""

    row: int
    rule: Rule


def failures(rows: Sequence[Mapping[str, Any]], rules: Sequence[Rule]) -> Iterator[Failure]:
    """Validate `rows`: dicts with ROW (0, 1, 2, …) and every column that a rule names.

    Raises:
        Unvalidated: an expectation gave no clean answer. Failures already yielded must be thrown away.
    """
    import pandas as pd

    rules = (*_not_null(rules), *rules)
    results = _validate(pd.DataFrame(list(rows)), rules)
    answered = set()
    for result in results:
        number = int(result.expectation_config.meta["rule"])
        answered.add(number)
        raised = _raised(result.exception_info)
        if result.success is True and not raised:
            continue
        named = result.result.get("unexpected_index_list") or []
        if raised or not named or len(named) != result.result.get("unexpected_count"):
            raise Unvalidated(_complaint(rules[number], len(rows)))
        for entry in named:
            yield Failure(int(entry[ROW]), rules[number])
    for number in sorted(set(range(len(rules))) - answered):
        raise Unvalidated(_complaint(rules[number], len(rows)))


def _not_null(rules: Sequence[Rule]) -> Iterator[Rule]:
    for column, code in {rule.column: rule.code for rule in reversed(rules)}.items():
        yield Rule(code, column, "NotBeNull", message=f"A measure is missing: {column}.")


def _validate(frame: Any, rules: Sequence[Rule]) -> list[Any]:
    with _lock:
        batch_definition = _batch_definition()
        import great_expectations as gx
        import great_expectations.expectations as gxe

        expectations = [
            getattr(gxe, f"ExpectColumnValuesTo{rule.expect}")(
                column=rule.column,
                severity=_SEVERITY[rule.severity.rank],
                meta={"rule": number, "code": rule.code},
                **rule.arguments,
            )
            for number, rule in enumerate(rules)
        ]
        batch = batch_definition.get_batch(batch_parameters={"dataframe": frame})
        outcome = batch.validate(
            gx.ExpectationSuite(name="structure", expectations=expectations),
            result_format={"result_format": "COMPLETE", "unexpected_index_column_names": [ROW]},
        )
        return list(outcome.results)


@cache
def _batch_definition() -> Any:
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


def _raised(info: Mapping[str, Any] | None) -> bool:
    # Two shapes (1.24.1): one record, or one record for each metric that failed.
    if not info:
        return False
    if "raised_exception" in info:
        return bool(info["raised_exception"])
    return any(not isinstance(record, Mapping) or record.get("raised_exception", True) for record in info.values())


def _complaint(rule: Rule, count: int) -> str:
    return (
        f"expectation {rule.expect} on column {rule.column}: no clean answer for {count} rows, expected a pass or the "
        "failing rows; all of them count as unchecked"
    )
