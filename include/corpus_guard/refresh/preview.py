"""What a source would bring, before it is enabled: the steps of a refresh on a sample, told and thrown away.

Rules
    * the same code as a refresh lists, fetches, parses, cuts, embeds and screens, under the same policy, against the same history;
    * nothing is written to the ledger, the storage, the blob store or Chroma: what is made lies in a folder that is removed;
    * no server is started: where no Chroma answers, nothing is compared with the texts that are served, and the preview says so;
    * counts and sizes are of all that was listed; verdicts, types and chunks of the documents that were looked at.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self

from corpus_guard.batches import Storage
from corpus_guard.batches.tables import judgements_from_table, split, versions_from_table
from corpus_guard.domain import Judgement, Verdict, Version, doc_id
from corpus_guard.guard import Guard, new_run_id
from corpus_guard.intake.blobs import BlobStore
from corpus_guard.intake.sources.source import FetchFailed, Item, Source, Unchanged
from corpus_guard.ledger import Ledger
from corpus_guard.refresh import steps
from corpus_guard.refresh._arrivals import Arrival, answers, arrive, batch_of, known_documents, to_ask, with_known
from corpus_guard.refresh.steps import Shard
from corpus_guard.screening.runner import Screening

LIMIT: Final = 500  # documents looked at, unless told otherwise
RISKIEST: Final = 10
SIZES: Final = ((2**10, "up to 1 KiB"), (2**13, "up to 8 KiB"), (2**16, "up to 64 KiB"), (2**20, "up to 1 MiB"))
LARGER: Final = "larger"
_SEED: Final = 7  # the same documents each time, so that two previews can be compared

Progress = Callable[[str, int, int | None], None]
"""(what is being done, documents done, documents in all or None)."""


@dataclass(frozen=True, slots=True)
class Risky:
    """A document that would be looked at first."""

    uri: str
    verdict: str
    risk: float  # 0..1
    findings: tuple[tuple[str, str, str], ...]  # (severity, code, message), the worst first


@dataclass(slots=True)
class Preview:
    """What a source would bring. Names in it are data of the source."""

    source: str
    owner: str
    trust: str
    history: bool  # compared with a ledger
    served: bool  # compared with what is served
    listed: int = 0
    bytes: int = 0  # of the documents whose size the listing tells
    unsized: int = 0  # documents whose size it does not tell
    sizes: dict[str, int] = field(default_factory=dict)
    looked_at: int = 0
    unchanged: int = 0  # the ledger has these bytes already
    failed: Counter[str] = field(default_factory=Counter)  # by code: not fetched
    types: Counter[str] = field(default_factory=Counter)
    problems: Counter[str] = field(default_factory=Counter)  # by code: of fetching and parsing; documents
    verdicts: Counter[str] = field(default_factory=Counter)
    if_enforced: Counter[str] = field(default_factory=Counter)  # verdicts if nothing of the policy were shadowed
    chunks: int = 0  # of the documents looked at
    riskiest: tuple[Risky, ...] = ()

    @property
    def chunks_in_all(self) -> int:
        """Estimated for everything that was listed."""
        return round(self.chunks * self.listed / self.looked_at) if self.looked_at else 0

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "source": self.source,
            "owner": self.owner,
            "trust": self.trust,
            "compared_with": {"ledger": self.history, "served": self.served},
            "listed": self.listed,
            "bytes": self.bytes,
            "without_size": self.unsized,
            "sizes": self.sizes,
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
                    "document": one.uri,
                    "verdict": one.verdict,
                    "risk": one.risk,
                    "findings": [
                        dict(zip(("severity", "code", "message"), each, strict=True)) for each in one.findings
                    ],
                }
                for one in self.riskiest
            ],
        }


def preview(
    guard: Guard, source: Source, *, limit: int | None = LIMIT, progress: Progress = lambda what, done, total: None
) -> Preview:
    """Look at a source as the next refresh would.

    Args:
        guard: the deployment; read, never written.
        source: declared or not.
        limit: documents that are fetched and screened, spread over the whole listing; None: all.
        progress: told before each portion.

    Raises:
        SourceUnavailable: the source cannot be listed.
    """
    progress("listing", 0, None)
    items = list(source.list())
    chosen = items if limit is None or limit >= len(items) else _some(items, limit)
    with (
        tempfile.TemporaryDirectory(prefix="corpus-guard-preview-") as folder,
        _Scratch(guard, Path(folder)) as scratch,
    ):
        found = Preview(source.name, source.owner, source.trust.value, scratch.remembers, scratch.serves)
        _measure(found, items, len(chosen))
        shards: list[Shard] = []
        done = 0
        run_id = new_run_id("preview")
        for part in split(chosen, guard.settings.shard_documents):
            progress("fetching and parsing", done, len(chosen))
            arrivals = list(_new(scratch, source, part, found))
            if arrivals:
                shard = Shard(source=source.name, batch=batch_of(scratch, run_id, source, arrivals))
                shards.append(steps.embed(scratch, run_id, shard))
                found.chunks += shards[-1]["chunks"]
            done += len(part)
        progress("comparing", done, len(chosen))
        worst: list[Risky] = []
        done -= sum(found.failed.values()) + found.unchanged
        total, done = done, 0
        for shard in steps.survey(scratch, run_id, shards):
            progress("screening", done, total)
            screened = steps.screen(scratch, run_id, shard)
            stored = versions_from_table(scratch.storage.read_table(f"{shard['batch']}/versions.parquet"))
            judged = judgements_from_table(scratch.storage.read_table(screened["judgements"]))
            for version, judgement in zip(stored, judged, strict=True):
                worst.append(_count(found, version, judgement))
            worst = sorted(worst, key=lambda one: -one.risk)[:RISKIEST]
            done += len(stored)
        found.riskiest = tuple(one for one in worst if one.findings)
    return found


class _Scratch(Guard):
    """A deployment that reads what another holds and writes into a folder of its own."""

    def __init__(self, real: Guard, folder: Path) -> None:
        super().__init__(real.settings)
        self.models = real.models
        self._real = real
        self._folder = folder

    def __enter__(self) -> Self:
        return self

    @cached_property
    def remembers(self) -> bool:
        """Whether there is a ledger to compare with; opening one that is not there would make it."""
        url = self.settings.ledger
        return not url.startswith("sqlite:///") or Path(url.removeprefix("sqlite:///")).is_file()

    @cached_property
    def serves(self) -> bool:
        """Whether a Chroma server answers."""
        from corpus_guard.corpus.server import answers

        return answers(self.settings.chroma_url)

    @cached_property
    def ledger(self) -> Ledger:
        """The deployment's, for reading; an empty one where there is none."""
        if self.remembers:
            return self._real.ledger
        ledger = Ledger(f"sqlite:///{self._folder / 'ledger.sqlite'}")
        self._closing.callback(ledger.close)
        return ledger

    @cached_property
    def storage(self) -> Storage:
        """A layer over the deployment's."""
        return _Layer(str(self._folder / "storage"), self._real.storage)

    @cached_property
    def blobs(self) -> BlobStore:
        """Its own."""
        return BlobStore(str(self._folder / "raw"))

    @cached_property
    def screening(self) -> Screening:
        """The policy's checks with what is muted; slow results are not kept. A source need not be declared yet."""
        from corpus_guard.review.muting import active_mutes
        from corpus_guard.screening.registry import build_screening

        return build_screening(self.policy, self.models, None, active_mutes(self.ledger))

    @cached_property
    def store(self) -> Any:
        """What answers; nothing is served where nothing does."""
        from corpus_guard.corpus.store import Store

        return Store(self.settings.chroma_url, self.settings.collection_prefix) if self.serves else _NothingServed()


