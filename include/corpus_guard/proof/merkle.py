"""Merkle trees over logs: roots, proofs, and the verifier that decides whether a proof holds.

Rules
    * a leaf is hashed as ``SHA-256(0x00 ‖ data)``, a node as ``SHA-256(0x01 ‖ left ‖ right)``, so that neither passes for the other;
    * which side each hash of a proof joins on follows from the index and the sizes alone; a proof says nothing about its own shape;
    * a proof has exactly the hashes it needs: one more, one fewer or one of another length, and it is refused;
    * a tree of size 0 contains nothing and proves nothing: every tree would be its continuation;
    * trees of equal size are consistent when their roots are equal and the proof is empty, never otherwise.

What is not done here: nobody says where a root came from. Whoever compares against a root must have it from a signed head.

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
    """A proof does not prove what it was given for."""


def leaf_hash(data: bytes) -> bytes:
    """32 bytes that stand for an entry (RFC 9162 section 2.1.1)."""
    return sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """32 bytes that stand for two subtrees side by side (RFC 9162 section 2.1.1)."""
    return sha256(b"\x01" + left + right).digest()


def root_of(leaves: Sequence[bytes]) -> bytes:
    """The root over `leaves`, which are leaf hashes of 32 bytes in their order (RFC 9162 section 2.1.1)."""
    level = leaves
    while len(level) > 1:
        level = _level_above(level)
    return level[0] if level else EMPTY_ROOT


class Frontier:
    """A tree that only grows, kept as the roots of its perfect subtrees: one hash for each 1 in the binary size.

    ``Frontier(size, nodes)`` goes on where another stopped; `size` and `nodes` are all there is to remember.
    """

    def __init__(self, size: int = 0, nodes: Sequence[bytes] = ()) -> None:
        """Begin empty, or from what was remembered.

        Args:
            size: leaves so far.
            nodes: roots of the perfect subtrees, the largest first, 32 bytes each.

        Raises:
            Misuse: these nodes cannot be those of a tree of that size.
        """
        expected = size.bit_count() if size >= 0 else -1
        if len(nodes) != expected or any(len(node) != HASH_BYTES for node in nodes):
            raise Misuse(
                f"a frontier of size {size} was given {len(nodes)} nodes of {sorted({len(node) for node in nodes})} bytes; "
                f"expected {max(expected, 0)} of {HASH_BYTES}: take size and nodes from one and the same frontier"
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
        """The root over all leaves so far."""
        if not self._nodes:
            return EMPTY_ROOT
        *others, root = self._nodes
        for node in reversed(others):
            root = node_hash(node, root)
        return root


def inclusion_proof(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """The hashes that lead from a leaf to the root over `leaves`, lowest first (RFC 9162 section 2.1.3.1).

    Raises:
        Misuse: there is no leaf with this index.
    """
    if not 0 <= index < len(leaves):
        raise Misuse(f"leaf {index} of a tree of size {len(leaves)}: expected an index from 0 to {len(leaves) - 1}")
    proof = []
    level = leaves
    while len(level) > 1:
        if index ^ 1 < len(level):  # the last node of an odd level has no neighbour and rises alone
            proof.append(level[index ^ 1])
        level, index = _level_above(level), index >> 1
    return proof


def consistency_proof(leaves: Sequence[bytes], size1: int) -> list[bytes]:
    """The hashes that show the tree over ``leaves[:size1]`` to be the beginning of that over `leaves` (RFC 9162 section 2.1.4.1).

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
    if start:  # otherwise it is the smaller tree as a whole, whose root the verifier has
        proof.append(root_of(leaves[start:end]))
    return proof[::-1]


