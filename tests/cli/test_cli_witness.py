"""`guard witness` as people meet it: from nothing to a witness that answers, by what each command prints."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from corpus_guard.cli.witness import app
from corpus_guard.errors import GuardError, Misuse, SettingsError
from corpus_guard.proof.log.checkpoint import Checkpoint
from corpus_guard.proof.log.keys import Keyring
from corpus_guard.proof.log.merkle import leaf_hash
from corpus_guard.proof.log.note import VerifierKey
from corpus_guard.proof.log.witness import Witness

ORIGIN = "harbour.example/corpus"


def guard_witness(*arguments: str) -> str:
    done = CliRunner().invoke(app, arguments)
    if isinstance(done.exception, GuardError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture
def home(tmp_path: Path) -> str:
    return str(tmp_path / "witness")


@pytest.fixture
def keyring(tmp_path: Path) -> Keyring:
    return Keyring.create(tmp_path / "keys", ORIGIN)


def log_pub(keyring: Keyring) -> list[str]:
    return (keyring.folder / "log.pub").read_text().split()


def test_init_prints_the_settings_to_set(home: str) -> None:
    printed = guard_witness("init", "--home", home, "--name", "witness.example")

    settings = dict(re.findall(r"^(CORPUS_GUARD_\w+)=(\S+)$", printed, re.MULTILINE))
    assert settings["CORPUS_GUARD_WITNESS_URL"] == "http://127.0.0.1:8767"
    assert VerifierKey.parse(settings["CORPUS_GUARD_WITNESS_KEY"]) == Witness(Path(home)).verifier
    assert "guard witness trust" in printed
    assert "guard witness run" in printed


def test_init_names_itself_and_speaks_json(home: str) -> None:
    made = json.loads(guard_witness("init", "--home", home, "--json"))

    assert VerifierKey.parse(made["vkey"]).name.startswith("witness/")
    with pytest.raises(Misuse, match="already"):
        guard_witness("init", "--home", home)


def test_trust_takes_all_of_log_pub_and_forgets_what_it_lacks(home: str, keyring: Keyring) -> None:
    guard_witness("init", "--home", home)
    keyring.rotate(5, overlap=5)

    guard_witness("trust", "--home", home, *log_pub(keyring))
    assert sorted(Witness(Path(home)).store.trusted_keys()[ORIGIN]) == sorted(log_pub(keyring))
    shown = json.loads(guard_witness("trust", "--home", home, log_pub(keyring)[1], "--json"))

    assert shown == {"origin": ORIGIN, "vkeys": [log_pub(keyring)[1]]}


def test_keys_of_two_logs_are_not_mixed(home: str, keyring: Keyring, tmp_path: Path) -> None:
    guard_witness("init", "--home", home)
    other = Keyring.create(tmp_path / "other", "other.example")

    with pytest.raises(Misuse, match="expected keys of one log"):
        guard_witness("trust", "--home", home, *log_pub(keyring), *log_pub(other))
    with pytest.raises(SettingsError, match="copied whole"):
        guard_witness("trust", "--home", home, log_pub(keyring)[0][:-1])


def test_show_tells_what_was_cosigned_and_refused(home: str, keyring: Keyring) -> None:
    guard_witness("init", "--home", home)
    assert "Nothing was refused" in guard_witness("show", "--home", home)
    guard_witness("trust", "--home", home, *log_pub(keyring))
    assert f"{ORIGIN}: nothing yet" in guard_witness("show", "--home", home)
    witness = Witness(Path(home))
    for leaf, old in ((b"true", 0), (b"false", 1)):
        note = keyring.sign(Checkpoint(ORIGIN, 1, leaf_hash(leaf)))
        witness.add_checkpoint(f"old {old}\n\n{note}".encode())

    printed = guard_witness("show", "--home", home)
    shown = json.loads(guard_witness("show", "--home", home, "--json"))

    assert leaf_hash(b"true").hex()[:16] in printed
    assert "second root" in printed
    assert [head["root"] for head in shown["heads"]] == [leaf_hash(b"true").hex()]
    assert [one["root"] for one in shown["refusals"]] == [leaf_hash(b"false").hex()]
    assert shown["refusals"][0]["against"] == shown["heads"][0]["note"]
    assert shown["logs"] == {ORIGIN: log_pub(keyring)}


@pytest.mark.parametrize("command", [["show"], ["run"], ["trust", "x"]])
def test_without_a_witness_the_next_step_is_told(home: str, keyring: Keyring, command: list[str]) -> None:
    if command[0] == "trust":
        command = ["trust", *log_pub(keyring)]
    with pytest.raises(SettingsError, match="guard witness init"):
        guard_witness(command[0], "--home", home, *command[1:])


@pytest.mark.parametrize("command", ["init", "trust", "run", "show"])
def test_help_teaches_with_an_example(command: str) -> None:
    printed = guard_witness(command, "--help")

    assert f"guard witness {command} --home" in re.sub(r"\s+", " ", printed)
