"""The composition root: opens each part of a deployment when it is first used, and joins the parts.

Only the command line, Airflow's tasks, the review pages, applications and tests build a `Deployment`. The rooms below never see it: their
functions take the ledger, the storage, the store or the models that they use.

An unchanged corpus costs hash comparisons: nothing here loads a model, opens Chroma or imports Great Expectations until a step asks. The
ledger is imported when it is first used, too: `guard --help` answers without SQLAlchemy.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING

from corpus_guard.domain import Progress, no_progress
from corpus_guard.errors import SettingsError
from corpus_guard.models import Models

if TYPE_CHECKING:
    from corpus_guard.batches import Storage
    from corpus_guard.corpus.retrieval_log import RetrievalLog
    from corpus_guard.corpus.retriever import GuardedRetriever
    from corpus_guard.corpus.store import Store
    from corpus_guard.forensics.cases import Case
    from corpus_guard.intake.blobs import BlobStore
    from corpus_guard.intake.chunking import Chunker
    from corpus_guard.intake.sources import Sources
    from corpus_guard.intake.sources.connections import Connections
    from corpus_guard.ledger import Ledger
    from corpus_guard.ledger.states import Purpose
    from corpus_guard.pipeline.incident_healing import IncidentHealing
    from corpus_guard.pipeline.reparsing import ReparsingResult
    from corpus_guard.pipeline.rescreen import RescreenResult
    from corpus_guard.pipeline.retiring import RetiredSource
    from corpus_guard.pipeline.steps import RefreshResult
    from corpus_guard.proof.healing import HealingReport
    from corpus_guard.proof.incidents import Incident
    from corpus_guard.proof.sealing import Seal
    from corpus_guard.proof.verify.verification import Verification
    from corpus_guard.removal.purge import Purger
    from corpus_guard.removal.restoring import RestoreResult
    from corpus_guard.review.identities import Identities
    from corpus_guard.review.release import ReleaseResult
    from corpus_guard.screening.policy import Policy
    from corpus_guard.screening.runner import Screening
    from corpus_guard.settings import Settings


class Deployment:
    """A deployment of the guard: settings, ledger, storage, models, policy, sources and collections.

    Use it as a context manager; it stops the Chroma server that it had to start::

        with Deployment() as deployment:
            for hit in deployment.retriever.query("How often is the pump serviced?"):
                print(hit.text)
    """

    def __init__(self, settings: Settings | None = None, connections: Connections | None = None) -> None:
        """
        Args:
            settings: None: those of the environment.
            connections: where sources' credentials come from; None: the environment.
        """
        from corpus_guard.settings import load_settings

        self.settings = settings or load_settings()
        self._connections = connections
        self.models = Models(self.settings)
        self._closing = contextlib.ExitStack()

    def __enter__(self) -> Deployment:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.close()

    @cached_property
    def ledger(self) -> Ledger:
        """The ledger, migrated."""
        from corpus_guard.ledger import Ledger

        home = self.settings.home
        if self.settings.ledger.startswith(f"sqlite:///{home}/"):
            home.mkdir(parents=True, exist_ok=True)
        ledger = Ledger(self.settings.ledger)
        self._closing.callback(ledger.close)
        return ledger

    @cached_property
    def storage(self) -> Storage:
        """Storage of batches, vectors and manifests.

        Raises:
            SettingsError: CORPUS_GUARD_STORAGE_URL is of a kind that nothing here can open.
        """
        from corpus_guard.batches import Storage

        try:
            return Storage(self.settings.storage)
        except (ValueError, ImportError) as error:
            kind = self.settings.storage.partition("://")[0]
            raise SettingsError(
                f"environment variable CORPUS_GUARD_STORAGE_URL: {kind}:// cannot be opened ({type(error).__name__}); "
                "give a folder or another fsspec URL, or install the package for it"
            ) from error

    @cached_property
    def blobs(self) -> BlobStore:
        """Raw bytes by hash."""
        from corpus_guard.intake.blobs import BlobStore

        return BlobStore(f"{self.settings.storage}/raw")

    @cached_property
    def chunker(self) -> Chunker:
        """Cuts texts in tokens of the embedder."""
        from corpus_guard.intake.chunking import Chunker

        return Chunker(self.models.tokenizer_file, self.settings.chunk_tokens)

    @cached_property
    def policy(self) -> Policy:
        """policy.yaml."""
        from corpus_guard.screening.policy import load_policy

        return load_policy(self.settings.policy_file)

    @cached_property
    def screening(self) -> Screening:
        """The policy's checks, with what was muted when this was first asked; slow results are kept in the ledger.

        Raises:
            SettingsError: the policy has a threshold for a source that is not in sources.yaml: a misspelt one would loosen
                the source it was meant for, unseen.
        """
        from corpus_guard.corpus.filterrag.filters import classifier_in_use
        from corpus_guard.review.muting import active_mutes
        from corpus_guard.screening.extensions import load_extensions
        from corpus_guard.screening.history import LedgerCache
        from corpus_guard.screening.registry import CHECKS, build_screening

        stray = sorted(set(self.policy.sources) - set(self.sources)) if self.policy.sources else []
        if stray:
            raise SettingsError(
                f"{self.settings.policy_file}: sources.{stray[0]}: not in {self.settings.sources_file}; "
                f"known: {', '.join(self.sources) or 'none'}"
            )
        return build_screening(
            self.policy,
            self.models,
            LedgerCache(self.ledger),
            active_mutes(self.ledger),
            classifier_in_use(self.settings, self.ledger, lambda: self.storage),
            load_extensions(self.settings, CHECKS),
        )

    @cached_property
    def identities(self) -> Identities:
        """The people of reviewers.yaml.

        Raises:
            SettingsError: the file is malformed, or gives one login to two people.
        """
        from corpus_guard.review.identities import load_identities

        return load_identities(self.settings)

    @cached_property
    def sources(self) -> Sources:
        """The sources that sources.yaml declares.

        Raises:
            SettingsError: the file is wrong; the message names the key.
        """
        from corpus_guard.intake.sources import Sources, load_sources
        from corpus_guard.intake.sources.connections import from_environment

        declared = load_sources(
            self.settings.sources_file,
            max_bytes=self.settings.max_document_bytes,
            connections=self._connections or from_environment,
            cache=self.settings.home / "cache",
        )
        return Sources(declared, self.settings.sources_file)

    @cached_property
    def store(self) -> Store:
        """The vector store that the settings choose; connected on first use, or by `store.open()`.

        Its collections must belong to this deployment. Where no Chroma server answers at a loopback address, one is started and
        runs until this deployment is closed. It also ends with the thread that started it: before work is spread over
        threads, call `store.open()`.
        """
        from corpus_guard.corpus.opening import open_store

        return open_store(self.settings, lambda: self.ledger, self._closing)

    @property
    def purger(self) -> Purger:
        """Erases content for good, and proves that it is gone."""
        from corpus_guard.removal.purge import Purger

        return Purger(self.ledger, self.storage, self.blobs, self.store, self.screening, self.settings)

    @cached_property
    def retriever(self) -> GuardedRetriever:
        """Queries over the collections, with the filter and the log that the settings ask for.

        Raises:
            SettingsError: the filter's model is not the expected one.
            Inconsistent: the promoted one is gone, or has other bytes.
        """
        from corpus_guard.corpus.filterrag.filters import make_filter
        from corpus_guard.corpus.retriever import GuardedRetriever

        return GuardedRetriever(
            self.ledger,
            self.store,
            self.models.question_embedder,
            make_filter(self.settings, self.models, self.ledger, self.storage),
            self.retrieval_log,
        )

    @cached_property
    def retrieval_log(self) -> RetrievalLog | None:
        """Writer of the retrieval log; None if the settings turn it off."""
        from corpus_guard.corpus.retrieval_log import RetrievalLog

        if self.settings.retrieval_log == "off":
            return None
        return RetrievalLog(self.ledger, self.settings.retrieval_days, self.question_key)

    @cached_property
    def question_key(self) -> bytes | None:
        """Key under which the retrieval log hashes questions; None if it stores their texts, or nothing."""
        from corpus_guard.corpus.retrieval_log import key_in_use

        return key_in_use(self.settings)

    def refresh(
        self,
        run_id: str | None = None,
        source_names: Sequence[str] = (),
        progress: Progress = no_progress,
        *,
        wait: bool = False,
    ) -> RefreshResult:
        """Pull the sources, screen what changed, publish what was accepted, seal the corpus.

        Args:
            run_id: identity of the run; giving it again repeats the run. None: a new one.
            source_names: the sources to pull; empty: all.
            progress: called with (activity, documents done, documents in all).
            wait: while another refresh is at work on one of the sources.

        Raises:
            AlreadyAtWork: another refresh is at work on one of the sources, and `wait` is not set.
            SourceUnavailable: a source could not be listed; the others are refreshed and sealed.
            Inconsistent: the counts do not balance.
        """
        from corpus_guard.ledger.runs import at_work
        from corpus_guard.pipeline.refresh import refresh

        run_id = run_id or new_run_id("refresh")
        with at_work(self.ledger, run_id):
            return refresh(
                self.ledger,
                self.storage,
                self.store,
                self.blobs,
                self.models,
                self.chunker,
                self.sources,
                self.screening,
                self.settings,
                run_id,
                source_names,
                progress,
                wait=wait,
            )

    def rescreen(
        self, run_id: str, source_names: Sequence[str] = (), *, dry_run: bool = False, progress: Progress = no_progress
    ) -> RescreenResult:
        """Judge stored versions by today's policy. See `corpus_guard.pipeline.rescreen.rescreen`."""
        from corpus_guard.pipeline.rebuild import batches_of_documents
        from corpus_guard.pipeline.rescreen import rescreen

        with contextlib.nullcontext() if dry_run else self._begun(run_id):
            if not dry_run:
                present = self.storage.names()
                needed = batches_of_documents(self.ledger, source_names)
                self._rebuild_lost(run_id, [name for name in needed if name not in present])
            return rescreen(
                self.ledger,
                self.storage,
                self.store,
                self.blobs,
                self.models,
                self.sources,
                self.screening,
                self.settings,
                run_id,
                source_names,
                dry_run=dry_run,
                progress=progress,
            )

    def reparse(
        self, run_id: str, source_names: Sequence[str] = (), *, dry_run: bool = False, progress: Progress = no_progress
    ) -> ReparsingResult:
        """Read stored bytes again by today's parser. See `corpus_guard.pipeline.reparsing.reparse`."""
        from corpus_guard.pipeline.reparsing import reparse

        with contextlib.nullcontext() if dry_run else self._begun(run_id):
            return reparse(
                self.ledger,
                self.storage,
                self.store,
                self.blobs,
                self.models,
                self.chunker,
                self.sources,
                self.screening,
                self.settings,
                run_id,
                source_names,
                dry_run=dry_run,
                progress=progress,
            )

    def apply_decisions(self, run_id: str) -> ReleaseResult:
        """Bring reviewers' decisions, withdrawals and restores into effect, and seal.

        See `corpus_guard.review.release.apply_decisions` and `corpus_guard.removal.restoring`.
        """
        from corpus_guard.pipeline.rebuild import batches_of_decisions, batches_of_outbox
        from corpus_guard.removal.restoring import apply_restores, apply_withdrawals
        from corpus_guard.review.release import apply_decisions

        with self._begun(run_id):
            self._rebuild_lost(run_id, [*batches_of_decisions(self.ledger), *batches_of_outbox(self.ledger)])
            apply_withdrawals(self.ledger, run_id)
            parts = (self.ledger, self.storage, self.store, self.models, self.screening)
            restores = apply_restores(*parts, run_id)
            return apply_decisions(*parts, self.settings, run_id, restores.reopened, restores.drained)

    def restore(self, run_id: str) -> RestoreResult:
        """Bring the restores that were decided into effect, and seal. See `corpus_guard.removal.restoring`."""
        from corpus_guard.pipeline.rebuild import batches_of_decisions, batches_of_outbox
        from corpus_guard.removal.restoring import restore

        with self._begun(run_id):
            self._rebuild_lost(run_id, [*batches_of_decisions(self.ledger), *batches_of_outbox(self.ledger)])
            return restore(self.ledger, self.storage, self.store, self.models, self.screening, self.settings, run_id)

    def retire_source(self, source: str, run_id: str, *, by: str, reason: str) -> RetiredSource:
        """Stop serving a source that is no longer declared, and seal. See `corpus_guard.pipeline.retiring.retire_source`."""
        from corpus_guard.pipeline.retiring import retire_source

        with self._begun(run_id):
            return retire_source(
                self.ledger,
                self.storage,
                self.store,
                self.settings,
                run_id,
                source,
                policy_digest=self.screening.digest,
                by=by,
                reason=reason,
            )

    def ask_again(self, trace_ids: Sequence[str], run_id: str, after: Purpose) -> dict[str, bool]:
        """Ask the questions of traces again, record the answers, and return whether each is still the reported one.

        See `corpus_guard.traceback.withdrawal_plan.ask_again`.
        """
        from corpus_guard.traceback.judge_selection import create_rag_model
        from corpus_guard.traceback.live_corpus import LiveCorpus
        from corpus_guard.traceback.withdrawal_plan import ask_again

        rag_model = create_rag_model(self.settings, self.models, self.ledger)
        corpus = LiveCorpus(self.ledger, self.store, self.models.embedder)
        return ask_again(self.ledger, corpus, rag_model, trace_ids, run_id, after)

    def run_case(self, case: Case, run_id: str, progress: Progress = no_progress) -> dict[str, Mapping[str, object]]:
        """Do the approved steps of a case. See `corpus_guard.forensics.plan.CaseWorker.run`."""
        from corpus_guard.forensics.plan import CaseWorker

        with self._begun(run_id):
            worker = CaseWorker(
                self.ledger,
                self.storage,
                self.blobs,
                self.store,
                self.models,
                self.sources,
                self.screening,
                self.settings,
            )
            return worker.run(case, run_id, progress)

    def seal(self, run_id: str) -> Seal:
        """Write the manifest and sign the log. See `corpus_guard.proof.sealing.seal_corpus`."""
        from corpus_guard.proof.sealing import seal_corpus

        return seal_corpus(self.ledger, self.storage, self.store, self.settings, run_id)

    def verify(
        self, progress: Progress = no_progress, *, max_age_hours: float | None = None, deep: bool = False
    ) -> Verification:
        """Check log, manifest, ledger, collections and files. See `corpus_guard.proof.verify.verification.verify`."""
        from corpus_guard.proof.verify.verification import verify

        return verify(
            self.ledger, self.storage, self.store, self.settings, progress, max_age_hours=max_age_hours, deep=deep
        )

    def set_apart(self, run_id: str) -> int:
        """Give equal published vectors apart ones, and seal. See `corpus_guard.forensics.re_embedding.set_published_apart`."""
        from corpus_guard.forensics.re_embedding import set_published_apart
        from corpus_guard.proof.sealing import seal_corpus

        with self._begun(run_id):
            count = set_published_apart(self.ledger, self.storage, self.store, run_id)
            seal_corpus(self.ledger, self.storage, self.store, self.settings, run_id)
        return count

    def heal_incident(self, incident_id: str, run_id: str, *, by: str) -> IncidentHealing:
        """Undo what can be undone of an incident, and verify. See `corpus_guard.pipeline.incident_healing.heal_incident`."""
        from corpus_guard.pipeline.incident_healing import heal_incident

        return heal_incident(
            self.ledger, self.storage, self.store, self.blobs, self.sources, self.settings, incident_id, run_id, by=by
        )

    def accept_incident(self, incident_id: str, run_id: str, *, by: str, reason: str) -> tuple[Incident, HealingReport]:
        """Make the ledger as it is the baseline; then seal. See `corpus_guard.pipeline.incident_healing.accept_incident`."""
        from corpus_guard.pipeline.incident_healing import accept_incident

        return accept_incident(
            self.ledger, self.storage, self.store, self.settings, incident_id, run_id, by=by, reason=reason
        )

    @contextlib.contextmanager
    def _begun(self, run_id: str) -> Iterator[None]:
        """Hold a run; log what changed in the configuration, and refuse to begin what could not be sealed."""
        from corpus_guard.batches.ownership import claim_storage
        from corpus_guard.ledger.runs import at_work
        from corpus_guard.pipeline.configuration import record_configuration
        from corpus_guard.proof.log.heads import require_sealable

        require_sealable(self.ledger, self.settings)
        claim_storage(self.ledger, self.storage)
        with at_work(self.ledger, run_id):
            record_configuration(self.ledger, self.screening, self.settings, run_id)
            yield

    def _rebuild_lost(self, run_id: str, names: Sequence[str]) -> None:
        from corpus_guard.pipeline.rebuild import rebuild_lost_batches

        rebuild_lost_batches(self.ledger, self.storage, self.blobs, self.models, self.settings, run_id, names)


def new_run_id(kind: str) -> str:
    """Return a name for a run that no scheduler named."""
    return f"{kind}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:8]}"
