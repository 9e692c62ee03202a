"""Check of a case file with only a public key: no ledger, no store, no network, no trust in whoever made it.

Rules
    * the key comes from whoever checks; the exported log is checked as a whole first (`corpus_guard.proof.checking`);
    * the folder holds exactly the files whose hashes the log's newest export of this case names, with these hashes;
    * each line of the timeline that names an event is that event: number, leaf, kind, time and subject;
    * the first step that fails ends the check.

Not done here: showing that the case is right. It shows that the operator's log says what the case file says it says.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import orjson

from corpus_guard.errors import Misuse
from corpus_guard.exports.case_file import CASE_JSON, PROOF
from corpus_guard.forensics.cases import CaseEvent
from corpus_guard.proof.checking import LOG_FILE, ProofFails, ProofReport, ProofStep, check_proof
from corpus_guard.proof.log.merkle import leaf_hash
from corpus_guard.proof.log.note import VerifierKey

READ_BYTES: Final = 1 << 20


def check_case(folder: Path, keys: Sequence[VerifierKey]) -> ProofReport:
    """Check a case file.

    Args:
        folder: written by `corpus_guard.exports.case_file.export_case`.
        keys: trusted keys of the log or its witnesses; one that signed is enough.

    Raises:
        Misuse: there is no such folder, or no key was given.
    """
    if not (folder / PROOF).is_dir():
        raise Misuse(f"{folder}: expected the folder that `guard case export` wrote, with {PROOF}/ in it")
    proved = check_proof(folder / PROOF, keys)
    if not proved.holds:
        return proved
    steps, facts = list(proved.steps), dict(proved.facts)
    try:
        for what, detail in _check(folder, facts):
            steps.append(ProofStep(what, True, detail))
    except ProofFails as failure:
        return ProofReport((*steps, ProofStep(failure.what, False, str(failure))), {})
    return ProofReport(tuple(steps), facts)


def _check(folder: Path, facts: dict[str, object]) -> Iterator[tuple[str, str]]:
    case = _load(folder / CASE_JSON)
    case_id = str(case.get("case_id"))
    named = [line for line in case.get("timeline") or [] if isinstance(line, dict) and line.get("seq") is not None]
    wanted = {line["seq"] for line in named if isinstance(line["seq"], int)}
    events: dict[int, tuple[str, Mapping[str, Any]]] = {}
    exported: Mapping[str, Any] | None = None
    with (folder / PROOF / LOG_FILE).open("rb") as lines:
        for seq, raw in enumerate(lines):
            content = raw.removesuffix(b"\n")
            if seq in wanted or b'"case_exported"' in content:
                event = orjson.loads(content)
                events[seq] = (leaf_hash(content).hex(), event)
                if event.get("kind") == CaseEvent.EXPORTED and event.get("subject") == case_id:
                    exported = event
    if exported is None:
        raise ProofFails("files", f"the log names no export of case {case_id[:8]}")
    hashes = exported["body"]["files"]
    present = _hashes(folder)
    for name in sorted(hashes.keys() | present.keys()):
        if hashes.get(name) != present.get(name):
            problem = "missing" if name not in present else "not in the log" if name not in hashes else "changed"
            raise ProofFails("files", f"{name} is {problem}")
    yield "files", f"{len(hashes)} files have the hashes that event {exported['seq']} of the log names"
    for number, line in enumerate(named):
        leaf, event = events.get(line["seq"], ("", {}))
        same = (
            leaf == line.get("leaf")
            and event.get("kind") == line.get("kind")
            and event.get("subject") == line.get("subject")
            and _moment(event.get("at")) == _moment(line.get("at"))
        )
        if not same:
            raise ProofFails("timeline", f"line {number} names event {line['seq']}, which says something else")
    yield "timeline", f"{len(named)} lines are the events that they name"
    facts |= {"case_id": case_id, "exported_at": exported.get("at")}


def _load(path: Path) -> Mapping[str, Any]:
    try:
        content = orjson.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ProofFails("files", f"{path.name} is missing or no JSON") from error
    if not isinstance(content, dict):
        raise ProofFails("files", f"{path.name} is no JSON object")
    return content


def _hashes(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file of the folder but those of the proof, by name."""
    hashes: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name.split("/")[0] == PROOF or (path.is_dir() and not path.is_symlink()):
            continue
        if path.is_symlink() or not path.is_file():
            raise ProofFails("files", f"{name} is no plain file")
        hasher = hashlib.sha256()
        with path.open("rb") as stream:
            while block := stream.read(READ_BYTES):
                hasher.update(block)
        hashes[name] = hasher.hexdigest()
    return hashes


def _moment(text: object) -> datetime | None:
    try:
        return datetime.fromisoformat(str(text))
    except ValueError:
        return None
