"""Embedded judge, which needs no endpoint: countable evidence, weighed by small trees.

Rules
    * opinions of the first look decide what the loop sets aside; `conclude` looks again at everything
      retrieved, and may acquit;
    * a text that is alone in what it says is believed less than one that others repeat: by chance, one in ten
      texts that a question retrieves holds the words of a wrong answer;
    * an output that cannot answer the question ("yes" or "1988" to "who"), or is the right answer that the report itself
      names, accuses nobody;
    * texts whose vectors come from another embedder are embedded again: the model knows one vector space
      only.

What it does not do: understand texts, or ask a language model. How likely the embedded language model finds
the output after a text, and how much likelier than without it, was tried on the 1,420 training texts that are
least clear: 77.2 % right without, 77.3 % with it. A lie told without any of the output's words, by one text
alone, passes for benign; an honest text that states exactly what was reported, next to the question's words,
looks like a lie. Figures: `guard evaluate traceback`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import orjson
from numpy.typing import NDArray

from corpus_guard.domain import sha256_bytes
from corpus_guard.errors import SettingsError
from corpus_guard.ledger.states import Label
from corpus_guard.models import Models
from corpus_guard.traceback.judges import JudgeConclusion, Opinion
from corpus_guard.traceback.judges.evidence import FEATURE_NAMES, EvidenceCollector, evidence_version
from corpus_guard.traceback.retrieval import Complaint, RetrievedText

if TYPE_CHECKING:
    import xgboost

RULES_VERSION: Final = "2"
"""Changes whenever the rules would conclude otherwise from the same trees: closed reports are then traced again."""
SHIPPED_MODEL: Final = Path(__file__).with_name("embedded.json")
SHIPPED_SHA256: Final = "76a8f18b4326cc250ea0072b6407d635d5e4e23bda0200318535bc6baf04b0c7"
PARTS: Final = ("text", "again", "report")
"""Parts of a judge's model: how likely a text is poisoned, from its own evidence and its company's when first
seen; the same, once everything that the complaint retrieves is known; how likely the complaint as a whole is
an attack."""
NO_ANSWER: Final = Opinion(Label.BENIGN, 0.0, "the output answers no such question: nothing can have led to it")
RIGHT_ANSWER: Final = Opinion(Label.BENIGN, 0.0, "the reported output is the right answer that the report names")
MIN_ACCUSED_SUPPORT: Final = 0.3
"""Support, 0..1, that one of the accused texts must reach. The others may say it in other words."""
TREES_AVERAGED: Final = 3  # of each round: single ones differ with the seed by more than a point on small data sets
LED_SHARE: Final = 0.8  # of the question, repeated word for word
GIBBERISH_BITS: Final = 12.6  # of the rarest window of tokens
MIN_ORDERS: Final = 0.5  # words that speak to a model, over the root of the length
MIN_OPPOSITION: Final = 0.5  # by which a text must oppose the claim more than it states it, 0..1, to be acquitted
CONTRADICTED_PROBABILITY: Final = 0.9
"""Probability of an attack, and score of a text, where what people trust contradicts a text that states the claim."""
COMPANY_INPUTS: Final = (
    "sib1", "sib2", "sibcount", "agree", "agreed", "nstrong", "strongsim", "psib1", "psib2", "pagree", "osupport", "ooppose",
)  # fmt: skip
TEXT_INPUTS: Final = (
    "polar", "alen", "arare", "novel", "verb", "led", "rare", "cq", "cqt", "d", "pcqt", "pd", "bhead", "orders", "facts",
    "fbest", "cover", "nfacts", "words", "support", "oppose", "deny", "close", "unit", "typed", "supshare",
)  # fmt: skip
SCORE_INPUTS: Final = ("score", "highest", "second", "third")  # scores of the first look: a text's own, and the others'
SECOND_LOOK_INPUTS: Final = (*TEXT_INPUTS, *COMPANY_INPUTS)
REPORT_INPUTS: Final = (*SECOND_LOOK_INPUTS, "density")
RISING: Final = frozenset({
    *SCORE_INPUTS, "contains", "cover", "full", "best", "best2", "bhead", "facts", "fbest", "support", "close", "supshare", "unit",
    "d", "dz", "pd", "pdz", "agree", "agreed", "pagree", "osupport", "nstrong", "strongsim", "orders",
})  # fmt: skip
"""Inputs that never acquit: the more of one, the likelier an attack, all else equal. Trees that are free to think otherwise
learn what is true of one data set only."""
FALLING: Final = frozenset({"oppose"})
"""Inputs that never accuse."""


@dataclass(frozen=True)
class JudgeModel:
    """Trained model of the judge: three small sets of trees in one JSON file.

    Made by `guard train judge`. XGBoost's JSON holds numbers only: reading it executes nothing.
    """

    version: str  # of the evidence it was trained on
    trained_on: str  # in words
    thresholds: Mapping[str, float]  # by part: probability from which it says yes
    trees: Mapping[str, xgboost.Booster] = field(repr=False)  # by part

    def probabilities(self, part: str, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probability of each row that what the part predicts is true, shape (rows,)."""
        if not len(rows):
            return np.empty(0, np.float64)
        # inplace_predict makes no DMatrix: a tenth of the time for a handful of rows.
        return np.asarray(self.trees[part].inplace_predict(rows, validate_features=False), np.float64)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the file."""
        return sha256_bytes(self.dumps())

    def dumps(self) -> bytes:
        """Return the content of the file."""
        about = {"version": self.version, "trained_on": self.trained_on, "thresholds": dict(self.thresholds)}
        trees = {part: orjson.loads(bytes(self.trees[part].save_raw("json"))) for part in PARTS}
        return orjson.dumps({**about, "trees": trees}, option=orjson.OPT_SORT_KEYS)


class EmbeddedJudge:
    """Judge by words, vectors and company."""

    name = "embedded"

    def __init__(self, models: Models, model: JudgeModel) -> None:
        """Judge by `model`. The embedder is loaded by the first complaint."""
        self._collector = EvidenceCollector(models)
        self._model = model

    @classmethod
    def shipped(cls, models: Models) -> EmbeddedJudge:
        """Create the judge with the model of the package.

        Raises:
            SettingsError: its file was altered.
        """
        actual = sha256_bytes(SHIPPED_MODEL.read_bytes())
        if actual != SHIPPED_SHA256:
            raise SettingsError(
                f"judge's model {SHIPPED_MODEL}: SHA-256 is {actual[:16]}…, expected {SHIPPED_SHA256[:16]}…; it was altered. "
                "Install the package again, or set CORPUS_GUARD_JUDGE_MODEL to a model that you trained"
            )
        return cls.from_file(models, SHIPPED_MODEL)

    @classmethod
    def from_file(cls, models: Models, path: Path) -> EmbeddedJudge:
        """Create a judge with a model of your own (`guard train judge`).

        Raises:
            SettingsError: the file cannot be read, or was trained on other evidence.
        """
        return cls(models, load_model(path, evidence_version(models)))

    @classmethod
    def from_bytes(cls, models: Models, content: bytes, origin: str) -> EmbeddedJudge:
        """Create a judge with a model from its bytes, as `JudgeModel.dumps` writes them.

        Raises:
            SettingsError: as for `from_file`; `origin` names the model in the message.
        """
        return cls(models, parse_model(content, evidence_version(models), origin))

    @property
    def digest(self) -> str:
        """Model of the judge, the evidence it reads, and the rules it follows."""
        return f"embedded/{self._model.version}/{self._model.digest[:16]}/{RULES_VERSION}"

    @property
    def embedding_seconds(self) -> float:
        """Seconds spent on the vectors of passages so far."""
        return self._collector.embedding_seconds

    def prepare(self, complaints: Sequence[Complaint]) -> None:
        """Read many complaints at once: one batch for the embedder instead of one each."""
        self._collector.prepare(complaints)

    def judge(
        self, complaint: Complaint, new: Sequence[RetrievedText], retrieved: Sequence[RetrievedText]
    ) -> list[Opinion]:
        """Return an opinion of each new text."""
        if not self._collector.answerable(complaint):
            return [NO_ANSWER] * len(new)
        if self._collector.reports_right_answer(complaint):
            return [RIGHT_ANSWER] * len(new)
        index = {text.chunk_id: number for number, text in enumerate(retrieved)}
        rows = self._collector.evidence(complaint, retrieved)[[index[text.chunk_id] for text in new]]
        scores = self._model.probabilities("text", rows)
        contradicted = self._collector.contradicted(complaint, retrieved)
        return [
            self._opinion(float(score), row, contradicted.get(text.chunk_id, ""))
            for text, score, row in zip(new, scores, rows, strict=True)
        ]

    def conclude(self, complaint: Complaint, judged: Sequence[tuple[RetrievedText, Opinion]]) -> JudgeConclusion:
        """Look again at the texts taken for poisoned, and at the complaint as a whole."""
        if not judged or not self._collector.answerable(complaint) or self._collector.reports_right_answer(complaint):
            return JudgeConclusion(probability=0.0)
        rows = self._collector.evidence(complaint, [text for text, _ in judged])
        scores = np.array([opinion.score for _, opinion in judged])
        again = self._model.probabilities("again", second_look_features(rows, scores))
        report = float(self._model.probabilities("report", report_features(rows, scores))[0])
        acquitted = (again < self._model.thresholds["again"]) | np.array([_says_otherwise(row) for row in rows])
        acquitted_ids = frozenset(text.chunk_id for (text, _), free in zip(judged, acquitted, strict=True) if free)
        texts = [text for text, _ in judged]
        support = {
            text.chunk_id: read for text, read in zip(texts, self._collector.supports(complaint, texts), strict=True)
        }
        if not any(_states_claim(row) for row, free in zip(rows, acquitted, strict=True) if not free):
            acquitted_ids = frozenset(support)  # similar words alone accuse nobody
        probability = _calibrate(report, self._model.thresholds["report"])
        contradicted = frozenset(self._collector.contradicted(complaint, texts))
        if contradicted:
            probability = max(probability, CONTRADICTED_PROBABILITY)
        return JudgeConclusion(probability, acquitted_ids - contradicted, contradicted, support)

    def _opinion(self, score: float, row: NDArray[np.float64], contradicted_by: str) -> Opinion:
        """Return the opinion of a text; `contradicted_by` says what people trust that contradicts it, empty if nothing does."""
        explanation = _explain(dict(zip(FEATURE_NAMES, row, strict=True)))
        if contradicted_by:
            explanation = f"states the reported claim, and {contradicted_by} says otherwise; {explanation}"
            return Opinion(Label.POISONED, max(score, CONTRADICTED_PROBABILITY), explanation)
        poisoned = not score < self._model.thresholds["text"]  # NaN is no acquittal
        return Opinion(Label.POISONED if poisoned else Label.BENIGN, score, explanation)


# The number of judged texts is left out of both: a loop that errs goes deeper, and depth must not look like an attack.


def second_look_features(rows: NDArray[np.float64], scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the inputs of the part ``again``: each text's score, the others' scores, and evidence.

    Args:
        rows: evidence, shape (texts, len(FEATURE_NAMES)).
        scores: of the first look, shape (texts,).
    """
    features = []
    for number in range(len(scores)):
        others = np.delete(scores, number)
        highest = np.pad(np.sort(others)[::-1][:3], (0, max(0, 3 - len(others))))
        evidence = (rows[number][FEATURE_NAMES.index(name)] for name in SECOND_LOOK_INPUTS)
        features.append([_logit(scores[number]), *highest, *evidence])
    return np.array(features, np.float64)


