"""`guard export` as people and scripts meet it: a real deployment, real keys, real files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from corpus_guard.cli import export as cli
from corpus_guard.cli import proof
from corpus_guard.errors import GuardError, Misuse, UnknownSubject
from corpus_guard.ledger.tables import documents
from corpus_guard.proof.attestation import verify_attestation
from corpus_guard.proof.log.keys import Keyring
from deploying import BAD, TICKETS, Workspace

Run = Callable[..., Result]
HOSTILE = "worse\x1b[31m\n[red]\u202e.md"


@pytest.fixture
def full(deployment: Workspace) -> Workspace:
    deployment.page("guides/tide gauge.md")
    deployment.page("bad.md", BAD)
    deployment.page(HOSTILE, BAD.replace("harbour", "marina"))
    deployment.rows({"id": "t1", "text": "The pump of boat seven was repaired on Monday, and nothing leaks any more."})
    deployment.sources(TICKETS)
    with deployment.guard() as guard:
        guard.refresh("r1")
        if not Keyring.exists(guard.settings.keys):
            Keyring.create(guard.settings.keys, "corpus-guard.test/corpus")
    return deployment


@pytest.fixture
def run(full: Workspace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    full.enter(monkeypatch)

    def call(*arguments: str | Path) -> Result:
        result = CliRunner().invoke(cli.app, [str(argument) for argument in arguments])
        if isinstance(result.exception, GuardError):
            raise result.exception  # cli.main turns it into a message and an exit code
        return result

    return call


def rows(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_findings_in_every_form(run: Run, tmp_path: Path) -> None:
    native = rows(run("findings").output)
    events = rows(run("findings", "--format", "ocsf").output)
    log = json.loads(run("findings", "-f", "sarif").output)

    assert native
    assert [one["uid"] for one in native] == [one["finding_info"]["uid"] for one in events]
    assert len(log["runs"][0]["results"]) == len(native)
    assert all("Ignore all previous" not in json.dumps(one) for one in (native, events, log))
    assert "worse%1B%5B31m%0A%5Bred%5D%E2%80%AE.md" in {one["document"]["uri"] for one in native}


def test_filters(run: Run) -> None:
    waiting = rows(run("findings", "--state", "quarantined").output)
    nothing = run("findings", "--since", "2999-01-01")

    assert {one["version"]["state"] for one in waiting} == {"quarantined"}
    assert rows(run("findings", "--source", "pages", "--since", "2020-01-01T00:00:00").output)
    assert (nothing.exit_code, nothing.output) == (0, "")
    with pytest.raises(UnknownSubject, match="known: pages, tickets"):
        run("findings", "--source", "page")
    with pytest.raises(Misuse, match="state 'open'"):
        run("findings", "--state", "open")


def test_a_file_appears_whole_or_not_at_all(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "new" / "findings.sarif"

    done = run("findings", "--format", "sarif", "--out", file)
    assert json.loads(file.read_text())["version"] == "2.1.0"
    assert "findings written to" in done.output
    before = file.read_bytes()

    with pytest.raises(UnknownSubject):
        run("findings", "--format", "sarif", "--source", "nobody", "-o", file)
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_an_attestation_by_uri_by_exported_uri_and_by_version(run: Run, full: Workspace, tmp_path: Path) -> None:
    with full.guard() as guard, guard.ledger.read() as connection:
        version = connection.scalar(
            documents.select().with_only_columns(documents.c.target_version).where(documents.c.uri.like("guides/%"))
        )
        public = Keyring.open(guard.settings.keys).signers()[0].private.public_key()
    files = [tmp_path / f"{number}.json" for number in range(3)]

    for name, file in zip(("guides/tide gauge.md", "guides/tide%20gauge.md", version[:8]), files, strict=True):
        assert f"version {version}" in run("attestation", name, "-o", file).output.replace("\n", "")

    made = [json.loads(file.read_text()) for file in files]
    assert made[0] == made[1] == made[2] == json.loads(run("attestation", version).output)
    statement = verify_attestation(made[0], public)
    assert statement["predicate"]["version_id"] == version
    assert statement["predicate"]["chunks"]


def test_an_attestation_is_checked_with_a_public_key_alone(run: Run, full: Workspace, tmp_path: Path) -> None:
    file, other, changed = tmp_path / "a.json", tmp_path / "other.md", tmp_path / "changed.json"
    key = ["--key", str(full.settings.keys / "log.pub")]
    run("attestation", "guides/tide gauge.md", "-o", file)
    other.write_text("Other bytes.")
    envelope = json.loads(file.read_text())
    changed.write_text(json.dumps({**envelope, "payload": "AAAA" + envelope["payload"]}))

    def check(*arguments: str | Path) -> Result:
        return CliRunner().invoke(proof.app, ["check-attestation", *map(str, arguments), *key])

    assert "It holds" in check(file, "--content", full.pages / "guides" / "tide gauge.md").output
    assert "bytes were not compared" in check(file).output
    for arguments, reason in (
        ((file, "--content", other), "about bytes with SHA-256"),
        ((changed,), "did not sign"),
        ((other,), "expected a DSSE envelope"),
    ):
        checked = check(*arguments)
        assert checked.exit_code == 1
        assert "It does not hold" in checked.output and reason in checked.output.replace("\n", " ")
    binary = tmp_path / "log.pub"
    binary.write_bytes(b"\xff\x00")
    for arguments, reason in (
        ((tmp_path / "nowhere.json",), "nowhere.json: No such file or directory; expected what `guard export"),
        ((file, "--key", binary), "cannot be read (it is not UTF-8); expected one key per line"),
    ):
        refused = check(*arguments).exception
        assert isinstance(refused, Misuse)
        assert reason in str(refused)


def test_what_is_not_served_is_not_attested(run: Run, tmp_path: Path) -> None:
    with pytest.raises(Misuse, match="has no served version"):
        run("attestation", "bad.md", "-o", tmp_path / "x.json")
    with pytest.raises(UnknownSubject):
        run("attestation", "nobody.md", "-o", tmp_path / "x.json")
    (waiting,) = {
        one["version"]["version_id"] for one in rows(run("findings").output) if one["document"]["uri"] == "bad.md"
    }
    with pytest.raises(Misuse, match="is quarantined"):
        run("attestation", waiting, "-o", tmp_path / "x.json")
    assert list(tmp_path.glob("x.json")) == []


def test_a_uri_in_two_sources_asks_for_the_version(run: Run, full: Workspace) -> None:
    with full.guard() as guard, guard.ledger.write() as connection:
        connection.execute(documents.update().values(uri="same.md"))

    with pytest.raises(Misuse, match="in the sources pages, pages, pages, tickets"):
        run("attestation", "same.md")


@pytest.mark.parametrize("command", ["findings", "attestation"])
def test_help_teaches_by_example(command: str) -> None:
    shown = CliRunner().invoke(cli.app, [command, "--help"]).output

    assert f"guard export {command}" in shown
