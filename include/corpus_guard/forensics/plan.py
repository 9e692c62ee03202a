"""A case's plan: steps that are proposed, approved by a person one by one, and then done, in a fixed order.

Rules
    * a step is proposed with the names of everything it touches; nothing runs that no person approved, and a step runs as
      it was approved, whatever the plan would propose by now;
    * versions of equal content are one, and a document of a trusted or reviewed source is a step of its own;
    * each step calls what a person could call by hand: withdrawal, purge, reopening, asking again, a dry run of a
      rescreening. None of them is done in another way here;
    * killed anywhere, the same call continues: each step converges by itself, and its result is an event;
    * one step that fails stops the run: later steps rely on it. The next run begins with it;
    * hardening changes no policy: it tries a stricter setting and reports what else it would hold back.

Not done here: sending a message. The notice is written with the case file, and a person sends it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

import sqlalchemy as sa

from corpus_guard.batches import Storage
from corpus_guard.corpus.store import Store
from corpus_guard.domain import EMPTY_TEXT_SHA256, Progress, TrustLevel, Verdict, no_progress
from corpus_guard.errors import Misuse, SettingsError, Stale
from corpus_guard.forensics.cases import Approval, Case, CaseStep, Member, MemberKind, StepKind, record_result
from corpus_guard.forensics.re_embedding import re_embed
from corpus_guard.forensics.retrieved import case_subjects
from corpus_guard.forensics.road import Road, find_road_siblings
from corpus_guard.forensics.scope import AccusedVersion, Scope, scope_of
from corpus_guard.intake.blobs import BlobStore
from corpus_guard.intake.sources import Sources
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.queries import select_in_batches
from corpus_guard.ledger.states import PurgeState, Purpose, TraceOutcome, VersionState
from corpus_guard.ledger.tables import documents, purges, traces, versions
from corpus_guard.models import Models
from corpus_guard.pipeline.rescreen import rescreen
from corpus_guard.proof.sealing import seal_corpus
from corpus_guard.removal.purge import Purger
from corpus_guard.removal.purge_plan import PurgeSelectors, plan_purge
from corpus_guard.removal.purge_targets import versions_with_equal_content
from corpus_guard.review.queue import load_findings
from corpus_guard.review.reopening import CompletedGroup, reopen
from corpus_guard.screening.policy import Policy
from corpus_guard.screening.runner import Screening
from corpus_guard.settings import Settings
from corpus_guard.traceback.judge_selection import create_rag_model
from corpus_guard.traceback.live_corpus import LiveCorpus
from corpus_guard.traceback.withdrawal_plan import ask_again, withdraw, withdrawal_of_versions

STEP_TITLES: Final[Mapping[StepKind, str]] = {
    StepKind.WITHDRAW: "Take out of service and block",
    StepKind.PURGE: "Erase for good and prove it",
    StepKind.RE_EMBED: "Compute the vectors again",
    StepKind.REOPEN: "Review what came the same way",
    StepKind.ASK_AGAIN: "Ask the reported questions again",
    StepKind.NOTIFY: "Notify the affected sessions",
    StepKind.HARDEN: "Try a stricter setting",
}
SCORE_OF_A_GROUP: Final = 0.5  # of the finding that reopens a document: it came the same way, nothing more is known
SAYING: Final = frozenset({Road.CLAIM, Road.WORDING})
"""Roads that are enough to bring a document before a person: it says what an accused text says."""
MIN_ROADS: Final = 2  # of run, author and day
MAX_REOPENED: Final = 500  # documents that one step proposes
MAX_MOVED: Final = 50  # documents that the result of a dry run names


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A step of the plan, with what a person needs to answer for it."""

    step: CaseStep
    state: str  # proposed, approved, done
    names: Mapping[str, str]  # subject → what a person calls it: source and URI, or a setting; hostile text
    note: str  # what it does, and what it does not
    approval: Approval | None = None

    @property
    def title(self) -> str:
        """Effect of the step, in a few words."""
        return STEP_TITLES[self.step.kind]

    def as_dict(self) -> dict[str, object]:
        """Return the step JSON-ready."""
        approval = self.approval
        return {
            "step_id": self.step.step_id,
            "kind": self.step.kind.value,
            "title": self.title,
            "state": self.state,
            "subjects": list(self.step.subjects),
            "values": dict(self.step.values),
            "names": dict(self.names),
            "note": self.note,
            "approved_by": approval.by if approval else None,
            "reason": approval.reason if approval else None,
            "result": dict(approval.result) if approval and approval.result is not None else None,
        }