def report_features(rows: NDArray[np.float64], scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the inputs of the part ``report``: the highest scores, and the evidence of the worst text.

    Args:
        rows: evidence, shape (texts, len(FEATURE_NAMES)).
        scores: of the first look, shape (texts,).

    Returns:
        Shape (1, n).
    """
    highest = np.pad(np.sort(scores)[::-1][:3], (0, max(0, 3 - len(scores))))
    worst = rows[int(np.argmax(scores))]
    evidence = (worst[FEATURE_NAMES.index(name)] for name in REPORT_INPUTS)
    return np.array([[_logit(highest[0]), *highest, *evidence]], np.float64)


def load_model(path: Path, version: str) -> JudgeModel:
    """Read a model from a file.

    Raises:
        SettingsError: the file cannot be read; else as for `parse_model`.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SettingsError(f"judge's model {path}: cannot be read ({error.strerror}); restore it") from error
    return parse_model(content, version, str(path))


def parse_model(content: bytes, version: str, origin: str) -> JudgeModel:
    """Read a model from its bytes.

    Args:
        content: what `JudgeModel.dumps` wrote.
        version: of the evidence that is collected here.
        origin: for messages.

    Raises:
        SettingsError: the bytes are no judge's model, or it was trained on other evidence.
    """
    import xgboost

    try:
        row = orjson.loads(content)
        thresholds = {part: float(row["thresholds"][part]) for part in PARTS}
        trees = {}
        for part in PARTS:
            trees[part] = xgboost.Booster({"nthread": 1})
            trees[part].load_model(bytearray(orjson.dumps(row["trees"][part])))
        model = JudgeModel(str(row["version"]), str(row["trained_on"]), thresholds, trees)
    except Exception as error:  # orjson, a missing key, and whatever XGBoost raises
        raise SettingsError(
            f"judge's model {origin}: holds no judge's model ({type(error).__name__}); train one with `guard "
            "train judge`"
        ) from error
    if model.version != version:
        raise SettingsError(
            f"judge's model {origin}: got evidence version {model.version!r}, expected {version!r}; train a "
            "model for it with `guard train judge`"
        )
    return model


def train_trees(
    rows: NDArray[np.float64],
    truth: Sequence[bool],
    weights: Sequence[float],
    names: Sequence[str],
    *,
    rounds: int,
    seed: int,
) -> xgboost.Booster:
    """Fit trees to rows.

    Args:
        rows: shape (n, features).
        truth: whether each row is poisoned, shape (n,).
        names: of the features; see `RISING`.
    """
    import xgboost

    params = {
        "objective": "binary:logistic",
        "max_depth": 3,
        "eta": 0.06,
        "subsample": 0.7,
        "colsample_bytree": 0.6,
        "min_child_weight": 5,
        "reg_lambda": 3,
        "num_parallel_tree": TREES_AVERAGED,
        "nthread": 1,
        "seed": seed,
        "monotone_constraints": tuple((name in RISING) - (name in FALLING) for name in names),
    }
    data = xgboost.DMatrix(rows, label=np.asarray(truth, float), weight=np.asarray(weights, float))
    return xgboost.train(params, data, num_boost_round=rounds)


def _states_claim(row: NDArray[np.float64]) -> bool:
    """Return whether a text states or denies the reported claim, or speaks to a model."""
    support, denial, orders = (row[FEATURE_NAMES.index(name)] for name in ("support", "deny", "orders"))
    return bool(max(support, denial) >= MIN_ACCUSED_SUPPORT or orders > MIN_ORDERS)


def _says_otherwise(row: NDArray[np.float64]) -> bool:
    """Return whether a text says nothing of what is reported, or something else, and does not speak to a model."""
    support, denial, opposition, cover, orders = (
        row[FEATURE_NAMES.index(name)] for name in ("support", "deny", "oppose", "cover", "orders")
    )
    states = max(support, denial)
    return bool(orders <= MIN_ORDERS and (opposition - states >= MIN_OPPOSITION or states == cover == 0))


def _logit(score: float) -> float:
    probability = min(max(float(score), 1e-4), 1 - 1e-4)
    return float(np.log(probability / (1 - probability)))


def _calibrate(probability: float, threshold: float) -> float:
    """Return the probability, moved along two straight lines so that the threshold lies at one half."""
    if probability < threshold:
        return 0.5 * probability / threshold
    return 0.5 + 0.5 * (probability - threshold) / (1 - threshold)


def _explain(row: dict[str, float]) -> str:
    """Put the evidence into words, without quoting the text."""
    where = "with" if row["bhead"] > 0.5 * row["best2"] else "far from"
    parts = [
        f"holds {row['cover']:.0%} of what the output adds to the question, {where} {row['around']:.0%} of "
        "the question's words"
        if row["cover"] > 0
        else "holds nothing of what the output adds to the question",
        f"{'nearer to' if row['d'] > 0 else 'farther from'} question and output together ({row['d']:+.2f})",
    ]
    if row["verb"] >= LED_SHARE:
        parts.append("repeats the question word for word")
    if row["nstrong"] >= 1:
        count = round(row["nstrong"])
        parts.append(
            f"{count} other retrieved texts say the same" if count > 1 else "1 other retrieved text says the same"
        )
    if row["rare"] > GIBBERISH_BITS:
        parts.append("holds gibberish")
    if row["orders"] > MIN_ORDERS:
        parts.append("addresses a model")
    return "; ".join(parts)
