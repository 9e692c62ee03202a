"""The experiment: every protocol over the samples, each screener on the same texts, counted by slice and half."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from corpus_guard.evaluation.material import rewritten_siblings
from corpus_guard.evaluation.measures import Curve, Outcome, Tally, roc, tally
from corpus_guard.evaluation.samples import Family, Form, Half, Line, Sample, pick
from corpus_guard.evaluation.screening import protocols
from corpus_guard.evaluation.screening.protocols import Protocol, Trial
from corpus_guard.evaluation.screening.screener import Screener
from corpus_guard.evaluation.screening.targets import Target, target_of


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run."""

    protocols: tuple[Protocol, ...] = tuple(Protocol)
    halves: tuple[Half, ...] = tuple(Half)
    sample: int | None = None  # texts of a slice, form and half, at most
    seed: int = 0
    bank: tuple[str, ...] = ()  # questions beside the samples' own


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the result, by screener and half."""

    protocol: Protocol
    line: Line
    family: Family
    tallies: Mapping[str, Mapping[Half, Tally]]  # screener → half → counts

    @property
    def target(self) -> Target | None:
        """What is asked for."""
        return target_of(self.family, self.protocol, self.line.form)

    def headline(self, screener: str) -> Tally | None:
        """The half that counts; None where it was not run."""
        halves = self.tallies[screener]
        return halves.get(Half.VALIDATION) or halves.get(Half.WHOLE)

    def met(self, screener: str) -> bool | None:
        """Whether the target is met; None without a target or without the half that counts."""
        counted = self.headline(screener)
        return self.target.met(counted.rate) if self.target and counted and counted.n else None

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "protocol": self.protocol.value,
            "slice": self.line.slice,
            "form": self.line.form.value,
            "family": self.family.value,
            "attack": self.line.attack,
            "target": str(self.target) if self.target else None,
            "screeners": {
                name: {
                    "met": self.met(name),
                    "halves": {half.value: counts.as_dict() for half, counts in halves.items()},
                }
                for name, halves in self.tallies.items()
            },
        }


@dataclass(frozen=True, slots=True)
class Result:
    """All figures, and what could not be run."""

    figures: tuple[Figure, ...]
    skipped: Mapping[Protocol, str] = field(default_factory=dict)

    def curves(self, screener: str) -> dict[str, Curve]:
        """For each attack, its risk against that of all clean documents, each text alone, on the half that counts."""
        alone = [
            (figure, counted)
            for figure in self.figures
            if figure.protocol is Protocol.SINGLE and (counted := figure.headline(screener))
        ]
        clean = [risk for figure, counted in alone if figure.family is Family.ORDINARY for risk in counted.risks]
        found = {}
        for figure, counted in alone:
            if figure.line.attack and (curve := roc(counted.risks, clean)):
                found[title(figure.line)] = curve
        return found


def title(line: Line) -> str:
    """A line in words."""
    return line.slice if line.form is Form.AS_IS else f"{line.slice} · {line.form}"


def trials(samples: Sequence[Sample], plan: Plan) -> Iterator[Trial]:
    """Every trial of the plan, in a fixed order."""
    candidates = [sample for sample in samples if sample.half in plan.halves]
    chosen = pick(candidates, plan.sample, plan.seed)
    if Protocol.SINGLE in plan.protocols:
        yield from protocols.single(chosen)
    if Protocol.SIBLINGS in plan.protocols:
        yield from protocols.siblings([*chosen, *rewritten_siblings(chosen)], candidates, plan.seed)
    if Protocol.TOGETHER in plan.protocols:
        yield from protocols.together(chosen)
    if Protocol.BANK in plan.protocols:
        yield from protocols.banked(chosen, plan.bank, plan.seed)


def run(
    samples: Sequence[Sample], plan: Plan, screeners: Sequence[Screener], skipped: Mapping[Protocol, str] | None = None
) -> Result:
    """Run the plan, but for the protocols in `skipped`.

    Args:
        samples: labelled texts.
        plan: which protocols on which of them.
        screeners: each sees every trial.
        skipped: protocols that cannot be run, and why; kept in the result.
    """
    found: _Found = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    families: dict[tuple[Protocol, Line], Family] = {}
    plan = replace(plan, protocols=tuple(one for one in plan.protocols if one not in (skipped or {})))
    for trial in trials(samples, plan):
        texts = list(dict.fromkeys(sample.text for sample in trial.samples))
        for screener in screeners:
            outcomes = screener.screen(texts, one_by_one=trial.one_by_one, bank=trial.bank)
            by_text = dict(zip(texts, outcomes, strict=True))
            for sample in trial.samples:
                families.setdefault((trial.protocol, sample.line), sample.family)
                found[trial.protocol, sample.line][screener.name, sample.half][sample.text].append(by_text[sample.text])
    figures = [
        Figure(protocol, line, family, _tallies(found[protocol, line])) for (protocol, line), family in families.items()
    ]
    return Result(tuple(figures), skipped or {})


_Found = dict[tuple[Protocol, Line], dict[tuple[str, Half], dict[str, list[Outcome]]]]
"""(protocol, line) → (screener, half) → text → what was said of it in each trial it was part of."""


def _tallies(found: Mapping[tuple[str, Half], Mapping[str, Iterable[Outcome]]]) -> dict[str, dict[Half, Tally]]:
    tallies: dict[str, dict[Half, Tally]] = defaultdict(dict)
    for (screener, half), by_text in found.items():
        tallies[screener][half] = tally(_worst(outcomes) for outcomes in by_text.values())
    return dict(tallies)


def _worst(outcomes: Iterable[Outcome]) -> Outcome:
    """A text that stood in several batches counts once, as caught if any batch caught it."""
    return max(outcomes, key=lambda outcome: (outcome.caught, outcome.risk))
