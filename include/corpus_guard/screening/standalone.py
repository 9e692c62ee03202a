"""Screening without ledger, store or sources.yaml: a folder or a file in, verdicts out.

Two passes over Parquet batches in a temporary folder, so that memory stays flat: the first parses and measures, the second
screens against the survey of the whole input.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corpus_guard import domain
from corpus_guard.batches import Storage
from corpus_guard.batches.tables import split, versions_from_table, versions_to_table
from corpus_guard.corpus.query_bank import QueryBank
from corpus_guard.domain import Finding, Judgement, Severity, TrustLevel, Version
from corpus_guard.errors import Inconsistent, Misuse
from corpus_guard.intake.chunking import Chunker
from corpus_guard.intake.parsing import Parsed, ParsingSandbox
from corpus_guard.intake.sources.config import ROW_SUFFIXES, FolderConfig, RowFields, RowsConfig, open_source
from corpus_guard.intake.sources.source import Fetched, FetchFailed, Item, Outcome, Source, storable
from corpus_guard.intake.stamps import make_version
from corpus_guard.models import Models
from corpus_guard.screening import semantic
from corpus_guard.screening.coordination import Coordination
from corpus_guard.screening.policy import load_policy
from corpus_guard.screening.registry import build_screening
from corpus_guard.screening.runner import ResultCache, Screening
from corpus_guard.screening.semantic import Passage
from corpus_guard.screening.signals import Signals, signals_of
from corpus_guard.screening.survey import EmptyHistory, Survey, build_survey
from corpus_guard.screening.targeting import Targeting
from corpus_guard.settings import Settings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

AT_ONCE = 512  # documents held at a time

Progress = Callable[[str, int, int | None], None]
"""(what is being done, documents done, documents in all or None)."""


@dataclass(frozen=True, slots=True)
class Row:
    """What is said of one document or row."""

    id: str
    judgement: Judgement

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready; `shadow_verdict` only where something that is shadowed would have changed the verdict."""
        would = self.judgement.shadow_verdict
        return {
            "id": self.id,
            "verdict": self.judgement.verdict.value,
            **({"shadow_verdict": would.value} if would else {}),
            "risk": self.judgement.risk,
            "findings": [finding.as_dict() for finding in self.judgement.findings],
        }


def screen_input(
    settings: Settings,
    path: Path,
    *,
    text_field: str = "text",
    id_field: str = "id",
    trust: TrustLevel = TrustLevel.OPEN,
    one_by_one: bool = False,
    bank: Sequence[str] = (),
    cache: ResultCache | None = None,
    models: Models | None = None,
    progress: Progress = lambda what, done, total: None,
) -> Iterator[Row]:
    """Screen a folder or a file; in JSONL, CSV and Parquet every row is a document.

    Args:
        settings: the deployment's: policy, models, limits.
        path: what to screen.
        text_field: rows: the column with the text.
        id_field: rows: the column with the id.
        trust: how far the input is trusted.
        one_by_one: leave out what looks across documents.
        bank: questions that people ask, as the query bank of a deployment holds them.
        cache: keeps what slow checks found.
        models: already loaded ones; by default those of `settings`.
        progress: told before each batch.

    Yields:
        One row for every document of the input, in its order, also for those that could not be read.

    Raises:
        Misuse: `path` does not exist, or has no column `text_field`.
        SourceUnavailable: `path` cannot be listed.
    """
    source = _source(path, text_field, id_field, trust, settings)
    models = models or Models(settings)
    screening = build_screening(load_policy(settings.policy_file), models, cache)
    chunker = Chunker(models.tokenizer_file, settings.chunk_tokens)
    with tempfile.TemporaryDirectory(prefix="corpus-guard-") as folder:
        storage = Storage(folder)
        taken = _Taken(screening, models, one_by_one=one_by_one or trust is not TrustLevel.OPEN, asked=bool(bank))
        done = 0
        with ParsingSandbox(settings) as sandbox:
            for items in split(source.list(), AT_ONCE):
                progress("reading", done, None)
                versions = list(_versions(source, items, sandbox, chunker))
                taken.batches.append(f"{len(taken.batches)}.parquet")
                storage.write_table(taken.batches[-1], versions_to_table(versions))
                taken.names.append([_name(item) for item in items])
                if not one_by_one:
                    taken.measured += [signals_of(version) for version in versions]
                taken.embed(versions)
                done += len(items)
        survey = None if one_by_one and not bank else taken.survey(storage, bank, alone=one_by_one)
        total, done = done, 0
        for batch, ids in zip(taken.batches, taken.names, strict=True):
            progress("screening", done, total)
            versions = versions_from_table(storage.read_table(batch))
            relevant = survey.of([version.version_id for version in versions]) if survey else None
            for name, judgement in zip(ids, screening.judge(versions, relevant), strict=True):
                yield Row(name, judgement)
            done += len(ids)
        progress("screening", total, total)


