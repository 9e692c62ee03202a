"""Texts that a person cleared of a report: a refused proposal, or a document that was restored.

Rules
    * the same report does not accuse such a text again, whatever a judge says;
    * other reports may: nobody has answered for those;
    * the trace shows the text, with the label *benign* and the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import sqlalchemy as sa

from corpus_guard.ledger import Ledger
from corpus_guard.ledger.queries import select_in_batches
from corpus_guard.ledger.states import Label
from corpus_guard.ledger.tables import chunks, events, traces
from corpus_guard.traceback.judges import Judge, JudgeConclusion, Opinion
from corpus_guard.traceback.retrieval import Complaint, RetrievedText

CLEARED = "a person cleared this document of this report: its withdrawal was refused, or it was restored"


def cleared_versions(connection: sa.Connection) -> set[tuple[str, str]]:
    """Return what people cleared, as (report id, version id)."""
    statement = sa.select(events.c.body).where(events.c.kind.in_(("withdrawal_refused", "restored")))
    cleared: set[tuple[str, str]] = set()
    for body in connection.scalars(statement):
        about = body.get("reports")
        if about is None:  # an older release logged traces alone
            rows = select_in_batches(connection, sa.select(traces.c.report_id), traces.c.trace_id, body["traces"])
            about = [row.report_id for row in rows]
        cleared |= {(report_id, version_id) for report_id in about for version_id in body["versions"]}
    return cleared


class ClearedTextsJudge:
    """Judge that does not accuse what a person cleared of the report."""

    def __init__(self, judge: Judge, ledger: Ledger, report_id: str) -> None:
        """
        Args:
            report_id: of the complaint; empty: nothing was cleared.
        """
        self._judge = judge
        self._cleared = _cleared_texts(ledger, report_id) if report_id else frozenset[str]()
        self.name = judge.name
        self.digest = judge.digest

    def judge(
        self, complaint: Complaint, new: Sequence[RetrievedText], retrieved: Sequence[RetrievedText]
    ) -> list[Opinion]:
        """Return an opinion of each new text."""
        opinions = self._judge.judge(complaint, new, retrieved)
        return [
            replace(opinion, label=Label.BENIGN, explanation=CLEARED)
            if text.text_sha256 in self._cleared and opinion.label is not Label.BENIGN
            else opinion
            for text, opinion in zip(new, opinions, strict=True)
        ]

    def conclude(self, complaint: Complaint, judged: Sequence[tuple[RetrievedText, Opinion]]) -> JudgeConclusion:
        """Weigh all opinions together."""
        conclusion = self._judge.conclude(complaint, judged)
        cleared = {text.chunk_id for text, _ in judged if text.text_sha256 in self._cleared}
        return replace(conclusion, accused=conclusion.accused - cleared)


def _cleared_texts(ledger: Ledger, report_id: str) -> frozenset[str]:
    """Return the hashes of the chunks of the versions that people cleared of this report."""
    with ledger.read() as connection:
        version_ids = {version_id for report, version_id in cleared_versions(connection) if report == report_id}
        rows = select_in_batches(connection, sa.select(chunks.c.text_sha256), chunks.c.version_id, version_ids)
        return frozenset(row.text_sha256 for row in rows)
