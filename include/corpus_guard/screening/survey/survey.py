"""A run as a whole: robust statistics per source, similar documents, and what the vectors of its chunks say.

Intake measures each version once (`measure_signals`); one small task joins the measures of all shards with
the ledger's history into a `Survey`; the checks that look across documents only look things up in it.

Rules
- Statistics of a source rest on what it was accepted with before; the run's own documents count only while
  that history is short (`MIN_HISTORY_VERSIONS`), so a flood of hostile documents does not become the norm by
  which it is judged.
- Neighbours are other documents, never other versions of the same one.
- Similarity 1.0 means the same text, byte for byte. Anything less is an estimate from 64 MinHash values
  (standard error 0.06 at 0.65), found through 16 bands of 4 values: a pair at 0.8 is missed once in 4,600
  times, one at 0.65 once in 23; of a burst of four, each has three chances.
- A text of fewer than `signals.MIN_WORDS` words has no near neighbours, an empty one no neighbours at all.
- Of each standing and trust level a version keeps its `NEIGHBOURS_PER_KIND` nearest neighbours: a flood of
  copies can neither fill the memory nor push out a known bad neighbour or a trusted original. Counts are
  therefore lower bounds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

import numpy as np
import orjson

from corpus_guard.domain import TrustLevel, Version
from corpus_guard.errors import Inconsistent
from corpus_guard.screening.survey.resemblance import History, RunColumns, SimilarDocument, Standing, find_neighbours
from corpus_guard.screening.survey.semantics import Semantics, select
from corpus_guard.screening.survey.signals import Signals, scale_value

MIN_HISTORY_VERSIONS: Final = 200  # accepted versions from which a source is judged by its history alone


@dataclass(frozen=True, slots=True)
class Robust:
    """Location and spread that a minority of hostile values cannot move far."""

    median: float
    mad: float  # median absolute deviation, same unit as the median
    count: int

    def z(self, value: float, floor: float = 1e-9) -> float:
        """Return the robust z-score.

        Its unit is 1.4826 MAD: one standard deviation of a normal distribution.

        Args:
            value: on the scale of the median (`signals.scale_value`).
            floor: the least spread to assume, in the same unit: most documents may have the very same value.
        """
        return (value - self.median) / max(1.4826 * self.mad, floor)


def source_statistics(run: RunColumns, history: History) -> dict[str, dict[str, Robust]]:
    """Return source → signal → statistics, on the scale of `signals.scale_value`."""
    statistics: dict[str, dict[str, Robust]] = {}
    for source, columns in run.values.items():
        past = history.robust_values(source)
        for name, values in columns.items():
            before = past.get(name, ())
            counted = [*before] if len(before) >= MIN_HISTORY_VERSIONS else [*before, *values]
            numbers = np.array([scale_value(name, value) for value in counted])
            numbers = numbers[np.isfinite(numbers)]
            if len(numbers):
                median = float(np.median(numbers))
                spread = float(np.median(np.abs(numbers - median)))
                statistics.setdefault(source, {})[name] = Robust(median, spread, len(numbers))
    return statistics


NEIGHBOUR_SIMILARITY: Final = 0.65
"""Jaccard of word shingles from which two texts are near duplicates: a few words changed in each sentence."""
_FORMAT: Final = "survey/v7"


@dataclass(frozen=True, slots=True)
class Survey:
    """The knowledge of checks that look across documents."""

    sources: Mapping[str, Mapping[str, Robust]] = field(default_factory=lambda: MappingProxyType({}))
    """Source → signal → statistics, on the scale of `signals.scale_value`."""
    neighbours: Mapping[str, tuple[SimilarDocument, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """By version id, the nearest of each standing first."""
    semantics: Semantics = field(default_factory=Semantics)
    """Groups of agreeing chunks, nearby questions and related statements."""
    alone: bool = False
    """Documents are screened one by one: only the nearby questions are known."""
    predecessors: Mapping[str, Version] = field(default_factory=lambda: MappingProxyType({}))
    """By the new version's id, the version it follows. Whole texts, so they are added a shard at a time and
    never written."""

    def of(self, version_ids: Collection[str]) -> Survey:
        """Return the part of the survey that a shard with these versions needs."""
        return replace(
            self,
            neighbours=select(self.neighbours, version_ids),
            semantics=self.semantics.of(version_ids),
            predecessors=select(self.predecessors, version_ids),
        )

    def with_predecessors(self, predecessors: Mapping[str, Version]) -> Survey:
        """Return the survey with the versions that a shard's versions follow."""
        return replace(self, predecessors=predecessors)

    def to_json(self) -> bytes:
        """Serialise ids, numbers, source names and questions; each neighbour once."""
        places: dict[tuple[str, ...], int] = {}
        links: dict[str, list[tuple[int, float]]] = {}
        for version, neighbours in self.neighbours.items():
            links[version] = [
                (
                    places.setdefault((n.version_id, n.doc_id, n.source, n.trust, n.standing, n.mirrored), len(places)),
                    n.similarity,
                )
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
            "semantics": self.semantics.to_record(),
            "alone": self.alone,
        }
        return orjson.dumps(record)

    @classmethod
    def from_json(cls, data: bytes) -> Survey:
        """Read the output of `to_json`.

        Raises:
            Inconsistent: not a survey. It is never taken for an empty one, in which nothing resembles
                anything.
        """
        try:
            record = orjson.loads(data)
            if record["format"] != _FORMAT:
                record = {}  # another format may have other rules; the first look-up below fails
            sources = {
                source: {name: Robust(*robust) for name, robust in signals.items()}
                for source, signals in record["sources"].items()
            }
            places = [(v, d, source, TrustLevel(t), Standing(s), m) for v, d, source, t, s, m in record["places"]]
            neighbours = {
                version: tuple(
                    SimilarDocument(*places[int(place)][:5], similarity, places[int(place)][5])
                    for place, similarity in links
                )
                for version, links in record["links"].items()
            }
            semantics, alone = Semantics.from_record(record["semantics"]), bool(record["alone"])
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise Inconsistent(
                f"survey of {len(data)} bytes: unreadable ({type(error).__name__}), expected format {_FORMAT}; "
                "survey the run again"
            ) from error
        return cls(sources, neighbours, semantics, alone)


def build_survey(new: Iterable[Signals], history: History, *, similarity: float = NEIGHBOUR_SIMILARITY) -> Survey:
    """Join the measures of a run with the history.

    Args:
        new: the run's versions; the same version twice counts once.
        similarity: Jaccard from which two texts are neighbours, 0..1.
    """
    run = RunColumns(new)
    return Survey(source_statistics(run, history), find_neighbours(run, history, similarity))
