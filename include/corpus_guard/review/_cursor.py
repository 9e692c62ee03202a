"""Where a page ended, as a word for an address: what the next page begins after. Part of `corpus_guard.review`."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import orjson


def token(values: Sequence[Any]) -> str:
    """Values that JSON can hold, in letters that need no escape in an address."""
    return base64.urlsafe_b64encode(orjson.dumps(values)).decode().rstrip("=")


def read(text: str) -> Any:
    """What `token` was given; it may come from anybody, so that whatever is in it must be looked at.

    Raises:
        ValueError: it is no such word.
    """
    return orjson.loads(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