class _Taken:
    """What the first pass leaves behind: measures and vectors; texts stay in the batches."""

    def __init__(self, screening: Screening, models: Models, *, one_by_one: bool, asked: bool) -> None:
        coordination = screening.check(Coordination.name)
        self.batches: list[str] = []
        self.names: list[list[str]] = []
        self.measured: list[Signals] = []
        self._models = models
        self._grouping = coordination.grouping if isinstance(coordination, Coordination) and not one_by_one else None
        self._asked = asked and screening.check(Targeting.name) is not None
        self._passages: list[Passage] = []
        self._places: list[tuple[int, int]] = []  # of each passage: batch, position of its version there
        self._vectors: list[NDArray[np.float32]] = []

    def embed(self, versions: Sequence[Version]) -> None:
        """Vectors of one batch, where a check will look at them."""
        if not self._grouping and not self._asked:
            return
        batch = len(self.batches) - 1
        for position, version in enumerate(versions):
            is_open = version.stamp.trust is TrustLevel.OPEN
            for chunk in version.chunks:
                self._passages.append(Passage(version.version_id, version.doc_id, chunk.ordinal, is_open))
                self._places.append((batch, position))
        texts = [chunk.text for version in versions for chunk in version.chunks]
        if texts:
            self._vectors.append(self._models.embedder.embed(texts))

    def survey(self, storage: Storage, bank: Sequence[str], *, alone: bool) -> Survey:
        """Of the whole input."""
        survey = replace(build_survey(self.measured, EmptyHistory()), alone=alone)
        if not self._passages:
            return survey
        import numpy as np

        def texts(positions: Sequence[int]) -> list[str]:
            found: dict[int, str] = {}
            for batch in dict.fromkeys(self._places[position][0] for position in positions):
                stored = versions_from_table(storage.read_table(self.batches[batch]))
                found |= {
                    position: stored[self._places[position][1]].chunks[self._passages[position].ordinal].text
                    for position in positions
                    if self._places[position][0] == batch
                }
            return [found[position] for position in positions]

        semantics = semantic.read(
            self._passages,
            np.concatenate(self._vectors),
            texts,
            vocabulary=self._models.frequency_vocabulary,
            grouping=self._grouping,
            bank=QueryBank.of(list(bank), self._models.embedder) if self._asked else None,
        )
        return replace(survey, semantics=semantics)


def _source(path: Path, text_field: str, id_field: str, trust: TrustLevel, settings: Settings) -> Source:
    if not path.exists():
        raise Misuse(f"{path}: no such file or folder")
    common: dict[str, Any] = {"name": "input", "owner": "(input)", "trust": trust}
    path = path.absolute()
    if path.suffix in ROW_SUFFIXES and path.is_file():
        columns = _columns(path)
        if columns is not None and text_field not in columns:
            raise Misuse(
                f"{path}: no column {text_field!r}; it has {', '.join(columns)}. Name the right one with --text-field"
            )
        has_id = columns is None or id_field in columns
        fields = RowFields(text=text_field, id=id_field if has_id else None)
        config: RowsConfig | FolderConfig = RowsConfig(kind="rows", url=str(path), fields=fields, **common)
    elif path.is_file():
        return _OneFile(path, FolderConfig(kind="folder", url=str(path.resolve().parent), **common), settings)
    else:
        config = FolderConfig(kind="folder", url=str(path), **common)
    return open_source(config, max_bytes=settings.max_document_bytes)


def _columns(path: Path) -> list[str] | None:
    """The columns of a file that declares them; None for JSONL, where every row may differ."""
    if path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            return list(pq.read_schema(path).names)
        except pa.ArrowInvalid:
            return None  # the source will say what is wrong
    if path.suffix in {".csv", ".tsv"}:
        import csv

        with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            header = file.readline(1_000_000)
        return next(csv.reader([header], delimiter="\t" if path.suffix == ".tsv" else ","), [])
    return None


class _OneFile:
    """A file somebody named is a document wherever it links to and whatever its name begins with; its folder is not listed."""

    def __init__(self, path: Path, folder: FolderConfig, settings: Settings) -> None:
        self.name, self.owner, self.trust = folder.name, folder.owner, folder.trust
        self._path = path
        self._folder = open_source(folder, max_bytes=settings.max_document_bytes)

    def list(self) -> Iterator[Item]:
        """The one."""
        yield Item(storable(self._path.name), self._path.stat().st_size, None, json.dumps(self._path.resolve().name))

    def fetch(self, items: Sequence[Item]) -> Iterator[Outcome]:
        """Its bytes."""
        return self._folder.fetch(items)


def _name(item: Item) -> str:
    locator = json.loads(item.locator)
    return str(locator["id"]) if isinstance(locator, dict) and "id" in locator else item.uri


def _versions(source: Source, items: list[Item], sandbox: ParsingSandbox, chunker: Chunker) -> Iterator[Version]:
    when = datetime.now(UTC)
    for outcome in source.fetch(items):
        if isinstance(outcome, Fetched):
            content, declared, problems = outcome.content, outcome.declared, outcome.problems
            parsed = sandbox.parse(content, outcome.media_type, outcome.item.uri)
        elif isinstance(outcome, FetchFailed):
            content, declared, problems = b"", {}, ()
            parsed = _unfetched(outcome)
        else:
            raise Inconsistent(f"{outcome.item.uri}: the source says that it is unchanged, and nothing is known of it")
        yield make_version(
            source=source,
            item=outcome.item,
            content_sha256=domain.sha256_bytes(content),
            size=len(content),
            parsed=parsed,
            problems=problems,
            declared=declared,
            run_id="screen",
            fetched_at=when,
            parent_version=None,
            chunker=chunker,
        )


def _unfetched(failure: FetchFailed) -> Parsed:
    # Without a next run that could try again, what could not be fetched must not pass as looked at.
    code = failure.code if failure.code.startswith("parsing.") else "parsing.unchecked"
    return Parsed("", problems=(Finding("parsing", code, Severity.CRITICAL, 1.0, failure.message),))
