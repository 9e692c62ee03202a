"""The deployment that all requests share: opened once, and again when its policy, own checks, sources, reviewers or ledger change.

A decision carries the digest of the policy that the page showed. An API server runs for weeks: without checking the files it would
record a policy that is no longer in force, and write decisions into a ledger file that somebody has moved or replaced by a backup.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from fastapi import Request

from corpus_guard.corpus.opening import store_answers
from corpus_guard.deployment import Deployment
from corpus_guard.errors import LedgerUnavailable, StoreUnavailable
from corpus_guard.ledger import Ledger
from corpus_guard.settings import Settings


class SharedDeployment:
    """A deployment for many threads."""

    def __init__(self, open_deployment: Callable[[], Deployment]) -> None:
        """Store the factory; the deployment is opened by the first call of `get`."""
        self.model_lock = threading.Lock()
        """Hold it while loading a model."""
        self._open = open_deployment
        self._lock = threading.Lock()
        self._deployment: Deployment | None = None
        self._file_states: tuple[object, ...] = ()
        self._ledger_file: tuple[int, int] | None = None

    def get(self) -> Deployment:
        """Return the deployment with the current policy.

        Raises:
            SettingsError: a file or a variable is wrong; the page says which.
            LedgerUnavailable: the database does not answer, or its file is gone.
        """
        with self._lock:
            if self._deployment is None or self._has_changed(self._deployment):
                deployment = self._open()
                self._file_states = _file_states(deployment)
                try:
                    # Parts that are created on first use are created here, by one thread.
                    _ = (
                        deployment.ledger,
                        deployment.storage,
                        deployment.blobs,
                        deployment.policy,
                        deployment.identities,
                    )
                    _ = deployment.screening.digest
                except BaseException:
                    deployment.__exit__(None, None, None)
                    raise
                # Requests that still use the old deployment keep it until they end; it is closed when the last of them lets it go.
                self._deployment, self._ledger_file = deployment, _ledger_file(deployment.ledger)
            return self._deployment

    def _has_changed(self, deployment: Deployment) -> bool:
        ledger_file = _ledger_file(deployment.ledger)
        if self._ledger_file and not ledger_file:
            raise LedgerUnavailable(
                f"the ledger {deployment.ledger.url.database} is gone; nothing was changed. Put it back, or start the API server "
                "again to begin with an empty one"
            )
        return ledger_file != self._ledger_file or _file_states(deployment) != self._file_states


def current_deployment(request: Request) -> Deployment:
    """Return the deployment of the request's app, with the current policy.

    Raises what `SharedDeployment.get` raises.
    """
    shared: SharedDeployment = request.app.state.shared_deployment
    return shared.get()


def _file_states(deployment: Deployment) -> tuple[object, ...]:
    settings = deployment.settings
    # Suites and packs of rules; code of one's own is imported once.
    own = sorted(settings.extensions_folder.glob("*/*.yaml"))
    files = (settings.policy_file, settings.sources_file, settings.reviewers, *own)
    return tuple((path, _file_state(path)) for path in files)


def _ledger_file(ledger: Ledger) -> tuple[int, int] | None:
    """Return which file holds a ledger of SQLite, as device and inode; None if there is no file."""
    try:
        stat = Path(ledger.url.database or "").stat() if ledger.url.get_backend_name() == "sqlite" else None
    except OSError:
        return None
    return stat and (stat.st_dev, stat.st_ino)


def _file_state(path: Path) -> tuple[int, int] | None:
    """Return modification time and size; None if the file does not exist."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size


def require_store(settings: Settings) -> None:
    """Refuse to go on without a running vector store.

    A command would start a Chroma server of its own. This process runs for weeks and would lock the store all the time.

    Raises:
        StoreUnavailable: it does not answer.
    """
    if store_answers(settings):
        return
    chroma = f"Chroma at {settings.chroma_url}" if settings.chroma_url else f"the Chroma server of {settings.home}"
    server = chroma if settings.store == "chroma" else "PostgreSQL, which holds the vectors,"
    raise StoreUnavailable(
        f"{server} does not answer; start it (on one machine: `make up`), then load this page again. All other review pages work without it"
    )
