"""Texts that an attack puts into the corpus for one question.

=================  =====================================================================  ==========================
attack             text                                                                   required field
=================  =====================================================================  ==========================
``poisonedrag-b``  question + "." + adversarial text                                      adversarial_texts
``bare``           the adversarial text                                                   adversarial_texts
``hotflip``        the adversarial text unchanged: it contains an optimised prefix;       adversarial_texts
                   with an optimiser: a prefix made here, then the adversarial text
``instruinject``   question + "." + an order to give the wrong answer                     -
``none``           nothing: every complaint is an honest one                              -
=================  =====================================================================  ==========================

The first `m` adversarial texts of a row are used. If it has fewer, they are rewritten (`attacks.rewriting`)
until there are `m`, except for unchanged ``hotflip`` texts. Words in front are optimised for the first
`optimised_texts` texts of a question; the others get the same words in turn. ``poisonedrag-w`` is another name of
``hotflip``. Misspellings are made before the adaptive attack,
so that its claims read as in the paper.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from corpus_guard.attacks.adaptive import AdaptiveAttack, add_deceiving_claim, add_right_answer
from corpus_guard.attacks.instruinject import PHRASINGS, phrase_order
from corpus_guard.attacks.misspelling import misspell
from corpus_guard.attacks.poisonedrag import lead_with_question, make_different_texts
from corpus_guard.detectors.target_questions import RequiredField, TargetQuestion
from corpus_guard.errors import Misuse

Optimiser = Callable[[str, str], str]
"""(question, text) → the text with words in front that bring it close to the question; see `attacks.hotflip`."""


class Attack(StrEnum):
    """Attack on the corpus."""

    POISONEDRAG_B = "poisonedrag-b"
    BARE = "bare"
    HOTFLIP = "hotflip"
    INSTRUINJECT = "instruinject"
    NONE = "none"

    @classmethod
    def _missing_(cls, value: object) -> Attack | None:
        return cls.HOTFLIP if value == "poisonedrag-w" else None


class ReportForm(StrEnum):
    """Form in which a wrong answer is reported."""

    BARE = "bare"
    SENTENCE = "sentence"
    QUOTED = "quoted"
    NEGATED = "negated"


@dataclass(frozen=True, slots=True)
class Planting:
    """Plan of an attack."""

    attack: Attack
    adaptive: AdaptiveAttack = AdaptiveAttack.NONE
    m: int = 5  # texts per question, 1 to 40
    typos: float = 0.0  # share of words misspelt, 0..1
    seed: int = 0
    optimised: bool = False  # hotflip: optimise the words in front here
    optimised_texts: int = 5  # per question; more texts share their words

    def __post_init__(self) -> None:
        """Check the options.

        Raises:
            Misuse: a number is out of range, or an option does not fit the attack.
        """
        if not 1 <= self.m <= PHRASINGS:
            raise Misuse(f"--m {self.m}: expected 1 to {PHRASINGS} texts per question")
        if not 0 <= self.typos <= 1:
            raise Misuse(f"--typos {self.typos:g}: expected a share from 0 to 1")
        if self.attack is Attack.NONE and (self.adaptive is not AdaptiveAttack.NONE or self.typos):
            raise Misuse("--attack none plants nothing, so --adaptive and --typos have no effect; leave them out")
        if self.optimised and self.attack is not Attack.HOTFLIP:
            raise Misuse(f"--optimise works with --attack hotflip only, not with {self.attack.value}; leave it out")

    @property
    def required(self) -> set[RequiredField]:
        """Return the fields that every row must have."""
        required = set()
        if self.attack not in {Attack.NONE, Attack.INSTRUINJECT}:
            required.add(RequiredField.ADVERSARIAL)
        if self.adaptive is not AdaptiveAttack.NONE:
            required.add(RequiredField.CORRECT)
        return required

    def texts(self, target: TargetQuestion, optimise: Optimiser | None = None) -> tuple[str, ...]:
        """Return the texts to plant for one question, all different.

        Args:
            optimise: makes the words in front if `optimised` is set.
        """
        if self.attack is Attack.NONE:
            return ()
        bodies = [
            misspell(body, (*target.incorrect, *target.correct), self.typos, f"{self.seed}") if self.typos else body
            for body in self._bodies(target)
        ]
        if not self.optimised or optimise is None:
            return tuple(dict.fromkeys(self._finish(target, body) for body in bodies))
        fronts = [optimise(target.question, body).removesuffix(body) for body in bodies[: max(1, self.optimised_texts)]]
        return tuple(
            dict.fromkeys(
                self._finish(target, fronts[number % len(fronts)] + body) for number, body in enumerate(bodies)
            )
        )

    def _bodies(self, target: TargetQuestion) -> list[str]:
        if self.attack is Attack.INSTRUINJECT:
            return [phrase_order(target.question, target.incorrect[0], number, self.seed) for number in range(self.m)]
        if self.attack is Attack.HOTFLIP and not self.optimised:
            return list(target.adversarial[: self.m])
        return make_different_texts(target.adversarial, self.m, f"{self.seed} {target.question}")

    def _finish(self, target: TargetQuestion, body: str) -> str:
        leads = self.attack in {Attack.POISONEDRAG_B, Attack.INSTRUINJECT}
        if self.adaptive is AdaptiveAttack.DISGUISE and leads:
            return add_right_answer(body, target.correct[0], target.question)
        text = lead_with_question(target.question, body) if leads else body
        if self.adaptive is AdaptiveAttack.DISGUISE:
            return add_right_answer(text, target.correct[0])
        return add_deceiving_claim(text, target.correct[0]) if self.adaptive is AdaptiveAttack.DECEIVE else text
