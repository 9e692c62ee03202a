"""Standalone screening: files and folders in, verdicts out, without ledger, store or sources.yaml.

Two passes over Parquet batches in a temporary folder, so that memory stays flat: the first parses and
measures, the second screens against the survey of the whole input.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corpus_guard import domain
from corpus_guard.batches import Storage
from corpus_guard.batches.tables import in_batches, versions_from_table, versions_to_table
from corpus_guard.corpus.filterrag.filters import classifier_in_use
from corpus_guard.corpus.query_bank import QueryBank
from corpus_guard.domain import (
    Counterstatement,
    Finding,
    Judgement,
    Progress,
    Severity,
    Span,
    Stamp,
    TrustLevel,
    Version,
    no_progress,
)
from corpus_guard.errors import Inconsistent, Misuse
from corpus_guard.intake.chunking import Chunker
from corpus_guard.intake.parsing import ParsedDocument, ParsingSandbox
from corpus_guard.intake.sources.config import RowFields
from corpus_guard.intake.sources.folder import FolderConfig
from corpus_guard.intake.sources.row_files import reader_for
from corpus_guard.intake.sources.rows import ROW_SUFFIXES, RowsConfig
from corpus_guard.intake.sources.source import Fetched, FetchFailed, Outcome, Source, SourceItem, skipped_by, utf8_path
from corpus_guard.intake.sources.sources_file import open_source
from corpus_guard.intake.stamps import make_version
from corpus_guard.models import Models
from corpus_guard.screening.checks.conflict import Conflict
from corpus_guard.screening.checks.coordination import Coordination
from corpus_guard.screening.checks.filter_features import FilterFeatures
from corpus_guard.screening.checks.hubness import Hubness
from corpus_guard.screening.checks.targeting import Targeting
from corpus_guard.screening.decoded import locate_hidden
from corpus_guard.screening.extensions import load_extensions
from corpus_guard.screening.policy import Policy, load_policy
from corpus_guard.screening.registry import CHECKS, build_screening
from corpus_guard.screening.runner import ResultCache, Screening
from corpus_guard.screening.survey.agreement import Passage
from corpus_guard.screening.survey.hub_reach import NothingToSearch, measure_hub_reach
from corpus_guard.screening.survey.nearby_chunks import NothingServed, PlacedChunk
from corpus_guard.screening.survey.related_statements import RelatedStatements
from corpus_guard.screening.survey.resemblance import EmptyHistory
from corpus_guard.screening.survey.semantics import survey_semantics
from corpus_guard.screening.survey.signals import Signals, measure_signals
from corpus_guard.screening.survey.statement_search import find_related_statements
from corpus_guard.screening.survey.survey import Survey, build_survey
from corpus_guard.screening.wording import load_wording
from corpus_guard.settings import Settings, load_settings

DOCUMENTS_PER_BATCH: Final = 512  # documents held at a time
QUOTED_CHARS: Final = 300  # of the place of a finding
NAMES_SHOWN: Final = 20  # of the fields of rows, in a message


@dataclass(frozen=True, slots=True)
class ContradictedText:
    """Sentence of a document to compare with."""

    file: str  # path inside the input
    quote: str  # at most `QUOTED_CHARS`

    def as_dict(self, *, quoted: bool) -> dict[str, str]:
        """Return a JSON-ready form, with the words of the document if `quoted`."""
        return {"file": self.file, "quote": self.quote} if quoted else {"file": self.file}


@dataclass(frozen=True, slots=True)
class ScreenedDocument:
    """Judgement of one document or row."""

    id: str  # path inside the input, or the row's id; the whole path, where `screen_input` got several inputs
    judgement: Judgement
    file: str  # as it was named, with the path inside the folder
    stamp: Stamp
    lines: tuple[int, ...]  # of each finding, in the text as parsed, from 1; 0: it has no place there
    quotes: tuple[str, ...]  # the text at that place or in hidden text, at most `QUOTED_CHARS`; empty: it has no place
    contradicted: tuple[
        ContradictedText | None, ...
    ]  # what each finding contradicts among the documents to compare with

    def as_dict(self, *, quoted: bool = False) -> dict[str, object]:
        """Return a JSON-ready form, with `shadow_verdict` only where it differs from the verdict.

        Args:
            quoted: findings also have `quote`, the text at their place, and that of what they contradict.
        """
        shadow = self.judgement.shadow_verdict
        findings: list[dict[str, object]] = []
        for finding, quote, contradicted in zip(self.judgement.findings, self.quotes, self.contradicted, strict=True):
            record = finding.as_dict()
            if contradicted:
                record["contradicts"] = contradicted.as_dict(quoted=quoted)
            findings.append({**record, "quote": quote} if quoted else record)
        return {
            "id": self.id,
            "verdict": self.judgement.verdict.value,
            **({"shadow_verdict": shadow.value} if shadow else {}),
            "risk": self.judgement.risk,
            "findings": findings,
        }


def screen(
    *paths: str | Path,
    trust: TrustLevel = TrustLevel.OPEN,
    against: Sequence[str | Path] = (),
    questions: Sequence[str] = (),
    settings: Settings | None = None,
) -> list[ScreenedDocument]:
    """Screen files and folders, and compare their documents with each other.

    It needs no ledger and no store, and leaves nothing behind. Every file is a document, but for pictures,
    sounds, videos and fonts in folders; in JSONL, CSV and Parquet every row is one, with the columns ``text`` and ``id``.

    Args:
        paths: files and folders.
        trust: trust level of their source.
        against: files and folders that are trusted: what they state is compared with, they are not judged.
        questions: questions that people ask, as the query bank of a deployment holds them.
        settings: policy, models and limits; by default from the environment.

    Returns:
        One judgement for every document, in the order of `paths`, also for documents that could not be read.

    Raises:
        Misuse: a path does not exist, or a file of rows has no column ``text``.
        SourceUnavailable: a folder cannot be listed.
    """
    settings = settings or load_settings()
    # Each path is a source of its own, so that equal names in two folders stay two documents.
    sources = [
        _open_input(Path(path), trust, settings, name=f"input-{number}" if number else "input")
        for number, path in enumerate(paths)
    ]
    references = _open_references([Path(path) for path in against], settings)
    return list(
        _screen_sources(sources, paths, trust, settings, Models(settings), references=references, questions=questions)
    )


def screen_input(
    settings: Settings,
    path: Path | Sequence[Path],
    *,
    text_field: str = "text",
    id_field: str = "id",
    trust: TrustLevel = TrustLevel.OPEN,
    against: Sequence[Path] = (),
    one_by_one: bool = False,
    bank: Sequence[str] = (),
    policy: Policy | None = None,
    cache: ResultCache | None = None,
    models: Models | None = None,
    progress: Progress = no_progress,
    skipped: Counter[str] | None = None,
) -> Iterator[ScreenedDocument]:
    """Screen folders and files; in JSONL, CSV and Parquet every row is a document.

    Args:
        settings: policy, models and limits.
        path: the folder or file, or several; then each result has its file as its id.
        text_field: rows: the column with the text.
        id_field: rows: the column with the id.
        trust: trust level of the input's source.
        against: folders and files that are trusted: what they state is compared with, they are not judged.
        one_by_one: leave out the checks that look across documents.
        bank: questions that people ask, as the query bank of a deployment holds them.
        policy: by default that of `settings`.
        cache: keeps the results of slow checks.
        models: models that are loaded already; by default those of `settings`.
        progress: called before each batch.
        skipped: counts what the folders hold and is no document, by reason.

    Yields:
        One judgement for every document of the input, in its order, also for documents that could not be
        read.

    Raises:
        Misuse: `path` or one of `against` does not exist, or has no column `text_field`.
        SourceUnavailable: `path` cannot be listed.
    """
    paths = [path] if isinstance(path, Path) else path
    sources = [
        _open_input(
            each,
            trust,
            settings,
            name=f"input-{number}" if number else "input",
            text_field=text_field,
            id_field=id_field,
        )
        for number, each in enumerate(paths)
    ]
    yield from _screen_sources(
        sources,
        paths,
        trust,
        settings,
        models or Models(settings),
        references=_open_references(against, settings, text_field, id_field),
        questions=bank,
        by_file=not isinstance(path, Path),
        one_by_one=one_by_one,
        policy=policy,
        cache=cache,
        progress=progress,
        skipped=skipped,
    )


def _screen_sources(
    sources: Sequence[Source],
    paths: Sequence[str | Path],
    trust: TrustLevel,
    settings: Settings,
    models: Models,
    *,
    references: Sequence[Source],
    questions: Sequence[str],
    by_file: bool = False,
    one_by_one: bool = False,
    policy: Policy | None = None,
    cache: ResultCache | None = None,
    progress: Progress = no_progress,
    skipped: Counter[str] | None = None,
) -> Iterator[ScreenedDocument]:
    if references and (one_by_one or trust is TrustLevel.TRUSTED):
        reason = "one by one no document is compared" if one_by_one else "a trusted input is believed as they are"
        raise Misuse(f"{reason}: leave out the trusted documents to compare with, or that option")
    policy = policy or load_policy(settings.policy_file)
    screening = build_screening(
        policy, models, cache, classifier=classifier_in_use(settings), extensions=load_extensions(settings, CHECKS)
    )
    chunker = Chunker(models.tokenizer_file, settings.chunk_tokens)
    with tempfile.TemporaryDirectory(prefix="corpus-guard-") as folder:
        compare_chunks = not one_by_one and trust is TrustLevel.OPEN
        first_pass = _FirstPass(
            Storage(folder),
            screening,
            models,
            compare_chunks=compare_chunks,
            compare_statements=bool(references),
            questions=questions,
        )
        done = 0
        with ParsingSandbox(settings) as sandbox:
            for reference in references:
                for items in in_batches(reference.list(), DOCUMENTS_PER_BATCH):
                    progress("reading", done, None)
                    first_pass.refer_to(list(_fetch_versions(reference, items, sandbox, chunker)))
                    done += len(items)
            if references and not first_pass.has_references:
                raise Misuse(
                    "the trusted documents to compare with hold no text that can be read; name other files or folders"
                )
            done = 0
            for source, path in zip(sources, paths, strict=True):
                for items in in_batches(source.list(), DOCUMENTS_PER_BATCH):
                    progress("reading", done, None)
                    versions = list(_fetch_versions(source, items, sandbox, chunker))
                    names = [_name(item, Path(path), by_file=by_file) for item in items]
                    first_pass.add(versions, names, measure=not one_by_one)
                    done += len(items)
                if skipped is not None:
                    skipped.update(skipped_by(source))
        survey = None if one_by_one and not questions else first_pass.survey(alone=one_by_one)
        total, done = done, 0
        for names, versions in first_pass.batches():
            progress("screening", done, total)
            relevant = survey.of([version.version_id for version in versions]) if survey else None
            for name, version, judgement in zip(names, versions, screening.judge(versions, relevant), strict=True):
                contradicted = tuple(
                    first_pass.contradicted(finding.counterstatement) for finding in judgement.findings
                )
                yield _screened_document(name, version, judgement, screening, contradicted)
            done += len(names)
        progress("screening", total, total)


class _Name(NamedTuple):
    """Name of a document in the output."""

    id: str
    file: str


def _screened_document(
    name: _Name,
    version: Version,
    judgement: Judgement,
    screening: Screening,
    contradicted: tuple[ContradictedText | None, ...],
) -> ScreenedDocument:
    """Return a judgement with the line and the text at the place of each finding."""
    spans = [finding.span for finding in judgement.findings]
    lines = tuple(version.text.count("\n", 0, span.start) + 1 if span else 0 for span in spans)
    hidden = locate_hidden(screening, judgement.findings, version.hidden)
    quotes = tuple(
        _quote(version.text, finding.span) or _quote(version.hidden, place)
        for finding, place in zip(judgement.findings, hidden, strict=True)
    )
    return ScreenedDocument(name.id, judgement, name.file, version.stamp, lines, quotes, contradicted)


def _quote(text: str, span: Span | None) -> str:
    return text[span.start : min(span.end, span.start + QUOTED_CHARS)] if span else ""


class _FirstPass:
    """Results of the first pass: measures and vectors in memory, versions in batches on disk."""

    def __init__(
        self,
        storage: Storage,
        screening: Screening,
        models: Models,
        *,
        compare_chunks: bool,
        compare_statements: bool,
        questions: Sequence[str],
    ) -> None:
        coordination = screening.check(Coordination.name)
        conflict = screening.check(Conflict.name)
        self._comparisons = conflict.params.comparisons if isinstance(conflict, Conflict) else None
        self._likely = conflict.likely(models) if isinstance(conflict, Conflict) else None
        self._compares_statements = compare_statements and self._comparisons is not None
        self._storage = storage
        self._models = models
        self._grouping = coordination.grouping if compare_chunks and isinstance(coordination, Coordination) else None
        asks = any(screening.check(name) is not None for name in (Targeting.name, FilterFeatures.name, Hubness.name))
        self._questions = list(questions) if asks else []
        self._batches: list[str] = []  # Parquet files
        self._names: list[list[_Name]] = []  # of the documents in each batch
        self._measured: list[Signals] = []
        self._passages: list[Passage] = []
        self._places: list[tuple[int, int]] = []  # of each passage: batch, position of its version there
        self._vectors: list[NDArray[np.float32]] = []
        self._placed: list[PlacedChunk] = []  # with the texts and vectors of those that are only referred to
        self._reference_texts: list[str] = []
        self._reference_vectors: list[NDArray[np.float32]] = []
        self._references: dict[str, Version] = {}  # by document

    @property
    def has_references(self) -> bool:
        """Return whether anything is compared with, or need not be because the check is switched off."""
        return bool(self._reference_texts) or not self._compares_statements

    def refer_to(self, versions: Sequence[Version]) -> None:
        """Keep what trusted documents state; they are compared with, and not judged."""
        if not self._compares_statements:
            return
        self._references |= {version.doc_id: version for version in versions}
        chunks = [(version, chunk) for version in versions for chunk in version.chunks]
        if chunks:
            self._placed += [PlacedChunk.of(version, chunk) for version, chunk in chunks]
            texts = [chunk.text for _, chunk in chunks]
            self._reference_texts += texts
            self._reference_vectors.append(self._models.embedder.embed(texts))

    def contradicted(self, counterstatement: Counterstatement | None) -> ContradictedText | None:
        """Return the sentence that a finding contradicts; None: of none of the documents to compare with."""
        if counterstatement is None or (version := self._references.get(counterstatement.doc_id)) is None:
            return None
        return ContradictedText(version.stamp.uri, _quote(version.text, counterstatement.span))

    def add(self, versions: Sequence[Version], names: list[_Name], *, measure: bool) -> None:
        """Write a batch, measure its versions, and embed their chunks where a check needs the vectors."""
        batch = len(self._batches)
        self._batches.append(f"{batch}.parquet")
        self._names.append(names)
        self._storage.write_table(self._batches[batch], versions_to_table(versions))
        if measure:
            self._measured += [measure_signals(version) for version in versions]
        if not self._grouping and not self._questions and not self._compares_statements:
            return
        for position, version in enumerate(versions):
            is_open = version.stamp.trust is TrustLevel.OPEN
            for chunk in version.chunks:
                self._passages.append(Passage(version.version_id, version.doc_id, chunk.ordinal, is_open))
                self._places.append((batch, position))
                self._placed.append(PlacedChunk.of(version, chunk))
        texts = [chunk.text for version in versions for chunk in version.chunks]
        if texts:
            self._vectors.append(self._models.embedder.embed(texts))

    def batches(self) -> Iterator[tuple[list[_Name], list[Version]]]:
        """Yield the names and versions of each batch."""
        for names, batch in zip(self._names, self._batches, strict=True):
            yield names, versions_from_table(self._storage.read_table(batch))

    def survey(self, *, alone: bool) -> Survey:
        """Return the survey of the whole input."""
        survey = replace(build_survey(self._measured, EmptyHistory()), alone=alone)
        if not self._passages:
            return survey
        bank = QueryBank.from_questions(self._questions, self._models.embedder) if self._questions else None
        semantics = survey_semantics(
            self._passages,
            np.concatenate(self._vectors),
            self._texts,
            vocabulary=self._models.frequency_vocabulary,
            grouping=self._grouping,
            bank=bank,
        )
        if bank and not alone:
            own = self._placed[len(self._reference_texts) :]
            semantics = replace(
                semantics,
                hubness=measure_hub_reach(own, np.concatenate(self._vectors), [bank.vectors], NothingToSearch()),
            )
        if self._compares_statements:
            related = self._related()
            semantics = replace(semantics, related=related.statements, not_compared=related.not_compared)
        return replace(survey, semantics=semantics)

    def _related(self) -> RelatedStatements:
        """Return what the input states and the trusted documents deny or confirm."""
        count = len(self._reference_texts)

        def texts(positions: Sequence[int]) -> list[str]:
            own = iter(self._texts([position - count for position in positions if position >= count]))
            return [self._reference_texts[each] if each < count else next(own) for each in positions]

        return find_related_statements(
            self._placed,
            np.concatenate([*self._reference_vectors, *self._vectors]),
            texts,
            NothingServed(),
            load_wording(self._models.frequency_vocabulary).rarity,
            self._comparisons or 0,
            self._likely,
        )

    def _texts(self, positions: Sequence[int]) -> list[str]:
        texts: dict[int, str] = {}
        for batch in dict.fromkeys(self._places[position][0] for position in positions):
            stored = versions_from_table(self._storage.read_table(self._batches[batch]))
            texts |= {
                position: stored[self._places[position][1]].chunks[self._passages[position].ordinal].text
                for position in positions
                if self._places[position][0] == batch
            }
        return [texts[position] for position in positions]


def _open_references(
    paths: Sequence[Path], settings: Settings, text_field: str = "text", id_field: str = "id"
) -> list[Source]:
    return [
        _open_input(
            path, TrustLevel.TRUSTED, settings, name=f"reference-{number}", text_field=text_field, id_field=id_field
        )
        for number, path in enumerate(paths)
    ]


def _open_input(
    path: Path,
    trust: TrustLevel,
    settings: Settings,
    *,
    name: str = "input",
    text_field: str = "text",
    id_field: str = "id",
) -> Source:
    if not path.exists():
        raise Misuse(f"{path}: no such file or folder")
    path = path.absolute()
    owner = "(input)"
    if path.suffix in ROW_SUFFIXES and path.is_file():
        columns = _columns(path)
        names = columns if columns is not None else _names_instead(path, text_field, settings.max_document_bytes)
        if names is not None and text_field not in names:
            raise Misuse(
                f"{path}: no column {text_field!r}; it has {', '.join(names)}. Name the right one with --text-field"
            )
        has_id = columns is None or id_field in columns
        fields = RowFields(text=text_field, id=id_field if has_id else None)
        rows = RowsConfig(kind="rows", url=str(path), fields=fields, name=name, owner=owner, trust=trust)
        return open_source(rows, max_bytes=settings.max_document_bytes)
    folder = path.resolve().parent if path.is_file() else path
    config = FolderConfig(kind="folder", url=str(folder), name=name, owner=owner, trust=trust)
    return (
        _SingleFile(path, config, settings)
        if path.is_file()
        else open_source(config, max_bytes=settings.max_document_bytes)
    )


def _columns(path: Path) -> list[str] | None:
    """Return the columns of a file that declares them; None for JSONL, where every row may differ."""
    if path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            return list(pq.read_schema(path).names)
        except pa.ArrowInvalid:
            return None  # the source reports the error
    if path.suffix in {".csv", ".tsv"}:
        import csv

        with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            header = file.readline(1_000_000)
        return next(csv.reader([header], delimiter="\t" if path.suffix == ".tsv" else ","), [])
    return None


def _names_instead(path: Path, text_field: str, max_bytes: int) -> list[str] | None:
    """Return names in the first rows of a JSONL file of which no row has `text_field`; None if one has it, or none has names."""
    names: dict[str, None] = {}
    if path.suffix != ".parquet":
        with path.open("rb") as file:
            for row in reader_for(path.name).scan(file, (), max_bytes):
                if row.values is not None and text_field in row.values:
                    return None
                if len(names) < NAMES_SHOWN:
                    names |= dict.fromkeys(row.values or ())
    return list(names)[:NAMES_SHOWN] or None


class _SingleFile:
    """Source of one file, wherever it links to and whatever its name begins with; its folder is not listed."""

    def __init__(self, path: Path, folder: FolderConfig, settings: Settings) -> None:
        self.name, self.owner, self.trust = folder.name, folder.owner, folder.trust
        self._path = path
        self._folder = open_source(folder, max_bytes=settings.max_document_bytes)

    def list(self) -> Iterator[SourceItem]:
        """Yield the file."""
        yield SourceItem(
            utf8_path(self._path.name), self._path.stat().st_size, None, json.dumps(self._path.resolve().name)
        )

    def fetch(self, items: Sequence[SourceItem]) -> Iterator[Outcome]:
        """Yield its bytes."""
        return self._folder.fetch(items)


def _name(item: SourceItem, path: Path, *, by_file: bool) -> _Name:
    locator = json.loads(item.locator)
    row = str(locator["id"]) if isinstance(locator, dict) and "id" in locator else None
    file = path.as_posix() if path.is_file() else (path / item.uri).as_posix()
    if by_file:
        return _Name(file if row is None else f"{file}#{row}", file)
    return _Name(item.uri if row is None else row, file)


def _fetch_versions(
    source: Source, items: Sequence[SourceItem], sandbox: ParsingSandbox, chunker: Chunker
) -> Iterator[Version]:
    now = datetime.now(UTC)
    for outcome in source.fetch(items):
        if isinstance(outcome, Fetched):
            content, declared, problems = outcome.content, outcome.declared, outcome.problems
            parsed = sandbox.parse(content, outcome.media_type, outcome.item.uri)
        elif isinstance(outcome, FetchFailed):
            content, declared, problems = b"", {}, ()
            parsed = _unfetched(outcome)
        else:
            raise Inconsistent(
                f'{outcome.item.uri}: the source answered "unchanged", expected the bytes: there is no earlier version'
            )
        yield make_version(
            source=source,
            item=outcome.item,
            content_sha256=domain.sha256_bytes(content),
            size=len(content),
            parsed=parsed,
            problems=problems,
            declared=declared,
            run_id="screen",
            fetched_at=now,
            parent_version=None,
            chunker=chunker,
        )


def _unfetched(failure: FetchFailed) -> ParsedDocument:
    # No later run tries again, so a document that could not be fetched must not pass as checked.
    code = failure.code if failure.code.startswith("parsing.") else "parsing.unchecked"
    return ParsedDocument("", problems=(Finding("parsing", code, Severity.CRITICAL, 1.0, failure.message),))