class _NothingServed:
    def names(self) -> list[str]:
        """No collection."""
        return []


class _Layer(Storage):
    """Reads what lies below, writes above it."""

    def __init__(self, url: str, below: Storage) -> None:
        super().__init__(url)
        self._below = below

    def exists(self, name: str) -> bool:
        """Here or below."""
        return super().exists(name) or self._below.exists(name)

    def read(self, name: str) -> bytes:
        """What was made here, or what lies below."""
        return super().read(name) if super().exists(name) else self._below.read(name)

    def lines(self, name: str) -> Iterator[bytes]:
        """The same, line by line."""
        return super().lines(name) if super().exists(name) else self._below.lines(name)


def _some(items: Sequence[Item], limit: int) -> list[Item]:
    chosen = random.Random(_SEED).sample(range(len(items)), limit)  # noqa: S311 - a sample, no secret
    return [items[position] for position in sorted(chosen)]


def _measure(found: Preview, items: Sequence[Item], looked_at: int) -> None:
    found.listed, found.looked_at = len(items), looked_at
    counted: Counter[str] = Counter()
    for item in items:
        if item.size is None:
            found.unsized += 1
        else:
            found.bytes += item.size
            counted[next((label for bound, label in SIZES if item.size <= bound), LARGER)] += 1
    found.sizes = {label: counted[label] for label in (*(label for _, label in SIZES), LARGER) if counted[label]}


def _new(scratch: Guard, source: Source, items: Sequence[Item], found: Preview) -> Iterator[Arrival]:
    known = known_documents(scratch, [doc_id(source.name, item.uri) for item in items])
    asked = with_known(scratch, source, items, known)
    wanted = to_ask(asked)
    found.unchanged += len(asked) - len(wanted)
    for outcome in answers(source, wanted):
        if isinstance(outcome, Unchanged):
            found.unchanged += 1
            continue
        if isinstance(outcome, FetchFailed) and not outcome.code.startswith("parsing."):
            found.failed[outcome.code] += 1
            continue
        _, arrival = arrive(scratch, source, outcome, known)
        if arrival is None:
            found.unchanged += 1
        else:
            yield arrival


def _count(found: Preview, version: Version, judgement: Judgement) -> Risky:
    found.types[version.stamp.media_type or "unknown"] += 1
    found.problems.update({problem.code for problem in version.problems})
    found.verdicts[judgement.verdict.value] += 1
    found.if_enforced[(judgement.shadow_verdict or judgement.verdict).value] += 1
    findings = tuple((one.severity.value, one.code, one.message) for one in judgement.findings)
    return Risky(version.stamp.uri, judgement.verdict.value, judgement.risk, findings)
