"""Judge and RAG model that the settings select. Creating them loads no model and sends no request."""

from __future__ import annotations

from corpus_guard.batches import Storage
from corpus_guard.corpus.filterrag.features import FeatureExtractor
from corpus_guard.domain import Skipped
from corpus_guard.ledger import Ledger
from corpus_guard.models import Models
from corpus_guard.models.champion import Detector, active_digest, read_detector
from corpus_guard.models.chat import ChatEndpoint
from corpus_guard.models.chat_cache import LedgerAnswerCache
from corpus_guard.settings import Settings
from corpus_guard.traceback.activations.champion import select_probe
from corpus_guard.traceback.activations.witness import ActivationWitness
from corpus_guard.traceback.judges import Judge
from corpus_guard.traceback.judges.embedded import EmbeddedJudge
from corpus_guard.traceback.judges.llm import LLMJudge
from corpus_guard.traceback.rag_model import ChatRagModel, EmbeddedRagModel, RagModel


def create_judge(settings: Settings, models: Models, ledger: Ledger | None = None) -> Judge:
    """Create the judge that decides whether a text led to an output.

    Args:
        ledger: stores an endpoint's answers, and says which embedded judge was promoted. Without a ledger,
            answers are kept as long as the judge lives, and the embedded judge is that of the settings, else
            that of the package.

    Raises:
        SettingsError: the endpoint's address or key is missing; or the judge's model cannot be read, or was
            trained on other evidence.
        Inconsistent: the promoted judge's file is gone or was changed.
        LedgerUnavailable: the ledger does not answer.
    """
    if settings.judge == "llm":
        return LLMJudge(create_chat_endpoint(settings, ledger))
    digest = active_digest(Detector.JUDGE, settings.judge_model, ledger)
    if digest:
        content = read_detector(Storage(settings.storage), Detector.JUDGE, digest)
        return EmbeddedJudge.from_bytes(models, content, f"{digest[:16]}, promoted")
    if settings.judge_model:
        return EmbeddedJudge.from_file(models, settings.judge_model)
    return EmbeddedJudge.shipped(models)


def create_rag_model(settings: Settings, models: Models, ledger: Ledger | None = None) -> RagModel:
    """Create the RAG model that answers a reported question again.

    Returns:
        An `ActivationWitness`, whose activations vote, if the model is the embedded one and a probe fits it.

    Raises:
        SettingsError: as for `create_judge`; or the probe that the settings name cannot be read.
        Inconsistent: the files of the promoted probe are gone or were changed.
    """
    if settings.rag_model == "chat":
        return ChatRagModel(create_chat_endpoint(settings, ledger))
    probe = select_probe(settings, models, ledger, Storage(settings.storage) if ledger else None)
    if isinstance(probe, Skipped):
        return EmbeddedRagModel(FeatureExtractor(models), probe.reason)
    return ActivationWitness(models, probe)


def create_chat_endpoint(settings: Settings, ledger: Ledger | None) -> ChatEndpoint:
    """Create the chat endpoint of the settings; its answers are stored in the ledger, if there is one.

    Raises:
        SettingsError: the endpoint's address or key is missing.
    """
    return ChatEndpoint.from_settings(settings, LedgerAnswerCache(ledger) if ledger else None)
