"""What an attack puts into the corpus for one question.

=================  =====================================================================  ==========================
attack             text                                                                   needs of a row
=================  =====================================================================  ==========================
``poisonedrag-b``  question + "." + adversarial text                                      adversarial_texts
``bare``           the adversarial text                                                   adversarial_texts
``hotflip``        the adversarial text as it is: an optimised prefix stands in it;       adversarial_texts
                   with an optimiser: a prefix made here, then the adversarial text
``instruinject``   question + "." + an order to answer so                                 -
``none``           nothing: every complaint is an honest one                              -
=================  =====================================================================  ==========================

Of a row's adversarial texts the first `m` are used. Where it has fewer, they are rewritten (`attacks.rewriting`) until there are `m`, but
for ``hotflip`` as it is. Misspellings come before the adaptive attack, so that its claims stay as the paper has them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from corpus_guard.errors import Misuse
from corpus_guard.evaluation.attacks.adaptive import Adaptive, deceiving, disguised
from corpus_guard.evaluation.attacks.instruinject import MOST, demand
from corpus_guard.evaluation.attacks.poisonedrag import enough, led
from corpus_guard.evaluation.attacks.typos import misspelt
from corpus_guard.evaluation.traceback.targets import Needed, Target

Optimise = Callable[[str, str], str]
"""(question, text) → the text behind words that bring it near the question; see `attacks.hotflip`."""


class Attack(StrEnum):
    """How the corpus is poisoned."""

    POISONEDRAG_B = "poisonedrag-b"
    BARE = "bare"
    HOTFLIP = "hotflip"
    INSTRUINJECT = "instruinject"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Planting:
    """An attack and how it is carried out."""

    attack: Attack
    adaptive: Adaptive = Adaptive.NONE
    m: int = 5  # texts a question, 1 to 40
    typos: float = 0.0  # share of words misspelt, 0..1
    seed: int = 0
    optimised: bool = False  # hotflip: words in front are made here

    def __post_init__(self) -> None:
        """Refuse what cannot be meant.

        Raises:
            Misuse: a number is out of range, or an option has no attack to change.
        """
        if not 1 <= self.m <= MOST:
            raise Misuse(f"--m {self.m}: expected 1 to {MOST} texts a question")
        if not 0 <= self.typos <= 1:
            raise Misuse(f"--typos {self.typos:g}: expected a share from 0 to 1")
        if self.attack is Attack.NONE and (self.adaptive is not Adaptive.NONE or self.typos):
            raise Misuse("--attack none plants nothing that --adaptive or --typos could change; leave them out")
        if self.optimised and self.attack is not Attack.HOTFLIP:
            raise Misuse(f"--optimise is of --attack hotflip, not of {self.attack.value}; leave it out")

    @property
    def needed(self) -> set[Needed]:
        """What every row must have."""
        needed = set()
        if self.attack not in {Attack.NONE, Attack.INSTRUINJECT}:
            needed.add(Needed.ADVERSARIAL)
        if self.adaptive is not Adaptive.NONE:
            needed.add(Needed.CORRECT)
        return needed

    def texts(self, target: Target, optimise: Optimise | None = None) -> tuple[str, ...]:
        """What is planted for one question, no text twice.

        Args:
            target: that is attacked.
            optimise: makes the words in front, where `optimised`.
        """
        if self.attack is Attack.NONE:
            return ()
        bodies = [
            misspelt(body, (*target.incorrect, *target.correct), self.typos, f"{self.seed}") if self.typos else body
            for body in self._bodies(target)
        ]
        return tuple(dict.fromkeys(self._dressed(target, body, optimise) for body in bodies))

    def _bodies(self, target: Target) -> list[str]:
        if self.attack is Attack.INSTRUINJECT:
            return [demand(target.question, target.incorrect[0], number, self.seed) for number in range(self.m)]
        if self.attack is Attack.HOTFLIP and not self.optimised:
            return list(target.adversarial[: self.m])
        return enough(target.adversarial, self.m, f"{self.seed} {target.question}")

    def _dressed(self, target: Target, body: str, optimise: Optimise | None) -> str:
        whole = self.attack in {Attack.POISONEDRAG_B, Attack.INSTRUINJECT}
        if self.adaptive is Adaptive.DISGUISE and whole:
            return disguised(body, target.correct[0], target.question)
        text = led(target.question, body) if whole else body
        if self.optimised and optimise is not None:
            text = optimise(target.question, body)
        if self.adaptive is Adaptive.DISGUISE:
            return disguised(text, target.correct[0])
        return deceiving(text, target.correct[0]) if self.adaptive is Adaptive.DECEIVE else text
