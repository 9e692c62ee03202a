"""What somebody with the ledger's file might change in rows that decide what is served or shown."""

from __future__ import annotations

from dataclasses import dataclass

from corpus_guard.ledger.tables import bands, metadata, signals
from every_row import fill, value_of
from tampering import CHUNK, DOUBTFUL, PUMPS, Corpus

FILLED_BESIDE = (
    "runs", "validators", "results", "blocked", "purges", "campaigns", "queries", "reports", "filings", "traces", "suspects",
    "enhancements",
)  # fmt: skip
"""Tables whose rows need no document of the corpus."""


def add_rows(corpus: Corpus) -> None:
    """Write rows into the tables that a sealed corpus leaves empty, and seal."""
    others = tuple(name for name in metadata.tables if name not in FILLED_BESIDE)
    fill(corpus.shelf.ledger, without=others)
    with corpus.shelf.ledger.write() as connection:
        row = {"version_id": DOUBTFUL.version_id, "source": "harbour", "values": {"digits": 0.5}, "minhash": b"\0" * 8}
        connection.execute(signals.insert(), row)
        connection.execute(bands.insert(), [{"band": number, "version_id": DOUBTFUL.version_id} for number in range(4)])
    corpus.seal()


def key(name: str, number: int = 1) -> str:
    """The key in row `number` of the rows that were added."""
    table, _, column = name.partition(".")
    return str(value_of(metadata.tables[table].c[column], number))


@dataclass(frozen=True)
class RowTampering:
    """A change of rows, and the subject under which it must be named."""

    name: str
    statement: str
    subject: str


