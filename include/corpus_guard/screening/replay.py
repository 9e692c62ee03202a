"""The ledger's history as it is while stored versions are judged anew, one arrival after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from corpus_guard.domain import Verdict
from corpus_guard.ledger import Ledger
from corpus_guard.screening.history import LedgerHistory
from corpus_guard.screening.survey import Known, Standing

_STANDING = {
    Verdict.ACCEPT: Standing.SERVED,
    Verdict.QUARANTINE: Standing.QUARANTINED,
    Verdict.REJECT: Standing.REJECTED,
}


class Replay(LedgerHistory):
    """Hides what still waits to be judged anew, and shows what was judged by its new verdict, recorded or not."""

    def __init__(self, ledger: Ledger, waiting: Iterable[str]) -> None:
        super().__init__(ledger)
        self._waiting = set(waiting)
        self._settled: dict[str, Standing] = {}
        self._robust: dict[str, Mapping[str, Sequence[float]]] = {}

    def settle(self, arrived: Iterable[str], verdicts: Mapping[str, Verdict]) -> None:
        """These versions no longer wait; a new verdict tells where one stands, unless a person decided on it."""
        self._settled |= {one: _STANDING[verdict] for one, verdict in verdicts.items() if one in self._waiting}
        self._waiting -= set(arrived)

    def robust_values(self, source: str) -> Mapping[str, Sequence[float]]:
        """As recorded before; asked once a source, though there may be a thousand arrivals."""
        if source not in self._robust:
            self._robust[source] = super().robust_values(source)
        return self._robust[source]

    def same_text(self, text_sha256s: Sequence[str]) -> Iterable[Known]:
        """Versions that have one of these texts."""
        return (known for known in map(self._now, super().same_text(text_sha256s)) if known)

    def near(self, keys: Sequence[int]) -> Iterator[tuple[int, Known]]:
        """(band, version) for versions that have one of these bands."""
        for key, known in super().near(keys):
            shown = self._now(known)
            if shown:
                yield key, shown

    def _now(self, known: Known) -> Known | None:
        if known.version_id in self._waiting:
            return None
        return replace(known, standing=self._settled.get(known.version_id, known.standing))
