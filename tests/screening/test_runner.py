"""Every check over every version, failing closed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import pytest
from sample_versions import a_version

from corpus_guard.domain import Chunk, Finding, Severity, Skipped, Span, TrustLevel, Verdict, Version
from corpus_guard.screening.check import Hits
from corpus_guard.screening.policy import load_policy
from corpus_guard.screening.runner import EVIDENCE_PREFIX, Screening
from corpus_guard.screening.survey.survey import Survey
from corpus_guard.settings import Settings

POLICY = load_policy(Settings().policy_file)
MARKER = "MARKER-7f3a-in-the-document"

Look = Callable[[Version], Iterable[Finding]]


def finding(code: str, severity: Severity = Severity.LOW, span: Span | None = None) -> Finding:
    return Finding(code.partition(".")[0], code, severity, 0.5, "seen", span, ("LLM01",))


@dataclass
class Stub:
    """A check that does what a test wants."""

    name: str = "stub"
    look: Look = lambda version: ()
    across_documents: bool = False
    second_stage: bool = False
    digest: str = "stub/1"
    applies: Callable[[Version], bool] = lambda version: True
    want: Callable[[Version], str | None] = lambda version: None
    skip: Callable[[Version, Survey], str | None] = lambda version, survey: None
    rests_on: Callable[[Survey | None], Sequence[str]] = lambda survey: ()
    seen: list[list[str]] = field(default_factory=list)

    def applies_to(self, version: Version) -> bool:
        return self.applies(version)

    def skips(self, version: Version, survey: Survey) -> str | None:
        return self.skip(version, survey)

    def wants(self, version: Version, findings: Iterable[Finding], survey: Survey | None) -> str | None:
        return self.want(version)

    def evidence(self, version: Version, survey: Survey | None) -> Sequence[str]:
        return self.rests_on(survey)

    def run(self, batch: Sequence[Version], survey: Survey | None) -> Hits:
        self.seen.append([version.stamp.uri for version in batch])
        for index, version in enumerate(batch):
            for one in self.look(version):
                yield index, one


class Memory:
    """A cache that remembers in a dictionary."""

    def __init__(self) -> None:
        self.kept: dict[str, Sequence[Finding]] = {}

    def load(self, keys: Sequence[str]) -> Mapping[str, Sequence[Finding]]:
        return {key: self.kept[key] for key in keys if key in self.kept}

    def save(self, results: Mapping[str, Sequence[Finding]]) -> None:
        self.kept.update(results)


class Stumble(Exception):
    """What a faulty check raises: it quotes the document."""

    kind: ClassVar[str] = "stumble"


def stumbles(on: str) -> Look:
    def look(version: Version) -> Iterable[Finding]:
        if on in version.stamp.uri:
            raise Stumble(f"cannot read {version.text}")
        return [finding("stub.seen")]

    return look


def versions(*names: str, text: str = "A page about {} " + MARKER) -> list[Version]:
    return [a_version(text.format(name), uri=f"{name}.md") for name in names]


def codes(judgement: object) -> list[str]:
    return [one.code for one in judgement.findings]  # type: ignore[attr-defined]


def test_a_check_that_fails_on_one_version_leaves_the_findings_of_its_neighbours() -> None:
    stub = Stub(look=stumbles("b"))

    a, b, c = Screening(POLICY, [stub]).judge(versions("a", "b", "c"), None)

    assert (codes(a), codes(b), codes(c)) == (["stub.seen"], ["stub.unchecked"], ["stub.seen"])
    assert (a.verdict, b.verdict, c.verdict) == (Verdict.ACCEPT, Verdict.QUARANTINE, Verdict.ACCEPT)


def test_what_the_others_found_of_an_unchecked_version_is_kept() -> None:
    screening = Screening(
        POLICY, [Stub(look=stumbles("b")), Stub(name="other", look=lambda _: [finding("other.seen")])]
    )

    _, b = screening.judge(versions("a", "b"), None)

    assert codes(b) == ["stub.unchecked", "other.seen"]


@pytest.mark.parametrize("trust", TrustLevel)
def test_a_check_that_fails_on_everything_quarantines_everything(trust: TrustLevel) -> None:
    batch = [a_version(name, uri=name, trust=trust) for name in ("a", "b")]

    judged = Screening(POLICY, [Stub(look=stumbles(""))]).judge(batch, None)

    assert [codes(one) for one in judged] == [["stub.unchecked"]] * 2
    assert {one.verdict for one in judged} == {Verdict.QUARANTINE}


def test_findings_given_before_a_failure_are_not_counted_twice() -> None:
    def look(version: Version) -> Iterable[Finding]:
        yield finding("stub.seen")
        if "c" in version.stamp.uri:
            raise Stumble

    a, b, c = Screening(POLICY, [Stub(look=look)]).judge(versions("a", "b", "c"), None)

    assert (codes(a), codes(b), codes(c)) == (["stub.seen"], ["stub.seen"], ["stub.unchecked"])


def test_a_check_that_cannot_tell_whether_it_applies_looks_and_its_neighbours_are_judged() -> None:
    def applies(version: Version) -> bool:
        if "b" in version.stamp.uri:
            raise Stumble(version.text)
        return True

    stub = Stub(look=stumbles("b"), applies=applies)

    a, b = Screening(POLICY, [stub]).judge(versions("a", "b"), None)

    assert (codes(a), codes(b)) == (["stub.seen"], ["stub.unchecked"])


def test_what_was_not_looked_at_says_why() -> None:
    checks = [
        Stub(name="across", across_documents=True),
        Stub(name="pictures", applies=lambda _: False),
        Stub(name="slow", second_stage=True, want=lambda _: "nothing rare in it"),
        Stub(name="slow_pictures", second_stage=True, applies=lambda _: False),
    ]

    (one,) = Screening(POLICY, checks).judge(versions("a"), None)

    assert one.skipped == (
        Skipped("across", "documents were screened one by one"),
        Skipped("pictures", "the check does not apply to such a document"),
        Skipped("slow", "nothing rare in it"),
        Skipped("slow_pictures", "the check does not apply to such a document"),
    )
    assert all(check.seen == [] for check in checks)


def test_a_check_across_documents_runs_when_there_is_a_survey() -> None:
    from corpus_guard.screening.survey.resemblance import EmptyHistory
    from corpus_guard.screening.survey.survey import build_survey

    stub = Stub(across_documents=True)
    Screening(POLICY, [stub]).judge(versions("a"), build_survey([], EmptyHistory()))

    assert stub.seen == [["a.md"]]


def test_a_check_that_has_too_few_to_compare_with_says_so() -> None:
    stub = Stub(across_documents=True, skip=lambda version, survey: "2 documents, 30 are needed")
    (judged,) = Screening(POLICY, [stub]).judge(versions("a"), Survey())

    assert stub.seen == []
    assert judged.skipped == (Skipped("stub", "2 documents, 30 are needed"),)


def test_a_check_that_cannot_say_whether_it_can_compare_looks() -> None:
    stub = Stub(across_documents=True, skip=lambda version, survey: str(1 / 0))
    Screening(POLICY, [stub]).judge(versions("a"), Survey())

    assert stub.seen == [["a.md"]]


def test_the_second_stage_sees_only_what_the_first_leaves_open() -> None:
    first = Stub(name="first", look=lambda v: [finding("first.bad", Severity.HIGH)] if "bad" in v.stamp.uri else [])
    second = Stub(name="second", second_stage=True, look=lambda _: [finding("second.seen")])

    good, bad = Screening(POLICY, [second, first]).judge(versions("good", "bad"), None)

    assert second.seen == [["good.md"]]
    assert codes(good) == ["second.seen"]
    assert bad.skipped == (Skipped("second", "the first stage has decided already"),)


def test_a_second_stage_that_cannot_choose_looks() -> None:
    def want(version: Version) -> str | None:
        raise Stumble(version.text)

    stub = Stub(second_stage=True, want=want, look=stumbles(""))

    (one,) = Screening(POLICY, [stub]).judge(versions("a"), None)

    assert codes(one) == ["stub.unchecked"]
    assert one.verdict is Verdict.QUARANTINE


def test_a_known_text_is_not_looked_at_again() -> None:
    memory = Memory()
    found = finding("stub.seen", span=Span(0, 3))
    first, again = (Stub(second_stage=True, look=lambda _: [found]) for _ in range(2))

    before = Screening(POLICY, [first], memory).judge(versions("a", "b"), None)
    after = Screening(POLICY, [again], memory).judge(versions("a", "b"), None)

    assert again.seen == []
    assert [one.findings for one in after] == [one.findings for one in before] == [(found,), (found,)]


def test_the_cache_knows_content_not_places() -> None:
    memory = Memory()
    first, again = (Stub(second_stage=True) for _ in range(2))

    Screening(POLICY, [first], memory).judge([a_version("one text", uri="x.md")], None)
    Screening(POLICY, [again], memory).judge([a_version("one text", uri="elsewhere.md")], None)

    assert again.seen == []


def test_results_that_rest_on_more_than_the_text_are_kept_with_it_and_marked() -> None:
    memory = Memory()
    version = a_version("one text", uri="x.md")

    def judged(*evidence: str) -> list[list[str]]:
        stub = Stub(second_stage=True, rests_on=lambda survey: evidence)
        Screening(POLICY, [stub], memory).judge([version], None)
        return stub.seen

    assert judged("Who?") == [["x.md"]]
    assert judged("Who?") == []
    assert judged("When?") == judged("Who?", "When?") == judged() == [["x.md"]]
    assert [key.startswith(EVIDENCE_PREFIX) for key in memory.kept] == [True, True, True, False]
    assert all(len(key) == 64 for key in memory.kept)


def test_the_second_stage_gets_the_survey() -> None:
    survey = Survey(alone=True)
    given: list[Survey | None] = []
    stub = Stub(second_stage=True, rests_on=lambda seen: (given.append(seen), ())[1])

    Screening(POLICY, [stub]).judge(versions("a"), survey)

    assert given == [survey]


@pytest.mark.parametrize("what", ["the text", "the check", "the chunks"])
def test_another_text_check_or_cut_is_not_in_the_cache(what: str) -> None:
    memory = Memory()
    before = a_version("one text", uri="x.md")
    Screening(POLICY, [Stub(second_stage=True)], memory).judge([before], None)
    after = before
    stub = Stub(second_stage=True)
    match what:
        case "the text":
            after = a_version("another text", uri="x.md")
        case "the check":
            stub.digest = "stub/2"
        case "the chunks":
            chunk = before.chunks[0]
            after = replace(before, chunks=(Chunk(chunk.chunk_id, 0, 0, 3, "one", 1),))

    Screening(POLICY, [stub], memory).judge([after], None)

    assert stub.seen == [["x.md"]]


def test_a_failure_is_not_remembered() -> None:
    memory = Memory()
    broken, mended = Stub(second_stage=True, look=stumbles("b")), Stub(second_stage=True)

    Screening(POLICY, [broken], memory).judge(versions("a", "b"), None)
    judged = Screening(POLICY, [mended], memory).judge(versions("a", "b"), None)

    assert mended.seen == [["b.md"]]
    assert codes(judged[1]) == []


def test_two_versions_of_one_text_both_get_the_findings() -> None:
    stub = Stub(second_stage=True, look=lambda _: [finding("stub.seen")])

    judged = Screening(POLICY, [stub], Memory()).judge(versions("a", "b", text="the same"), None)

    assert [codes(one) for one in judged] == [["stub.seen"], ["stub.seen"]]


def test_what_parsing_found_counts() -> None:
    problem = Finding("parsing", "parsing.empty", Severity.CRITICAL, 1.0, "no text")
    version = replace(a_version(""), problems=(problem,))

    (one,) = Screening(POLICY, []).judge([version], None)

    assert one.findings == (problem,)
    assert one.verdict is Verdict.REJECT


def test_findings_are_sorted_the_worst_first() -> None:
    found = [
        finding("stub.b", Severity.LOW, Span(9, 10)),
        finding("stub.a", Severity.HIGH),
        finding("stub.b", Severity.LOW, Span(2, 3)),
        finding("stub.c", Severity.CRITICAL),
    ]

    (one,) = Screening(POLICY, [Stub(look=lambda _: found)]).judge(versions("a"), None)

    assert [(f.code, f.span.start if f.span else None) for f in one.findings] == [
        ("stub.c", None),
        ("stub.a", None),
        ("stub.b", 2),
        ("stub.b", 9),
    ]


def test_every_version_gets_its_verdict_in_order_under_the_digest_of_policy_and_checks() -> None:
    screening = Screening(POLICY, [Stub(look=stumbles("c"))])
    batch = versions(*"edcba")

    judged = screening.judge(batch, None)

    assert [one.version_id for one in judged] == [version.version_id for version in batch]
    assert {one.policy_digest for one in judged} == {screening.digest}
    assert screening.digest != Screening(POLICY, [Stub(digest="stub/2")]).digest
    assert screening.judge([], None) == []


def test_neither_messages_nor_logs_hold_the_text(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    checks = [Stub(look=stumbles("")), Stub(name="slow", second_stage=True, look=stumbles(""))]

    for check in checks:
        judged = Screening(POLICY, [check]).judge(versions("a", "b"), None)
        assert MARKER not in repr([(one.findings, one.skipped) for one in judged])
        assert "Stumble" in judged[0].findings[0].message

    assert "Stumble" in caplog.text
    assert MARKER not in caplog.text
    assert all(record.exc_info is None for record in caplog.records)


def test_a_shadowed_check_runs_and_is_recorded_and_changes_no_verdict() -> None:
    shadowed = POLICY.model_copy(update={"shadow": frozenset({"stub"})})
    stub = Stub(look=lambda version: [finding("stub.seen", Severity.CRITICAL)])

    (plain,) = Screening(POLICY, [stub]).judge(versions("a"), None)
    (one,) = Screening(shadowed, [stub]).judge(versions("a"), None)

    assert (plain.verdict, plain.shadow_verdict) == (Verdict.QUARANTINE, None)
    assert (one.verdict, one.shadow_verdict, one.risk) == (Verdict.ACCEPT, Verdict.QUARANTINE, 0.0)
    assert codes(one) == codes(plain) == ["stub.seen"]


def test_what_a_shadowed_check_finds_does_not_spare_the_second_stage_its_work() -> None:
    shadowed = POLICY.model_copy(update={"shadow": frozenset({"stub"})})
    stub = Stub(look=lambda version: [finding("stub.seen", Severity.CRITICAL)])
    slow = Stub(name="slow", second_stage=True)

    Screening(shadowed, [stub, slow]).judge(versions("a"), None)

    assert slow.seen == [["a.md"]]


def test_a_shadowed_check_that_fails_stops_nothing() -> None:
    shadowed = POLICY.model_copy(update={"shadow": frozenset({"stub"})})

    (one,) = Screening(shadowed, [Stub(look=stumbles("a"))]).judge(versions("a"), None)

    assert (codes(one), one.verdict, one.shadow_verdict) == (["stub.unchecked"], Verdict.ACCEPT, Verdict.QUARANTINE)


def test_a_source_is_judged_by_its_own_threshold() -> None:
    own = load_policy(Settings().policy_file).model_dump(mode="json")
    policy = type(POLICY).model_validate({**own, "sources": {"handbook": {"severity": "critical", "risk": 1.0}}})
    stub = Stub(look=lambda version: [finding("stub.seen", Severity.HIGH)])
    pair = [a_version("One page.", source="handbook"), a_version("Two pages.", source="mail")]

    judged = Screening(policy, [stub]).judge(pair, None)

    assert [one.verdict for one in judged] == [Verdict.ACCEPT, Verdict.QUARANTINE]


def test_without_a_cache_nothing_is_kept() -> None:
    memory = Memory()
    slow = Stub(name="slow", second_stage=True, look=lambda version: [finding("slow.seen")])
    screening = Screening(POLICY, [slow], memory)

    assert codes(screening.uncached().judge(versions("a"), None)[0]) == ["slow.seen"]

    assert memory.kept == {}
    assert screening.uncached().digest == screening.digest
