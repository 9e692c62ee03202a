"""Two sorted streams, side by side."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeVar

Key = TypeVar("Key", str, tuple[str, str])
First = TypeVar("First")
Second = TypeVar("Second")


def align(
    first: Iterable[tuple[Key, First]], second: Iterable[tuple[Key, Second]]
) -> Iterator[tuple[Key, First | None, Second | None]]:
    """Yield each key with its value in either stream, None where it is missing; memory stays flat."""
    of_first: Iterable[tuple[Key, int, Any]] = ((key, 1, value) for key, value in first)
    of_second: Iterable[tuple[Key, int, Any]] = ((key, 2, value) for key, value in second)
    for key, group in groupby(heapq.merge(of_first, of_second, key=itemgetter(0)), key=itemgetter(0)):
        values = {stream: value for _, stream, value in group}
        yield key, values.get(1), values.get(2)