def verify_inclusion(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> None:
    """Check that `leaf` stands at `index` in the tree with this size and root (RFC 9162 section 2.1.3.2).

    Args:
        leaf: a leaf hash.
        index: from 0.
        size: leaves in the tree.
        proof: hashes, lowest first.
        root: of the tree, from a signed head.

    Raises:
        ProofInvalid: it does not, or the proof does not show it.
    """
    subject = f"inclusion of leaf {index} in size {size}"
    if not 0 <= index < size:
        raise ProofInvalid(f"{subject}: expected an index below the size")
    _lengths(subject, leaf, root, *proof)
    node, own, last = leaf, index, size - 1  # positions on the present level: ours, and that of the last node
    for number, neighbour in enumerate(proof):
        if not last:
            raise ProofInvalid(f"{subject}: the proof has {len(proof)} hashes, expected {number}")
        if own & 1 or own == last:
            node = node_hash(neighbour, node)
            own, last = _rise_alone(own, last)
        else:
            node = node_hash(node, neighbour)
        own, last = own >> 1, last >> 1
    if last:
        raise ProofInvalid(f"{subject}: the proof has {len(proof)} hashes, expected more")
    _equal(subject, "the root", node, root)


def verify_consistency(size1: int, size2: int, proof: Sequence[bytes], root1: bytes, root2: bytes) -> None:
    """Check that the first tree is the beginning of the second (RFC 9162 section 2.1.4.2).

    Args:
        size1: leaves in the earlier tree, at least 1.
        size2: leaves in the later tree, at least `size1`.
        proof: hashes as `consistency_proof` gives them.
        root1: of the earlier tree, remembered.
        root2: of the later tree, from a signed head.

    Raises:
        ProofInvalid: it is not, or the proof does not show it.
    """
    subject = f"consistency of size {size1} with size {size2}"
    if not 0 < size1 <= size2:
        raise ProofInvalid(f"{subject}: expected a first size from 1 to the second")
    _lengths(subject, root1, root2, *proof)
    if size1 == size2:
        if proof:
            raise ProofInvalid(f"{subject}: the proof has {len(proof)} hashes, expected none between equal sizes")
        _equal(subject, "the root at equal size", root2, root1)
        return
    # Where the earlier tree is perfect, its root is itself a node of the later one, and the proof leaves it out.
    path = [root1, *proof] if size1.bit_count() == 1 else list(proof)
    if len(path) < 2:
        raise ProofInvalid(f"{subject}: the proof has {len(proof)} hashes, expected more")
    own, last = size1 - 1, size2 - 1
    while own & 1:
        own, last = own >> 1, last >> 1
    first = second = path[0]
    for number, neighbour in enumerate(path[1:]):
        if not last:
            raise ProofInvalid(f"{subject}: the proof has {len(path) - 1 - number} hashes too many")
        if own & 1 or own == last:
            first, second = node_hash(neighbour, first), node_hash(neighbour, second)
            own, last = _rise_alone(own, last)
        else:
            second = node_hash(second, neighbour)
        own, last = own >> 1, last >> 1
    if last:
        raise ProofInvalid(f"{subject}: the proof has {len(proof)} hashes, expected more")
    _equal(subject, "the earlier root", first, root1)
    _equal(subject, "the later root", second, root2)


def _level_above(level: Sequence[bytes]) -> list[bytes]:
    # Written for speed, a million leaves being usual: one pass, no call of ours inside.
    nodes = iter(level)
    above = [sha256(b"\x01" + left + right).digest() for left, right in zip(nodes, nodes, strict=False)]
    if len(level) & 1:
        above.append(level[-1])
    return above


def _rise_alone(own: int, last: int) -> tuple[int, int]:
    """Past the levels on which our node is the last of an odd number: no hash joins it there."""
    while own and not own & 1:
        own, last = own >> 1, last >> 1
    return own, last


def _lengths(subject: str, *hashes: bytes) -> None:
    for value in hashes:
        if len(value) != HASH_BYTES:
            raise ProofInvalid(f"{subject}: a hash of {len(value)} bytes, expected {HASH_BYTES}")


def _equal(subject: str, what: str, found: bytes, expected: bytes) -> None:
    if found != expected:
        raise ProofInvalid(f"{subject}: {what} comes to {found.hex()[:16]}…, expected {expected.hex()[:16]}…")
