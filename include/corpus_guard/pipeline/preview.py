"""Preview of a source before it is enabled: the steps of a refresh on a sample, reported and discarded.

Rules
    * the code of a refresh lists, fetches, parses, chunks, embeds and screens, under the same policy, against the same history;
    * nothing is written to the ledger, the storage, the blob store or Chroma; working files lie in a folder that is removed;
    * no server is started: if no Chroma answers, documents are not compared with served texts, and the preview says so;
    * counts and sizes cover the whole listing; verdicts, types and chunks cover the sample.
"""

from __future__ import annotations

import random
import tempfile
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from corpus_guard.batches import Storage
from corpus_guard.batches.tables import in_batches, judgements_from_table, versions_from_table
from corpus_guard.corpus.filterrag.filters import classifier_in_use
from corpus_guard.corpus.opening import open_store, store_answers
from corpus_guard.corpus.store import Store
from corpus_guard.domain import Judgement, Progress, TrustLevel, Verdict, Version, doc_id, no_progress
from corpus_guard.intake.blobs import BlobStore
from corpus_guard.intake.chunking import Chunker
from corpus_guard.intake.sources.source import FetchFailed, Source, SourceItem, Unchanged, skipped_by
from corpus_guard.ledger import Ledger
from corpus_guard.models import Models
from corpus_guard.pipeline import steps
from corpus_guard.pipeline.arrivals import (
    Arrival,
    attach_validators,
    checked_outcomes,
    items_to_fetch,
    recorded_documents,
    store_arrival,
    write_batch,
)
from corpus_guard.pipeline.steps import Shard
from corpus_guard.review.muting import active_mutes
from corpus_guard.screening.extensions import load_extensions
from corpus_guard.screening.policy import load_policy
from corpus_guard.screening.registry import CHECKS, build_screening
from corpus_guard.settings import Settings

DEFAULT_SAMPLE: Final = 500  # documents
RISKIEST_SHOWN: Final = 10
SIZES: Final = ((2**10, "up to 1 KiB"), (2**13, "up to 8 KiB"), (2**16, "up to 64 KiB"), (2**20, "up to 1 MiB"))
LARGER: Final = "larger"
_SEED: Final = 7  # the same sample each time, so that two previews can be compared


@dataclass(frozen=True, slots=True)
class RiskyDocument:
    """A document that a reviewer would look at first."""

    uri: str
    verdict: str
    risk: float  # 0..1
    findings: tuple[tuple[str, str, str], ...]  # (severity, code, message), the worst first


