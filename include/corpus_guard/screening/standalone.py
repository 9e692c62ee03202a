"""Screening without ledger, store or sources.yaml: a folder or a file in, verdicts out.

Two passes over Parquet batches in a temporary folder, so that memory stays flat: the first parses and measures, the second
screens against the survey of the whole input.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from corpus_guard import domain
from corpus_guard.batches import Storage
from corpus_guard.batches.tables import split, versions_from_table, versions_to_table
from corpus_guard.domain import Finding, Judgement, Severity, TrustLevel, Version
from corpus_guard.errors import Misuse
from corpus_guard.intake.chunking import Chunker
from corpus_guard.intake.parsing import Parsed, ParsingSandbox
from corpus_guard.intake.sources.config import ROW_SUFFIXES, FolderConfig, RowFields, RowsConfig, open_source
from corpus_guard.intake.sources.source import Fetched, FetchFailed, Item, Source, storable
from corpus_guard.intake.stamps import make_version
from corpus_guard.models import Models
from corpus_guard.screening.policy import load_policy
from corpus_guard.screening.registry import build_screening
from corpus_guard.screening.signals import Signals, signals_of
from corpus_guard.screening.survey import EmptyHistory, build_survey
from corpus_guard.settings import Settings

AT_ONCE = 512  # documents held at a time

Progress = Callable[[str, int, int | None], None]
"""(what is being done, documents done, documents in all or None)."""


@dataclass(frozen=True, slots=True)
class Row:
    """What is said of one document or row."""

    id: str
    judgement: Judgement

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "id": self.id,
            "verdict": self.judgement.verdict.value,
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
    progress: Progress = lambda what, done, total: None,
) -> Iterator[Row]:
    """Screen a folder or a file; in JSONL, CSV and Parquet every row is a document.

    Yields:
        One row for every document of the input, in its order, also for those that could not be read.

    Raises:
        Misuse: `path` does not exist, or has no column `text_field`.
        SourceUnavailable: `path` cannot be listed.
    """
    source = _source(path, text_field, id_field, trust, settings)
    models = Models(settings)
    screening = build_screening(load_policy(settings.policy_file), models)
    chunker = Chunker(models.tokenizer_file, settings.chunk_tokens)
    with tempfile.TemporaryDirectory(prefix="corpus-guard-") as folder:
        storage = Storage(folder)
        batches: list[str] = []
        names: list[list[str]] = []
        measured: list[Signals] = []
        done = 0
        with ParsingSandbox(settings) as sandbox:
            for items in split(source.list(), AT_ONCE):
                progress("reading", done, None)
                versions = list(_versions(source, items, sandbox, chunker))
                batches.append(f"{len(batches)}.parquet")
                storage.write_table(batches[-1], versions_to_table(versions))
                names.append([_name(item) for item in items])
                if not one_by_one:
                    measured += [signals_of(version) for version in versions]
                done += len(items)
        survey = None if one_by_one else build_survey(measured, EmptyHistory())
        total, done = done, 0
        for batch, ids in zip(batches, names, strict=True):
            progress("screening", done, total)
            versions = versions_from_table(storage.read_table(batch))
            relevant = survey.of([version.version_id for version in versions]) if survey else None
            for name, judgement in zip(ids, screening.judge(versions, relevant), strict=True):
                yield Row(name, judgement)
            done += len(ids)
        progress("screening", total, total)


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

    def fetch(self, items: Sequence[Item]) -> Iterator[Fetched | FetchFailed]:
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
        else:
            content, declared, problems = b"", {}, ()
            parsed = _unfetched(outcome)
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
