"""A ledger with findings of every kind, and the published schemas."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft4Validator, Draft202012Validator
from remembered import EVERY, HOSTILE, Validate, decide, remember

from corpus_guard.domain import Verdict
from corpus_guard.ledger import Ledger
from material import a_finding

SCHEMAS = Path(__file__).parent / "schemas"


@pytest.fixture(scope="session")
def valid_sarif() -> Validate:
    return Draft4Validator(json.loads((SCHEMAS / "sarif-2.1.0.json").read_text())).validate


@pytest.fixture(scope="session")
def valid_ocsf() -> Validate:
    return Draft202012Validator(json.loads((SCHEMAS / "ocsf-1.5.0-detection-finding.json").read_text())).validate


@pytest.fixture
def full(sqlite_ledger: Ledger) -> Ledger:
    """Every severity, every tag, every state, a hostile name, a superseded version, a finding without a place."""
    ledger = sqlite_ledger
    remember(ledger, HOSTILE, *EVERY)
    remember(ledger, "accepted.md", a_finding("statistics.outlier", span=None, tags=()), verdict=Verdict.ACCEPT)
    remember(ledger, "rejected.md", a_finding("parsing.no_text"), verdict=Verdict.REJECT)
    decide(ledger, remember(ledger, "released.md", a_finding()), "release")
    decide(ledger, remember(ledger, "refused.md", a_finding()), "reject")
    decide(ledger, remember(ledger, "decided.md", a_finding()), "release", applied=False)
    remember(ledger, "replaced.md", a_finding())
    remember(ledger, "replaced.md", a_finding(), minute=5, content_sha256="b" * 64)
    return ledger
