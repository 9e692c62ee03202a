"""Standalone screening: files and folders in, verdicts out, without ledger, store or sources.yaml.

Two passes over Parquet batches in a temporary folder, so that memory stays flat: the first parses and
measures, the second screens against the survey of the whole input.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpus_guard.batches import Storage
from corpus_guard.batches.tables import in_batches, versions_from_table, versions_to_table
from corpus_guard.corpus.filterrag.filters import classifier_in_use
from corpus_guard.corpus.query_bank import QueryBank
from corpus_guard.domain import (
    Counterstatement,
    Judgement,
    Progress,
    Span,
    Stamp,
    TrustLevel,
    Version,
    no_progress,
)
from corpus_guard.errors import Misuse
from corpus_guard.intake.chunking import Chunker
from corpus_guard.intake.parsing import ParsingSandbox
from corpus_guard.intake.sources.source import skipped_by
from corpus_guard.models import Models
from corpus_guard.screening.checks.conflict import Conflict
from corpus_guard.screening.checks.coordination import Coordination
from corpus_guard.screening.checks.filter_features import FilterFeatures
from corpus_guard.screening.checks.hubness import Hubness
from corpus_guard.screening.checks.targeting import Targeting
from corpus_guard.screening.decoded import locate_hidden
from corpus_guard.screening.extensions import load_extensions
from corpus_guard.screening.inputs import DocumentName, RowColumns, fetch_versions, open_inputs, open_references
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


@dataclass(frozen=True, slots=True)
class ScreenOptions:
    """Options of a screening: reading of the input, trust in it, and what it is compared with."""

    text_field: str = "text"  # rows: the column with the text
    id_field: str = "id"  # rows: the column with the id
    trust: TrustLevel = TrustLevel.OPEN  # of the input's source
    against: Sequence[Path] = ()  # trusted files and folders: compared with what they state; they are not judged
    one_by_one: bool = False  # without the checks that look across documents
    bank: Sequence[str] = ()  # questions that people ask, as the query bank of a deployment holds them


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
    # What each finding contradicts among the documents to compare with.
    contradicted: tuple[ContradictedText | None, ...]

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
    options = ScreenOptions(trust=trust, against=[Path(path) for path in against], bank=questions)
    return list(screen_input(settings or load_settings(), [Path(path) for path in paths], options, by_file=False))


def screen_input(
    settings: Settings,
    path: Path | Sequence[Path],
    options: ScreenOptions | None = None,
    *,
    by_file: bool | None = None,
    policy: Policy | None = None,
    cache: ResultCache | None = None,
    models: Models | None = None,
    progress: Progress = no_progress,
    skipped: Counter[str] | None = None,
) -> Iterator[ScreenedDocument]:
    """Screen folders and files; in JSONL, CSV and Parquet every row is a document.

    Args:
        settings: policy, models and limits.
        path: the folder or file, or several.
        options: by default those of an open source whose documents are compared with each other.
        by_file: each result has its file as its id; by default where several inputs are given.
        policy: by default that of `settings`.
        cache: keeps the results of slow checks.
        models: models that are loaded already; by default those of `settings`.
        progress: called before each batch.
        skipped: counts what the folders hold and is no document, by reason.

    Yields:
        One judgement for every document of the input, in its order, also for documents that could not be
        read.

    Raises:
        Misuse: `path` or a path to compare with does not exist, or has no column for the text; or options that
            exclude each other.
        SourceUnavailable: `path` cannot be listed.
    """
    options = options or ScreenOptions()
    paths = [path] if isinstance(path, Path) else path
    by_file = not isinstance(path, Path) if by_file is None else by_file
    columns = RowColumns(options.text_field, options.id_field)
    inputs = open_inputs(paths, options.trust, settings, columns)
    references = open_references(options.against, settings, columns)
    if references and (options.one_by_one or options.trust is TrustLevel.TRUSTED):
        reason = (
            "one by one no document is compared" if options.one_by_one else "a trusted input is believed as they are"
        )
        raise Misuse(f"{reason}: leave out the trusted documents to compare with, or that option")
    models = models or Models(settings)
    policy = policy or load_policy(settings.policy_file)
    screening = build_screening(
        policy, models, cache, classifier=classifier_in_use(settings), extensions=load_extensions(settings, CHECKS)
    )
    chunker = Chunker(models.tokenizer_file, settings.chunk_tokens)
    with tempfile.TemporaryDirectory(prefix="corpus-guard-") as folder:
        first_pass = _FirstPass(
            Storage(folder),
            screening,
            models,
            compare_chunks=not options.one_by_one and options.trust is TrustLevel.OPEN,
            compare_statements=bool(references),
            questions=options.bank,
        )
        done = 0
        with ParsingSandbox(settings) as sandbox:
            for reference in references:
                for items in in_batches(reference.list(), DOCUMENTS_PER_BATCH):
                    progress("reading", done, None)
                    first_pass.refer_to(list(fetch_versions(reference, items, sandbox, chunker)))
                    done += len(items)
            if references and not first_pass.has_references:
                raise Misuse(
                    "the trusted documents to compare with hold no text that can be read; name other files or folders"
                )
            done = 0
            for each in inputs:
                for items in in_batches(each.source.list(), DOCUMENTS_PER_BATCH):
                    progress("reading", done, None)
                    versions = list(fetch_versions(each.source, items, sandbox, chunker))
                    names = [each.name_of(item, by_file=by_file) for item in items]
                    first_pass.add(versions, names, measure=not options.one_by_one)
                    done += len(items)
                if skipped is not None:
                    skipped.update(skipped_by(each.source))
        needs_survey = bool(options.bank) or not options.one_by_one
        survey = first_pass.survey(alone=options.one_by_one) if needs_survey else None
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


def _screened_document(
    name: DocumentName,
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
        self._names: list[list[DocumentName]] = []  # of the documents in each batch
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

    def add(self, versions: Sequence[Version], names: list[DocumentName], *, measure: bool) -> None:
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

    def batches(self) -> Iterator[tuple[list[DocumentName], list[Version]]]:
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
