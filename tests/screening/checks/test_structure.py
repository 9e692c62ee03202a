import json
import logging
import subprocess
import sys
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256

import pytest
from sample_versions import a_version, changed, stamped

from corpus_guard.domain import Severity
from corpus_guard.screening.checks import structure
from corpus_guard.screening.checks.structure import Structure, StructureParams
from corpus_guard.screening.suites import validation
from corpus_guard.screening.suites.suite import Expectation
from corpus_guard.screening.suites.validation import Unvalidated, find_failures

SECRET = "Zanzibarquartz"


def found(*batch, **params):
    hits = list(Structure(StructureParams(**params)).run(batch, None))
    assert not any(SECRET in finding.message for _, finding in hits)
    return [(position, finding.code.removeprefix("structure."), finding.severity) for position, finding in hits]


def chunked(**fields):
    version = a_version()
    return changed(version, chunks=(replace(version.chunks[0], **fields),))


def test_whole_versions_pass():
    assert not found(*(a_version(uri=f"{n}.md") for n in range(20)))
    assert not found()


HIGH, MEDIUM, LOW = Severity.HIGH, Severity.MEDIUM, Severity.LOW

# A binary file as MIME and PEM write it: lines of 64 letters.
BLOB = b64encode(b"".join(sha256(bytes([n])).digest() for n in range(40))).decode()
WALL = [BLOB[start : start + 64] for start in range(0, len(BLOB), 64)]
TABLE = "|      | 1965          | 1970          |\n" + "".join(
    f"| {year} | {year * 1701:>13,} | {year * 977:>13,} |\n" for year in range(1900, 1990)
)
CSV = "t,ph,ntu\n" + "\n".join(f"{n},{7 + n / 100:.2f},{n * 3 % 17}" for n in range(400))
CHECKSUMS = "\n".join(f"{sha256(bytes([n])).hexdigest()}  tide-{n}.csv" for n in range(60))
CODE = "\n".join(f"    0x{n * 37:04x}: [{n}, {n + 1}, {n * n}],  # {'=' * 12}" for n in range(80))
CERTIFICATE = (
    "The gateway sends this certificate:\n\n" + "\n".join(WALL[:3]) + "\n\nCompare its fingerprint with the label."
)


@pytest.mark.parametrize("text", [TABLE, CSV, CHECKSUMS, CODE, CERTIFICATE, "1 2 3 4 5 6 7 8 9 | " * 20])
def test_numbers_and_code_are_honest(text):
    assert not found(a_version(text, tokens=9))


