"""Checks of who decided, and under which policy.

Rules
    * what a reviewer signed with their own key is what the event of their act says;
    * a run that judged or released worked under a policy that a configuration event names. Runs that began before the
      first such event are left out.
"""

from __future__ import annotations

import sqlalchemy as sa

from corpus_guard.ledger import Ledger
from corpus_guard.ledger.runs import CONFIGURED_EVENT
from corpus_guard.ledger.states import ACT_KINDS, RunKind
from corpus_guard.ledger.tables import events, runs
from corpus_guard.proof.deviations import DeviationKind
from corpus_guard.proof.signed_acts import KEY_AUTH, signature_problem
from corpus_guard.proof.verify.findings import DeviationCollector


def check_authority(ledger: Ledger, collector: DeviationCollector) -> None:
    """Check the signatures of reviewers and the policies of runs; deviations go to `collector`."""
    kinds = ("decided", *(f"review_{kind}" for kind in ACT_KINDS))
    signed = sa.select(events).where(events.c.kind.in_(kinds), events.c.body["auth"].as_string() == KEY_AUTH)
    configured = sa.select(events.c.at, events.c.body["policy_digest"].as_string().label("policy_digest")).where(
        events.c.kind == CONFIGURED_EVENT
    )
    judging = sa.select(runs).where(runs.c.kind.in_((RunKind.REFRESH, RunKind.RESCREEN, RunKind.RELEASE)))
    with ledger.read() as connection:
        for row in connection.execute(signed):
            if problem := signature_problem(row.kind, row.subject, row.body):
                subject = str(row.body.get("decision_id") or row.body.get("act_id"))
                message = (
                    f"decision {subject}: {problem}; ask the person whether they decided it, and who wrote this event"
                )
                collector.add(DeviationKind.BAD_SIGNATURE, subject, message)
        named = connection.execute(configured.order_by(events.c.seq)).all()
        if not named:
            return
        digests = {row.policy_digest for row in named}
        for run in connection.execute(judging.where(runs.c.started_at >= named[0].at)):
            if run.policy_digest not in digests:
                collector.add(
                    DeviationKind.LEDGER_CHANGED,
                    run.run_id,
                    f"run {run.run_id} worked under the policy {run.policy_digest[:16]}…, which no event names; find out who "
                    "started it, and with which policy.yaml (`guard configuration` lists the known ones)",
                    actual=run.policy_digest,
                )
