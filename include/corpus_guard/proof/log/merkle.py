"""Merkle trees over logs: roots, proofs, and their verification.

Rules
    * a leaf is hashed as ``SHA-256(0x00 ‖ data)``, a node as ``SHA-256(0x01 ‖ left ‖ right)``, so that
      neither passes for the other;
    * the side on which each hash of a proof joins follows from the index and the sizes alone; a proof does
      not state its own shape;
    * a proof has exactly the hashes it needs: with one more, one fewer or one of another length it is
      refused;
    * a tree of size 0 contains nothing and proves nothing: every tree would be its continuation;
    * trees of equal size are consistent when their roots are equal and the proof is empty, never otherwise.

Not done here: telling where a root came from. Take the root to compare with from a signed head.

Sources: RFC 6962 section 2.1; RFC 9162 sections 2.1.1 to 2.1.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256

from corpus_guard.errors import Inconsistent, Misuse

HASH_BYTES = 32
EMPTY_ROOT = sha256().digest()
"""The root of the tree without leaves (RFC 9162 section 2.1.1)."""


class ProofInvalid(Inconsistent):
    """A proof does not prove its claim."""


def leaf_hash(data: bytes) -> bytes:
    """Return the leaf hash of an entry, 32 bytes (RFC 9162 section 2.1.1)."""
    return sha256(b"\x00" + data).digest()


def node_hash(left_hash: bytes, right_hash: bytes) -> bytes:
    """Return the hash of the node above two subtrees, 32 bytes (RFC 9162 section 2.1.1)."""
    return sha256(b"\x01" + left_hash + right_hash).digest()


def root_of(leaves: Sequence[bytes]) -> bytes:
    """Return the root over `leaves`, leaf hashes of 32 bytes in their order (RFC 9162 section 2.1.1)."""
    level = leaves
    while len(level) > 1:
        level = _level_above(level)
    return level[0] if level else EMPTY_ROOT


class Frontier:
    """A growing tree, as the roots of its perfect subtrees: one hash for each 1 in the binary size.

    ``Frontier(size, nodes)`` continues another one; `size` and `nodes` are its whole state.
    """

    def __init__(self, size: int = 0, nodes: Sequence[bytes] = ()) -> None:
        """Create an empty tree, or one from a stored state.

        Args:
            size: leaves so far.
            nodes: roots of the perfect subtrees, the largest first, 32 bytes each.

        Raises:
            Misuse: a tree of this size cannot have these nodes.
        """
        expected = size.bit_count() if size >= 0 else -1
        if len(nodes) != expected or any(len(node) != HASH_BYTES for node in nodes):
            raise Misuse(
                f"frontier of size {size}: got {len(nodes)} nodes of {sorted({len(node) for node in nodes})} "
                f"bytes, expected {max(expected, 0)} nodes of {HASH_BYTES} bytes; take size and nodes from "
                "the same frontier"
            )
        self._size = size
        self._nodes = list(nodes)

    @property
    def size(self) -> int:
        """Leaves so far."""
        return self._size

    @property
    def nodes(self) -> tuple[bytes, ...]:
        """Roots of the perfect subtrees, the largest first."""
        return tuple(self._nodes)

    def append(self, leaf: bytes) -> None:
        """Add one leaf hash at the end."""
        node, size = leaf, self._size
        while size & 1:
            node = node_hash(self._nodes.pop(), node)
            size >>= 1
        self._nodes.append(node)
        self._size += 1

    def extend(self, leaves: Iterable[bytes]) -> None:
        """Add leaf hashes at the end, in their order."""
        for leaf in leaves:
            self.append(leaf)

    def root(self) -> bytes:
        """Return the root over all leaves so far."""
        if not self._nodes:
            return EMPTY_ROOT
        *others, root = self._nodes
        for node in reversed(others):
            root = node_hash(node, root)
        return root


def inclusion_proof(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """Return the hashes from a leaf to the root over `leaves`, lowest first (RFC 9162 section 2.1.3.1).

    Raises:
        Misuse: there is no leaf with this index.
    """
    if not 0 <= index < len(leaves):
        raise Misuse(f"leaf {index} of a tree of size {len(leaves)}: expected an index from 0 to {len(leaves) - 1}")
    proof = []
    level = leaves
    while len(level) > 1:
        if index ^ 1 < len(level):  # the last node of an odd level has no sibling
            proof.append(level[index ^ 1])
        level, index = _level_above(level), index >> 1
    return proof


def consistency_proof(leaves: Sequence[bytes], size1: int) -> list[bytes]:
    """Return the proof that the tree over ``leaves[:size1]`` is a prefix of the one over `leaves`.

    RFC 9162 section 2.1.4.1.

    Raises:
        Misuse: `size1` is not from 1 to ``len(leaves)``.
    """
    if not 0 < size1 <= len(leaves):
        raise Misuse(f"consistency of size {size1} with size {len(leaves)}: expected a size from 1 to {len(leaves)}")
    proof = []
    start, end = 0, len(leaves)  # the subtree in which the smaller tree ends
    while end != size1:
        middle = start + (1 << (end - start - 1).bit_length() - 1)
        if size1 <= middle:
            proof.append(root_of(leaves[middle:end]))
            end = middle
        else:
            proof.append(root_of(leaves[start:middle]))
            start = middle
    if start:  # otherwise it is the whole smaller tree, whose root the verifier has
        proof.append(root_of(leaves[start:end]))
    return proof[::-1]


def verify_inclusion(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> None:
    """Check that `leaf` is at `index` in the tree with this size and root (RFC 9162 section 2.1.3.2).

    Args:
        leaf: a leaf hash.
        index: from 0.
        size: leaves in the tree.
        proof: hashes, lowest first.
        root: of the tree, from a signed head.

    Raises:
        ProofInvalid: the proof does not show it.
    """
    subject = f"inclusion of leaf {index} in size {size}"
    if not 0 <= index < size:
        raise ProofInvalid(f"{subject}: expected an index below the size")
    _require_lengths(subject, leaf, root, *proof)
    node, own, last = leaf, index, size - 1  # positions on the current level: ours, and that of the last node
    for number, sibling in enumerate(proof):
        if not last:
            raise ProofInvalid(f"{subject}: the proof has {len(proof)} hashes, expected {number}")
        if own & 1 or own == last:
            node = node_hash(sibling, node)
            own, last = _skip_single_levels(own, last)
        else:
            node = node_hash(node, sibling)
        own, last = own >> 1, last >> 1
    if last:
        raise ProofInvalid(f"{subject}: the proof has {len(proof)} hashes, expected more")
    _require_root(subject, "the root", node, root)


def verify_consistency(size1: int, size2: int, proof: Sequence[bytes], root1: bytes, root2: bytes) -> None:
    """Check that the first tree is a prefix of the second (RFC 9162 section 2.1.4.2).

    Args:
        size1: leaves in the earlier tree, at least 1.
        size2: leaves in the later tree, at least `size1`.
        proof: hashes as `consistency_proof` returns them.
        root1: of the earlier tree, as remembered.
        root2: of the later tree, from a signed head.

    Raises:
        ProofInvalid: the proof does not show it.
    """
    subject = f"consistency of size {size1} with size {size2}"
    if not 0 < size1 <= size2:
        raise ProofInvalid(f"{subject}: expected a first size from 1 to the second")
    _require_lengths(subject, root1, root2, *proof)
    if size1 == size2:
        if proof:
            raise ProofInvalid(f"{subject}: the proof has {len(proof)} hashes, expected none between equal sizes")
        _require_root(subject, "the root at equal size", root2, root1)
        return
    # If the earlier tree is perfect, its root is a node of the later one, and the proof omits it.
    path = [root1, *proof] if size1.bit_count() == 1 else list(proof)
    if len(path) < 2:
        raise ProofInvalid(f"{subject}: the proof has {len(proof)} hashes, expected more")
    own, last = size1 - 1, size2 - 1
    while own & 1:
        own, last = own >> 1, last >> 1
    first = second = path[0]
    for number, sibling in enumerate(path[1:]):
        if not last:
            raise ProofInvalid(f"{subject}: the proof has {len(path) - 1 - number} hashes too many")
        if own & 1 or own == last:
            first, second = node_hash(sibling, first), node_hash(sibling, second)
            own, last = _skip_single_levels(own, last)
        else:
            second = node_hash(second, sibling)
        own, last = own >> 1, last >> 1
    if last:
        raise ProofInvalid(f"{subject}: the proof has {len(proof)} hashes, expected more")
    _require_root(subject, "the earlier root", first, root1)
    _require_root(subject, "the later root", second, root2)


def _level_above(level: Sequence[bytes]) -> list[bytes]:
    # Optimised, because a million leaves are usual: one pass, node_hash inlined.
    nodes = iter(level)
    above = [sha256(b"\x01" + first + second).digest() for first, second in zip(nodes, nodes, strict=False)]
    if len(level) & 1:
        above.append(level[-1])
    return above


def _skip_single_levels(own: int, last: int) -> tuple[int, int]:
    """Return the positions above the levels on which our node, the last of an odd number, has no sibling."""
    while own and not own & 1:
        own, last = own >> 1, last >> 1
    return own, last


def _require_lengths(subject: str, *hashes: bytes) -> None:
    for value in hashes:
        if len(value) != HASH_BYTES:
            raise ProofInvalid(f"{subject}: a hash of {len(value)} bytes, expected {HASH_BYTES}")


def _require_root(subject: str, name: str, root: bytes, expected: bytes) -> None:
    if root != expected:
        raise ProofInvalid(f"{subject}: {name} is {root.hex()[:16]}…, expected {expected.hex()[:16]}…")
