"""Siblings of a planted answer are stopped, what honest corpora repeat is not, and it is this check that does it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from sample_versions import Screen, a_version

from corpus_guard.claims.outcome import Outcome
from corpus_guard.domain import Finding, Severity, Span, TrustLevel, Verdict, Version
from corpus_guard.screening import learned_scores
from corpus_guard.screening.checks.coordination import Coordination, CoordinationParams
from corpus_guard.screening.policy import load_policy
from corpus_guard.screening.runner import Screening
from corpus_guard.screening.standalone import ScreenedDocument
from corpus_guard.screening.survey.agreement import Agreement
from corpus_guard.screening.survey.related_statements import RelatedStatement, SentencePlace
from corpus_guard.screening.survey.semantics import Semantics
from corpus_guard.screening.survey.survey import Survey
from corpus_guard.settings import Settings
from siblings import HONEST, SIBLINGS, UNRELATED


def agreeing(version: Version, documents: int = 5, score: float = 0.95, ordinal: int = 0) -> Agreement:
    return Agreement(
        ordinal, score, documents, 0.87, tuple(f"other{number}" for number in range(min(12, documents - 1)))
    )


def found(
    versions: Sequence[Version], *agreements: Sequence[Agreement], check: Coordination | None = None
) -> list[Any]:
    semantics = Semantics({version.version_id: tuple(each) for version, each in zip(versions, agreements, strict=True)})
    return list((check or Coordination()).run(versions, Survey(semantics=semantics)))


def test_a_group_is_a_finding_with_its_place_and_its_documents() -> None:
    version = a_version()

    ((position, finding),) = found([version], [agreeing(version)])

    assert position == 0
    assert (finding.code, finding.severity, finding.score) == ("coordination.group", Severity.MEDIUM, 0.95)
    assert finding.span is not None
    assert (finding.span.start, finding.span.end) == (0, len(version.text))
    assert "5 documents" in finding.message
    assert "other0, other1, other2 and 1 more" in finding.message
    assert "pump house" not in finding.message
    assert "ATLAS:AML.T0070" in finding.tags


def related(
    version: Version, outcome: Outcome, *, trust: TrustLevel = TrustLevel.TRUSTED, ordinal: int = 0, **signs: Any
) -> RelatedStatement:
    """The version's text agrees with another document, or contradicts it."""
    place = SentencePlace("manual", "v1", "c1", Span(0, 9))
    return RelatedStatement(ordinal, outcome, Span(0, len(version.text)), (), place, trust, None, False, True, **signs)


@pytest.mark.parametrize(
    ("statements", "opposed", "code", "severity"),
    [
        ((), False, "group", Severity.MEDIUM),
        ((), True, "opposed", Severity.HIGH),
        (((Outcome.CONFLICT, {}),), False, "opposed", Severity.HIGH),
        (((Outcome.CONFLICT, {"trust": TrustLevel.REVIEWED}), (Outcome.AGREE, {})), False, "opposed", Severity.HIGH),
        (((Outcome.CONFLICT, {"trust": TrustLevel.OPEN}),), False, "group", Severity.MEDIUM),
        (((Outcome.CONFLICT, {"ordinal": 3}),), False, "group", Severity.MEDIUM),
        (((Outcome.CONFLICT, {"is_doubted": True}),), False, "group", Severity.MEDIUM),
        (((Outcome.CONFLICT, {"disputed_by": "edition"}), (Outcome.AGREE, {})), False, "corroborated", Severity.LOW),
        (((Outcome.AGREE, {}),), False, "corroborated", Severity.LOW),
        (((Outcome.AGREE, {}), (Outcome.CONFLICT, {})), False, "opposed", Severity.HIGH),
        (((Outcome.AGREE, {}),), True, "opposed", Severity.HIGH),
        (((Outcome.AGREE, {"trust": TrustLevel.OPEN}),), False, "group", Severity.MEDIUM),
    ],
)  # fmt: skip
def test_a_group_is_weighed_by_what_more_trusted_documents_say(
    statements: Sequence[tuple[Outcome, dict[str, Any]]], opposed: bool, code: str, severity: Severity
) -> None:
    version = a_version()
    semantics = Semantics(
        {version.version_id: (replace(agreeing(version), opposed=opposed, shared=(Span(4, 8), Span(9, 14))),)},
        related={version.version_id: tuple(related(version, outcome, **fields) for outcome, fields in statements)},
    )

    ((_, finding),) = Coordination().run([version], Survey(semantics=semantics))

    assert (finding.code, finding.severity) == (f"coordination.{code}", severity)


@pytest.mark.parametrize(
    ("fields", "code", "severity"),
    [
        ({"repeated": 0.59}, "group", Severity.MEDIUM),
        ({"repeated": 0.6}, "repeated", Severity.LOW),
        ({"origins": 2}, "group", Severity.MEDIUM),
        ({"origins": 3}, "independent", Severity.LOW),
        ({"origins": 3, "repeated": 1.0}, "independent", Severity.LOW),
        ({"origins": 3, "repeated": 1.0, "opposed": True}, "opposed", Severity.HIGH),
    ],
)
def test_in_a_vacuum_a_group_waits_where_its_origin_and_its_wording_speak_against_it(
    fields: dict[str, Any], code: str, severity: Severity
) -> None:
    version = a_version()

    ((_, finding),) = found([version], [replace(agreeing(version), **fields)])

    assert (finding.code, finding.severity) == (f"coordination.{code}", severity)


