"""Two sorted streams, side by side."""

from __future__ import annotations

from corpus_guard.proof.alignment import align


def test_each_key_is_yielded_with_what_either_stream_has() -> None:
    first, second = [("a", 1), ("c", 3)], [("b", 20), ("c", 30), ("d", 40)]

    assert list(align(first, second)) == [("a", 1, None), ("b", None, 20), ("c", 3, 30), ("d", None, 40)]


def test_a_key_that_stands_twice_is_a_difference() -> None:
    """A line that somebody added to a manifest must not stand for the one before it."""
    assert list(align([("a", 1), ("a", 2)], [("a", 1)])) == [("a", 1, 1), ("a", 2, None)]
    assert list(align([("a", 1)], [("a", 1), ("a", 2)])) == [("a", 1, 1), ("a", None, 2)]
