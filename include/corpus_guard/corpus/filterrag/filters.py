"""FilterRAG and ML-FilterRAG at query time: find texts that were written to be retrieved for a question.

What they miss: a text that neither resembles the question nor answers it, and a long honest page with one
poisoned sentence, whose other words lower the density. An honest text that is short and to the point looks
like an attack to both: of four one-paragraph pages of a manual, each retrieved by its own question, the
shipped model drops three.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from corpus_guard.corpus.filterrag.features import TAU, FeatureExtractor, Features, as_matrix
from corpus_guard.corpus.filterrag.learned import SHIPPED_SHA256, LearnedModel, load, load_shipped, parse
from corpus_guard.errors import SettingsError
from corpus_guard.ledger import Ledger
from corpus_guard.models import Models
from corpus_guard.models.champion import Detector, active_digest, read_detector
from corpus_guard.settings import Settings

if TYPE_CHECKING:
    from corpus_guard.batches import Storage

EPSILON = 0.2


@dataclass(frozen=True, slots=True)
class FilterOpinion:
    """A filter's judgement of one text."""

    poisoned: bool
    score: float  # Freq-Density, or the model's probability
    reason: str  # for people; never the text
    features: Features


class RetrievalFilter(Protocol):
    """Judge of the texts retrieved for one question."""

    @property
    def name(self) -> str:
        """Name in the settings and the retrieval log."""

    @property
    def digest(self) -> str:
        """SHA-256 of its model; empty: it has none."""

    def judge(self, question: str, texts: Sequence[str]) -> list[FilterOpinion]:
        """Return an opinion of each text, in their order."""


class FilterRAG:
    """Filter that drops a text when its Freq-Density exceeds epsilon (algorithm 1)."""

    name = "filterrag"
    digest = ""

    def __init__(self, extractor: FeatureExtractor, tau: float = TAU, epsilon: float = EPSILON) -> None:
        self._extractor = extractor
        self.tau = tau
        self.epsilon = epsilon

    def judge(self, question: str, texts: Sequence[str]) -> list[FilterOpinion]:
        """Return an opinion of each text."""
        features = self._extractor.extract([(question, text) for text in texts], self.tau)
        return [self._opinion(row) for row in features]

    def _opinion(self, features: Features) -> FilterOpinion:
        score = features.freq_density
        poisoned = score > self.epsilon
        side = "above" if poisoned else "not above"
        return FilterOpinion(poisoned, score, f"Freq-Density {score:.3f} is {side} {self.epsilon:g}", features)


class MLFilterRAG:
    """Filter that drops a text when a trained classifier takes it for adversarial (algorithm 2)."""

    name = "ml_filterrag"

    def __init__(self, extractor: FeatureExtractor, model: LearnedModel) -> None:
        """Filter by `model`.

        Raises:
            SettingsError: the model was trained on other features than `extractor` computes.
        """
        if model.feature_version != extractor.version:
            raise SettingsError(
                f"filter model: it was trained on features {model.feature_version!r}, this release computes {extractor.version!r}; "
                "train a model with `guard evaluate filter --save-model`, or set CORPUS_GUARD_RETRIEVAL_FILTER=filterrag, "
                "which needs none"
            )
        self._extractor = extractor
        self.model = model

    @property
    def digest(self) -> str:
        """SHA-256 of the model's file."""
        return self.model.digest

    def judge(self, question: str, texts: Sequence[str]) -> list[FilterOpinion]:
        """Return an opinion of each text."""
        return self.judge_pairs([(question, text) for text in texts])

    def judge_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[FilterOpinion]:
        """Return an opinion of each (question, text) pair, in their order."""
        features = self._extractor.extract(pairs, self.model.tau)
        scores = self.model.probabilities(as_matrix(features))
        return [self._opinion(row, float(score)) for row, score in zip(features, scores, strict=True)]

    def _opinion(self, features: Features, score: float) -> FilterOpinion:
        poisoned = not score < self.model.threshold  # NaN does not acquit
        side = "at or above" if poisoned else "below"
        reason = f"taken for poisoned with probability {score:.3f}, {side} {self.model.threshold:.3f}"
        return FilterOpinion(poisoned, score, reason, features)


@dataclass(frozen=True, slots=True)
class ClassifierInUse:
    """The classifier of ML-FilterRAG that a deployment uses; its digest is known without reading it."""

    digest: str  # SHA-256 of its file
    load: Callable[[], LearnedModel]


SHIPPED_CLASSIFIER: Final = ClassifierInUse(SHIPPED_SHA256, load_shipped)


def classifier_in_use(
    settings: Settings, ledger: Ledger | None = None, storage: Callable[[], Storage] | None = None
) -> ClassifierInUse:
    """Return the classifier that the settings name, else the one that was promoted last, else that of the package.

    Args:
        ledger: knows the promoted model; None: there is none.
        storage: opens the storage, which holds the promoted model; None: there is none.
    """
    digest = active_digest(Detector.FILTER, settings.filter_model, ledger) if storage is not None else None
    if digest and storage is not None:
        read = partial(_read_promoted, storage, digest)
        return ClassifierInUse(digest, read)
    if path := settings.filter_model:
        return ClassifierInUse(settings.filter_model_sha256.lower(), partial(load, path, settings.filter_model_sha256))
    return SHIPPED_CLASSIFIER


def make_filter(
    settings: Settings, models: Models, ledger: Ledger | None = None, storage: Storage | None = None
) -> RetrievalFilter | None:
    """Return the filter that the settings name; None where they say ``off``. Loads no language model yet.

    Raises:
        SettingsError: the model file is not the expected one, or was trained on other features.
        Inconsistent: the promoted model is gone, or has other bytes.
    """
    if settings.retrieval_filter == "off":
        return None
    extractor = FeatureExtractor(models)
    if settings.retrieval_filter == "filterrag":
        return FilterRAG(extractor, settings.filter_tau, settings.filter_epsilon)
    opened = (lambda: storage) if storage is not None else None
    return MLFilterRAG(extractor, classifier_in_use(settings, ledger, opened).load())


def _read_promoted(storage: Callable[[], Storage], digest: str) -> LearnedModel:
    return parse(read_detector(storage(), Detector.FILTER, digest), f"filter model {digest[:16]}, promoted")