@pytest.mark.parametrize(
    ("version", "code", "severity"),
    [
        (changed(a_version(), version_id="not hexadecimal"), "id", HIGH),
        (changed(a_version(), version_id="a" * 33), "id", HIGH),
        (changed(a_version(), version_id="a" * 32 + "\n"), "id", HIGH),
        (changed(a_version(), doc_id=""), "id", HIGH),
        (changed(a_version(), doc_id=None), "id", HIGH),
        (a_version(content_sha256="F" * 64), "digest", HIGH),
        (stamped(a_version(), content_sha256=None), "digest", HIGH),
        (a_version(trust="divine"), "trust", HIGH),
        (a_version(media_type=f"text/{SECRET} <script>"), "media_type", MEDIUM),
        (a_version(media_type="image/png"), "media_type", MEDIUM),
        (a_version(size=0), "bytes", MEDIUM),
        (a_version(size=None), "bytes", HIGH),
        (a_version("too short"), "too_short", LOW),
        (chunked(text=SECRET), "chunks", HIGH),
        (chunked(start=1), "chunks", HIGH),
        (chunked(ordinal=1), "chunks", HIGH),
        (chunked(end=10_000), "chunks", HIGH),
        (chunked(tokens=513), "chunk_tokens", MEDIUM),
        (a_version("Some honest words of prose, decoded badly " + "\ufffd" * 5), "control", MEDIUM),
        (a_version("!?&% §$)( ;;:: -- .,.. " * 20, tokens=9), "illegible", MEDIUM),
        (a_version("\n".join(WALL), tokens=9), "encoded", MEDIUM),
        (a_version(f"{SECRET} is short and clean", hidden="h" * 2_001), "hidden", LOW),
        (a_version("Some words, then " + "x" * 2001, tokens=9), "longest_run", MEDIUM),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_not_whole_or_past_a_limit_is_found_and_its_neighbours_are_not(version, code, severity):
    before, after = a_version(uri="before"), a_version(uri="after")
    assert (1, code, severity) in found(before, version, after)
    assert {position for position, _, _ in found(before, version, after)} == {1}


def test_limits_are_parameters():
    version = a_version(f"{SECRET}. " * 20, hidden="h" * 10, tokens=40)
    assert not found(version)
    limits = {
        "min_chars": 9999,
        "max_chars": 10,
        "max_hidden": 0.0,
        "min_hidden": 9,
        "max_run": 100,
        "max_chunk_tokens": 39,
        "min_legible": 1,
    }
    codes = {"too_short", "too_long", "hidden", "chunk_tokens", "illegible", "media_type"}
    assert {code for _, code, _ in found(version, **limits, media_types=("text/html",))} == codes


def test_a_short_page_may_hold_the_licence_and_the_marks_that_its_program_writes():
    page = f"{SECRET} is all that this page of a reference says"
    assert not found(a_version(page, hidden="h" * 2_000))
    assert found(a_version(page, hidden="h" * 2_001)) == [(0, "hidden", LOW)]
    assert not found(a_version(f"{page}. " * 40, hidden="h" * 2_001, tokens=40))


def test_chunks_must_stand_in_order():
    version = a_version("one two three four five six")
    first, second = (
        replace(version.chunks[0], ordinal=n, start=n * 8, end=n * 8 + 7, text=version.text[n * 8 : n * 8 + 7])
        for n in (0, 1)
    )
    assert not found(changed(version, chunks=(first, second)))
    assert (0, "chunks", HIGH) in found(
        changed(version, chunks=(replace(second, ordinal=0), replace(first, ordinal=1)))
    )


def test_the_same_version_twice_in_a_batch():
    assert found(a_version(), a_version(uri="other"), a_version()) == [(0, "twice", HIGH), (2, "twice", HIGH)]


@pytest.mark.parametrize(
    ("text", "code"), [("", "too_short"), ("a" * 5_000_000, "longest_run"), ("中" * 5000, "longest_run")]
)
def test_hostile_text(text, code):
    assert (0, code, LOW if code == "too_short" else MEDIUM) in found(a_version(text, tokens=1))


def test_lone_surrogates_are_control_characters_and_raise_nothing():
    assert found(a_version("\ud800" * 30)) == [(0, "control", MEDIUM), (0, "illegible", MEDIUM)]


def test_a_message_tells_the_number_found_and_the_limit():
    ((_, finding),) = Structure().run([a_version("Some words, then " + "x" * 2001, tokens=9)], None)
    assert "2,001" in finding.message and "2,000" in finding.message


def test_no_text_reaches_the_suite(monkeypatch):
    seen = []
    monkeypatch.setattr(structure, "find_failures", lambda rows, rules: seen.append(repr(rows)) or iter(()))
    version = a_version(f"{SECRET} text", hidden=SECRET, declared={"title": SECRET}, media_type=SECRET, owner=SECRET)
    found(version)
    assert seen and SECRET not in seen[0]


# Fails closed


@pytest.mark.parametrize("column", [["a"], {"a": 1}, object()], ids=["list", "dict", "object"])
def test_a_value_that_breaks_a_metric_makes_the_whole_batch_unchecked(column):
    batch = [a_version(uri="1"), a_version(uri="2", size=column)]
    assert found(*batch) == [(0, "unchecked", HIGH), (1, "unchecked", HIGH)]


def test_an_exception_makes_the_whole_batch_unchecked_and_tells_only_its_type(monkeypatch, caplog):
    def broken(rows, suite):
        raise RuntimeError(SECRET)

    monkeypatch.setattr(structure, "find_failures", broken)
    hits = list(Structure().run([a_version(), a_version(uri="2")], None))
    assert [(position, finding.code) for position, finding in hits] == [(n, "structure.unchecked") for n in (0, 1)]
    assert "RuntimeError" in hits[0][1].message and SECRET not in hits[0][1].message + caplog.text


def test_a_failure_after_the_first_rows_still_makes_everything_unchecked(monkeypatch):
    def half(rows, suite):
        yield validation.Failure(0, suite[0])
        raise Unvalidated("half way")

    monkeypatch.setattr(structure, "find_failures", half)
    assert found(a_version(), a_version(uri="2")) == [(0, "unchecked", HIGH), (1, "unchecked", HIGH)]


def at_least_zero(column):
    return Expectation(type="expect_column_values_to_be_between", kwargs={"column": column, "min_value": 0})


NOT_NULL = Expectation(type="expect_column_values_to_not_be_null", kwargs={"column": "x"})


class Answer:
    """A result as Great Expectations gives it."""

    def __init__(self, rule, success=True, exception_info=None, **result):
        self.rule = rule
        self.success, self.result, self.exception_info = success, result, exception_info


NAMED = {"unexpected_index_list": [{"row": 0}], "unexpected_count": 1}


@pytest.mark.parametrize(
    "answers",
    [
        [],
        [Answer(0)],
        [Answer(0), Answer(1, success=False)],
        [Answer(0), Answer(1, success=None)],
        [Answer(0), Answer(1, success=False, unexpected_index_list=[], unexpected_count=1)],
        [Answer(0), Answer(1, success=False, unexpected_index_list=[], unexpected_count=0)],
        [Answer(0), Answer(1, success=False, unexpected_index_list=[{"row": 0}], unexpected_count=2)],
        [Answer(0), Answer(1, success=False, exception_info={"raised_exception": True}, **NAMED)],
        [Answer(0), Answer(1, exception_info={"raised_exception": True})],
        [Answer(0), Answer(1, exception_info={"metric": {"raised_exception": True}})],
        [Answer(0), Answer(1, exception_info={"metric": "?"})],
    ],
)
def test_an_answer_that_is_not_clean_is_no_answer(monkeypatch, answers):
    monkeypatch.setattr(
        validation,
        "_validate",
        lambda frame, suite, result_format: {answer.rule: answer for answer in answers if answer.rule in suite},
    )
    with pytest.raises(Unvalidated, match="1 rows"):
        list(find_failures([{"row": 0, "x": 1}], [NOT_NULL, at_least_zero("x")]))


def test_a_column_that_is_not_there_is_no_answer():
    with pytest.raises(Unvalidated, match="absent"):
        list(find_failures([{"row": 0, "x": 1}], [at_least_zero("absent")]))


def test_a_missing_value_passes_as_in_great_expectations_unless_the_suite_says_otherwise():
    for missing in (None, float("nan")):
        rows = [{"row": 0, "x": 1.0}, {"row": 1, "x": missing}]
        assert not list(find_failures(rows, [at_least_zero("x")]))
        assert [failure.row for failure in find_failures(rows, [NOT_NULL, at_least_zero("x")])] == [1]


# Manners


SCRIPT = """
import json, logging, sys
logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)
sys.path[:0] = ["tests", "tests/screening"]
from corpus_guard.screening.checks.structure import Structure
check = Structure()
check.digest
before = [name for name in ("great_expectations", "pandas") if name in sys.modules]
from sample_versions import a_version
found = len(list(check.run([a_version("short")], None)))
print(json.dumps({"before": before, "found": found}))
"""


def test_great_expectations_is_imported_only_to_run_and_says_nothing():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {"before": [], "found": 1}
    assert "great_expectations" not in done.stderr and "Calculating" not in done.stderr


def test_loggers_stay_quiet(caplog):
    with caplog.at_level(logging.INFO):
        found(a_version())
    assert not [record for record in caplog.records if record.name.startswith("great_expectations")]


def test_the_digest_follows_the_parameters():
    assert Structure().digest == Structure().digest != Structure(StructureParams(max_run=101)).digest
