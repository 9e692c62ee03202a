"""Trees and proofs: the published roots, every hostile proof that others test against, and the laws."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpus_guard.errors import Misuse
from corpus_guard.proof.log.merkle import (
    EMPTY_ROOT,
    Frontier,
    ProofInvalid,
    consistency_proof,
    inclusion_proof,
    leaf_hash,
    node_hash,
    root_of,
    verify_consistency,
    verify_inclusion,
)

# The sample log of Certificate Transparency: eight entries, and the root after each of them.
ENTRIES = ("", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f")
ROOTS = (
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
)
SAMPLE = [leaf_hash(bytes.fromhex(entry)) for entry in ENTRIES]
GARBAGE = sha256(b"garbage").digest()


def some_leaves(count: int) -> list[bytes]:
    return [leaf_hash(b"%d" % number) for number in range(count)]


def literal_root(leaves: Sequence[bytes]) -> bytes:
    """The definition, word for word (RFC 9162 section 2.1.1); slow."""
    if not leaves:
        return sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    left = max(2**power for power in range(10) if 2**power < len(leaves))
    return sha256(b"\x01" + literal_root(leaves[:left]) + literal_root(leaves[left:])).digest()


def flip(value: bytes, bit: int) -> bytes:
    return (int.from_bytes(value, "big") ^ 1 << bit).to_bytes(len(value), "big")


def test_the_sample_log_has_its_published_roots() -> None:
    assert EMPTY_ROOT.hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert [root_of(SAMPLE[: size + 1]).hex() for size in range(8)] == list(ROOTS)


def test_the_sample_log_has_its_published_proofs() -> None:
    assert [node.hex() for node in inclusion_proof(SAMPLE, 0)] == [
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ]
    assert [node.hex() for node in consistency_proof(SAMPLE, 6)] == [
        "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ]


@given(st.integers(0, 70))
def test_roots_are_those_of_the_definition(size: int) -> None:
    assert root_of(some_leaves(size)) == literal_root(some_leaves(size))


def test_a_leaf_is_never_a_node() -> None:
    left, right = some_leaves(2)

    assert leaf_hash(left + right) != node_hash(left, right)
    assert node_hash(left, right) != node_hash(right, left)


# --- hostile proofs: the catalogue of transparency-dev/merkle, made for every shape of tree ----------------------------

Inclusion = tuple[bytes, int, int, list[bytes], bytes]
Consistency = tuple[int, int, list[bytes], bytes, bytes]


def hostile_inclusions(
    leaf: bytes, index: int, size: int, proof: list[bytes], root: bytes
) -> Iterator[tuple[str, Any]]:
    for what, other in [
        ("index - 1", index - 1),
        ("index + 1", index + 1),
        ("index ^ 2", index ^ 2),
        ("index negative", -1 - index),
        ("index beyond", size),
        ("index + size", index + size),
    ]:
        yield what, (leaf, other, size, proof, root)
    for what, other in [("size * 2", size * 2), ("size / 2", size // 2), ("size 0", 0), ("size negative", -size)]:
        if other.bit_length() != size.bit_length() or other < 0:
            yield what, (leaf, index, other, proof, root)
    for what, value in [("garbage", GARBAGE), ("empty", b""), ("empty root", EMPTY_ROOT), ("flipped", flip(root, 4))]:
        yield f"root {what}", (leaf, index, size, proof, value)
        yield f"leaf {what}", (value if what != "flipped" else flip(leaf, 4), index, size, proof, root)
    if size > 1:
        yield "leaf and root swapped", (root, index, size, proof, leaf)
        yield "no proof", (leaf, index, size, [], root)
        yield "truncated", (leaf, index, size, proof[:-1], root)
        yield "beheaded", (leaf, index, size, proof[1:], root)
    for what, value in [("garbage", GARBAGE), ("root", root), ("leaf", leaf), ("nothing", b"")]:
        yield f"{what} after", (leaf, index, size, [*proof, value], root)
        yield f"{what} before", (leaf, index, size, [value, *proof], root)
    for number, node in enumerate(proof):
        for what, value in [
            ("bit flipped", flip(node, 4)),
            ("short", node[:-1]),
            ("long", node + b"\0"),
            ("empty", b""),
        ]:
            yield f"hash {number} {what}", (leaf, index, size, [*proof[:number], value, *proof[number + 1 :]], root)
        yield f"hash {number} twice", (leaf, index, size, [*proof[: number + 1], *proof[number:]], root)
    if len(proof) > 1:
        yield "reversed", (leaf, index, size, proof[::-1], root)


def hostile_consistencies(
    size1: int, size2: int, proof: list[bytes], root1: bytes, root2: bytes
) -> Iterator[tuple[str, Any]]:
    for what, other in [("- 1", size1 - 1), ("+ 1", size1 + 1), ("^ 2", size1 ^ 2), ("0", 0), ("negative", -size1)]:
        yield f"size1 {what}", (other, size2, proof, root1, root2)
    for what, other in [("* 2", size2 * 2), ("/ 2", size2 // 2), ("below size1", size1 - 1), ("0", 0)]:
        yield f"size2 {what}", (size1, other, proof, root1, root2)
    yield "sizes swapped", (size2, size1, proof, root1, root2) if size1 < size2 else (0, 0, proof, root1, root2)
    for what, value in [("garbage", GARBAGE), ("empty", b""), ("empty root", EMPTY_ROOT)]:
        yield f"root1 {what}", (size1, size2, proof, value, root2)
        yield f"root2 {what}", (size1, size2, proof, root1, value)
    yield "root1 flipped", (size1, size2, proof, flip(root1, 4), root2)
    yield "root2 flipped", (size1, size2, proof, root1, flip(root2, 4))
    if size1 != size2:
        yield "roots swapped", (size1, size2, proof, root2, root1)
        yield "both roots the first", (size1, size2, proof, root1, root1)
        yield "both roots the second", (size1, size2, proof, root2, root2)
        yield "equal sizes", (size1, size1, [], root1, root2)
        yield "no proof", (size1, size2, [], root1, root2)
        yield "truncated", (size1, size2, proof[:-1], root1, root2)
        yield "beheaded", (size1, size2, proof[1:], root1, root2)
    for what, value in [("garbage", GARBAGE), ("root1", root1), ("root2", root2), ("nothing", b"")]:
        yield f"{what} after", (size1, size2, [*proof, value], root1, root2)
        yield f"{what} before", (size1, size2, [value, *proof], root1, root2)
    for number, node in enumerate(proof):
        for what, value in [
            ("bit flipped", flip(node, 4)),
            ("short", node[:-1]),
            ("long", node + b"\0"),
            ("empty", b""),
        ]:
            yield (
                f"hash {number} {what}",
                (size1, size2, [*proof[:number], value, *proof[number + 1 :]], root1, root2),
            )
    # What broke pymerkle: a proof that consists of the two roots and tells how to fold them.
    yield "the roots themselves", (size1, size2, [root2, root1], root1, root2)


@pytest.mark.parametrize("size", range(1, 18))
def test_inclusion_holds_for_each_leaf_and_for_no_hostile_proof(size: int) -> None:
    leaves = some_leaves(size)
    root = root_of(leaves)
    accepted = []
    for index, leaf in enumerate(leaves):
        proof = inclusion_proof(leaves, index)
        verify_inclusion(leaf, index, size, proof, root)
        tried = 0
        for what, vector in hostile_inclusions(leaf, index, size, proof, root):
            if vector == (leaf, index, size, proof, root):
                continue  # a tree of one leaf: swapping changes nothing
            tried += 1
            try:
                verify_inclusion(*vector)
            except ProofInvalid:
                continue
            accepted.append((what, index))
        assert tried >= 20
        for other in range(size):
            if other != index:
                with pytest.raises(ProofInvalid):
                    verify_inclusion(leaf, index, size, inclusion_proof(leaves, other), root)
    assert accepted == []


@pytest.mark.parametrize("size2", range(1, 18))
def test_consistency_holds_for_each_beginning_and_for_no_hostile_proof(size2: int) -> None:
    leaves = some_leaves(size2)
    root2 = root_of(leaves)
    accepted = []
    for size1 in range(1, size2 + 1):
        proof, root1 = consistency_proof(leaves, size1), root_of(leaves[:size1])
        verify_consistency(size1, size2, proof, root1, root2)
        tried = 0
        for what, vector in hostile_consistencies(size1, size2, proof, root1, root2):
            tried += 1
            try:
                verify_consistency(*vector)
            except ProofInvalid:
                continue
            accepted.append((what, size1))
        assert tried >= 25
        for other in range(1, size2):
            if other != size1 and consistency_proof(leaves, other) != proof:
                with pytest.raises(ProofInvalid):
                    verify_consistency(size1, size2, consistency_proof(leaves, other), root1, root2)
    assert accepted == []


def test_a_tree_of_another_depth_does_not_pass_for_one_of_this_size() -> None:
    """Roots that fit the prolonged proof, as whoever may choose the root would choose them."""
    root, above = root_of(SAMPLE), node_hash(GARBAGE, root_of(SAMPLE))
    for index in range(8):
        with pytest.raises(ProofInvalid, match="expected 3"):
            verify_inclusion(SAMPLE[index], index, 8, [*inclusion_proof(SAMPLE, index), GARBAGE], above)
    for size1 in range(1, 8):
        first = node_hash(GARBAGE, root_of(SAMPLE[:size1]))
        with pytest.raises(ProofInvalid):
            verify_consistency(size1, 8, [*consistency_proof(SAMPLE, size1), GARBAGE], first, above)
    with pytest.raises(ProofInvalid, match="expected more"):
        verify_inclusion(root_of(SAMPLE[:4]), 0, 8, [root_of(SAMPLE[4:])], root)


def test_a_byte_cannot_move_from_one_hash_to_its_neighbour() -> None:
    """What is hashed would be the same bytes: only the lengths tell."""
    proof = inclusion_proof(SAMPLE, 0)
    leaf, proof[0] = SAMPLE[0][:-1], SAMPLE[0][-1:] + proof[0]

    with pytest.raises(ProofInvalid, match="31 bytes"):
        verify_inclusion(leaf, 0, 8, proof, root_of(SAMPLE))


def test_size_1_of_0_proves_nothing() -> None:
    root = root_of(SAMPLE)

    for proof in ([], [root], consistency_proof(SAMPLE, 4)):
        with pytest.raises(ProofInvalid, match="from 1"):
            verify_consistency(0, 8, proof, EMPTY_ROOT, root)
        with pytest.raises(ProofInvalid):
            verify_consistency(0, 0, proof, EMPTY_ROOT, EMPTY_ROOT)


def test_equal_sizes_need_equal_roots_and_no_proof() -> None:
    root = root_of(SAMPLE)

    verify_consistency(8, 8, [], root, root)
    with pytest.raises(ProofInvalid, match="at equal size"):
        verify_consistency(8, 8, [], root, GARBAGE)
    with pytest.raises(ProofInvalid, match="expected none"):
        verify_consistency(8, 8, [root], root, root)


def test_a_leaf_beyond_the_tree_has_no_proof() -> None:
    for index in (-1, 8):
        with pytest.raises(Misuse):
            inclusion_proof(SAMPLE, index)
    for size in (-1, 0, 9):
        with pytest.raises(Misuse):
            consistency_proof(SAMPLE, size)


# --- laws --------------------------------------------------------------------------------------------------------------


@given(st.integers(0, 300), st.integers(0, 300))
def test_a_frontier_has_the_root_of_its_leaves_and_goes_on_where_it_stopped(first: int, more: int) -> None:
    leaves = some_leaves(first + more)
    begun = Frontier()
    begun.extend(leaves[:first])

    resumed = Frontier(begun.size, begun.nodes)
    resumed.extend(iter(leaves[first:]))

    assert begun.root() == root_of(leaves[:first])
    assert (resumed.size, resumed.root()) == (first + more, root_of(leaves))
    assert len(resumed.nodes) == resumed.size.bit_count()


@given(st.integers(0, 1 << 40), st.integers(0, 45))
def test_a_frontier_with_another_number_of_nodes_is_refused(size: int, count: int) -> None:
    nodes = [GARBAGE] * count
    if count == size.bit_count():
        assert Frontier(size, nodes).nodes == tuple(nodes)
        with pytest.raises(Misuse):
            Frontier(size, [*nodes[:-1], GARBAGE[:-1]] if nodes else [GARBAGE])
    else:
        with pytest.raises(Misuse):
            Frontier(size, nodes)


def test_a_frontier_of_negative_size_is_refused() -> None:
    for nodes in ([], [GARBAGE]):
        with pytest.raises(Misuse):
            Frontier(-1, nodes)


@given(st.data(), st.integers(1, 400))
def test_every_inclusion_proof_verifies(data: st.DataObject, size: int) -> None:
    index = data.draw(st.integers(0, size - 1))
    leaves = some_leaves(size)

    verify_inclusion(leaves[index], index, size, inclusion_proof(leaves, index), root_of(leaves))


@given(st.data(), st.integers(1, 400))
def test_every_consistency_proof_verifies(data: st.DataObject, size: int) -> None:
    size1 = data.draw(st.integers(1, size))
    leaves = some_leaves(size)

    verify_consistency(size1, size, consistency_proof(leaves, size1), root_of(leaves[:size1]), root_of(leaves))


@settings(max_examples=200)
@given(st.data(), st.integers(2, 200))
def test_no_single_changed_bit_passes(data: st.DataObject, size: int) -> None:
    leaves = some_leaves(size)
    index, size1 = data.draw(st.integers(0, size - 1)), data.draw(st.integers(1, size - 1))
    inclusion = [leaves[index], root_of(leaves), *inclusion_proof(leaves, index)]
    consistency = [root_of(leaves[:size1]), root_of(leaves), *consistency_proof(leaves, size1)]
    for values in (inclusion, consistency):
        which = data.draw(st.integers(0, len(values) - 1))
        values[which] = flip(values[which], data.draw(st.integers(0, 255)))

    with pytest.raises(ProofInvalid):
        verify_inclusion(inclusion[0], index, size, inclusion[2:], inclusion[1])
    with pytest.raises(ProofInvalid):
        verify_consistency(size1, size, consistency[2:], *consistency[:2])


@given(st.data(), st.integers(2, 120), st.lists(st.binary(min_size=32, max_size=32), max_size=9))
def test_no_rewritten_history_passes(data: st.DataObject, size: int, invented: list[bytes]) -> None:
    """Whatever the forger offers as proof: honest hashes of either tree, or hashes of his own."""
    size1 = data.draw(st.integers(1, size))
    changed = data.draw(st.integers(0, size1 - 1))
    honest = some_leaves(size)
    forged = [*honest[:changed], GARBAGE, *honest[changed + 1 :]]
    root1 = root_of(honest[:size1])

    for proof in (consistency_proof(honest, size1), consistency_proof(forged, size1), invented):
        with pytest.raises(ProofInvalid):
            verify_consistency(size1, size, proof, root1, root_of(forged))
