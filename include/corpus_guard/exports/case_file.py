"""Case file: one folder with everything about a case, which a stranger can check with the public key alone.

    case-…/
      README.txt       what is here, and how to check it
      case.json        members, plan, root cause, exposure, timeline
      report.html      the same for people, with pictures
      incident.ocsf.json, findings.sarif, bundle.stix.json
      notify/          affected sessions, and a text to send them
      proof/           the whole event log, its signed head, the manifest of the newest seal, and the public keys

Rules
    * the hash of every file but those of the proof is an event of the log, which the exported head signs
      (`corpus_guard.exports.case_check`): what is in the folder is what was written, and when;
    * no text of a document, no question and no answer is in it: a sentence that carries an accusation is named by its
      place in the text, with what asking again without it showed. Names of sources, documents, people and sessions are;
    * written completely or not at all, into a folder that does not exist yet.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from corpus_guard.batches import Storage
from corpus_guard.corpus.retrieval_log import key_in_use
from corpus_guard.domain import sha256_bytes
from corpus_guard.errors import Misuse
from corpus_guard.exports import ocsf, sarif, stix
from corpus_guard.exports.findings import dump_json, export_findings
from corpus_guard.exports.html import case_page
from corpus_guard.forensics.cases import Case, CaseEvent
from corpus_guard.forensics.exposure import Exposure
from corpus_guard.forensics.map import CorpusMap, corpus_map, policy_thresholds, risk_histogram
from corpus_guard.forensics.plan import plan_case
from corpus_guard.forensics.retrieved import case_exposure, retrieval_lines
from corpus_guard.forensics.root_cause import root_cause
from corpus_guard.forensics.scope import scope_of
from corpus_guard.forensics.timeline import case_timeline
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.event_log import append_event
from corpus_guard.ledger.ledger import now
from corpus_guard.proof.log.heads import sign_head
from corpus_guard.proof.proving import export_proofs
from corpus_guard.screening.policy import Policy
from corpus_guard.settings import Settings
from corpus_guard.traceback.records import list_carriers

PROOF: Final = "proof"
"""Folder of the exported log."""
CASE_JSON: Final = "case.json"
MAX_SESSIONS: Final = 10_000
MAX_VERSIONS: Final = 900  # whose findings are exported: databases limit what a statement names

README: Final = """Case file of Corpus Guard

Case {case_id}, written {written_at} UTC.

report.html opens in any browser, without a network. case.json holds the same for programs.

To check that nothing here was changed, get the public key of the log from its operator (not from this folder), then:

    guard case check FOLDER --key KEYFILE

It needs no ledger, no database and no network. It checks the signature, the whole event log, the hash of every file
here, and that each line of the timeline that names an event is that event.

proof/ can be checked by itself: guard check-proof FOLDER/proof --key KEYFILE
"""
MESSAGE: Final = """Subject: An answer that you got may rest on a text that was removed

{when}, the assistant may have given you answers that rest on {documents} which we have removed from its
knowledge base, because we found that {they} misleading.

If you acted on such an answer, please check it again. To ask what it was about, reply to this message and name case
{short_id}.

