"""FilterRAG and ML-FilterRAG at query time: which of the texts retrieved for a question were written to be retrieved.

What they do not do: a text that neither resembles the question nor answers it passes, and so does a long honest page with one
poisoned sentence, whose words thin the density out. An honest text that is short and to the point looks to both like an attack: of
four one-paragraph pages of a manual, each asked for by its own question, the shipped model drops three.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from corpus_guard.corpus.filterrag.features import TAU, FeatureExtractor, Features, as_matrix
from corpus_guard.corpus.filterrag.learned import LearnedModel, load, parse, shipped
from corpus_guard.errors import SettingsError
from corpus_guard.models import Models
from corpus_guard.models.champion import Detector, in_use, read
from corpus_guard.settings import Settings

if TYPE_CHECKING:
    from corpus_guard.batches import Storage
    from corpus_guard.ledger import Ledger

EPSILON = 0.2


@dataclass(frozen=True, slots=True)
class Opinion:
    """What a filter thinks of one text."""

    poisoned: bool
    score: float  # Freq-Density, or the model's probability
    reason: str  # for people; never the text
    features: Features


class Filter(Protocol):
    """Judges the texts retrieved for one question."""

    @property
    def name(self) -> str:
        """As settings and the retrieval log call it."""

    @property
    def digest(self) -> str:
        """SHA-256 of the model it judges by; empty: by none."""

    def judge(self, question: str, texts: Sequence[str]) -> list[Opinion]:
        """An opinion of each text, in their order."""


class FilterRAG:
    """Drops a text when its Freq-Density exceeds epsilon (algorithm 1)."""

    name = "filterrag"
    digest = ""

    def __init__(self, extractor: FeatureExtractor, tau: float = TAU, epsilon: float = EPSILON) -> None:
        self._extractor = extractor
        self._tau = tau
        self._epsilon = epsilon

    def judge(self, question: str, texts: Sequence[str]) -> list[Opinion]:
        """An opinion of each text."""
        return [self._opinion(found) for found in self._extractor.extract([(question, x) for x in texts], self._tau)]

    def _opinion(self, features: Features) -> Opinion:
        score = features.freq_density
        poisoned = score > self._epsilon
        side = "above" if poisoned else "not above"
        return Opinion(poisoned, score, f"Freq-Density {score:.3f} is {side} {self._epsilon:g}", features)


class MLFilterRAG:
    """Drops a text when a trained classifier takes it for adversarial (algorithm 2)."""

    name = "ml_filterrag"

    def __init__(self, extractor: FeatureExtractor, model: LearnedModel) -> None:
        """Filter by `model`.

        Raises:
            SettingsError: the model was trained on other features than `extractor` computes.
        """
        if model.feature_version != extractor.version:
            raise SettingsError(
                f"filter model: was trained on features {model.feature_version!r}, this guard computes {extractor.version!r}; train one "
                "with `guard evaluate filter --save-model`, or set CORPUS_GUARD_RETRIEVAL_FILTER=filterrag, which needs none"
            )
        self._extractor = extractor
        self.model = model

    @property
    def digest(self) -> str:
        """SHA-256 of the model's file."""
        return self.model.digest

    def judge(self, question: str, texts: Sequence[str]) -> list[Opinion]:
        """An opinion of each text."""
        features = self._extractor.extract([(question, text) for text in texts], self.model.tau)
        scores = self.model.probabilities(as_matrix(features))
        return [self._opinion(one, float(score)) for one, score in zip(features, scores, strict=True)]

    def _opinion(self, features: Features, score: float) -> Opinion:
        poisoned = not score < self.model.threshold  # a score that is no number is no acquittal
        side = "at or above" if poisoned else "below"
        reason = f"taken for poisoned with probability {score:.3f}, {side} {self.model.threshold:.3f}"
        return Opinion(poisoned, score, reason, features)


def make_filter(
    settings: Settings, models: Models, ledger: Ledger | None = None, storage: Storage | None = None
) -> Filter | None:
    """The filter that the settings ask for; None where they say ``off``. Loads no model yet.

    ``ml_filterrag`` takes the model that the settings name, else the one that was promoted last, else that of the package.

    Args:
        settings: what is wanted.
        models: of the features.
        ledger: says what was promoted; None: nothing was.
        storage: where what was promoted lies.

    Raises:
        SettingsError: the classifier's file is not the expected one, or it was trained on other features.
        Inconsistent: what was promoted is gone, or has other bytes.
    """
    if settings.retrieval_filter == "off":
        return None
    extractor = FeatureExtractor(models)
    if settings.retrieval_filter == "filterrag":
        return FilterRAG(extractor)
    return MLFilterRAG(extractor, _model(settings, ledger, storage))


def _model(settings: Settings, ledger: Ledger | None, storage: Storage | None) -> LearnedModel:
    digest = in_use(Detector.FILTER, settings.filter_model, ledger) if storage is not None else None
    if digest and storage is not None:
        return parse(read(storage, Detector.FILTER, digest), f"filter model {digest[:16]}, promoted")
    path = settings.filter_model
    return load(path, settings.filter_model_sha256) if path else shipped()