@dataclass(slots=True)
class Preview:
    """Result of a preview. Names in it come from the source: treat them as hostile."""

    source: str
    owner: str
    trust: str
    history: bool  # whether there was a ledger to compare with
    served: bool  # whether served texts were compared
    listed: int = 0
    bytes: int = 0  # sum of the sizes that the listing gives
    unsized: int = 0  # documents without a size in the listing
    sizes: dict[str, int] = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)  # reason → entries that are no documents of the source
    looked_at: int = 0  # documents in the sample
    unchanged: int = 0  # documents whose bytes the ledger already has
    failed: Counter[str] = field(default_factory=Counter)  # error code → documents not fetched
    types: Counter[str] = field(default_factory=Counter)
    problems: Counter[str] = field(default_factory=Counter)  # problem code → documents
    verdicts: Counter[str] = field(default_factory=Counter)
    if_enforced: Counter[str] = field(default_factory=Counter)  # verdicts with every shadowed check enforced
    chunks: int = 0  # in the sample
    riskiest: tuple[RiskyDocument, ...] = ()

    @property
    def chunks_in_all(self) -> int:
        """Estimate for the whole listing."""
        return round(self.chunks * self.listed / self.looked_at) if self.looked_at else 0

    def as_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary."""
        return {
            "source": self.source,
            "owner": self.owner,
            "trust": self.trust,
            "compared_with": {"ledger": self.history, "served": self.served},
            "listed": self.listed,
            "bytes": self.bytes,
            "without_size": self.unsized,
            "sizes": self.sizes,
            "skipped": self.skipped,
            "looked_at": self.looked_at,
            "unchanged": self.unchanged,
            "failed": dict(self.failed.most_common()),
            "types": dict(self.types.most_common()),
            "problems": dict(self.problems.most_common()),
            "verdicts": {verdict.value: self.verdicts[verdict.value] for verdict in Verdict},
            "verdicts_if_nothing_were_shadowed": {
                verdict.value: self.if_enforced[verdict.value] for verdict in Verdict
            },
            "chunks": self.chunks,
            "chunks_estimated": self.chunks_in_all,
            "riskiest": [
                {
                    "document": document.uri,
                    "verdict": document.verdict,
                    "risk": document.risk,
                    "findings": [
                        dict(zip(("severity", "code", "message"), each, strict=True)) for each in document.findings
                    ],
                }
                for document in self.riskiest
            ],
        }


def preview(
    storage: Storage,
    models: Models,
    settings: Settings,
    source: Source,
    *,
    limit: int | None = DEFAULT_SAMPLE,
    progress: Progress = no_progress,
) -> Preview:
    """Run the steps of a refresh on a sample of a source and report what they would do.

    Args:
        source: declared in sources.yaml or not.
        limit: documents to fetch and screen, spread over the whole listing; None: all.

    Raises:
        SourceUnavailable: the source cannot be listed.
    """
    progress("listing", 0, None)
    items = list(source.list())
    chosen = items if limit is None or limit >= len(items) else _sample(items, limit)
    with ExitStack() as closing:
        folder = Path(closing.enter_context(tempfile.TemporaryDirectory(prefix="corpus-guard-preview-")))
        has_ledger, has_store = _ledger_exists(settings), store_answers(settings)
        ledger = Ledger(settings.ledger if has_ledger else f"sqlite:///{folder / 'ledger.sqlite'}")
        closing.callback(ledger.close)
        layer = _Layer(str(folder / "storage"), storage)
        blobs = BlobStore(str(folder / "raw"))
        chunker = Chunker(models.tokenizer_file, settings.chunk_tokens)
        # Slow results are not stored, and a source need not be declared yet.
        classifier = classifier_in_use(settings, ledger, lambda: storage)
        screening = build_screening(
            load_policy(settings.policy_file),
            models,
            None,
            active_mutes(ledger),
            classifier,
            load_extensions(settings, CHECKS),
        )
        store = open_store(settings, lambda: ledger, closing) if has_store and has_ledger else _EmptyStore()
        result = Preview(source.name, source.owner, source.trust.value, has_ledger, has_store)
        _measure_listing(result, items, len(chosen))
        result.skipped = skipped_by(source)
        shards: list[Shard] = []
        done = 0
        run_id = f"preview-{uuid.uuid4().hex}"
        for part in in_batches(chosen, settings.shard_documents):
            progress("fetching and parsing", done, len(chosen))
            arrivals = list(_changed_documents(ledger, blobs, settings, source, part, result))
            if arrivals:
                batch = write_batch(ledger, layer, blobs, chunker, settings, run_id, source, arrivals)
                shards.append(
                    steps.embed(ledger, layer, models, run_id, Shard(source=source.name, batch=batch), dry_run=True)
                )
                result.chunks += shards[-1]["chunks"]
            done += len(part)
        progress("comparing", done, len(chosen))
        riskiest: list[RiskyDocument] = []
        done -= sum(result.failed.values()) + result.unchanged
        total, done = done, 0
        for shard in steps.survey(ledger, layer, cast(Store, store), models, screening, run_id, shards):
            progress("screening", done, total)
            screened = steps.screen(ledger, layer, screening, run_id, shard, dry_run=True)
            stored = versions_from_table(layer.read_table(f"{shard['batch']}/versions.parquet"))
            judged = judgements_from_table(layer.read_table(screened["judgements"]))
            for version, judgement in zip(stored, judged, strict=True):
                riskiest.append(_count(result, version, judgement))
            riskiest = sorted(riskiest, key=lambda document: -document.risk)[:RISKIEST_SHOWN]
            done += len(stored)
        result.riskiest = tuple(document for document in riskiest if document.findings)
    return result


def _ledger_exists(settings: Settings) -> bool:
    """Return whether there is a ledger to compare with; opening one that is missing would create it."""
    return not settings.ledger.startswith("sqlite:///") or Path(settings.ledger.removeprefix("sqlite:///")).is_file()


class _EmptyStore:
    """A store without collections, for when no server answers."""

    def names(self) -> list[str]:
        """Return no collection."""
        return []

    @staticmethod
    def collection_name(trust: TrustLevel) -> str:
        """Return a name that no collection has."""
        return trust.value


class _Layer(Storage):
    """A storage that reads through to another one and writes into its own folder."""

    def __init__(self, url: str, below: Storage) -> None:
        super().__init__(url)
        self._below = below

    def exists(self, name: str) -> bool:
        """Return whether a file is in this layer or below."""
        return super().exists(name) or self._below.exists(name)

    def read(self, name: str) -> bytes:
        """Read from this layer, else from below."""
        return super().read(name) if super().exists(name) else self._below.read(name)

    def read_lines(self, name: str) -> Iterator[bytes]:
        """Read lines from this layer, else from below."""
        return super().read_lines(name) if super().exists(name) else self._below.read_lines(name)


def _sample(items: Sequence[SourceItem], limit: int) -> list[SourceItem]:
    chosen = random.Random(_SEED).sample(range(len(items)), limit)  # noqa: S311 - a sample, no secret
    return [items[position] for position in sorted(chosen)]


def _measure_listing(result: Preview, items: Sequence[SourceItem], looked_at: int) -> None:
    result.listed, result.looked_at = len(items), looked_at
    counted: Counter[str] = Counter()
    for item in items:
        if item.size is None:
            result.unsized += 1
        else:
            result.bytes += item.size
            counted[next((label for bound, label in SIZES if item.size <= bound), LARGER)] += 1
    result.sizes = {label: counted[label] for label in (*(label for _, label in SIZES), LARGER) if counted[label]}


def _changed_documents(
    ledger: Ledger, blobs: BlobStore, settings: Settings, source: Source, items: Sequence[SourceItem], result: Preview
) -> Iterator[Arrival]:
    recorded = recorded_documents(ledger, [doc_id(source.name, item.uri) for item in items])
    with_validators = attach_validators(settings, source, items, recorded)
    to_fetch = items_to_fetch(with_validators)
    result.unchanged += len(with_validators) - len(to_fetch)
    for outcome in checked_outcomes(source, to_fetch):
        if isinstance(outcome, Unchanged):
            result.unchanged += 1
            continue
        if isinstance(outcome, FetchFailed) and not outcome.code.startswith("parsing."):
            result.failed[outcome.code] += 1
            continue
        _, arrival = store_arrival(ledger, blobs, source, outcome, recorded)
        if arrival is None:
            result.unchanged += 1
        else:
            yield arrival


def _count(result: Preview, version: Version, judgement: Judgement) -> RiskyDocument:
    result.types[version.stamp.media_type or "unknown"] += 1
    result.problems.update({problem.code for problem in version.problems})
    result.verdicts[judgement.verdict.value] += 1
    result.if_enforced[(judgement.shadow_verdict or judgement.verdict).value] += 1
    findings = tuple((finding.severity.value, finding.code, finding.message) for finding in judgement.findings)
    return RiskyDocument(version.stamp.uri, judgement.verdict.value, judgement.risk, findings)
