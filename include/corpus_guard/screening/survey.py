"""What a run looks like as a whole: robust statistics per source, and who resembles whom.

Intake measures each version once (`signals_of`); one small task joins the measures of all shards with the ledger's
history into a `Survey`; the checks that look across documents only look things up in it.

Rules
- Statistics of a source rest on what it was accepted with before; the run's own documents count only while that
  history is short (`ENOUGH_HISTORY`), so a flood of hostile documents does not become the norm by which it is judged.
- Neighbours are other documents, never other versions of the same one.
- Similarity 1.0 means the same text, byte for byte. Anything less is an estimate from 64 MinHash values (standard
  error 0.06 at 0.65), found through 16 bands of 4 values: a pair at 0.8 is missed once in 4,600 times, one at 0.65 once
  in 23; of a burst of four, each has three chances.
- A text of fewer than `signals.MIN_WORDS` words is nobody's near neighbour, an empty one nobody's neighbour at all.
- Of each standing and trust level a version keeps its `KEEP` nearest neighbours: a flood of copies can neither fill
  the memory nor push out a known bad neighbour or a trusted original. Counts are therefore lower bounds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

import orjson

from corpus_guard.domain import TrustLevel, Version
from corpus_guard.errors import Inconsistent
from corpus_guard.screening.semantic import Semantics

if TYPE_CHECKING:
    from corpus_guard.screening._resemblance import Run
    from corpus_guard.screening.signals import Signals

SIMILAR: Final = (
    0.65  # Jaccard of word shingles from which two texts are near duplicates: a few words changed in each sentence
)
BANDS: Final = 16  # keys of a version
KEEP: Final = 12  # neighbours kept of each standing and trust level
MOST_OF_A_BAND: Final = 64  # versions of one standing and trust level looked at for one band key
_FORMAT: Final = "survey/v2"
ENOUGH_HISTORY: Final = 200  # accepted versions from which a source is judged by its history alone


@dataclass(frozen=True, slots=True)
class Robust:
    """Location and spread that a minority of hostile values cannot move far."""

    median: float
    mad: float  # median absolute deviation, same unit as the median
    count: int

    def z(self, value: float, floor: float = 1e-9) -> float:
        """Robust z-score: deviations in units of 1.4826 MAD (one standard deviation of a normal distribution).

        Args:
            value: on the scale of the median (`signals.scaled`).
            floor: the least spread to assume, in the same unit: most documents may have the very same value.
        """
        return (value - self.median) / max(1.4826 * self.mad, floor)


class Standing(StrEnum):
    """Where a neighbour stands."""

    NEW = "new"  # in this run
    SERVED = "served"
    QUARANTINED = "quarantined"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Another document with the same or nearly the same text."""

    version_id: str
    doc_id: str
    source: str
    trust: TrustLevel
    standing: Standing
    similarity: float  # Jaccard of word shingles, 1.0: the same text


@dataclass(frozen=True, slots=True)
class Survey:
    """What the checks that look across documents know."""

    # source → signal → statistics, on the scale of `signals.scaled`
    sources: Mapping[str, Mapping[str, Robust]] = field(default_factory=lambda: MappingProxyType({}))
    # by version id, the nearest of each standing first
    neighbours: Mapping[str, tuple[Neighbour, ...]] = field(default_factory=lambda: MappingProxyType({}))
    # what the vectors of the run's chunks say
    semantics: Semantics = field(default_factory=Semantics)
    # documents are screened one by one: nothing is known of others, only what was asked
    alone: bool = False
    # by the new version's id, what it follows; whole texts, so they are added a shard at a time and never written down
    predecessors: Mapping[str, Version] = field(default_factory=lambda: MappingProxyType({}))

    def of(self, version_ids: Collection[str]) -> Survey:
        """The same survey for some versions only: what one shard needs."""
        wanted = set(version_ids)
        return replace(
            self,
            neighbours={key: value for key, value in self.neighbours.items() if key in wanted},
            semantics=self.semantics.of(wanted),
            predecessors={key: value for key, value in self.predecessors.items() if key in wanted},
        )

    def with_predecessors(self, predecessors: Mapping[str, Version]) -> Survey:
        """The same survey with what the versions of a shard follow."""
        return replace(self, predecessors=predecessors)

    def to_json(self) -> bytes:
        """Ids, numbers, source names and questions that were asked; each neighbour once, however often it is referred to."""
        places: dict[tuple[str, ...], int] = {}
        links: dict[str, list[tuple[int, float]]] = {}
        for version, neighbours in self.neighbours.items():
            links[version] = [
                (places.setdefault((n.version_id, n.doc_id, n.source, n.trust, n.standing), len(places)), n.similarity)
                for n in neighbours
            ]
        sources = {
            source: {name: (robust.median, robust.mad, robust.count) for name, robust in signals.items()}
            for source, signals in self.sources.items()
        }
        record = {
            "format": _FORMAT,
            "sources": sources,
            "places": list(places),
            "links": links,
            "semantics": self.semantics.record(),
            "alone": self.alone,
        }
        return orjson.dumps(record)

    @classmethod
    def from_json(cls, data: bytes) -> Survey:
        """The inverse of `to_json`.

        Raises:
            Inconsistent: not a survey. It is never taken for an empty one, in which nobody resembles anybody.
        """
        try:
            record = orjson.loads(data)
            if record["format"] != _FORMAT:
                record = {}  # another format may have other rules; the first look-up below fails
            sources = {
                source: {name: Robust(*robust) for name, robust in signals.items()}
                for source, signals in record["sources"].items()
            }
            places = [(v, d, source, TrustLevel(t), Standing(s)) for v, d, source, t, s in record["places"]]
            neighbours = {
                version: tuple(Neighbour(*places[int(place)], similarity) for place, similarity in links)
                for version, links in record["links"].items()
            }
            semantics, alone = Semantics.from_record(record["semantics"]), bool(record["alone"])
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise Inconsistent(
                f"survey of {len(data)} bytes: unreadable ({type(error).__name__}), expected format {_FORMAT}; "
                "survey the run again"
            ) from error
        return cls(sources, neighbours, semantics, alone)


