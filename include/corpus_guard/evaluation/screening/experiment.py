"""Trials of all protocols: each screener gets the same texts, and outcomes are counted by slice and half."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from corpus_guard.detectors.attack_forms import ask_siblings, rewrite_siblings
from corpus_guard.detectors.samples import Family, Half, Sample, SliceKey, TextForm, limit_per_slice
from corpus_guard.evaluation.screening import protocols
from corpus_guard.evaluation.screening.protocols import ArrivalProtocol, Trial
from corpus_guard.evaluation.screening.screener import Screener
from corpus_guard.evaluation.screening.targets import CatchTarget, find_target
from corpus_guard.tracking.measures import RocCurve, ScreeningOutcome, Tally, risk_curve, tally_outcomes


@dataclass(frozen=True, slots=True)
class ScreeningPlan:
    """Protocols and samples of an experiment."""

    protocols: tuple[ArrivalProtocol, ...] = tuple(ArrivalProtocol)
    halves: tuple[Half, ...] = tuple(Half)
    sample: int | None = None  # at most so many texts of a slice, form and half; None: all
    seed: int = 0
    bank: tuple[str, ...] = ()  # known questions beside the samples' own


@dataclass(frozen=True, slots=True)
class SliceFigure:
    """Counts of one slice under one protocol, by screener and half."""

    protocol: ArrivalProtocol
    slice_key: SliceKey
    family: Family
    tallies: Mapping[str, Mapping[Half, Tally]]  # screener → half → counts

    @property
    def target(self) -> CatchTarget | None:
        """Return the target for this slice; None: it has none."""
        return find_target(self.family, self.protocol, self.slice_key.form)

    def headline(self, screener: str) -> Tally | None:
        """Return the counts of the validation half, or of a slice that is not split.

        The result is None if it was not run.
        """
        halves = self.tallies[screener]
        return halves.get(Half.VALIDATION) or halves.get(Half.WHOLE)

    def met(self, screener: str) -> bool | None:
        """Return whether the target is met; None without a target or without counts."""
        counted = self.headline(screener)
        return self.target.met(counted.rate) if self.target and counted and counted.n else None

    def as_dict(self) -> dict[str, object]:
        """Return the counts for JSON."""
        return {
            "protocol": self.protocol.value,
            "slice": self.slice_key.slice,
            "form": self.slice_key.form.value,
            "family": self.family.value,
            "attack": self.slice_key.attack,
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
class ScreeningResult:
    """Figures of all slices."""

    figures: tuple[SliceFigure, ...]

    def curves(self, screener: str) -> dict[str, RocCurve]:
        """Return the ROC curve of each attack's risk against that of all clean documents.

        Each text is screened alone; the validation half counts.
        """
        alone = [
            (figure, counted)
            for figure in self.figures
            if figure.protocol is ArrivalProtocol.SINGLE and (counted := figure.headline(screener))
        ]
        clean = [risk for figure, counted in alone if figure.family is Family.ORDINARY for risk in counted.risks]
        curves = {}
        for figure, counted in alone:
            if figure.slice_key.attack and (curve := risk_curve(counted.risks, clean)):
                curves[slice_title(figure.slice_key)] = curve
        return curves


def slice_title(key: SliceKey) -> str:
    """Return the title of a slice."""
    return key.slice if key.form is TextForm.AS_IS else f"{key.slice} · {key.form}"


def plan_trials(samples: Sequence[Sample], plan: ScreeningPlan) -> Iterator[Trial]:
    """Return every trial of the plan, in a fixed order."""
    candidates = [sample for sample in samples if sample.half in plan.halves]
    chosen = limit_per_slice(candidates, plan.sample, plan.seed)
    with_questions = [*chosen, *ask_siblings(chosen)]
    if ArrivalProtocol.SINGLE in plan.protocols:
        yield from protocols.single_trials(with_questions)
    attacked = [*with_questions, *rewrite_siblings(chosen)]
    if ArrivalProtocol.SIBLINGS in plan.protocols:
        yield from protocols.sibling_trials(attacked, candidates, plan.seed)
    if ArrivalProtocol.TOGETHER in plan.protocols:
        yield from protocols.together_trials(chosen)
    if ArrivalProtocol.BANK in plan.protocols:
        yield from protocols.bank_trials(chosen, plan.bank, plan.seed)
    if ArrivalProtocol.ANSWERS in plan.protocols:
        yield from protocols.answer_trials(chosen, candidates, plan.seed)
    if ArrivalProtocol.ATTACKED_ANSWERS in plan.protocols:
        yield from protocols.attacked_answer_trials(attacked, candidates, plan.seed)


def run_trials(samples: Sequence[Sample], plan: ScreeningPlan, screeners: Sequence[Screener]) -> ScreeningResult:
    """Run the plan; each screener gets every trial."""
    outcomes: _Outcomes = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    families: dict[tuple[ArrivalProtocol, SliceKey], Family] = {}
    for trial in plan_trials(samples, plan):
        texts = list(dict.fromkeys(sample.text for sample in trial.samples))
        for screener in screeners:
            screened = screener.screen(texts, one_by_one=trial.one_by_one, bank=trial.bank)
            by_text = dict(zip(texts, screened, strict=True))
            for sample in trial.samples:
                families.setdefault((trial.protocol, sample.slice_key), sample.family)
                by_screener = outcomes[trial.protocol, sample.slice_key]
                by_screener[screener.name, sample.half][sample.text].append(by_text[sample.text])
    figures = [
        SliceFigure(protocol, key, family, _tallies(outcomes[protocol, key]))
        for (protocol, key), family in families.items()
    ]
    return ScreeningResult(tuple(figures))


_Outcomes = dict[tuple[ArrivalProtocol, SliceKey], dict[tuple[str, Half], dict[str, list[ScreeningOutcome]]]]
"""(protocol, slice) → (screener, half) → text → its outcome in each trial."""


def _tallies(
    outcomes: Mapping[tuple[str, Half], Mapping[str, Iterable[ScreeningOutcome]]],
) -> dict[str, dict[Half, Tally]]:
    tallies: dict[str, dict[Half, Tally]] = defaultdict(dict)
    for (screener, half), by_text in outcomes.items():
        tallies[screener][half] = tally_outcomes(_worst_outcome(of_text) for of_text in by_text.values())
    return dict(tallies)


def _worst_outcome(outcomes: Iterable[ScreeningOutcome]) -> ScreeningOutcome:
    """Return the outcome of a text in several batches: it counts once, as caught if any batch caught it."""
    return max(outcomes, key=lambda outcome: (outcome.caught, outcome.risk))
