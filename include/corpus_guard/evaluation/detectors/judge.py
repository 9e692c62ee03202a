"""A candidate for the embedded judge, measured beside the one in use as `guard evaluate traceback` measures.

Both judges follow the complaints of the held-out questions in throw-away corpora: poisoned as by PoisonedRAG with and without the question
in front, and by instructions; not poisoned at all; and not poisoned, with honest texts that are written as attacks are (planted texts
with the right answer put in place of the wrong one).

    texts judged rightly      DACC of the paper, where something is planted
    honest texts accused      FPR, of all that were judged in all corpora
    honest complaints turned  complaints where nothing is planted, in which a text stands accused in the end
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from corpus_guard.errors import Inconsistent, Misuse
from corpus_guard.evaluation.detectors.candidate import (
    Candidate,
    Figure,
    described,
    named_by,
    offer,
    questions,
)
from corpus_guard.evaluation.judge_training import train, turned_round
from corpus_guard.evaluation.traceback.arena import arena
from corpus_guard.evaluation.traceback.figures import Figures, Share, figures
from corpus_guard.evaluation.traceback.planting import Attack, Planting
from corpus_guard.evaluation.traceback.targets import Target, Targets
from corpus_guard.models.champion import Detector
from corpus_guard.traceback.judges.embedded import EmbeddedJudge
from corpus_guard.traceback.making import make_judge

if TYPE_CHECKING:
    from corpus_guard.guard import Guard
    from corpus_guard.models import Models
    from corpus_guard.settings import Settings
    from corpus_guard.traceback import Judge

Progress = Callable[[str, int, int | None], object]
ATTACKS: Final = (Attack.POISONEDRAG_B, Attack.BARE, Attack.INSTRUINJECT)
NAMES: Final = (
    ("texts judged rightly", True),
    ("honest texts accused", False),
    ("honest complaints turned against a text", False),
)
Measured = Mapping[str, list[Figures]]  # "attacked" and "honest": of each corpus


def prepare(
    guard: Guard, *, limit: int | None = None, progress: Progress = lambda what, done, total: None
) -> Candidate:
    """Train a judge, measure it beside the one in use, keep it and register it as the challenger.

    Args:
        guard: the deployment; `Settings.detector_files` are the questions.
        limit: questions of a file, at most.
        progress: told what is being done.

    Raises:
        NotEnough: too few questions.
        Misuse: a file or a row is wrong.
        Infrastructure: MLflow cannot be reached.
        StoreUnavailable: Chroma does not start.
    """
    training, testing = questions(guard, Detector.JUDGE, limit)
    told = described(guard, training)
    content = train(guard.models, training, trained_on=told, progress=progress).dumps()
    own = EmbeddedJudge.read(guard.models, content, "the candidate")
    theirs, against = current(guard)
    found = measured(guard.settings, guard.models, testing, own, progress)
    beside = measured(guard.settings, guard.models, testing, theirs, progress) if theirs else None
    return offer(guard, Detector.JUDGE, content, compared(found, beside), told, against)


def current(guard: Guard) -> tuple[Judge | None, str]:
    """The embedded judge in use, and what it is, in words; None where it cannot be used: its traces fail until another is promoted.

    Raises:
        SettingsError: a setting names a file that is none.
    """
    named = guard.settings.judge_model
    settings = guard.settings.model_copy(update={"judge": "embedded"})
    try:
        judge = make_judge(settings, guard.models, guard.ledger)
    except (Inconsistent, Misuse) as error:
        if named:
            raise
        return None, f"none that can be used ({error})"
    asked = "" if guard.settings.judge == "embedded" else "; CORPUS_GUARD_JUDGE asks another one"
    return judge, f"{judge.digest}{named_by(Detector.JUDGE, named)}{asked}"


def measured(
    settings: Settings,
    models: Models,
    testing: Sequence[Target],
    judge: Judge,
    progress: Progress = lambda what, done, total: None,
) -> Measured:
    """Play every attack, and honest complaints, against a judge."""
    found: dict[str, list[Figures]] = {"attacked": [], "honest": []}
    alike = [replace(one, clean=tuple(dict.fromkeys([*one.clean, *turned_round(one)]))) for one in testing]
    for targets, attacks in ((testing, (*ATTACKS, Attack.NONE)), (alike, (Attack.NONE,))):
        with arena(settings, models, Targets(tuple(targets), 0), progress) as games:
            for attack in attacks:
                played = games.play(games.scene(Planting(attack)), judge, settings.traceback_k)
                found["honest" if attack is Attack.NONE else "attacked"].append(figures(played))
    return found


def compared(own: Measured, theirs: Measured | None) -> list[Figure]:
    """What is decided on."""
    beside = _shares(theirs) if theirs else (None, None, None)
    return [Figure(*about, one, other) for about, one, other in zip(NAMES, _shares(own), beside, strict=True)]


def _shares(found: Measured) -> tuple[Share, Share, Share]:
    attacked, honest = found["attacked"], found["honest"]
    return (
        _sum([one.dacc for one in attacked]),
        _sum([one.fpr for one in (*attacked, *honest)]),
        _sum([Share(one.accusing, one.queries) for one in honest]),
    )


def _sum(shares: Sequence[Share]) -> Share:
    return Share(sum(one.hits for one in shares), sum(one.n for one in shares))
