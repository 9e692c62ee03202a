"""Checking a proof with nothing but a public key: no ledger, no store, no network, no trust in whoever made it.

Rules
    * the key comes from whoever checks; keys inside a proof or a folder are not looked at;
    * everything is recomputed from the bytes that are there: leaves, roots, the chain, the hash of the manifest;
    * a part says what it claims only where another part, up to the signature, vouches for it; what is malformed proves nothing;
    * of a folder all of it must be right: one line that is missing, changed or too many, and it does not hold;
    * what was not checked is said: a proof without the text proves that the corpus holds *a* text with this hash.

What is not done here: nobody says that the head is the newest there is. Compare its size and root with those a witness or another
machine has seen.

Sources: RFC 9162 section 2.1.3.2, C2SP signed-note, C2SP tlog-checkpoint.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from corpus_guard.errors import Inconsistent, Misuse
from corpus_guard.proof.keys import Head, HeadRefused, open_head
from corpus_guard.proof.merkle import Frontier, leaf_hash, verify_inclusion
from corpus_guard.proof.note import NOTE_BYTES, VerifierKey

PROOF_BYTES = 16 * 2**20  # a proof is some kB; its longest part is the line of an event
FILES = ("head.note", "log.jsonl", "manifest.jsonl")


class ProofFails(Inconsistent):
    """A part of a proof does not prove what it claims."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that was checked."""

    what: str
    holds: bool
    detail: str


@dataclass(frozen=True, slots=True)
class ProofReport:
    """What a proof proves, step by step; the first step that fails ends it."""

    steps: tuple[Step, ...]
    facts: Mapping[str, Any]  # what is proved by the steps that hold; empty where one fails

    @property
    def holds(self) -> bool:
        """Whether every step does."""
        return bool(self.steps) and all(step.holds for step in self.steps)

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        steps = [{"what": step.what, "holds": step.holds, "detail": step.detail} for step in self.steps]
        return {"holds": self.holds, "steps": steps, "facts": dict(self.facts)}


def check_proof(path: Path, keys: Sequence[VerifierKey], text: bytes | None = None) -> ProofReport:
    """Check one proof, or an exported folder.

    Args:
        path: what `corpus_guard.proof.proving` wrote.
        keys: trusted, of the log or its witnesses, by another road than the proof; one that signed is enough.
        text: what the chunk (of a folder: some chunk) is said to hold, its exact UTF-8 bytes.

    Raises:
        Misuse: there is no such file, or no key was given.
        OSError: it cannot be read.
    """
    if not keys:
        raise Misuse(
            f"{path}: no key to check it with; give --key with the one you were handed, not with one that came with the proof"
        )
    if not path.exists():
        raise Misuse(f"{path}: no such file or folder; expected what `guard prove` wrote")
    checking = _folder(path, keys, text) if path.is_dir() else _file(path, keys, text)
    steps: list[Step] = []
    facts: dict[str, Any] = {}
    what = "form"
    try:
        for what, detail, more in checking:
            steps.append(Step(what, True, detail))
            facts |= more
    except _Failed as failure:
        return ProofReport((*steps, Step(failure.what, False, str(failure))), {})
    return ProofReport(tuple(steps), facts)


class _Failed(ProofFails):
    def __init__(self, what: str, message: str) -> None:
        super().__init__(message)
        self.what = what


_Steps = Iterator[tuple[str, str, dict[str, Any]]]


def _file(path: Path, keys: Sequence[VerifierKey], text: bytes | None) -> _Steps:
    proof = _loaded(path)
    head = _head(proof["head"], keys)
    yield _signed(head)
    event = _included("log", proof["log"], head.checkpoint.size, head.checkpoint.root)
    _see("log", event.get("kind") == "sealed" and event.get("seq") == proof["log"]["index"], "its event is no seal")
    body = event["body"]
    yield (
        "log",
        f"event {event['seq']} of the log seals a manifest of {body['chunks']} chunks",
        {"sealed_at": event["at"]},
    )
    line = _included("manifest", proof["manifest"], body["chunks"], _root(body))
    _see("manifest", line.get("chunk_id") == proof["chunk_id"], "its line is that of another chunk than it names")
    yield (
        "manifest",
        f"line {proof['manifest']['index']} of the manifest lists chunk {line['chunk_id']}",
        {"line": line},
    )
    if text is not None:
        found = hashlib.sha256(text).hexdigest()
        _see("text", found == line["text_sha256"], f"the text has SHA-256 {found}, sealed was {line['text_sha256']}")
        yield "text", f"the text is the one that was sealed, SHA-256 {found}", {}


def _loaded(path: Path) -> Mapping[str, Any]:
    if path.stat().st_size > PROOF_BYTES:
        raise _Failed("form", f"{path} has more than {PROOF_BYTES} bytes; expected a proof by `guard prove`")
    proof = _parsed("form", path.read_bytes())
    parts = proof.get("manifest"), proof.get("log")
    whole = isinstance(proof.get("head"), str) and isinstance(proof.get("chunk_id"), str) and proof.get("v") == 1
    for part in parts:
        whole = (
            whole
            and isinstance(part, dict)
            and isinstance(part.get("line"), str)
            and all(type(part.get(name)) is int for name in ("index", "size"))
            and isinstance(part.get("proof"), list)
            and all(isinstance(one, str) for one in part["proof"])
        )
    _see("form", whole, f"{path} is not of the form that `guard prove` writes")
    return proof