def plan_case(ledger: Ledger, policy: Policy, case: Case, scope: Scope) -> list[PlannedStep]:
    """Return the steps of a case in the order in which they run: those approved or done, and those proposed now.

    Args:
        policy: in force; a stricter setting is proposed from it.
    """
    names = {version.version_id: version.place for version in scope.accused}
    steps = {
        approval.step.step_id: PlannedStep(
            approval.step,
            "done" if approval.done_at else "approved",
            {subject: names.get(subject, subject) for subject in approval.step.subjects},
            "",
            approval,
        )
        for approval in case.approvals
    }
    covered = {(each.step.kind, subject) for each in steps.values() for subject in each.step.subjects}
    for proposed in _proposals(ledger, policy, scope):
        uncovered = [subject for subject in proposed.step.subjects if (proposed.step.kind, subject) not in covered]
        if uncovered:
            steps[proposed.step.step_id] = replace(proposed, step=proposed.step.only(uncovered))
    order = list(StepKind)
    return sorted(steps.values(), key=lambda each: order.index(each.step.kind))


def find_step(steps: Iterable[PlannedStep], name: str) -> PlannedStep:
    """Return the step whose id begins with `name`, or the only one of that kind that waits for an approval.

    Raises:
        Misuse: no step, or more than one, is meant.
    """
    listed = list(steps)
    matches = [each for each in listed if len(name) >= 4 and each.step.step_id.startswith(name)] or [
        each for each in listed if each.step.kind.value == name and each.state == "proposed"
    ]
    if len(matches) != 1:
        raise Misuse(
            f"step {name[:64]!r}: {len(matches)} steps of the plan are meant, expected 1; `guard case plan` shows their ids"
        )
    return matches[0]


def narrow_step(ledger: Ledger, planned: PlannedStep, chosen: Collection[str]) -> CaseStep:
    """Return a step for those of its subjects that a person chose, with what has equal content.

    Args:
        chosen: names or ids of subjects; empty: all.

    Raises:
        Misuse: a name is not in the step.
    """
    if not chosen:
        return planned.step
    ids = {subject for subject, name in planned.names.items() if {subject, name, name.partition("/")[2]} & set(chosen)}
    stray = [name for name in chosen if not any(name in {s, n, n.partition("/")[2]} for s, n in planned.names.items())]
    if stray:
        raise Misuse(f"{stray[0][:200]!r} is not part of this step; `guard case plan` lists what is")
    if planned.step.kind in {StepKind.WITHDRAW, StepKind.PURGE}:
        with ledger.read() as connection:
            ids |= versions_with_equal_content(connection, ids) & set(planned.step.subjects)
    return planned.step.only(ids)


