"""The judge that needs no endpoint: evidence that can be counted, weighed by small trees.

Rules
    * opinions of the first look decide what the loop sets aside; `conclude` looks again with everything known, and may acquit;
    * a text alone in what it says is believed less than one that others repeat: chance puts the words of a wrong answer into one text in
      ten that a question retrieves;
    * an output that is no answer to the question ("yes" to "who") accuses nobody;
    * texts whose vectors were made by another embedder are embedded again: the model knows one space only.

What it does not do: understand, and ask a language model. How likely the embedded one finds the output after a text, and how much
likelier than without it, was tried on the 1,420 texts of training that are least clear: 77.2 % right without, 77.3 % with it. A lie
told without any of the output's words, by one text alone, passes for benign; an honest text that says exactly what was reported, next to
the question's words, looks like a lie. Figures: README, `guard evaluate traceback`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from corpus_guard.traceback.judges import Conclusion, Label, Opinion
from corpus_guard.traceback.judges._evidence import NAMES
from corpus_guard.traceback.judges._gathering import Gatherer, version
from corpus_guard.traceback.judges._learned import SHIPPED, Learned, load, parse
from corpus_guard.traceback.suspects import Complaint, Suspect

if TYPE_CHECKING:
    from corpus_guard.models import Models

NO_ANSWER: Final = Opinion(Label.BENIGN, 0.0, "yes or no answers no such question: nothing can have led to it")
COMPANY: Final = (
    "sib1", "sib2", "sibcount", "agree", "agreed", "nstrong", "strongsim", "psib1", "psib2", "pagree",
)  # fmt: skip
ABOUT: Final = (
    "polar", "alen", "arare", "novel", "verb", "rare", "cq", "cqt", "d", "pcqt", "pd", "bhead", "orders", "facts", "fbest", "cover",
    "nfacts", "words",
)  # fmt: skip
SECOND_LOOK: Final = (*ABOUT, *COMPANY)
REPORT: Final = (*SECOND_LOOK, "density")


class EmbeddedJudge:
    """Judges by words, vectors and company."""

    name = "embedded"

    def __init__(self, models: Models, learned: Learned) -> None:
        """Judge by `learned`; loads the embedder when it first judges."""
        self._gathered = Gatherer(models)
        self._learned = learned

    @classmethod
    def shipped(cls, models: Models) -> EmbeddedJudge:
        """With the model that comes with the package."""
        return cls.of(models, SHIPPED)

    @classmethod
    def of(cls, models: Models, path: Path) -> EmbeddedJudge:
        """With a model of your own (`guard train judge`).

        Raises:
            SettingsError: it cannot be read, or was trained on other evidence.
        """
        return cls(models, load(path, version(models)))

    @classmethod
    def read(cls, models: Models, content: bytes, where: str) -> EmbeddedJudge:
        """With a model whose bytes are known, as `Learned.dumps` writes them; raises SettingsError like `of`, naming `where`."""
        return cls(models, parse(content, version(models), where))

    @property
    def digest(self) -> str:
        """Its model and the evidence it is about."""
        return f"embedded/{self._learned.version}/{self._learned.digest[:16]}"

    @property
    def embedding_seconds(self) -> float:
        """Waited for the vectors of passages so far."""
        return self._gathered.embedding_seconds

    def prepare(self, complaints: Sequence[Complaint]) -> None:
        """Read many complaints at once: one batch for the embedder instead of one each."""
        self._gathered.prepare(complaints)

    def judge(self, complaint: Complaint, new: Sequence[Suspect], seen: Sequence[Suspect]) -> list[Opinion]:
        """An opinion of each new text."""
        if not self._gathered.answerable(complaint):
            return [NO_ANSWER] * len(new)
        place = {one.chunk_id: number for number, one in enumerate(seen)}
        rows = self._gathered.evidence(complaint, seen)[[place[one.chunk_id] for one in new]]
        scores = self._learned.probabilities("text", rows)
        return [self._opinion(float(score), row) for score, row in zip(scores, rows, strict=True)]

    def conclude(self, complaint: Complaint, judged: Sequence[tuple[Suspect, Opinion]]) -> Conclusion:
        """A second look at the texts taken for poisoned, and at the complaint as a whole."""
        if not judged:
            return Conclusion(probability=0.0)
        rows = self._gathered.evidence(complaint, [suspect for suspect, _ in judged])
        scores = np.array([opinion.score for _, opinion in judged])
        again = self._learned.probabilities("again", second_look(rows, scores))
        report = float(self._learned.probabilities("report", report_row(rows, scores))[0])
        acquitted = again < self._learned.thresholds["again"]
        ids = frozenset(suspect.chunk_id for (suspect, _), free in zip(judged, acquitted, strict=True) if free)
        return Conclusion(_calibrated(report, self._learned.thresholds["report"]), ids)

    def _opinion(self, score: float, row: NDArray[np.float64]) -> Opinion:
        poisoned = not score < self._learned.thresholds["text"]  # a score that is no number is no acquittal
        return Opinion(Label.POISONED if poisoned else Label.BENIGN, score, _told(dict(zip(NAMES, row, strict=True))))


# How many texts were judged is left out of both below: a loop that errs goes deeper, and depth must not look like an attack.


def second_look(rows: NDArray[np.float64], scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """What ``again`` is asked: each text's score, those of the others, and some of the evidence."""
    found = []
    for number in range(len(scores)):
        others = np.delete(scores, number)
        three = np.pad(np.sort(others)[::-1][:3], (0, max(0, 3 - len(others))))
        about = [_logit(scores[number]), *three]
        found.append([*about, *(rows[number][NAMES.index(name)] for name in SECOND_LOOK)])
    return np.array(found, np.float64)


def report_row(rows: NDArray[np.float64], scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """What ``report`` is asked: the highest scores, and the evidence of the text that looks worst; shape (1, n)."""
    top = np.pad(np.sort(scores)[::-1][:3], (0, max(0, 3 - len(scores))))
    worst = rows[int(np.argmax(scores))]
    about = [_logit(top[0]), *top]
    return np.array([[*about, *(worst[NAMES.index(name)] for name in REPORT)]], np.float64)


def _logit(score: float) -> float:
    kept = min(max(float(score), 1e-4), 1 - 1e-4)
    return float(np.log(kept / (1 - kept)))


def _calibrated(probability: float, threshold: float) -> float:
    """Moved so that the threshold lies at one half: two straight lines."""
    if probability < threshold:
        return 0.5 * probability / threshold
    return 0.5 + 0.5 * (probability - threshold) / (1 - threshold)


def _told(row: dict[str, float]) -> str:
    """The evidence in words, without any of the text's."""
    where = "with" if row["bhead"] > 0.5 * row["best2"] else "far from"
    parts = [
        f"holds {row['cover']:.0%} of what the output adds to the question, {where} {row['around']:.0%} of the question's words"
        if row["cover"] > 0
        else "holds nothing of what the output adds to the question",
        f"{'nearer to' if row['d'] > 0 else 'farther from'} question and output together ({row['d']:+.2f})",
    ]
    if row["verb"] >= 0.8:
        parts.append("repeats the question word for word")
    if row["nstrong"] >= 1:
        parts.append(f"{row['nstrong']:.0f} other retrieved texts say the same")
    if row["rare"] > 12.6:
        parts.append("holds gibberish")
    if row["orders"] > 0.5:
        parts.append("speaks to a model")
    return "; ".join(parts)
