"""Candidate for the embedded judge, measured beside the judge in use as `guard evaluate traceback` measures.

Both judges trace the complaints about held-out questions in temporary corpora: poisoned as by PoisonedRAG
with and without the question in front, and by instructions; not poisoned; and not poisoned, but with honest
texts in the style of an attack (planted texts with the right answer in place of the wrong one).

    texts judged rightly                      DACC of the paper, in the poisoned corpora
    honest texts accused                      FPR, in all corpora
    honest complaints turned against a text   complaints in corpora without poison that accuse a text in the end, reported
                                              bare, as a sentence, quoted and negated
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from corpus_guard.batches import Storage
from corpus_guard.detectors.attack_simulation import attack_simulation
from corpus_guard.detectors.candidates import (
    ComparedFigure,
    DetectorCandidate,
    describe_training,
    register_candidate,
    setting_note,
    split_questions,
)
from corpus_guard.detectors.judge_training import honest_lookalikes, train_judge
from corpus_guard.detectors.planting import Attack, Planting, ReportForm
from corpus_guard.detectors.target_questions import TargetQuestion, TargetQuestions
from corpus_guard.detectors.trace_figures import TraceFigures, count_figures
from corpus_guard.errors import Inconsistent, Misuse
from corpus_guard.ledger import Ledger
from corpus_guard.models import Models
from corpus_guard.models.champion import Detector
from corpus_guard.settings import Settings
from corpus_guard.traceback.judge_selection import create_judge
from corpus_guard.traceback.judges import Judge
from corpus_guard.traceback.judges.embedded import EmbeddedJudge
from corpus_guard.tracking.measures import CountedShare

ATTACKS: Final = (Attack.POISONEDRAG_B, Attack.BARE, Attack.INSTRUINJECT)


@dataclass(frozen=True, slots=True)
class JudgeMeasurement:
    """Figures of a judge in several corpora."""

    attacked: tuple[TraceFigures, ...]  # of each corpus with poison
    honest: tuple[TraceFigures, ...]  # of each corpus without

    @property
    def shares(self) -> tuple[CountedShare, CountedShare, CountedShare]:
        """Return the three shares of the module's docstring, in its order."""
        return (
            _add([figures.dacc for figures in self.attacked]),
            _add([figures.fpr for figures in (*self.attacked, *self.honest)]),
            _add([CountedShare(figures.accusing, figures.queries) for figures in self.honest]),
        )


def train_judge_candidate(
    ledger: Ledger,
    storage: Storage,
    models: Models,
    settings: Settings,
    *,
    limit: int | None = None,
) -> DetectorCandidate:
    """Train a judge, measure it beside the one in use, and register it as the challenger.

    Raises:
        NotEnough: too few questions.
        Misuse: a file or a row is wrong.
        Infrastructure: MLflow cannot be reached.
        StoreUnavailable: Chroma does not start.
    """
    training, testing = split_questions(settings, Detector.JUDGE, limit)
    trained_on = describe_training(settings, training)
    content = train_judge(models, training, trained_on=trained_on).dumps()
    candidate = EmbeddedJudge.from_bytes(models, content, "the candidate")
    in_use, description = current_judge(ledger, models, settings)
    measured = measure_judge(settings, models, testing, candidate)
    compared = measure_judge(settings, models, testing, in_use) if in_use else None
    figures = compare_judges(measured, compared)
    return register_candidate(storage, settings, Detector.JUDGE, content, figures, trained_on, description)


def current_judge(ledger: Ledger, models: Models, settings: Settings) -> tuple[Judge | None, str]:
    """Return the embedded judge in use and a description of it.

    The judge is None if it cannot be used; then traces fail until another one is promoted.

    Raises:
        SettingsError: a setting names a file that cannot be read.
    """
    configured = settings.judge_model
    try:
        judge = create_judge(settings.model_copy(update={"judge": "embedded"}), models, ledger)
    except (Inconsistent, Misuse) as error:
        if configured:
            raise
        return None, f"none that can be used ({error})"
    other = "" if settings.judge == "embedded" else "; CORPUS_GUARD_JUDGE names another judge"
    return judge, f"{judge.digest}{setting_note(Detector.JUDGE, configured)}{other}"


def measure_judge(
    settings: Settings,
    models: Models,
    testing: Sequence[TargetQuestion],
    judge: Judge,
) -> JudgeMeasurement:
    """Trace complaints under every attack, and honest complaints.

    Raises:
        StoreUnavailable: Chroma does not start.
    """
    attacked: list[TraceFigures] = []
    honest: list[TraceFigures] = []
    lookalikes = [
        replace(target, clean=tuple(dict.fromkeys([*target.clean, *honest_lookalikes(target)]))) for target in testing
    ]
    for targets, attacks in ((testing, (*ATTACKS, Attack.NONE)), (lookalikes, (Attack.NONE,))):
        with attack_simulation(settings, models, TargetQuestions(tuple(targets), 0)) as simulation:
            for attack in attacks:
                poisoned = simulation.poison(Planting(attack))
                # An honest report must accuse nobody in whatever form it comes.
                for form in ReportForm if attack is Attack.NONE else (ReportForm.BARE,):
                    traced = simulation.trace(poisoned, judge, settings.traceback_k, form=form)
                    (honest if attack is Attack.NONE else attacked).append(count_figures(traced))
    return JudgeMeasurement(tuple(attacked), tuple(honest))


def compare_judges(candidate: JudgeMeasurement, in_use: JudgeMeasurement | None) -> list[ComparedFigure]:
    """Pair the shares of both judges."""
    correct, accused, turned = candidate.shares
    others = in_use.shares if in_use else (None, None, None)
    return [
        ComparedFigure("texts judged rightly", True, correct, others[0]),
        ComparedFigure("honest texts accused", False, accused, others[1]),
        ComparedFigure("honest complaints turned against a text", False, turned, others[2]),
    ]


def _add(shares: Sequence[CountedShare]) -> CountedShare:
    return CountedShare(sum(share.hits for share in shares), sum(share.n for share in shares))