@dataclass(frozen=True)
class CaseWorker:
    """Runner of the approved steps of a case in one corpus."""

    ledger: Ledger
    storage: Storage
    blobs: BlobStore
    store: Store
    models: Models
    sources: Sources
    screening: Screening
    settings: Settings

    def run(self, case: Case, run_id: str, progress: Progress = no_progress) -> dict[str, Mapping[str, object]]:
        """Do what was approved and is not done, in the order of the steps, and seal; return the new results by step id.

        Raises:
            Stale: the case is closed.
            GuardError: a step failed; those before it are done and recorded, and the next call begins with it.
        """
        if not case.is_open:
            raise Stale(f"case {case.case_id[:8]} is closed; nothing was done")
        order = list(StepKind)
        waiting = [approval for approval in case.approvals if approval.done_at is None]
        results: dict[str, Mapping[str, object]] = {}
        try:
            for number, approval in enumerate(sorted(waiting, key=lambda each: order.index(each.step.kind))):
                progress(STEP_TITLES[approval.step.kind].lower(), number, len(waiting))
                result, members = self._do(case, approval, run_id)
                record_result(self.ledger, case.case_id, approval.step, result, run_id, members)
                results[approval.step.step_id] = result
        finally:
            if results:
                seal_corpus(self.ledger, self.storage, self.store, self.settings, run_id)
        return results

    def _do(self, case: Case, approval: Approval, run_id: str) -> tuple[dict[str, object], list[Member]]:
        """Do one step; return its result, and what the case holds from now on."""
        step = approval.step
        members: list[Member] = []
        if step.kind is StepKind.WITHDRAW:
            result, members = self._withdraw(case, approval, run_id)
        elif step.kind is StepKind.PURGE:
            result, members = self._purge(approval, run_id)
        elif step.kind is StepKind.RE_EMBED:
            embedding = re_embed(self.ledger, self.storage, self.store, self.models, step.subjects, run_id)
            result = embedding.as_dict()
        elif step.kind is StepKind.REOPEN:
            result = self._reopen(case, step, run_id)
        elif step.kind is StepKind.ASK_AGAIN:
            result = self._ask_again(case, step, run_id)
        elif step.kind is StepKind.HARDEN:
            result = self._try_setting(case, step, run_id)
        else:
            result = {"versions": len(step.subjects), "sent": False}
        return result, members

    def _withdraw(self, case: Case, approval: Approval, run_id: str) -> tuple[dict[str, object], list[Member]]:
        plan = withdrawal_of_versions(self.ledger, approval.step.subjects, scope_of(self.ledger, case).traces)
        if set(plan.versions) != set(approval.step.subjects):
            raise Stale(
                f"case {case.case_id[:8]}: more documents with this content arrived since the withdrawal was approved; nothing "
                "was changed. The plan proposes them: approve them too"
            )
        result = withdraw(
            self.ledger,
            self.storage,
            self.store,
            self.settings,
            plan,
            run_id=run_id,
            policy_digest=self.screening.digest,
            by=approval.by,
            reason=approval.reason,
        )
        return dict(result), [Member(MemberKind.WITHDRAWAL, plan.withdrawal_id)]

    def _purge(self, approval: Approval, run_id: str) -> tuple[dict[str, object], list[Member]]:
        with self.ledger.read() as connection:
            columns = sa.select(versions.c.content_sha256)
            rows = select_in_batches(connection, columns, versions.c.version_id, approval.step.subjects)
            hashes = tuple(sorted({row.content_sha256 for row in rows}))
        plan = plan_purge(self.ledger, self.storage, self.blobs, PurgeSelectors(hashes=hashes))
        if set(plan.versions) != set(approval.step.subjects):
            raise Stale(
                "more documents with this content arrived since the purge was approved; nothing was changed: approve them too"
            )
        purger = Purger(self.ledger, self.storage, self.blobs, self.store, self.screening, self.settings)
        result = purger.purge(run_id, plan, approval.by, approval.reason)
        if result["state"] != PurgeState.CLOSED:
            raise SettingsError(
                "removed, not proved: this Chroma server's files are on another machine; run `guard case run` there, or compact "
                "them there and run it again"
            )
        return dict(result), [Member(MemberKind.PURGE, plan.purge_id)]

    def _reopen(self, case: Case, step: CaseStep, run_id: str) -> dict[str, object]:
        accused = scope_of(self.ledger, case).versions
        groups = [CompletedGroup(version_id, step.subjects, SCORE_OF_A_GROUP) for version_id in accused]
        with self.ledger.write() as connection:
            count = reopen(connection, run_id, self.screening.policy, groups, case_id=case.case_id)
        return {"documents": len(step.subjects), "reopened": count}

    def _ask_again(self, case: Case, step: CaseStep, run_id: str) -> dict[str, object]:
        purged = any(each.step.kind is StepKind.PURGE for each in case.approvals)
        rag_model = create_rag_model(self.settings, self.models, self.ledger)
        corpus = LiveCorpus(self.ledger, self.store, self.models.embedder)
        after = Purpose.PURGE if purged else Purpose.WITHDRAW
        still_wrong = ask_again(self.ledger, corpus, rag_model, step.subjects, run_id, after)
        if unanswered := set(step.subjects) - set(still_wrong):
            raise Stale(f"{len(unanswered)} questions got no answer from the RAG model; run the case again")
        return {
            "asked": len(still_wrong),
            "still_wrong": sorted(trace for trace, wrong in still_wrong.items() if wrong),
        }

    def _try_setting(self, case: Case, step: CaseStep, run_id: str) -> dict[str, object]:
        policy = stricter_policy(self.screening.policy, step.values)
        scope = scope_of(self.ledger, case)
        result = rescreen(
            self.ledger,
            self.storage,
            self.store,
            self.blobs,
            self.models,
            self.sources,
            self.screening.under(policy),
            self.settings,
            run_id,
            scope.sources,
            dry_run=True,
        )
        moved = [
            each
            for each in result["moved"]
            if each["before"] == Verdict.ACCEPT and each["version_id"] not in scope.versions
        ]
        return {
            "examined": result["examined"],
            "would_hold_of_the_case": _held(self.ledger, policy, scope.accused),
            "of_the_case": len(scope.accused),
            "would_hold_of_others": len(moved),
            "others": [f"{each['source']}/{each['uri']}" for each in moved[:MAX_MOVED]],
        }