def _folder(path: Path, keys: Sequence[VerifierKey], text: bytes | None) -> _Steps:
    for name in FILES:
        _see("form", (path / name).is_file(), f"{path / name} is missing; expected what `guard prove --export` wrote")
    with (path / FILES[0]).open("rb") as stream:
        head = _head(stream.read(NOTE_BYTES + 1).decode("utf-8", "replace"), keys)
    yield _signed(head)
    body, at = _log(path / FILES[1], head)
    yield (
        "log",
        f"{head.checkpoint.size} events, each after its predecessor, come to the signed root",
        {"sealed_at": at},
    )
    tree, hasher, before, held = Frontier(), hashlib.sha256(), ("", ""), False
    digest = None if text is None else hashlib.sha256(text).hexdigest()
    with (path / FILES[2]).open("rb") as lines:
        for number, raw in enumerate(lines):
            hasher.update(raw)
            tree.append(leaf_hash(raw.removesuffix(b"\n")))
            row = _parsed("manifest", raw)
            key = str(row.get("chunk_id")), str(row.get("collection"))
            _see("manifest", before < key, f"line {number} is not after the one before it")
            before, held = key, held or row.get("text_sha256") == digest
    same = (hasher.hexdigest(), tree.root(), tree.size) == (body["subject"], _root(body), body["chunks"])
    _see("manifest", same, f"its {tree.size} lines are not the {body['chunks']} that were sealed")
    yield "manifest", f"{tree.size} lines, sorted, are what was sealed last", {"manifest_sha256": body["subject"]}
    if digest is not None:
        _see("text", held, f"no chunk of the manifest has the text with SHA-256 {digest}")
        yield "text", f"a chunk has this text, SHA-256 {digest}", {}


def _log(path: Path, head: Head) -> tuple[Mapping[str, Any], str]:
    """Recompute the log; what its newest seal says, and when."""
    tree, previous = Frontier(), "0" * 64
    seal: Mapping[str, Any] = {}
    with path.open("rb") as lines:
        for number, raw in enumerate(lines):
            line = raw.removesuffix(b"\n")
            event = _parsed("log", line)
            follows = (event.get("seq"), event.get("previous")) == (number, previous)
            _see("log", follows, f"line {number} of {path.name} does not follow the one before it")
            leaf = leaf_hash(line)
            tree.append(leaf)
            previous = leaf.hex()
            if event.get("kind") == "sealed":
                seal = event
    same = (tree.size, tree.root()) == (head.checkpoint.size, head.checkpoint.root)
    _see("log", same, f"its {tree.size} lines are not the {head.checkpoint.size} events that were signed")
    return _seal(seal), str(seal["at"])


def _head(note: str, keys: Sequence[VerifierKey]) -> Head:
    try:
        return open_head(note, keys)
    except HeadRefused as error:
        raise _Failed("head", str(error)) from error


def _signed(head: Head) -> tuple[str, str, dict[str, Any]]:
    checkpoint = head.checkpoint
    facts = {
        "origin": checkpoint.origin,
        "size": checkpoint.size,
        "root": checkpoint.root.hex(),
        "signed_by": list(head.signed_by),
    }
    return "head", f"{checkpoint.origin} at {checkpoint.size} events is signed by {', '.join(head.signed_by)}", facts


def _included(what: str, part: Mapping[str, Any], size: int, root: bytes) -> Mapping[str, Any]:
    _see(what, part["size"] == size, f"it is for a tree of {part['size']} leaves, vouched for are {size}")
    line = part["line"].encode("utf-8", "surrogatepass")
    try:
        proof = [bytes.fromhex(one) for one in part["proof"]]
        verify_inclusion(leaf_hash(line), part["index"], size, proof, root)
    except (Inconsistent, ValueError) as error:
        raise _Failed(what, f"its line is not in the tree: {error}") from error
    return _parsed(what, line)


def _seal(event: Mapping[str, Any]) -> Mapping[str, Any]:
    body = event.get("body")
    known = isinstance(body, dict) and isinstance(body.get("root"), str) and type(body.get("chunks")) is int
    _see("log", known, "no event tells of a manifest with a root: it was sealed by a release that signed nothing")
    return {"subject": event.get("subject"), "root": event["body"]["root"], "chunks": event["body"]["chunks"]}


def _root(body: Mapping[str, Any]) -> bytes:
    try:
        return bytes.fromhex(body["root"])
    except (ValueError, TypeError, LookupError) as error:
        raise _Failed("log", "the sealing event names no root") from error


def _parsed(what: str, raw: bytes) -> Mapping[str, Any]:
    try:
        row = orjson.loads(raw)
    except ValueError as error:
        raise _Failed(what, "a part of it is no JSON") from error
    if not isinstance(row, dict):
        raise _Failed(what, "a part of it is no JSON object")
    return row


def _see(what: str, holds: bool, message: str) -> None:
    if not holds:
        raise _Failed(what, message)
