"""Two sorted streams, side by side."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeVar

Key = TypeVar("Key", str, tuple[str, str])
Left = TypeVar("Left")
Right = TypeVar("Right")


def align(
    left: Iterable[tuple[Key, Left]], right: Iterable[tuple[Key, Right]]
) -> Iterator[tuple[Key, Left | None, Right | None]]:
    """Yield each key with its value in either stream, None where it is missing; memory stays flat."""
    first: Iterable[tuple[Key, str, Any]] = ((key, "left", value) for key, value in left)
    second: Iterable[tuple[Key, str, Any]] = ((key, "right", value) for key, value in right)
    for key, group in groupby(heapq.merge(first, second, key=itemgetter(0)), key=itemgetter(0)):
        values = {side: value for _, side, value in group}
        yield key, values.get("left"), values.get("right")
