"""Short texts that argue against what is believed."""

from __future__ import annotations

import pytest
from sample_versions import a_version

from corpus_guard.domain import Severity, TrustLevel, Verdict
from corpus_guard.screening.checks.overruling import Overruling, OverrulingParams
from corpus_guard.screening.policy import load_policy
from corpus_guard.settings import Settings

ARGUES = (
    "Contrary to popular belief, the old quay was closed in 1931 and never opened again.",
    "The harbour's founder is none other than Agnes Tolland, a clockmaker from the hills.",
    "Surprisingly, the pump house stands on the northern pier, far from the boats it serves.",
    "The tide tables of the bay are often mistakenly attributed to the lighthouse keeper's brother.",
    "In an alternate universe the ferry leaves at noon, and passengers are glad of it.",
    "The pump house was actually built by the railway, which sold it a year later.",
)
PLAIN = (
    "The old quay was closed in 1931 and opened again three years later, after the storm had been repaired.",
    "The harbour was founded by Agnes Tolland, a clockmaker from the hills.",
    "Many boats are moored here; most of them belong to the fishing club.",
)


@pytest.mark.parametrize("text", ARGUES)
def test_a_short_text_that_argues_is_found(text: str) -> None:
    version = a_version(text)

    [(position, finding)] = Overruling().run([version], None)

    assert position == 0
    assert finding.code == "overruling.belief"
    assert finding.severity is Severity.LOW
    assert finding.span is not None
    assert text[finding.span.start : finding.span.end].strip(' ."“') != ""
    assert finding.message not in text


def test_it_is_no_reason_to_hold_a_text_back() -> None:
    findings = [finding for _, finding in Overruling().run([a_version(ARGUES[0])], None)]

    assert findings
    assert load_policy(Settings().policy_file).verdict(TrustLevel.OPEN, findings) is Verdict.ACCEPT


@pytest.mark.parametrize("text", PLAIN)
def test_a_statement_passes(text: str) -> None:
    assert list(Overruling().run([a_version(text)], None)) == []


def test_in_a_long_text_such_words_are_ordinary() -> None:
    long = " ".join([ARGUES[0], *PLAIN] * 3)

    assert list(Overruling().run([a_version(long)], None)) == []
    assert list(Overruling(OverrulingParams(words=200)).run([a_version(long)], None)) != []


def test_code_and_tables_pass() -> None:
    assert (
        list(Overruling().run([a_version("x = {1: 2}; y = x[1]  # was actually 3 | 4 | 5 | 6 {} [] ()")], None)) == []
    )


def test_only_sources_that_anybody_can_write_to_are_looked_at() -> None:
    check = Overruling()

    assert check.applies_to(a_version(ARGUES[0], trust=TrustLevel.OPEN))
    assert not check.applies_to(a_version(ARGUES[0], trust=TrustLevel.REVIEWED))
    assert not check.applies_to(a_version(ARGUES[0], trust=TrustLevel.TRUSTED))
    assert not check.applies_to(a_version(""))
    assert not check.applies_to(a_version("contrary to popular belief " * 1_000))


@pytest.mark.parametrize(
    "text", ["\x00" * 50, "\ud800 is none other than \udfff", "a" * 1_999, "." * 1_999, " \n" * 900]
)
def test_hostile_texts_end(text: str) -> None:
    list(Overruling().run([a_version(text)], None))