def stricter_policy(policy: Policy, values: Mapping[str, str]) -> Policy:
    """Return the policy with a proposed setting.

    Args:
        values: ``source`` with ``risk``, or ``shadow`` with the check or code that is to count.

    Raises:
        Misuse: the setting is not one that a plan proposes.
    """
    if {"source", "risk", "trust"} <= set(values):
        current = policy.threshold(TrustLevel(values["trust"]), values["source"])
        changed = current.model_copy(update={"risk": min(float(values["risk"]), current.risk)})
        return policy.model_copy(update={"sources": {**policy.sources, values["source"]: changed}})
    if "shadow" in values:
        return policy.model_copy(update={"shadow": policy.shadow - {values["shadow"]}})
    raise Misuse(f"no setting that a plan proposes: {', '.join(sorted(values)) or 'nothing'}")


def _proposals(ledger: Ledger, policy: Policy, scope: Scope) -> list[PlannedStep]:
    """Return every step that touches something, in the order in which they are done."""
    accused = {version.version_id: version.place for version in scope.accused}
    served, siblings = _served_documents(ledger, scope), _siblings(ledger, scope)
    steps = [
        *_withdrawals(scope, accused),
        _propose(
            StepKind.PURGE,
            _not_purged(ledger, scope),
            "Cannot be taken back. Afterwards near copies are no longer recognised, only equal bytes and texts: withdraw first, "
            "and purge when the case is understood.",
            accused,
        ),
        _propose(
            StepKind.RE_EMBED,
            served,
            "Every vector that is served from these sources is computed again from its stored text; one that differs is replaced.",
            served,
        ),
        _propose(
            StepKind.REOPEN,
            siblings,
            "Served, and came the same road: they say what an accused text says, or share two of run, author and day with one. "
            "They stay served until a person decides.",
            siblings,
        ),
        _propose(
            StepKind.ASK_AGAIN,
            _newest_traces(ledger, scope),
            "The RAG model answers from today's corpus; the answer is stored beside the earlier one.",
        ),
        _propose(
            StepKind.NOTIFY,
            scope.versions,
            "Lists the sessions that got one of these texts, and a text to send them, with the case file. Nothing is sent.",
            accused,
        ),
        *_stricter_settings(ledger, policy, scope),
    ]
    return [planned for planned in steps if planned.step.subjects]


def _propose(
    kind: StepKind, subjects: Iterable[str], note: str, names: Mapping[str, str] = MappingProxyType({}), **values: str
) -> PlannedStep:
    listed = tuple(sorted(subjects))
    shown = {subject: names.get(subject, subject) for subject in listed}
    return PlannedStep(CaseStep(kind, listed, values), "proposed", shown, note)


def _withdrawals(scope: Scope, names: Mapping[str, str]) -> Iterator[PlannedStep]:
    """Yield one withdrawal of all open documents, then one for each group with a document of a trusted or reviewed source."""
    groups = [
        group
        for group in _equal_contents(scope.accused)
        if any(version.state != VersionState.REJECTED for version in group)
    ]
    open_groups = [group for group in groups if all(version.trust == TrustLevel.OPEN for version in group)]
    yield _propose(
        StepKind.WITHDRAW,
        (version.version_id for group in open_groups for version in group),
        "Rejected, blocked by the hash of bytes and text, and out of the collections. While they are kept, near copies wait in "
        "quarantine. guard trace restore takes it back.",
        names,
    )
    for group in groups:
        if group not in open_groups:
            note = "One of these sources is trusted or reviewed: read the document before you approve this."
            yield _propose(StepKind.WITHDRAW, (version.version_id for version in group), note, names)


