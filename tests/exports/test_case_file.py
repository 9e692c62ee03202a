"""A case file: valid by the published schemas, without texts, and checked by a stranger with the public key alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError
from remembered import Validate
from stix_schemas import stix_validator

from browsing import chromium, needs_chromium, watched
from corpus_guard.corpus.retrieval_log import LoggedChunk, LoggedRetrieval, RetrievalLog
from corpus_guard.deployment import Deployment
from corpus_guard.domain import Span
from corpus_guard.errors import Misuse
from corpus_guard.exports.case_check import check_case
from corpus_guard.exports.case_file import export_case
from corpus_guard.exports.stix import format_bundle
from corpus_guard.forensics.cases import Case, MemberKind, approve_step, end_case, find_case, find_member, open_case
from corpus_guard.forensics.plan import find_step, plan_case
from corpus_guard.forensics.root_cause import root_cause
from corpus_guard.forensics.scope import scope_of
from corpus_guard.ledger.ledger import now
from corpus_guard.proof.log.keys import Keyring
from corpus_guard.proof.log.note import VerifierKey
from corpus_guard.traceback.judges import JudgeConclusion, Opinion
from corpus_guard.traceback.judges.support_evidence import SupportEvidence
from corpus_guard.traceback.retrieval import Complaint, RetrievedText
from material import START, Shelf
from trace_cases import Contains, NearModels, Quoting, poison, report, run, serve, truth

HOSTILE = "<img src=x onerror=hacked=1>\u202e'&.md"
SCHEMAS = Path(__file__).parent / "schemas"


@pytest.fixture
def guard(lite_shelf: Shelf, tmp_path: Path) -> Deployment:
    guard = Deployment(lite_shelf.settings(tmp_path))
    guard.models = NearModels(guard.settings)
    texts = poison(2)
    serve(lite_shelf, {HOSTILE: texts.pop("lie-00.md"), **texts, **truth(4)})
    guard.seal("before")
    return guard


@pytest.fixture
def case(lite_shelf: Shelf, guard: Deployment) -> Case:
    trace = run(guard, report(lite_shelf), Contains(), "night-1", rag_model=Quoting())
    members = find_member(guard.ledger, MemberKind.TRACE, trace.trace_id)
    return open_case(guard.ledger, f"wrong interval {HOSTILE}", members, by="ada<b>", reason="a user reported it")


@pytest.fixture
def folder(guard: Deployment, case: Case, tmp_path: Path) -> Path:
    return export(guard, case, tmp_path / "case")


def export(guard: Deployment, case: Case, folder: Path) -> Path:
    assert export_case(guard.ledger, guard.storage, guard.settings, guard.policy, case, folder, "ada") == 8
    return folder


def keys(guard: Deployment) -> list[VerifierKey]:
    return [trusted.key for trusted in Keyring.open(guard.settings.keys).public_keys()]


def test_a_stranger_checks_the_folder_with_the_public_key_and_every_change_is_named(
    guard: Deployment, case: Case, folder: Path
) -> None:
    checked = check_case(folder, keys(guard))

    assert checked.holds, checked.as_dict()
    assert [step.what for step in checked.steps] == ["head", "log", "manifest", "files", "timeline"]
    assert checked.facts["case_id"] == case.case_id
    other = Keyring.create(folder.parent / "other", "other.example").public_keys()[0].key
    assert not check_case(folder, [other]).holds
    assert guard.verify().holds
    with pytest.raises(Misuse, match="not empty"):
        export_case(guard.ledger, guard.storage, guard.settings, guard.policy, case, folder, "ada")
    _check_that_no_text_leaves(folder)
    _check_that_changes_are_named(guard, folder, folder.parent)


def test_the_message_to_the_affected_knows_no_more_than_the_log(guard: Deployment, case: Case, tmp_path: Path) -> None:
    def written(name: str, *retrievals: LoggedRetrieval) -> str:
        RetrievalLog(guard.ledger, days=3_000).add(retrievals)
        return (export(guard, case, tmp_path / name) / "notify" / "message.txt").read_text()

    accused = LoggedChunk(scope_of(guard.ledger, case).chunks[0])
    before_it_came = LoggedRetrieval("Q0?", (LoggedChunk("other"),), at=START - timedelta(days=1))

    assert "\nIn the past, the assistant may" in written("none")
    assert "\nUntil 20" in written("late", LoggedRetrieval("Q1?", (accused,), at=now() - timedelta(hours=1)))
    assert "\nBetween 20" in written("whole", before_it_came)


class Stating(Contains):
    """Also says which sentence states the claim: the whole text."""

    def conclude(self, complaint: Complaint, judged: Sequence[tuple[RetrievedText, Opinion]]) -> JudgeConclusion:
        support = {
            text.chunk_id: SupportEvidence(0.8, 0.0, 0.0, 0.5, 1.0, 1.0, Span(0, len(text.text))) for text, _ in judged
        }
        return JudgeConclusion(self.probability, support=support)


def test_the_sentence_behind_an_accusation_is_named_by_its_place(
    lite_shelf: Shelf, guard: Deployment, tmp_path: Path
) -> None:
    trace = run(guard, report(lite_shelf), Stating(), "night-1", rag_model=Quoting())
    members = find_member(guard.ledger, MemberKind.TRACE, trace.trace_id)
    case = open_case(guard.ledger, "wrong interval", members, by="ada", reason="a user reported it")

    content = json.loads((export(guard, case, tmp_path / "case") / "case.json").read_text())

    listed = content["carrying_sentences"]
    assert [(each["trace_id"], each["start"]) for each in listed] == [(trace.trace_id, 0)] * 2
    assert {each["text_sha256"] for each in listed} == {row.text_sha256 for row in trace.judged if row.carrier}
    replays = [each["changes_answer"] for each in listed]
    assert None not in replays
    assert any(f"the answer changes for {sum(replays)} of 2 texts" in line["text"] for line in content["timeline"]), (
        content["timeline"]
    )


def _edit_timeline(folder: Path) -> None:
    content = json.loads((folder / "case.json").read_text())
    content["timeline"][0]["text"] = "nothing happened"
    (folder / "case.json").write_text(json.dumps(content))


TAMPERING: dict[str, tuple[str, Callable[[Path], object]]] = {
    "report": ("report.html is changed", lambda folder: (folder / "report.html").write_text("all is well")),
    "case": ("case.json is changed", _edit_timeline),
    "missing": ("bundle.stix.json is missing", lambda folder: (folder / "bundle.stix.json").unlink()),
    "added": ("notes.txt is not in the log", lambda folder: (folder / "notes.txt").write_text("by me")),
    "link": ("README.txt is no plain file", lambda folder: _link(folder / "README.txt")),
    "log": ("", lambda folder: _replace(folder / "proof" / "log.jsonl", b"ada", b"eve")),
    "head": ("", lambda folder: _replace(folder / "proof" / "head.note", b"\n", b" \n")),
}


def _link(path: Path) -> None:
    path.rename(path.with_name("moved"))
    path.symlink_to("moved")


def _replace(path: Path, old: bytes, new: bytes) -> None:
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new))


def _check_that_changes_are_named(guard: Deployment, folder: Path, tmp_path: Path) -> None:
    for name, (message, tamper) in TAMPERING.items():
        copy = tmp_path / f"copy-{name}"
        shutil.copytree(folder, copy)
        tamper(copy)

        checked = check_case(copy, keys(guard))

        assert not checked.holds and checked.facts == {}, name
        assert message in checked.steps[-1].detail, name


def test_a_timeline_that_names_another_event_is_noticed(
    guard: Deployment, case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operator's own machine may lie as well: what it writes is compared with the log."""
    from corpus_guard.exports import case_file

    real = case_file.case_timeline
    for name, value in {
        "seq": 1,
        "leaf": "0" * 64,
        "kind": "sealed",
        "subject": "x",
        "at": datetime(2020, 1, 1, tzinfo=UTC),
    }.items():

        def lying(*arguments: Any, change: Any = {name: value}) -> Any:  # noqa: B006 - bound now
            lines = real(*arguments)
            position = next(number for number, line in enumerate(lines) if line.kind == "judged")
            return [*lines[:position], replace(lines[position], **change), *lines[position + 1 :]]

        monkeypatch.setattr(case_file, "case_timeline", lying)
        checked = check_case(export(guard, case, tmp_path / f"lie-{name}"), keys(guard))

        assert (checked.holds, checked.steps[-1].what) == (False, "timeline"), name


