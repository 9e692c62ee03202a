"""Checking a proof with only a public key: no ledger, no store, no network, no trust in whoever made it.

Rules
    * the key comes from whoever checks; keys inside a proof or a folder are ignored;
    * everything is recomputed from the given bytes: leaves, roots, the chain, the hash of the manifest;
    * a part proves what it claims only if another part, up to the signature, vouches for it; a malformed part
      proves nothing;
    * a folder must be right as a whole: it fails on one missing, changed or additional line;
    * the report says what was not checked: a proof without the text proves that the corpus holds *a* text
      with this hash.

Not done here: showing that the head is the newest one. Compare its size and root with those that a witness or
another machine has seen.

Sources: RFC 9162 section 2.1.3.2, C2SP signed-note, C2SP tlog-checkpoint.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, TypeAlias

import orjson

from corpus_guard.domain import JsonRecord, sha256_bytes
from corpus_guard.errors import Inconsistent, Misuse
from corpus_guard.proof.log.keys import HeadRefused, VerifiedHead, open_head
from corpus_guard.proof.log.merkle import Frontier, leaf_hash, verify_inclusion
from corpus_guard.proof.log.note import MAX_NOTE_BYTES, VerifierKey

MAX_PROOF_BYTES: Final = 16 * 2**20  # a proof has some kB; its longest part is the line of an event
HEAD_FILE: Final = "head.note"
LOG_FILE: Final = "log.jsonl"
MANIFEST_FILE: Final = "manifest.jsonl"
_GENESIS_LEAF = "0" * 64  # what the first event names as its predecessor


class ProofFails(Inconsistent):
    """A part of a proof does not prove what it claims.

    Attributes:
        what: the part, as `ProofStep` names it.
    """

    def __init__(self, what: str, message: str) -> None:
        super().__init__(message)
        self.what = what


@dataclass(frozen=True, slots=True)
class ProofStep:
    """A checked part of a proof."""

    what: str  # form, head, log, manifest, text
    holds: bool
    detail: str


@dataclass(frozen=True, slots=True)
class ProofReport(JsonRecord):
    """Result of checking a proof, step by step; the first step that fails ends it."""

    steps: tuple[ProofStep, ...]
    facts: Mapping[str, object]  # proved by the steps that hold; empty if one fails

    @property
    def holds(self) -> bool:
        """True if every step holds."""
        return bool(self.steps) and all(step.holds for step in self.steps)

    def as_dict(self) -> dict[str, object]:
        """Return the report JSON-ready."""
        return {"holds": self.holds, **JsonRecord.as_dict(self)}


def check_proof(path: Path, keys: Sequence[VerifierKey], text: bytes | None = None) -> ProofReport:
    """Check a proof, or an exported folder.

    Args:
        keys: trusted keys of the log or its witnesses, not taken from the proof; one that signed is enough.
        text: text that the chunk (in a folder: any chunk) is said to hold, as its exact UTF-8 bytes.

    Raises:
        Misuse: there is no such file, or no key was given.
        OSError: the file is unreadable.
    """
    if not keys:
        raise Misuse(
            f"{path}: no key to check it with; give --key with a key that you got from the log's operator, "
            "not from the proof"
        )
    if not path.exists():
        raise Misuse(f"{path}: no such file or folder; expected what `guard prove` wrote")
    steps: list[ProofStep] = []
    facts: dict[str, object] = {}
    try:
        for what, detail, proved in _check_folder(path, keys, text) if path.is_dir() else _check_file(path, keys, text):
            steps.append(ProofStep(what, True, detail))
            facts |= proved
    except ProofFails as failure:
        return ProofReport((*steps, ProofStep(failure.what, False, str(failure))), {})
    return ProofReport(tuple(steps), facts)


_Steps: TypeAlias = Iterator[tuple[str, str, dict[str, object]]]
"""(step, detail, proved facts)."""


@dataclass(frozen=True, slots=True)
class _InclusionPath:
    line: str
    index: int
    size: int  # leaves
    proof: tuple[str, ...]  # hex hashes, lowest first


@dataclass(frozen=True, slots=True)
class _ChunkProof:
    chunk_id: str
    manifest: _InclusionPath
    log: _InclusionPath
    head: str  # note


@dataclass(frozen=True, slots=True)
class _SealFacts:
    """Content of a sealing event."""

    manifest_sha256: object  # its subject
    root: bytes
    chunks: int
    at: str


def _check_file(path: Path, keys: Sequence[VerifierKey], text: bytes | None) -> _Steps:
    proof = _load_proof(path)
    head = _open_head(proof.head, keys)
    yield _head_step(head)
    event = _included("log", proof.log, head.checkpoint.size, head.checkpoint.root)
    is_seal = event.get("kind") == "sealed" and event.get("seq") == proof.log.index
    _require("log", is_seal, "its event is not a seal")
    seal = _seal_facts(event)
    yield ("log", f"event {event['seq']} of the log seals a manifest of {seal.chunks} chunks", {"sealed_at": seal.at})
    line = _included("manifest", proof.manifest, seal.chunks, seal.root)
    _require("manifest", line.get("chunk_id") == proof.chunk_id, "its line is about another chunk than the proof names")
    yield ("manifest", f"line {proof.manifest.index} of the manifest lists chunk {line['chunk_id']}", {"line": line})
    if text is not None:
        sha256 = sha256_bytes(text)
        sealed = line["text_sha256"]
        _require("text", sha256 == sealed, f"the text has SHA-256 {sha256}, expected {sealed} as sealed")
        yield "text", f"the text is the one that was sealed, SHA-256 {sha256}", {}


def _load_proof(path: Path) -> _ChunkProof:
    if path.stat().st_size > MAX_PROOF_BYTES:
        raise ProofFails("form", f"{path} has more than {MAX_PROOF_BYTES} bytes; expected a proof by `guard prove`")
    proof = _parse_object("form", path.read_bytes())
    manifest, log = _parse_path(proof.get("manifest")), _parse_path(proof.get("log"))
    head, chunk_id = proof.get("head"), proof.get("chunk_id")
    if not (manifest and log and isinstance(head, str) and isinstance(chunk_id, str) and proof.get("v") == 1):
        raise ProofFails("form", f"{path} does not have the form that `guard prove` writes")
    return _ChunkProof(chunk_id, manifest, log, head)


def _parse_path(part: object) -> _InclusionPath | None:
    """Return an inclusion path; None if it is malformed."""
    if not isinstance(part, dict):
        return None
    line, index, size, proof = (part.get(name) for name in ("line", "index", "size", "proof"))
    if not isinstance(line, str) or type(index) is not int or type(size) is not int or not isinstance(proof, list):
        return None
    if not all(isinstance(node, str) for node in proof):
        return None
    return _InclusionPath(line, index, size, tuple(proof))


def _check_folder(path: Path, keys: Sequence[VerifierKey], text: bytes | None) -> _Steps:
    for name in (HEAD_FILE, LOG_FILE, MANIFEST_FILE):
        missing = f"{path / name} is missing; expected what `guard prove --export` wrote"
        _require("form", (path / name).is_file(), missing)
    with (path / HEAD_FILE).open("rb") as stream:
        head = _open_head(stream.read(MAX_NOTE_BYTES + 1).decode("utf-8", "replace"), keys)
    yield _head_step(head)
    seal = _check_log(path / LOG_FILE, head)
    yield (
        "log",
        f"{head.checkpoint.size} events, each after its predecessor, have the signed root",
        {"sealed_at": seal.at},
    )
    tree, hasher, previous, has_text = Frontier(), hashlib.sha256(), ("", ""), False
    text_sha256 = None if text is None else sha256_bytes(text)
    with (path / MANIFEST_FILE).open("rb") as lines:
        for number, raw in enumerate(lines):
            hasher.update(raw)
            tree.append(leaf_hash(raw.removesuffix(b"\n")))
            row = _parse_object("manifest", raw)
            key = str(row.get("chunk_id")), str(row.get("collection"))
            _require("manifest", previous < key, f"line {number} does not come after the one before it")
            previous, has_text = key, has_text or row.get("text_sha256") == text_sha256
    is_sealed = (hasher.hexdigest(), tree.root(), tree.size) == (seal.manifest_sha256, seal.root, seal.chunks)
    _require("manifest", is_sealed, f"its {tree.size} lines are not the {seal.chunks} that were sealed")
    yield (
        "manifest",
        f"{tree.size} lines, sorted, are what was sealed last",
        {"manifest_sha256": seal.manifest_sha256},
    )
    if text_sha256 is not None:
        _require("text", has_text, f"no chunk of the manifest has the text with SHA-256 {text_sha256}")
        yield "text", f"a chunk has this text, SHA-256 {text_sha256}", {}


def _check_log(path: Path, head: VerifiedHead) -> _SealFacts:
    """Recompute the log and return its newest seal."""
    tree, previous = Frontier(), _GENESIS_LEAF
    newest_seal: Mapping[str, object] = {}
    with path.open("rb") as lines:
        for number, raw in enumerate(lines):
            line = raw.removesuffix(b"\n")
            event = _parse_object("log", line)
            follows = (event.get("seq"), event.get("previous")) == (number, previous)
            _require("log", follows, f"line {number} of {path.name} does not follow the one before it")
            leaf = leaf_hash(line)
            tree.append(leaf)
            previous = leaf.hex()
            if event.get("kind") == "sealed":
                newest_seal = event
    is_signed = (tree.size, tree.root()) == (head.checkpoint.size, head.checkpoint.root)
    _require("log", is_signed, f"its {tree.size} lines are not the {head.checkpoint.size} events that were signed")
    return _seal_facts(newest_seal)


def _open_head(note: str, keys: Sequence[VerifierKey]) -> VerifiedHead:
    try:
        return open_head(note, keys)
    except HeadRefused as error:
        raise ProofFails("head", str(error)) from error


def _head_step(head: VerifiedHead) -> tuple[str, str, dict[str, object]]:
    checkpoint = head.checkpoint
    facts: dict[str, object] = {
        "origin": checkpoint.origin,
        "size": checkpoint.size,
        "root": checkpoint.root.hex(),
        "signed_by": list(head.signed_by),
    }
    return "head", f"{checkpoint.origin} at {checkpoint.size} events is signed by {', '.join(head.signed_by)}", facts


def _included(what: str, path: _InclusionPath, size: int, root: bytes) -> Mapping[str, object]:
    """Return the parsed line of an inclusion path, after checking that it is in the tree."""
    _require(what, path.size == size, f"it is about a tree of {path.size} leaves, expected {size}")
    line = path.line.encode("utf-8", "surrogatepass")
    try:
        proof = [bytes.fromhex(node) for node in path.proof]
        verify_inclusion(leaf_hash(line), path.index, size, proof, root)
    except (Inconsistent, ValueError) as error:
        raise ProofFails(what, f"its line is not in the tree: {error}") from error
    return _parse_object(what, line)


def _seal_facts(event: Mapping[str, object]) -> _SealFacts:
    body = event.get("body")
    root, chunks = (body.get("root"), body.get("chunks")) if isinstance(body, dict) else (None, None)
    if not isinstance(root, str) or type(chunks) is not int:
        raise ProofFails("log", "no event names a manifest with a root: it was sealed by a release that signed nothing")
    try:
        at = datetime.fromisoformat(str(event["at"])).isoformat()
        return _SealFacts(event.get("subject"), bytes.fromhex(root), chunks, at)
    except (ValueError, LookupError) as error:
        raise ProofFails("log", "the sealing event has no root or no time") from error


def _parse_object(what: str, raw: bytes) -> Mapping[str, object]:
    try:
        row = orjson.loads(raw)
    except ValueError as error:
        raise ProofFails(what, "a part of it is not JSON") from error
    if not isinstance(row, dict):
        raise ProofFails(what, "a part of it is not a JSON object")
    return row


def _require(what: str, holds: bool, message: str) -> None:
    if not holds:
        raise ProofFails(what, message)
