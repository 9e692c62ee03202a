"""Checkpoints: origin, size and root of a log, as the text of a signed note.

Rules
    * three lines: origin, number of leaves, root; each has one spelling, so equal checkpoints are equal
      texts;
    * a number has no leading zero and no sign, a root is 32 bytes of strict base64, and the root of size 0 is
      that of the empty tree;
    * further lines, which the specification allows and no monitor can check, are refused: our signature
      covers nothing else.

Source: C2SP tlog-checkpoint.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from corpus_guard.proof.log.merkle import EMPTY_ROOT, HASH_BYTES
from corpus_guard.proof.log.note import NoteInvalid, decode_base64, encode_base64

MAX_SIZE: Final = 2**63 - 1  # leaves: the largest integer of databases and other implementations
_SIZE = re.compile(r"0|[1-9][0-9]{0,18}", re.ASCII)


class CheckpointInvalid(NoteInvalid):
    """A text is not a checkpoint."""


class EmptyRootWrong(CheckpointInvalid):
    """A checkpoint of size 0 does not have the root of the empty tree."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The head of a log."""

    origin: str  # permanent name of the log: one line
    size: int  # leaves
    root: bytes  # 32 bytes, RFC 6962

    def __post_init__(self) -> None:
        if not self.origin or re.search(r"[\x00-\x1f]", self.origin):
            raise CheckpointInvalid(f"a checkpoint has the origin {self.origin[:80]!r}, expected one non-empty line")
        if not 0 <= self.size <= MAX_SIZE or len(self.root) != HASH_BYTES:
            raise CheckpointInvalid(
                f"checkpoint of {self.origin}: size {self.size} with a root of {len(self.root)} bytes, "
                f"expected 0 to {MAX_SIZE} with {HASH_BYTES}"
            )
        if self.size == 0 and self.root != EMPTY_ROOT:
            raise EmptyRootWrong(f"checkpoint of {self.origin}: size 0 with a root other than that of the empty tree")

    def body(self) -> str:
        """Return the text to be signed."""
        return f"{self.origin}\n{self.size}\n{encode_base64(self.root)}\n"


def parse_checkpoint(text: str) -> Checkpoint:
    """Read the text of a note as a checkpoint.

    Raises:
        CheckpointInvalid: it is not a checkpoint, or has further lines, which nobody can check.
    """
    *lines, end = text.split("\n")
    if len(lines) != 3 or end:
        raise CheckpointInvalid(
            f"a checkpoint has {len(lines)} lines, expected origin, size and root, each with its newline"
        )
    origin, size, root = lines
    if not _SIZE.fullmatch(size):
        raise CheckpointInvalid(
            f"a checkpoint has the size {size[:24]!r}, expected a decimal number without leading zeros"
        )
    try:
        return Checkpoint(origin, int(size), decode_base64(root))
    except CheckpointInvalid:
        raise
    except NoteInvalid as error:
        raise CheckpointInvalid(f"the root of a checkpoint of size {size} is not strict base64") from error
