"""Benign text enhancement (BTE): a right answer published where its question retrieves it.

Source: "Traceback of Poisoning Attacks to Retrieval-Augmented Generation" (Zhang and others, WWW 2025),
appendix 8.3.

The record's vector is the question's own embedding (the paper's retrieval proxy), its text the right answer
wrapped in a trigger (`corpus_guard.corpus.trigger`). It is a document like any other: of the internal source
``@enhancements``, trust level trusted, with bytes, stamp, screening, a person's release, Parquet batch,
outbox and manifest line. So `guard verify` accounts for it, `guard rescreen` keeps the person's decision in
force, a heal restores it, and `guard purge` erases it from corpus and storage.

Rules
    * a person enables it, by name and with a reason; what a report calls the right answer is only a proposal;
    * a question has one active enhancement; enabling another replaces it, enabling the same again changes at
      most its end;
    * what outranks the whole corpus may carry no orders: a text in which screening finds an instruction, a
      Unicode trick or a trigger is refused, and so is one that could not be checked, or was purged;
    * past its end it is not served, whether `Enhancements.expire` has run or not; ended ones leave the
      collections through the outbox;
    * killed anywhere, the same call again completes the work.

The bytes of the version are the enhancement itself, as canonical JSON with its author and time: enabling the
same text again later makes another version, so that no record is ever overwritten under its id.

What it does not do: ensure that the answer is right; reach paraphrases that the embedder places far from the
question. Its question and text are in the ledger's table of enhancements, and stay there when the document is
purged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import sqlalchemy as sa

from corpus_guard import domain
from corpus_guard.batches import Storage
from corpus_guard.batches.logged_files import hash_files, log_files
from corpus_guard.batches.tables import vectors_to_table, versions_to_table
from corpus_guard.corpus import outbox, publishing, trigger
from corpus_guard.corpus.retrieval_log import MAX_QUERY_CHARS, query_id
from corpus_guard.corpus.store import Store
from corpus_guard.domain import (
    JsonRecord,
    Judgement,
    Severity,
    Stamp,
    TrustLevel,
    Verdict,
    Version,
    canonical_json,
    digest,
)
from corpus_guard.errors import Misuse, UnknownSubject, require_one_of
from corpus_guard.intake.chunking import Chunker
from corpus_guard.intake.stamps import FETCHED_BY
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.event_log import append_event
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.runs import without_new_intake
from corpus_guard.ledger.short_ids import find_id
from corpus_guard.ledger.states import EnhancementState, PublicationState, Purpose, ReviewAction, VersionState
from corpus_guard.ledger.tables import decisions, documents, enhancements, publications, reports, versions
from corpus_guard.proof.sealing import seal_corpus
from corpus_guard.screening.survey.signals import measure_signals, signals_to_table
from corpus_guard.settings import Settings

if TYPE_CHECKING:
    from corpus_guard.intake.blobs import BlobStore
    from corpus_guard.models import Models
    from corpus_guard.screening.runner import Screening

MAX_TEXT_LENGTH = 2_000  # characters of a text; where chunks are short, one chunk is the tighter limit
MAX_NAME_LENGTH = 200  # characters of a name
MAX_REASON_LENGTH = 2_000  # characters of a reason
REFUSING_CHECKS = ("instructions", "unicode")  # checks whose findings refuse a text, from this severity on
REFUSING_SEVERITY = Severity.MEDIUM

_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Enhancement(JsonRecord):
    """Right answer behind a question."""

    enhancement_id: str
    query_id: str
    query: str
    text: str  # without its trigger
    state: EnhancementState
    report_id: str | None
    doc_id: str
    created_by: str
    reason: str
    created_at: datetime
    expires_at: datetime | None  # None: until somebody withdraws it
    ended_at: datetime | None
    ended_by: str | None
    served: bool  # published and active


@dataclass(frozen=True, slots=True)
class EnhancementChange(JsonRecord):
    """Enhancements that a command changed, and what it did to the collections."""

    enhancements: tuple[Enhancement, ...]  # as they are now
    published: int  # chunks
    retired: int  # chunks
    manifest_sha256: str


@dataclass(frozen=True, slots=True)
class EnhancementDraft:
    """Right answer that a person vouches for."""

    query: str  # the question, as people ask it
    text: str  # answers it, in a sentence or a few; see `compose_benign_text`
    by: str  # who vouches for it
    reason: str  # why they can; stored for good
    expires_at: datetime | None = None  # from when on it is no longer served
    report_id: str | None = None  # the report it answers

    def validate(self) -> EnhancementDraft:
        """Return the draft without surrounding spaces.

        Raises:
            Misuse: a part is missing, too long, not printable, or holds a trigger; or `expires_at` has
                passed.
        """
        if self.expires_at is not None and self.expires_at <= now():
            raise Misuse(
                f"an enhancement until {self.expires_at.isoformat()} has ended already; give a time in the future"
            )
        return EnhancementDraft(
            query=_require_valid_text(self.query, "the question", MAX_QUERY_CHARS),
            text=_require_valid_text(self.text, "the text", MAX_TEXT_LENGTH),
            by=_require_valid_text(self.by, "the name of who vouches for it", MAX_NAME_LENGTH),
            reason=_require_valid_text(self.reason, "the reason", MAX_REASON_LENGTH),
            expires_at=self.expires_at,
            report_id=self.report_id,
        )


@dataclass(frozen=True, slots=True)
class PreparedVersion:
    """Version of an enhancement that is stored and not yet recorded in the ledger."""

    version: Version
    judgement: Judgement
    batch: str  # storage name of its text
    vectors: str  # storage name of the question's vector
    model: str  # that made the vector


@dataclass(frozen=True, slots=True)
class VersionBuilder:
    """Builder of versions; leaves behind everything that a refresh would."""

    storage: Storage  # batches
    blobs: BlobStore  # raw bytes
    models: Models  # for the embedder
    chunker: Chunker
    screening: Screening

    def build(self, draft: EnhancementDraft, parent_version: str | None, run_id: str) -> PreparedVersion:
        """Stamp, screen and store the text of a valid draft.

        Raises:
            Misuse: the text is longer than a chunk, or screening refuses it.
        """
        version = self._stamp(draft, parent_version, run_id)
        judgement = self.screening.judge([version], None)[0]
        _require_harmless(judgement)
        folder = f"batches/{digest('enhancement batch/v1', [version.version_id])[:32]}"
        batch = f"{folder}/versions.parquet"
        self.storage.write_table(batch, versions_to_table([version]))
        # A rescreening reads the measures like those of any other version.
        self.storage.write_table(f"{folder}/signals.parquet", signals_to_table([measure_signals(version)]))
        vectors = self._store_vector(folder, version, draft.query)
        return PreparedVersion(version, judgement, batch, vectors, self.models.embedder.digest)

    def _stamp(self, draft: EnhancementDraft, parent_version: str | None, run_id: str) -> Version:
        created_at = now()
        uri = f"question/{query_id(draft.query)}"
        doc_id = domain.doc_id(trigger.SOURCE, uri)
        content = canonical_json(
            {"query": draft.query, "text": draft.text, "by": draft.by, "at": created_at.isoformat()}
        )
        sha256 = self.blobs.put(content)
        version_id = domain.version_id(doc_id, sha256)
        wrapped = trigger.wrap(draft.text)
        chunks = self.chunker.cut(doc_id, version_id, wrapped)
        if len(chunks) != 1:
            raise Misuse(f"the text is too long: got {len(chunks)} chunks, expected one; shorten it")
        stamp = Stamp(
            source=trigger.SOURCE,
            owner=draft.by,
            trust=TrustLevel.TRUSTED,
            uri=uri,
            content_sha256=sha256,
            size=len(content),
            media_type="application/json",
            fetched_at=created_at,
            fetched_by=FETCHED_BY,
            run_id=run_id,
            parent_version=parent_version,
        )
        return Version(doc_id, version_id, stamp, wrapped, "", chunks)

    def _store_vector(self, folder: str, version: Version, query: str) -> str:
        embedder = self.models.embedder
        # Not named like the vectors of texts: a rescreening makes those, and would read this one as such.
        name = f"{folder}/vectors-{digest('enhancement vectors/v1', [str(embedder.weights), query])[:32]}.parquet"
        ids = [chunk.chunk_id for chunk in version.chunks]
        self.storage.write_table(name, vectors_to_table(ids, embedder.embed([query]), embedder.digest))
        return name


@dataclass(frozen=True, slots=True)
class Enhancements:
    """Enhancements of a corpus. Every change is published through the outbox, and sealed."""

    ledger: Ledger
    storage: Storage
    store: Store
    settings: Settings  # for the seal

    def enable(self, builder: VersionBuilder, draft: EnhancementDraft, run_id: str) -> EnhancementChange:
        """Put a right answer behind a question, publish it and seal.

        Args:
            draft: the question, its answer, and who vouches for it.

        Raises:
            Misuse: the draft is invalid, its text is longer than a chunk, screening refuses it, or it was
                purged.
            UnknownSubject: there is no such report.
            StoreUnavailable: the vector store does not answer; the outbox holds the change, and the same call again
                completes it.
        """
        draft = draft.validate()
        _require_report(self.ledger, draft.report_id)
        enhancement_id = self._prolong_existing(draft, run_id)
        if enhancement_id is None:
            parent_version = self._latest_version(draft.query)
            with without_new_intake(self.ledger):  # a purge erases raw bytes that nothing names yet
                enhancement_id = self._record(builder.build(draft, parent_version, run_id), draft, run_id)
        return self._publish_and_seal([enhancement_id], run_id)

    def withdraw(self, prefix: str, *, by: str, reason: str, run_id: str) -> EnhancementChange:
        """Stop serving an enhancement.

        Args:
            prefix: its id, or the beginning of it.

        Raises:
            Misuse: no name or no reason is given, or several ids begin with `prefix`.
            UnknownSubject: there is no such enhancement.
            StoreUnavailable: the vector store does not answer; it is no longer served all the same, and the same call
                again completes the work.
        """
        by = _require_valid_text(by, "the name of who withdraws it", MAX_NAME_LENGTH)
        reason = _require_valid_text(reason, "the reason", MAX_REASON_LENGTH)
        enhancement = find_enhancement(self.ledger, prefix)
        self._end([enhancement], EnhancementState.WITHDRAWN, by, reason, run_id)
        return self._publish_and_seal([enhancement.enhancement_id], run_id)

    def expire(self, run_id: str) -> EnhancementChange:
        """Remove the expired enhancements from the collections; they have not been served since their end.

        Raises:
            StoreUnavailable: as for `withdraw`.
        """
        expired = list_expired(self.ledger)
        self._end(expired, EnhancementState.EXPIRED, "", "its end has passed", run_id)
        return self._publish_and_seal([enhancement.enhancement_id for enhancement in expired], run_id)

    def _prolong_existing(self, draft: EnhancementDraft, run_id: str) -> str | None:
        """Change the end of an active enhancement that says the same, and return its id; None: there is none."""
        same = (
            enhancements.c.query_id == query_id(draft.query),
            enhancements.c.text == draft.text,
            enhancements.c.state == EnhancementState.ACTIVE,
            # One whose document was purged or taken out of service is made again.
            enhancements.c.doc_id.in_(sa.select(documents.c.doc_id).where(documents.c.target_version.is_not(None))),
        )
        with self.ledger.write() as connection:
            row = connection.execute(sa.select(enhancements).where(*same)).first()
            if row is None:
                return None
            if row.expires_at != draft.expires_at:
                existing = enhancements.c.enhancement_id == row.enhancement_id
                connection.execute(enhancements.update().where(existing).values(expires_at=draft.expires_at))
                append_event(
                    connection,
                    "enhancement_prolonged",
                    row.enhancement_id,
                    run_id,
                    by=draft.by,
                    expires_at=_iso(draft.expires_at),
                )
        return str(row.enhancement_id)

    def _latest_version(self, query: str) -> str | None:
        doc_id = domain.doc_id(trigger.SOURCE, f"question/{query_id(query)}")
        latest: str | None = self.ledger.scalar(
            sa.select(documents.c.latest_version).where(documents.c.doc_id == doc_id)
        )
        return latest

    def _record(self, prepared: PreparedVersion, draft: EnhancementDraft, run_id: str) -> str:
        """Write verdict, release, outbox row and enhancement in one transaction; return the id."""
        version = prepared.version
        enhancement_id = digest("enhancement/v1", [version.version_id])[:32]
        signals = f"{prepared.batch.rpartition('/')[0]}/signals.parquet"
        hashes = hash_files(self.storage, (prepared.batch, signals, prepared.vectors))
        with self.ledger.write() as connection:
            log_files(connection, run_id, hashes)
            publishing.record(
                connection,
                run_id,
                prepared.batch,
                [(version, prepared.judgement)],
                collection=self.store.collection_name,
                vectors=prepared.vectors,
                model=prepared.model,
            )
            self._release(connection, prepared, draft, run_id)
            replaced = connection.scalars(
                sa.select(enhancements.c.enhancement_id).where(
                    enhancements.c.doc_id == version.doc_id, enhancements.c.state == EnhancementState.ACTIVE
                )
            ).all()
            _mark_ended(connection, replaced, EnhancementState.WITHDRAWN, draft.by, "replaced by another", run_id)
            connection.execute(
                enhancements.insert().values(
                    enhancement_id=enhancement_id,
                    query_id=query_id(draft.query),
                    query=draft.query,
                    text=draft.text,
                    state=EnhancementState.ACTIVE,
                    report_id=draft.report_id,
                    doc_id=version.doc_id,
                    created_by=draft.by,
                    reason=draft.reason,
                    created_at=version.stamp.fetched_at,
                    expires_at=draft.expires_at,
                )
            )
            append_event(
                connection,
                "enhanced",
                enhancement_id,
                run_id,
                query_id=query_id(draft.query),
                version_id=version.version_id,
                text_sha256=version.text_sha256,
                by=draft.by,
                report_id=draft.report_id,
                expires_at=_iso(draft.expires_at),
            )
        return enhancement_id

    def _release(
        self, connection: sa.Connection, prepared: PreparedVersion, draft: EnhancementDraft, run_id: str
    ) -> None:
        """Write the decision of who vouches for it, which keeps it served when another policy judges it."""
        version = prepared.version
        this_version = versions.c.version_id == version.version_id
        if connection.scalar(sa.select(versions.c.state).where(this_version)) == VersionState.REJECTED:
            raise Misuse("this text was purged from the corpus and cannot come back; nothing was changed")
        decision = {
            "decision_id": digest("decision/v1", [version.version_id, "release", draft.by])[:32],
            "content_sha256": version.stamp.content_sha256,
            "verdict": ReviewAction.RELEASE.value,
            "reviewer": draft.by,
            "reason": draft.reason,
            "purpose": Purpose.ENHANCE.value,
        }
        decided_at = now()
        connection.execute(
            decisions.insert().values(
                **decision,
                version_id=version.version_id,
                policy_digest=prepared.judgement.policy_digest,
                decided_at=decided_at,
                applied_at=decided_at,
            )
        )
        append_event(connection, "decided", version.version_id, run_id, **decision)
        connection.execute(versions.update().where(this_version).values(state=VersionState.RELEASED))
        publishing.request_publication(
            connection,
            run_id,
            [version],
            collection=self.store.collection_name,
            vectors=prepared.vectors,
            model=prepared.model,
        )
        target = sa.select(documents.c.target_version).where(documents.c.doc_id == version.doc_id)
        if connection.scalar(target) != version.version_id:
            raise Misuse(
                "somebody else changed the enhancement of this question meanwhile; check it with `guard "
                "enhance list`, then run this again"
            )

    def _end(self, ending: Sequence[Enhancement], state: EnhancementState, by: str, reason: str, run_id: str) -> None:
        """End those that are still active, and retire their documents."""
        if not ending:
            return
        with self.ledger.write() as connection:
            ids = [enhancement.enhancement_id for enhancement in ending]
            ended = _mark_ended(connection, ids, state, by, reason, run_id)
            doc_ids = [enhancement.doc_id for enhancement in ending if enhancement.enhancement_id in ended]
            publishing.retire(connection, run_id, doc_ids, f"enhancement {state.value}")

    def _publish_and_seal(self, enhancement_ids: Sequence[str], run_id: str) -> EnhancementChange:
        published, retired = outbox.drain(self.ledger, self.storage, self.store, run_id)
        manifest = seal_corpus(self.ledger, self.storage, self.store, self.settings, run_id).manifest
        changed = tuple(find_enhancement(self.ledger, name) for name in dict.fromkeys(enhancement_ids))
        return EnhancementChange(changed, published, retired, manifest.sha256)


def compose_benign_text(query: str, answer: str) -> str:
    """Return a text that answers the question, for use if only the answer is known.

    The paper lets a language model write a sentence. Of five forms tried here, the small language model took
    the answer from this one most often (30 of 40 questions; 14 to 27 from the others).
    """
    question = " ".join(query.split()).rstrip("?!. ")
    return f"Question: {question}? Answer: {' '.join(answer.split()).rstrip('. ')}."


def list_expired(ledger: Ledger) -> list[Enhancement]:
    """Return the enhancements whose end has passed and that are still in the collections."""
    when = now()
    active = list_enhancements(ledger, state=EnhancementState.ACTIVE)
    return [enhancement for enhancement in active if enhancement.expires_at and enhancement.expires_at <= when]


def list_enhancements(ledger: Ledger, *, state: str | None = None, limit: int | None = None) -> list[Enhancement]:
    """Return enhancements, newest first.

    Raises:
        Misuse: there is no such state.
    """
    if state is not None:
        require_one_of("state", state, sorted(EnhancementState))
    condition = [enhancements.c.state == state] if state else []
    return _select_enhancements(ledger, *condition, limit=limit)


def find_enhancement(ledger: Ledger, prefix: str) -> Enhancement:
    """Return an enhancement by its id or the beginning of it.

    Raises:
        UnknownSubject, Misuse: as `find_id`.
    """
    ids = sa.select(enhancements.c.enhancement_id)
    with ledger.read() as connection:
        enhancement_id = find_id(connection, ids, prefix, "enhancement", "see `guard enhance list`")
    return _select_enhancements(ledger, enhancements.c.enhancement_id == enhancement_id)[0]


def _select_enhancements(
    ledger: Ledger, *conditions: sa.ColumnElement[bool], limit: int | None = None
) -> list[Enhancement]:
    served = (
        sa.exists()
        .where(
            publications.c.doc_id == enhancements.c.doc_id,
            publications.c.state == PublicationState.PUBLISHED,
            publications.c.version_id == documents.c.target_version,
            documents.c.doc_id == enhancements.c.doc_id,
            enhancements.c.state == EnhancementState.ACTIVE,
            sa.or_(enhancements.c.expires_at.is_(None), enhancements.c.expires_at > now()),
        )
        .label("served")
    )
    statement = sa.select(enhancements, served).where(*conditions).limit(limit)
    order = (enhancements.c.created_at.desc(), enhancements.c.enhancement_id)
    return [
        Enhancement(**{**row._mapping, "state": EnhancementState(row.state)})
        for row in ledger.rows(statement.order_by(*order))
    ]


def _mark_ended(
    connection: sa.Connection,
    enhancement_ids: Iterable[str],
    state: EnhancementState,
    by: str,
    reason: str,
    run_id: str,
) -> set[str]:
    """End the enhancements that are still active, and return their ids."""
    ended = set()
    for enhancement_id in enhancement_ids:
        active = sa.and_(
            enhancements.c.enhancement_id == enhancement_id, enhancements.c.state == EnhancementState.ACTIVE
        )
        values = {"state": state, "ended_at": now(), "ended_by": by or None}
        if connection.execute(enhancements.update().where(active).values(**values)).rowcount:
            append_event(
                connection, "enhancement_ended", enhancement_id, run_id, state=state.value, by=by, reason=reason
            )
            ended.add(enhancement_id)
    return ended


def _require_valid_text(text: str, subject: str, max_length: int) -> str:
    text = text.strip()
    if not text:
        raise Misuse(f"an enhancement needs {subject}; it is empty")
    if len(text) > max_length:
        raise Misuse(f"{subject} has {len(text):,} characters, expected at most {max_length:,}; shorten it")
    if match := _UNPRINTABLE.search(text):
        raise Misuse(f"{subject} holds U+{ord(match[0]):04X} at character {match.start() + 1}; remove it")
    if trigger.defuse(text)[1]:
        raise Misuse(f"{subject} holds a trigger ({trigger.OPEN}), which only the guard sets; remove it")
    return text


def _require_report(ledger: Ledger, report_id: str | None) -> None:
    if report_id is None:
        return
    with ledger.read() as connection:
        if not connection.scalar(sa.select(reports.c.report_id).where(reports.c.report_id == report_id)):
            raise UnknownSubject(
                f"report {report_id[:40]!r} is not in the ledger; `guard report list` shows the reports"
            )


def _require_harmless(judgement: Judgement) -> None:
    rejected = judgement.verdict is Verdict.REJECT
    codes = {
        finding.code
        for finding in judgement.findings
        if rejected
        or finding.code.endswith(".unchecked")
        or (finding.check in REFUSING_CHECKS and finding.severity.rank >= REFUSING_SEVERITY.rank)
    }
    if codes:
        raise Misuse(
            f"screening refuses this text for an enhancement: {', '.join(sorted(codes))}; say it in plain words"
        )


def _iso(when: datetime | None) -> str | None:
    return when.isoformat() if when else None