def test_the_formats_meet_their_published_schemas(
    guard: Deployment, case: Case, folder: Path, valid_sarif: Validate
) -> None:
    ocsf = Draft202012Validator(json.loads((SCHEMAS / "ocsf-1.5.0-incident-finding.json").read_text()))
    valid_stix = stix_validator(SCHEMAS / "stix-2.1.json")
    event = json.loads((folder / "incident.ocsf.json").read_text())
    bundle = json.loads((folder / "bundle.stix.json").read_text())

    ocsf.validate(event)
    valid_stix(bundle)
    valid_sarif(json.loads((folder / "findings.sarif").read_text()))

    assert (event["class_uid"], event["status"], len(event["finding_info_list"])) == (2005, "In Progress", 2)
    scope = scope_of(guard.ledger, case)
    cause, when = (
        root_cause(guard.ledger, guard.policy, scope),
        datetime.fromisoformat(json.loads((folder / "case.json").read_text())["written_at"]),
    )
    assert format_bundle(case, scope, cause, when) == bundle, "exported again, the objects are the same"
    kinds = [each["type"] for each in bundle["objects"]]
    assert kinds.count("indicator") == kinds.count("file") == 2 and kinds.count("report") == 1
    ids = {each["id"] for each in bundle["objects"]}
    assert len(ids) == len(kinds)
    references = [ref for each in bundle["objects"] for ref in each.get("object_refs", [])]
    assert set(references) <= ids
    for broken in ("time", "finding_info_list", "status_id"):
        with pytest.raises(ValidationError):
            ocsf.validate({key: value for key, value in event.items() if key != broken})
    with pytest.raises(ValidationError):
        valid_stix({**bundle, "objects": [{**bundle["objects"][-1], "object_refs": []}]})
    closed = end_case(guard.ledger, case.case_id, by="ada", conclusion="planted")
    later = export(guard, closed, folder.parent / "closed")
    event = json.loads((later / "incident.ocsf.json").read_text())
    ocsf.validate(event)
    assert (event["activity_name"], event["status"], event["verdict_id"]) == ("Close", "Closed", 2)