(A text to edit before it is sent. {sessions}. Names of sessions are in sessions.jsonl. Corpus Guard sends nothing.)
"""


def export_case(
    ledger: Ledger, storage: Storage, settings: Settings, policy: Policy, case: Case, folder: Path, by: str
) -> int:
    """Write the file of a case, log the hash of each part, sign the log, and export it beside them.

    Args:
        folder: must not exist, or be empty.

    Returns:
        Number of files, without those of the proof.

    Raises:
        Misuse: the folder holds something, or nothing was sealed yet.
        Inconsistent: an event is missing or was changed.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Misuse(f"{folder} exists and is not empty; nothing was written. Give a new folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    sign_head(ledger, settings)
    written_at = now()
    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        hashes: dict[str, str] = {}
        for name, content in _files(ledger, storage, settings, policy, case, written_at):
            path = draft / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
            hashes[name] = sha256_bytes(content)
        with ledger.write() as connection:
            append_event(connection, CaseEvent.EXPORTED, case.case_id, "", files=hashes, by=by)
        sign_head(ledger, settings)
        export_proofs(ledger, storage, settings, draft / PROOF)
        draft.chmod(0o755)
        if folder.exists():
            folder.rmdir()
        draft.rename(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return len(hashes)


def _files(
    ledger: Ledger, storage: Storage, settings: Settings, policy: Policy, case: Case, written_at: datetime
) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a case, by name."""
    scope = scope_of(ledger, case)
    cause = root_cause(ledger, policy, scope)
    exposure = case_exposure(ledger, scope, listed=MAX_SESSIONS, key=key_in_use(settings))
    timeline = case_timeline(ledger, case, scope, retrieval_lines(exposure))
    steps = plan_case(ledger, policy, case, scope)
    content = {
        **case.as_dict(),
        "written_at": written_at.isoformat(),
        "accused": [
            {"version_id": each.version_id, "place": each.place, "state": each.state} for each in scope.accused
        ],
        "carrying_sentences": list_carriers(ledger, scope.traces),
        "root_cause": cause.as_dict(),
        "exposure": _without_texts(exposure),
        "plan": [step.as_dict() for step in steps],
        "timeline": [line.as_dict() for line in timeline],
    }
    histogram = risk_histogram(ledger, policy_thresholds(policy))
    drawn = _drawn(ledger, storage, settings, scope.versions)
    page = case_page(case, cause, timeline, steps, exposure, drawn, histogram, written_at)
    findings = export_findings(ledger, version_ids=scope.versions[:MAX_VERSIONS])
    served = sum(each.admitted.startswith(("accepted", "released")) for each in cause.versions)
    yield CASE_JSON, _encoded(dump_json(content))
    yield "report.html", _encoded(page)
    yield "incident.ocsf.json", _encoded(dump_json(ocsf.format_case(case, scope, cause, written_at)))
    yield "findings.sarif", _encoded("".join(sarif.format_log(findings)))
    yield "bundle.stix.json", _encoded(dump_json(stix.format_bundle(case, scope, cause, written_at)))
    yield "notify/sessions.jsonl", _encoded("".join(f"{line}\n" for line in _sessions(exposure)))
    yield "notify/message.txt", _encoded(_message(case, served, exposure))
    readme = README.format(case_id=case.case_id, written_at=f"{written_at:%Y-%m-%d %H:%M}")
    yield "README.txt", _encoded(readme)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


def _drawn(ledger: Ledger, storage: Storage, settings: Settings, accused: tuple[str, ...]) -> CorpusMap | None:
    """Return the map; None where too little is served for one."""
    try:
        return corpus_map(ledger, storage, settings.map_cache, accused)
    except Misuse:
        return None


def _without_texts(exposure: Exposure | None) -> Mapping[str, Any] | None:
    """Return an exposure with counts, ids and names, without questions, answers and reported texts."""
    if exposure is None:
        return None
    whole = exposure.as_dict()
    answers = None if exposure.answers is None else len(exposure.answers)
    questions = [{key: value for key, value in each.items() if key != "text"} for each in whole["questions"]]
    reports = [
        {key: value for key, value in each.items() if key not in {"query", "output"}} for each in whole["reports"]
    ]
    return {**whole, "answers": answers, "questions": questions, "reports": reports}


def _sessions(exposure: Exposure | None) -> Iterator[str]:
    for kind, parties in (("session", exposure.sessions), ("user", exposure.users)) if exposure else ():
        for party in parties:
            yield dump_json(
                {
                    kind: party.name,
                    "retrievals": party.retrievals,
                    "shown": party.shown,
                    "first": party.first.isoformat(),
                    "last": party.last.isoformat(),
                }
            )


def _message(case: Case, served: int, exposure: Exposure | None) -> str:
    reach = exposure.retrieved if exposure else None
    when = "In the past"
    if exposure and reach and reach.first and reach.last:
        begin = "Until" if exposure.predates_log else f"Between {reach.first:%Y-%m-%d %H:%M} and"
        when = f"{begin} {reach.last:%Y-%m-%d %H:%M} UTC"
    sessions = reach.sessions if reach else None
    return MESSAGE.format(
        when=when,
        documents="a document" if served == 1 else f"{served} documents",
        they="it is" if served == 1 else "they are",
        short_id=case.case_id[:8],
        sessions=f"{sessions:,} sessions are known"
        if sessions
        else "The retrieval log names no session: who is affected is not known",
    )
