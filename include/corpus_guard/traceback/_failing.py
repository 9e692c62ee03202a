"""Whatever a model or its library raises, as a failure that a trace can say and go on from. Part of `corpus_guard.traceback`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from corpus_guard.errors import GuardError, JudgeFailed


@contextlib.contextmanager
def as_failure(what: str) -> Iterator[None]:
    """Raise `JudgeFailed` for what is no error of the guard's own; `what` says whose failure it is."""
    try:
        yield
    except GuardError:
        raise
    except Exception as error:  # its message may quote a text
        raise JudgeFailed(
            f"{what}: {type(error).__name__}; run `guard models prepare` and see that there is memory, then trace again"
        ) from error
