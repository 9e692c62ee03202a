"""The hostile files, each between two neighbours, through the real worker; and through the refresh, whose counts balance.

Bounded are time and memory by the sandbox itself: a document that would take more is ended by it, and says so.
`make test` takes a part of the files, `make test-all` all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import sqlalchemy as sa
import yaml

import hostile_files
from corpus_guard.batches.tables import versions_from_table
from corpus_guard.domain import Verdict
from corpus_guard.intake.parsing import ParsedDocument, ParsingSandbox
from corpus_guard.ledger.tables import documents, findings, versions
from corpus_guard.models import Models
from corpus_guard.screening.standalone import ScreenedDocument, ScreenOptions, screen_input
from corpus_guard.settings import Settings
from deploying import Workspace
from hostile_files import Case
from intake.parsing import making
from stepping import SteppedRun

CASES = hostile_files.cases()
PICTURES = {".gif", ".jpg"}  # are no documents of a folder, by their names
QUICK = [case for case in CASES if case.quick]
SECONDS, MEMORY = 8.0, 2**30
NEIGHBOURS = [
    (making.pdf("a quiet neighbour"), "n.pdf"),
    (making.word("a quiet neighbour"), "n.docx"),
    (b"<!doctype html><html><body>a quiet neighbour", "n.html"),
    (making.sheets(), "n.xlsx"),
]


@pytest.fixture(scope="module")
def parsed() -> Mapping[str, ParsedDocument]:
    """The quick cases, each after a neighbour that must come out as ever."""
    return dict(_parsed(QUICK))


def _parsed(cases: list[Case]) -> Iterator[tuple[str, ParsedDocument]]:
    with ParsingSandbox(Settings(parse_seconds=SECONDS, parse_memory_bytes=MEMORY)) as sandbox:
        usual = [sandbox.parse(content, "", name) for content, name in NEIGHBOURS]
        for number, case in enumerate(cases):
            content, name = NEIGHBOURS[number % len(NEIGHBOURS)]
            batch = [("case", case.make(), "", case.name), ("neighbour", content, "", name)]
            found = dict(sandbox.parse_many(batch))
            assert found["neighbour"] == usual[number % len(NEIGHBOURS)], f"{case} harmed the document after it"
            yield case.name, found["case"]


def test_there_are_enough_of_them() -> None:
    assert len(CASES) >= 60
    assert len(QUICK) >= 25


@pytest.mark.parametrize("case", QUICK, ids=str)
def test_a_hostile_file_is_contained_and_says_why(parsed: Mapping[str, ParsedDocument], case: Case) -> None:
    codes = [problem.code for problem in parsed[case.name].problems]
    assert case.harmless or any(code.startswith(case.why) for code in codes), codes
    parsed[case.name].text.encode()  # no half character is left
    assert "\x00" not in parsed[case.name].text


def test_a_batch_goes_on_after_the_file_that_ended_its_worker(deployment: Workspace) -> None:
    deployment.page("a-good.html", "<!doctype html><html><body>the first")
    deployment.page("b-bad.html", "<!doctype html><html><body>" + "<div>" * 150_000)
    deployment.page("c-good.html", "<!doctype html><html><body>the last")
    settings = deployment.settings.model_copy(update={"parse_seconds": 1.5})
    with Workspace(deployment.root, settings, deployment.models).guard() as guard:
        stepped = SteppedRun(guard, "run")
        (listing,) = stepped.discover()
        shard = stepped.intake(listing)
        made = versions_from_table(guard.storage.read_table(f"{shard['batch']}/versions.parquet"))
    assert shard["listed"] == 3
    found = {version.stamp.uri: (version.text, [problem.code for problem in version.problems]) for version in made}
    assert found["a-good.html"] == ("the first", [])
    assert found["b-bad.html"] == ("", ["parsing.timeout"])
    assert found["c-good.html"] == ("the last", [])


@pytest.mark.slow
def test_every_hostile_file_leaves_its_neighbours_alone() -> None:
    assert len(list(_parsed(CASES))) == len(CASES)


@pytest.fixture(scope="module")
def screened(
    models: Models, models_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, ScreenedDocument]:
    folder = tmp_path_factory.mktemp("hostile")
    _write(folder)
    settings = Settings(
        home=models_home,
        policy_file=_policy(tmp_path_factory.mktemp("policy")),
        parse_seconds=SECONDS,
        parse_memory_bytes=MEMORY,
    )
    return {row.id: row for row in screen_input(settings, folder, ScreenOptions(one_by_one=True), models=models)}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_hostile_file_is_not_accepted_unless_it_is_harmless(
    screened: Mapping[str, ScreenedDocument], case: Case
) -> None:
    if Path(case.name).suffix in PICTURES:
        assert case.name not in screened
        return
    judgement = screened[case.name].judgement
    codes = [finding.code for finding in judgement.findings]
    if not case.harmless:
        assert judgement.verdict is not Verdict.ACCEPT, codes
        assert any(code.startswith(case.why) for code in codes), codes


@pytest.mark.slow
def test_a_refresh_over_all_of_them_balances(deployment: Workspace) -> None:
    _write(deployment.pages)
    for number in range(5):
        deployment.page(f"good-{number}.md")
    settings = deployment.settings.model_copy(
        update={"policy_file": _policy(deployment.root), "parse_seconds": SECONDS / 2, "parse_memory_bytes": MEMORY}
    )
    with Workspace(deployment.root, settings, deployment.models).guard() as guard:
        counts = dict(guard.refresh("hostile"))
        with guard.ledger.read() as connection:
            states = dict(
                connection.execute(
                    sa.select(documents.c.uri, versions.c.verdict).join(
                        versions, versions.c.doc_id == documents.c.doc_id
                    )
                ).all()
            )
            told = set(connection.scalars(sa.select(findings.c.version_id)))
            ids = dict(connection.execute(sa.select(documents.c.uri, documents.c.latest_version)).all())
    parts = ("accepted", "quarantined", "rejected", "unchanged", "failed")
    pages = [case for case in CASES if Path(case.name).suffix not in PICTURES]
    assert counts["documents"] == len(pages) + 5 == sum(counts[part] for part in parts)
    assert counts["failed"] == 0
    for case in pages:
        if not case.harmless:
            assert states[case.name] in {"quarantine", "reject"}, case.name
            assert ids[case.name] in told, case.name
    assert [states[f"good-{number}.md"] for number in range(5)] == ["accept"] * 5


@pytest.mark.parametrize("name", hostile_files.NAMES, ids=range(len(hostile_files.NAMES)))
def test_a_hostile_name_is_only_data(sandbox: ParsingSandbox, name: str) -> None:
    assert sandbox.parse(b"<!doctype html><html><body>visible", "", name).text == "visible"


def _write(folder: Path) -> None:
    for case in CASES:
        (folder / case.name).write_bytes(case.make())


def _policy(folder: Path) -> Path:
    """As delivered, less the check that needs a language model."""
    values = yaml.safe_load(Settings().policy_file.read_text())
    values["checks"]["perplexity"] = {"enabled": False}
    (folder / "policy.yaml").write_text(yaml.safe_dump(values))
    return folder / "policy.yaml"