OF_DOUBTFUL = f"WHERE version_id = '{DOUBTFUL.version_id}'"
OF_PUMPS = f"WHERE doc_id = '{PUMPS.doc_id}'"
ROWS = (
    RowTampering(
        "a_purged_hash_taken_off_the_list", f"DELETE FROM blocked WHERE sha256 = '{key('blocked.sha256')}'", key("blocked.sha256")
    ),
    RowTampering("a_document_retired_by_hand", f"UPDATE documents SET retired_at = '2199-01-01' {OF_PUMPS}", PUMPS.doc_id),
    RowTampering(
        "the_latest_hash_of_a_document", f"UPDATE documents SET latest_content_sha256 = 'frozen' {OF_PUMPS}", PUMPS.doc_id
    ),
    RowTampering("the_target_of_a_document", f"UPDATE documents SET target_version = NULL {OF_PUMPS}", PUMPS.doc_id),
    RowTampering("the_owner_of_a_document", f"UPDATE documents SET source = 'another' {OF_PUMPS}", PUMPS.doc_id),
    RowTampering("a_document_seen_tomorrow", f"UPDATE documents SET last_seen_at = '2199-01-01' {OF_PUMPS}", PUMPS.doc_id),
    RowTampering("a_page_without_findings", f"DELETE FROM findings {OF_DOUBTFUL}", DOUBTFUL.version_id),
    RowTampering("a_finding_that_is_muted", f"UPDATE findings SET muted = 1 {OF_DOUBTFUL}", DOUBTFUL.version_id),
    RowTampering("the_words_of_a_finding", f"UPDATE findings SET message = 'harmless' {OF_DOUBTFUL}", DOUBTFUL.version_id),
    RowTampering(
        "a_result_of_a_slow_check", f"UPDATE results SET findings = '[]' WHERE key = '{key('results.key')}'", key("results.key")
    ),
    RowTampering("a_result_put_in", "INSERT INTO results (key, findings) VALUES ('planted', '[]')", "planted"),
    RowTampering("the_signals_of_a_version", f"""UPDATE signals SET "values" = '{{}}' {OF_DOUBTFUL}""", DOUBTFUL.version_id),
    RowTampering("a_band_of_near_duplicates", f"DELETE FROM bands {OF_DOUBTFUL} AND band = 2", DOUBTFUL.version_id),
    RowTampering("how_long_a_version_waits", f"UPDATE versions SET waits_since = '2199-01-01' {OF_DOUBTFUL}", DOUBTFUL.version_id),
    RowTampering("the_campaign_of_a_version", f"UPDATE versions SET campaign = 'none' {OF_DOUBTFUL}", DOUBTFUL.version_id),
    RowTampering("the_batch_of_a_version", f"UPDATE versions SET batch = 'batches/other' {OF_DOUBTFUL}", DOUBTFUL.version_id),
    RowTampering("the_stamp_of_a_version", f"UPDATE versions SET stamp = '{{}}' {OF_DOUBTFUL}", DOUBTFUL.version_id),
    RowTampering("the_checks_that_were_skipped", f"""UPDATE versions SET skipped = '["x"]' {OF_DOUBTFUL}""", DOUBTFUL.version_id),
    RowTampering("the_span_of_a_chunk", f"UPDATE chunks SET span_end = span_end - 1 {OF_DOUBTFUL}", DOUBTFUL.version_id),
    RowTampering(
        "the_vectors_of_a_publication", f"UPDATE publications SET vectors = 'other' WHERE chunk_id = '{CHUNK}'", PUMPS.doc_id
    ),
    RowTampering(
        "a_publication_asked_for_by_nobody",
        "INSERT INTO publications (chunk_id, collection, doc_id, version_id, state, vectors, model, changed_at, run_id) "
        f"SELECT '{DOUBTFUL.chunks[0].chunk_id}', collection, '{DOUBTFUL.doc_id}', '{DOUBTFUL.version_id}', 'pending', vectors, "
        f"model, changed_at, run_id FROM publications WHERE chunk_id = '{CHUNK}'",
        DOUBTFUL.doc_id,
    ),
    RowTampering("the_root_of_a_seal", "UPDATE seals SET root = 'another'", "run-1"),
    RowTampering("the_state_of_a_run", f"UPDATE runs SET state = 'failed' WHERE run_id = '{key('runs.run_id')}'", key("runs.run_id")),
    RowTampering(
        "the_validator_of_a_document",
        f"UPDATE validators SET validator = 'unchanged' WHERE doc_id = '{key('validators.doc_id')}'",
        key("validators.doc_id"),
    ),
    RowTampering("the_campaign_of_a_band", "UPDATE campaigns SET campaign = 'none' WHERE band = 1", "1"),
    RowTampering(
        "the_evidence_of_a_purge",
        f"UPDATE purges SET evidence = '{{}}' WHERE purge_id = '{key('purges.purge_id')}'",
        key("purges.purge_id"),
    ),
    RowTampering(
        "a_report_that_is_closed",
        f"UPDATE reports SET state = 'not_poisoning' WHERE report_id = '{key('reports.report_id')}'",
        key("reports.report_id"),
    ),
    RowTampering(
        "the_weight_of_a_filing",
        f"UPDATE filings SET counted = 0 WHERE filing_id = '{key('filings.filing_id')}'",
        key("filings.filing_id"),
    ),
    RowTampering(
        "the_outcome_of_a_trace",
        f"UPDATE traces SET outcome = 'undecided' WHERE trace_id = '{key('traces.trace_id')}'",
        key("traces.trace_id"),
    ),
    RowTampering(
        "a_text_that_was_accused",
        f"UPDATE suspects SET label = 'benign' WHERE trace_id = '{key('suspects.trace_id')}'",
        key("suspects.trace_id"),
    ),
    RowTampering(
        "the_answer_of_an_enhancement",
        f"UPDATE enhancements SET text = 'call me' WHERE enhancement_id = '{key('enhancements.enhancement_id')}'",
        key("enhancements.enhancement_id"),
    ),
    RowTampering(
        "a_question_of_the_bank",
        f"UPDATE queries SET text = 'another' WHERE query_id = '{key('queries.query_id')}'",
        key("queries.query_id"),
    ),
)  # fmt: skip
