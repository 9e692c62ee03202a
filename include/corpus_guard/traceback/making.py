"""The judge and the RAG model that the settings ask for. Loads no model and asks nobody yet."""

from __future__ import annotations

from corpus_guard.ledger import Ledger
from corpus_guard.models import Models
from corpus_guard.models.champion import Detector, in_use, read
from corpus_guard.settings import Settings
from corpus_guard.traceback.asking import Answers, ChatAnswers, EmbeddedAnswers
from corpus_guard.traceback.judges import Judge


def make_judge(settings: Settings, models: Models, ledger: Ledger | None = None) -> Judge:
    """What decides whether a text led to an output.

    Args:
        settings: `Settings.judge` names it.
        models: for the judge that needs no endpoint.
        ledger: keeps what an endpoint answered; without one it is kept as long as the judge. It says, too, which embedded judge was
            promoted; without one it is that of the settings, else that of the package.

    Raises:
        SettingsError: the endpoint's address or key is none; or a judge's model is none, or was trained on other evidence.
        Inconsistent: the promoted judge's file is gone, or is not what was promoted.
        LedgerUnavailable: the ledger does not answer.
    """
    if settings.judge == "llm":
        from corpus_guard.models.chat import ChatEndpoint
        from corpus_guard.models.chat_cache import LedgerAnswers
        from corpus_guard.traceback.judges.llm import LLMJudge

        return LLMJudge(ChatEndpoint.of(settings, LedgerAnswers(ledger) if ledger else None))
    from corpus_guard.traceback.judges.embedded import EmbeddedJudge

    digest = in_use(Detector.JUDGE, settings.judge_model, ledger)
    if digest:
        from corpus_guard.batches import Storage

        content = read(Storage(settings.storage), Detector.JUDGE, digest)
        return EmbeddedJudge.read(models, content, f"{digest[:16]}, promoted")
    return EmbeddedJudge.of(models, settings.judge_model) if settings.judge_model else EmbeddedJudge.shipped(models)


def make_answers(settings: Settings, models: Models, ledger: Ledger | None = None) -> Answers:
    """What answers a reported question again.

    Args:
        settings: `Settings.rag_model` names it.
        models: for the small language model.
        ledger: as for `make_judge`.

    Returns:
        With an embedded model and a probe that knows it, a `Witness`: its activations vote where it is asked.

    Raises:
        SettingsError: as for `make_judge`; or the probe that the settings name cannot be read.
        Inconsistent: the promoted probe is not what was promoted.
    """
    if settings.rag_model == "chat":
        from corpus_guard.models.chat import ChatEndpoint
        from corpus_guard.models.chat_cache import LedgerAnswers

        return ChatAnswers(ChatEndpoint.of(settings, LedgerAnswers(ledger) if ledger else None))
    from corpus_guard.batches import Storage
    from corpus_guard.corpus.filterrag import FeatureExtractor
    from corpus_guard.traceback.activations.champion import find
    from corpus_guard.traceback.activations.witness import Witness

    found = find(settings, models, ledger, Storage(settings.storage) if ledger else None)
    return EmbeddedAnswers(FeatureExtractor(models), found) if isinstance(found, str) else Witness(models, found)