def _stricter_settings(ledger: Ledger, policy: Policy, scope: Scope) -> Iterator[PlannedStep]:
    """Yield the settings to try: a lower risk for each source concerned, and each check on trial that had a finding."""
    remark = "by a dry run of guard rescreen. The policy file is yours to change."
    for source, trust, risk in _thresholds(policy, scope.accused):
        path = f"sources.{source}.risk"
        names = {path: f"{path}: {risk}"}
        note = f"Tries {path}: {risk} {remark}"
        yield _propose(StepKind.HARDEN, [path], note, names, source=source, trust=trust, risk=risk)
    for code in _shadowed(ledger, policy, scope):
        path = f"shadow.{code}"
        note = f"Tries to let {code} count, {remark}"
        yield _propose(StepKind.HARDEN, [path], note, {path: f"{code} counts"}, shadow=code)


def _equal_contents(accused: Sequence[AccusedVersion]) -> list[tuple[AccusedVersion, ...]]:
    """Return the versions in groups of equal bytes or texts: they leave together, or not at all."""
    groups: list[list[AccusedVersion]] = []
    for version in accused:
        hashes = {version.content_sha256, version.text_sha256} - {EMPTY_TEXT_SHA256}
        same = [group for group in groups if any(hashes & {each.content_sha256, each.text_sha256} for each in group)]
        groups = [group for group in groups if group not in same]
        groups.append([version, *(each for group in same for each in group)])
    return [tuple(sorted(group, key=lambda each: each.version_id)) for group in groups]


def _not_purged(ledger: Ledger, scope: Scope) -> list[str]:
    closed = {
        version_id
        for row in ledger.rows(sa.select(purges.c.versions).where(purges.c.state == PurgeState.CLOSED))
        for version_id in row.versions
    }
    return [version_id for version_id in scope.versions if version_id not in closed]


def _served_documents(ledger: Ledger, scope: Scope) -> dict[str, str]:
    """Return the served documents of the sources, but those accused: id → source and URI."""
    statement = sa.select(documents.c.doc_id, documents.c.source, documents.c.uri).where(
        documents.c.source.in_(scope.sources),
        documents.c.target_version.is_not(None),
        documents.c.target_version.not_in(scope.versions),
    )
    return {row.doc_id: f"{row.source}/{row.uri}" for row in ledger.rows(statement)}


def _siblings(ledger: Ledger, scope: Scope) -> dict[str, str]:
    """Return served documents that came the same road as the accused texts, by what they say or by two other signs."""
    subjects = case_subjects(scope)
    if not subjects:
        return {}
    siblings = find_road_siblings(ledger, *subjects, listed=MAX_REOPENED).siblings
    return {
        sibling.doc_id: f"{sibling.source}/{sibling.uri}"
        for sibling in siblings
        if sibling.served and (SAYING & set(sibling.roads) or len(sibling.roads) >= MIN_ROADS)
    }


def _newest_traces(ledger: Ledger, scope: Scope) -> list[str]:
    columns = sa.select(traces.c.trace_id, traces.c.report_id, traces.c.finished_at).where(
        traces.c.outcome == TraceOutcome.TRACED
    )
    with ledger.read() as connection:
        rows = list(select_in_batches(connection, columns, traces.c.trace_id, scope.traces))
    newest = {row.report_id: row.trace_id for row in sorted(rows, key=lambda row: row.finished_at)}
    return sorted(newest.values())


def _thresholds(policy: Policy, accused: Iterable[AccusedVersion]) -> list[tuple[str, str, str]]:
    """Return the risk for each source from which all of its accepted accused versions with a finding would wait."""
    lowest: dict[tuple[str, str], float] = {}
    for version in accused:
        if 0 < version.risk < policy.threshold(TrustLevel(version.trust), version.source).risk:
            key = (version.source, version.trust)
            lowest[key] = min(lowest.get(key, 1.0), version.risk)
    return [(source, trust, f"{risk:.4g}") for (source, trust), risk in sorted(lowest.items())]


def _shadowed(ledger: Ledger, policy: Policy, scope: Scope) -> list[str]:
    """Return the checks and codes on trial that had a finding in an accused version."""
    if not policy.shadow:
        return []
    with ledger.read() as connection:
        findings = load_findings(connection, scope.versions)
    names = {name for each in findings.values() for finding in each for name in (finding.check, finding.code)}
    return sorted(names & policy.shadow)


def _held(ledger: Ledger, policy: Policy, accused: Sequence[AccusedVersion]) -> int:
    """Return how many accused versions the policy would hold back, by their recorded findings."""
    with ledger.read() as connection:
        findings = load_findings(connection, [version.version_id for version in accused])
    return sum(
        policy.verdict(TrustLevel(version.trust), findings[version.version_id], version.source) is not Verdict.ACCEPT
        for version in accused
    )