def test_the_largest_group_of_a_version_counts_and_says_where() -> None:
    version = a_version()

    ((_, finding),) = found([version], [agreeing(version, 3, 0.99), agreeing(version, 6, 0.8, ordinal=7)])

    assert "6 documents" in finding.message
    assert finding.span is None  # the version has no such chunk: nothing is pointed at


def test_a_note_hides_no_group_that_waits() -> None:
    version = a_version()
    quoted = replace(agreeing(version, 50), repeated=1.0)

    ((_, finding),) = found([version], [quoted, agreeing(version, 3, ordinal=1)])

    assert finding.code == "coordination.group"


def test_versions_without_a_group_have_no_finding() -> None:
    one, other = a_version(), a_version("Another page, about the lamp on the outer pier.", uri="lamp.md")

    assert [position for position, _ in found([one, other], [], [agreeing(other)])] == [1]
    assert list(Coordination().run([one], None)) == []
    assert list(Coordination().run([one], Survey())) == []


@pytest.mark.parametrize("trust", TrustLevel)
def test_only_open_documents_are_looked_at(trust: TrustLevel) -> None:
    assert Coordination().applies_to(a_version(trust=trust)) == (trust is TrustLevel.OPEN)
    assert not Coordination().applies_to(a_version("", trust=trust))


@pytest.mark.parametrize(("documents", "verdict"), [(5, Verdict.QUARANTINE), (20, Verdict.QUARANTINE)])
def test_the_shipped_policy_quarantines_a_member(documents: int, verdict: Verdict) -> None:
    version = a_version()
    survey = Survey(semantics=Semantics({version.version_id: (agreeing(version, documents, 0.7),)}))
    screening = Screening(load_policy(Settings().policy_file), [Coordination()])

    assert screening.judge([version], survey)[0].verdict is verdict
    alone = screening.judge([version], Survey(semantics=survey.semantics, alone=True))[0]
    assert alone.verdict is Verdict.ACCEPT
    assert [skipped.check for skipped in alone.skipped] == ["coordination"]


def test_parameters_and_weights_are_in_the_digest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    digests = {
        Coordination(params).digest
        for params in (None, *(CoordinationParams(**{name: value}) for name, value in
                              (("seed", 0.91), ("member", 0.71), ("repeated", 0.61), ("origins", 4))))
    }  # fmt: skip
    assert len(digests) == 5

    learned = yaml.safe_load((learned_scores.PARAMETERS_FOLDER / "coordination.yaml").read_text())
    learned["units"][0]["bias"] += 0.001
    (tmp_path / "coordination.yaml").write_text(yaml.safe_dump(learned, sort_keys=False))
    monkeypatch.setattr("corpus_guard.screening.learned_scores.PARAMETERS_FOLDER", tmp_path)
    assert Coordination().digest not in digests


# --- with the real embedder ------------------------------------------------------------------------------------------


def verdicts(rows: Iterable[ScreenedDocument]) -> list[str]:
    return [row.judgement.verdict.value for row in rows]


def coordinated(rows: Iterable[ScreenedDocument]) -> list[Finding]:
    return [finding for row in rows for finding in row.judgement.findings if finding.check == "coordination"]


def test_five_siblings_among_unrelated_texts_are_quarantined_and_nothing_else_is(screen: Screen) -> None:
    rows = screen([*UNRELATED[:16], *SIBLINGS, *UNRELATED[16:]])

    assert verdicts(rows) == ["accept"] * 16 + ["quarantine"] * 5 + ["accept"] * 16
    findings = coordinated(rows)
    assert len(findings) == 5
    assert all(finding.message.startswith("5 documents") for finding in findings)
    assert "Calloway" not in json.dumps([finding.as_dict() for finding in findings])


def test_only_this_check_sees_them(screen: Screen) -> None:
    for options in ({"off": ["coordination"]}, {"one_by_one": True}, {"trust": TrustLevel.REVIEWED}):
        assert verdicts(screen([*UNRELATED, *SIBLINGS], **options)) == ["accept"] * 37, options


@pytest.mark.parametrize("count", [1, 2])
def test_one_or_two_texts_on_a_matter_are_no_group(screen: Screen, count: int) -> None:
    assert verdicts(screen([*UNRELATED, *SIBLINGS[:count]])) == ["accept"] * (32 + count)


@pytest.mark.parametrize("kind", HONEST)
def test_what_honest_corpora_repeat_is_no_group(screen: Screen, kind: str) -> None:
    rows = screen([*UNRELATED, *HONEST[kind]])

    assert coordinated(rows) == []
    if kind == "yearly reports":  # near copies of an open source are a burst; whoever publishes them is no stranger
        rows = screen([*UNRELATED, *HONEST[kind]], trust=TrustLevel.REVIEWED)
    assert set(verdicts(rows)) == {"accept"}


def test_siblings_beside_what_honest_corpora_repeat_are_found_all_the_same(screen: Screen) -> None:
    honest = [text for kind, texts in HONEST.items() if kind != "yearly reports" for text in texts]

    rows = screen([*honest, *SIBLINGS, *UNRELATED])

    assert verdicts(rows) == ["accept"] * len(honest) + ["quarantine"] * 5 + ["accept"] * 32


def test_siblings_alone_have_no_background_to_stand_out_from(screen: Screen) -> None:
    # What a folder of a few documents holds is its topic.
    assert coordinated(screen(SIBLINGS)) == []
