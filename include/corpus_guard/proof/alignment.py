"""Two sorted streams, side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

Key = TypeVar("Key", str, tuple[str, str])
First = TypeVar("First")
Second = TypeVar("Second")


def align(
    first: Iterable[tuple[Key, First]], second: Iterable[tuple[Key, Second]]
) -> Iterator[tuple[Key, First | None, Second | None]]:
    """Yield each key with its value in either stream, None where it is missing; memory stays flat.

    A key that stands twice in one stream is yielded twice: it is no less of a difference.
    """
    of_first, of_second = iter(first), iter(second)
    next_first, next_second = next(of_first, None), next(of_second, None)
    while next_first is not None or next_second is not None:
        key = min(pair[0] for pair in (next_first, next_second) if pair is not None)
        first_value = second_value = None
        if next_first is not None and next_first[0] == key:
            first_value, next_first = next_first[1], next(of_first, None)
        if next_second is not None and next_second[0] == key:
            second_value, next_second = next_second[1], next(of_second, None)
        yield key, first_value, second_value