@dataclass(frozen=True, slots=True)
class Known:
    """A version in the ledger, as the history offers it for comparison."""

    version_id: str
    doc_id: str
    source: str
    trust: TrustLevel
    standing: Standing  # never NEW
    text_sha256: str  # hex
    minhash: bytes  # as in `Signals`


class History(Protocol):
    """What the ledger knows of earlier runs. Texts and bands are asked 2,000 at a time; answers may be streamed."""

    def robust_values(self, source: str) -> Mapping[str, Sequence[float]]:
        """Signal → values of the source's most recent accepted versions (some 5,000 are plenty), as measured."""

    def same_text(self, text_sha256s: Sequence[str]) -> Iterable[Known]:
        """Versions that are served, quarantined or rejected and have one of these texts."""

    def near(self, bands: Sequence[int]) -> Iterable[tuple[int, Known]]:
        """(band, version) for every such version that has one of these `band_keys`.

        Of one band, standing and trust level it may leave out all but MOST_OF_A_BAND.
        """


class EmptyHistory:
    """No ledger: ``guard screen`` on a folder."""

    def robust_values(self, source: str) -> Mapping[str, Sequence[float]]:
        """Nothing."""
        return {}

    def same_text(self, text_sha256s: Sequence[str]) -> Iterable[Known]:
        """Nothing."""
        return ()

    def near(self, bands: Sequence[int]) -> Iterable[tuple[int, Known]]:
        """Nothing."""
        return ()


def band_keys(minhash: bytes) -> tuple[int, ...]:
    """BANDS signed 64-bit keys (SQL BIGINT); similar texts share at least one. Empty: too short to be compared."""
    import numpy as np

    from corpus_guard.screening._resemblance import is_empty, keys_of

    sketch = np.frombuffer(minhash, dtype="<u4").reshape(1, -1)
    return () if is_empty(sketch)[0] else tuple(keys_of(sketch)[0].tolist())


def build_survey(new: Iterable[Signals], history: History, *, similarity: float = SIMILAR) -> Survey:
    """Join the measures of a run with the history.

    Args:
        new: the run's versions; the same version twice counts once.
        history: the ledger, or `EmptyHistory`.
        similarity: Jaccard from which two texts are neighbours, 0..1.
    """
    from corpus_guard.screening._resemblance import Run, neighbours_of

    run = Run(new)
    return Survey(_statistics(run, history), neighbours_of(run, history, similarity))


def _statistics(run: Run, history: History) -> dict[str, dict[str, Robust]]:
    import numpy as np

    from corpus_guard.screening.signals import scaled

    statistics: dict[str, dict[str, Robust]] = {}
    for source, columns in run.values.items():
        past = history.robust_values(source)
        for name, values in columns.items():
            before = past.get(name, ())
            counted = [*before] if len(before) >= ENOUGH_HISTORY else [*before, *values]
            numbers = np.array([scaled(name, value) for value in counted])
            numbers = numbers[np.isfinite(numbers)]
            if len(numbers):
                median = float(np.median(numbers))
                spread = float(np.median(np.abs(numbers - median)))
                statistics.setdefault(source, {})[name] = Robust(median, spread, len(numbers))
    return statistics