def _check_that_no_text_leaves(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            content = path.read_text(encoding="utf-8")
            assert "Inspections are due" not in content and "pump house" not in content, path.name
            assert "\u202e" not in content or path.parent.name == "proof", path.name
    page = (folder / "report.html").read_text()
    assert "<img" not in page and "&lt;img src=x" in page and "ada&lt;b&gt;" in page


@needs_chromium
@pytest.mark.slow
def test_the_report_opens_without_a_network_in_both_themes(guard: Deployment, case: Case, tmp_path: Path) -> None:
    step = find_step(plan_case(guard.ledger, guard.policy, case, scope_of(guard.ledger, case)), "withdraw").step
    approve_step(guard.ledger, case.case_id, step, by="ada", reason="planted")
    folder = export(guard, find_case(guard.ledger, case.case_id), tmp_path / "approved")
    with chromium() as browser:
        for theme in ("light", "dark"):
            for width in (1440, 390):
                seen = watched(browser, "file:///", width=width, theme=theme)
                seen.page.goto((folder / "report.html").as_uri())
                seen.quiet()
                assert seen.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
                assert seen.page.locator("svg.picture").count() == 6
                assert (
                    seen.page.locator(".by-state svg").is_visible()
                    and not seen.page.locator(".by-trust svg").is_visible()
                )
                seen.page.locator("#by-trust").check()
                assert seen.page.locator(".by-trust svg").is_visible()
