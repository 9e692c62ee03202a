"""What a contradiction of a more trusted text weighs, and what its finding says."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from sample_versions import a_version

from corpus_guard.claims.outcome import Outcome
from corpus_guard.claims.value import Kind
from corpus_guard.domain import Counterstatement, Finding, Severity, Span, TrustLevel, Version
from corpus_guard.models.contradiction_judge import ContradictionJudge
from corpus_guard.models.contradiction_reader import EXCERPTS, SENTENCES, SIEVE
from corpus_guard.screening.checks.conflict import Conflict, ConflictParams
from corpus_guard.screening.survey.related_statements import RelatedStatement, SentencePlace
from corpus_guard.screening.survey.semantics import Semantics
from corpus_guard.screening.survey.survey import Survey

POST = "The OX-12 must be calibrated every 36 months."
STATEMENT = RelatedStatement(
    ordinal=0,
    outcome=Outcome.CONFLICT,
    span=Span(0, 45),
    values=(Span(29, 44),),
    other=SentencePlace("doc", "ver", "chunk", Span(10, 55), (Span(40, 54),)),
    trust=TrustLevel.TRUSTED,
    kind=Kind.FREQUENCY,
    is_near_copy=False,
    is_served=True,
)


def findings(
    *related: RelatedStatement, trust: TrustLevel = TrustLevel.OPEN, not_compared: int = 0, most: int = 5
) -> list[Finding]:
    post: Version = a_version(POST, trust=trust)
    survey = Survey(
        semantics=Semantics(
            related={post.version_id: related}, not_compared={post.version_id: not_compared} if not_compared else {}
        )
    )
    return [finding for _, finding in Conflict(ConflictParams(findings=most)).run([post], survey)]


@pytest.mark.parametrize(
    ("own", "other", "severity"),
    [
        (TrustLevel.OPEN, TrustLevel.TRUSTED, Severity.HIGH),
        (TrustLevel.REVIEWED, TrustLevel.TRUSTED, Severity.HIGH),
        (TrustLevel.OPEN, TrustLevel.REVIEWED, Severity.MEDIUM),
        (TrustLevel.OPEN, TrustLevel.OPEN, Severity.INFO),
        (TrustLevel.REVIEWED, TrustLevel.REVIEWED, Severity.INFO),
    ],
)
def test_it_weighs_what_the_other_text_is_worth(own: TrustLevel, other: TrustLevel, severity: Severity) -> None:
    (finding,) = findings(replace(STATEMENT, trust=other), trust=own)

    assert finding.severity is severity
    assert finding.span == STATEMENT.span


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (Kind.FREQUENCY, "value"),
        (Kind.NAME, "value"),
        (Kind.NEGATION, "denial"),
        (Kind.PHONE, "contact"),
        (Kind.IBAN, "contact"),
        (Kind.DOMAIN, "contact"),
        (Kind.EMAIL, "contact"),
        (None, "value"),
    ],
)
def test_its_code_says_what_is_at_odds(kind: Kind | None, code: str) -> None:
    (finding,) = findings(replace(STATEMENT, kind=kind))

    assert finding.code == f"conflict.{code}"


def test_a_near_copy_with_a_change_is_high_even_against_a_reviewed_text() -> None:
    (finding,) = findings(replace(STATEMENT, is_near_copy=True, trust=TrustLevel.REVIEWED))

    assert (finding.code, finding.severity) == ("conflict.near_copy", Severity.HIGH)


def test_agreement_is_no_finding() -> None:
    assert findings(replace(STATEMENT, outcome=Outcome.AGREE)) == []


def test_each_sentence_is_reported_once_against_the_text_that_weighs_most() -> None:
    second = replace(STATEMENT, span=Span(3, 9))

    reported = findings(STATEMENT, replace(STATEMENT, trust=TrustLevel.REVIEWED), second, most=2)

    assert [(finding.span, finding.severity) for finding in reported] == [
        (Span(0, 45), Severity.HIGH),
        (Span(3, 9), Severity.HIGH),
    ]
    assert len(findings(STATEMENT, second, most=1)) == 1


def test_what_was_not_compared_is_unchecked() -> None:
    (finding,) = findings(not_compared=3)

    assert finding.code == "conflict.unchecked"
    assert "3 chunks were not compared" in finding.message


def test_a_message_names_the_other_document_and_none_of_its_words() -> None:
    (finding,) = findings(STATEMENT)

    assert "document doc, version ver" in finding.message
    assert "36" not in finding.message


def test_a_trusted_document_contradicts_nobody_and_is_unchecked_where_it_was_not_compared_with_what_is_served() -> None:
    (finding,) = findings(not_compared=1, trust=TrustLevel.TRUSTED)

    assert (finding.code, findings(trust=TrustLevel.TRUSTED)) == ("conflict.unchecked", [])
    assert "1 chunk was not compared with the served documents near it" in finding.message


def test_a_finding_points_at_both_sentences_and_their_values() -> None:
    (finding,) = findings(STATEMENT)

    assert finding.counterstatement == Counterstatement(
        "doc", "ver", Span(10, 55), Span(0, 45), (Span(40, 54),), (Span(29, 44),)
    )
    assert Finding.from_dict(finding.as_dict()) == finding


def test_what_a_trained_reader_found_waits_as_likely_behind_what_the_rules_found() -> None:
    likely = replace(STATEMENT, outcome=Outcome.LIKELY, span=Span(0, 20), values=(), kind=None)

    first, second = findings(STATEMENT, likely)

    assert (first.code, first.severity) == ("conflict.value", Severity.HIGH)
    assert (second.code, second.severity, second.span) == ("conflict.likely", Severity.MEDIUM, Span(0, 20))
    assert "seems to contradict" in second.message


@pytest.mark.parametrize(
    ("noted", "code", "says"),
    [
        (
            replace(STATEMENT, is_doubted=True),
            "conflict.doubted",
            "the values differ from those in a trusted document",
        ),
        (
            replace(STATEMENT, disputed_by="edition"),
            "conflict.disputed",
            r"^Another frequency is stated than in a trusted document .*"
            "Trusted documents disagree: document edition contradicts it, too$",
        ),
    ],
    ids=["the reader doubts it", "trusted documents disagree"],
)
def test_what_is_not_sure_is_noted_behind_all_others(noted: RelatedStatement, code: str, says: str) -> None:
    (only,) = findings(noted)
    (first,) = findings(STATEMENT, noted)

    assert (only.code, only.severity) == (code, Severity.LOW)
    assert re.search(says, only.message)
    assert first.code == "conflict.value", "of one sentence the worst is reported"


def test_what_other_trusted_documents_seem_to_contradict_too_is_noted() -> None:
    (only,) = findings(replace(STATEMENT, outcome=Outcome.LIKELY, values=(), kind=None, disputed_by="edition"))

    assert (only.code, only.severity) == ("conflict.disputed", Severity.LOW)
    assert only.message.endswith("Trusted documents disagree: document edition seems to contradict it, too")


def test_a_sentence_that_the_rules_found_is_not_reported_again() -> None:
    (finding,) = findings(STATEMENT, replace(STATEMENT, outcome=Outcome.LIKELY, values=(), kind=None))

    assert finding.code == "conflict.value"


def test_the_weights_of_the_reader_are_part_of_the_check_where_it_reads() -> None:
    weights = [SIEVE.digest(), EXCERPTS.digest(), SENTENCES.digest()]
    assert Conflict(ConflictParams()).resources() == weights
    assert Conflict(ConflictParams(asked_model="m")).resources() == [*weights, ContradictionJudge.prompt_digest()]
    assert not Conflict(ConflictParams(pairs_read=0)).resources()
