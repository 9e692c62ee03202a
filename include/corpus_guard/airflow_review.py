"""What the review's Airflow tasks call: what waits after a refresh, what waits too long, and who is told.

Messages go out through Airflow's notifiers, by connection; where a connection is not there, that road is not taken:

``corpus_guard_mail``
    e-mail (`SmtpNotifier`): host, port, login, password; extra ``{"from_email": …, "to": "a@example.org, b@example.org"}``.
``corpus_guard_slack``
    an incoming webhook of Slack, or of what understands the same (Mattermost, Rocket.Chat): the password is its whole address. The
    Slack provider of Airflow is not needed.

A message holds counts, names of sources and of checks, and a link. It holds no text of a document, so that nobody mails an attack.
"""

from __future__ import annotations

import html
import logging
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from corpus_guard.airflow_tasks import note
from corpus_guard.errors import Infrastructure, Misuse

log = logging.getLogger(__name__)

MAIL = "corpus_guard_mail"
SLACK = "corpus_guard_slack"
SEEN = "Seen"
ESCALATE = "Escalate them all"
LINKED_RUNS = 1  # more runs than this in one task: the link leads to the whole queue
SECONDS = 10  # a webhook's answer


def summarise_waiting() -> dict[str, Any]:
    """What waits of the refresh runs that led to this one, or in all where none did; empty where nothing waits. People are told."""
    from corpus_guard.guard import Guard
    from corpus_guard.review.notices import waits

    runs = _source_runs()
    with Guard() as guard:
        found = waits(guard.ledger, runs)
    note(found.sentence)
    if not found.items:
        return {}
    link = page_link(runs[0] if len(runs) == LINKED_RUNS else "")
    try:
        tell(found.sentence, f"{found.sentence}.", link)
    except Infrastructure as error:
        log.warning("%s; the task that waits says the same", error)  # the gate opens all the same
    return {**found.as_dict(), "runs": runs, "link": link}


def take_answer(summary: Mapping[str, Any], answer: Mapping[str, Any] | None) -> int:
    """Do what was answered, in the name of who answered; how many items were escalated.

    Raises:
        Misuse: nobody answered, or none of the options.
    """
    from corpus_guard.guard import Guard
    from corpus_guard.review.notices import escalate_run
    from corpus_guard.review.reviewer import Reviewer

    chosen = list((answer or {}).get("chosen_options") or ())
    who = (answer or {}).get("responded_by_user") or {}
    if chosen not in ([SEEN], [ESCALATE]) or not who.get("id"):
        raise Misuse("nobody answered; what waits stays in quarantine")
    if chosen == [SEEN]:
        return 0
    by = Reviewer(str(who["id"]), str(who.get("name") or who["id"]), "Airflow required action")
    with Guard() as guard:
        count = escalate_run(
            guard.ledger,
            guard.policy.review,
            summary["runs"],
            reviewer=by,
            reason="answered in Airflow: escalate them all",
            policy_digest=guard.screening.digest,
        )
    note(f"{count:,} escalated by {by.name}")
    return count


def expire_waiting() -> int:
    """Escalate and mark what waits longer than the policy allows; how many are new."""
    from corpus_guard.guard import Guard
    from corpus_guard.review.undoing import expire

    with Guard() as guard:
        return expire(guard.ledger, guard.policy.review, policy_digest=guard.screening.digest)


def tell_overdue() -> int:
    """Tell whoever is to be told what nobody decided in time; how many items that are. 0: nobody needs to be told.

    Raises:
        Infrastructure: a message could not be sent; it is tried again.
    """
    from corpus_guard.guard import Guard
    from corpus_guard.review.notices import overdue_news, overdue_sentence, told_overdue

    with Guard() as guard:
        late = overdue_news(guard.ledger, guard.storage, guard.policy.review)
        if late is None:
            return 0
        sentence = overdue_sentence(late)
        note(sentence)
        roads = tell(sentence, f"{sentence}. Nothing is released by waiting.", page_link())
        if not roads:
            log.warning("nobody was told: neither connection %s nor %s is there", MAIL, SLACK)
        told_overdue(guard.storage, late)
    return int(late["items"])


def page_link(run_id: str = "") -> str:
    """Address of the queue in Airflow's UI."""
    from airflow.sdk.configuration import conf

    from corpus_guard.web.plugin import deep_link

    base = conf.get("api", "base_url", fallback="").rstrip("/")
    return f"{base}/{deep_link('?run_id=' + quote(run_id, safe='') if run_id else '')}"


def tell(subject: str, text: str, link: str) -> list[str]:
    """Send a message by every connection that is there; their names.

    Raises:
        Infrastructure: one could not be sent; the others were tried.
    """
    roads = {MAIL: _mail, SLACK: _webhook}
    sent, failed = [], []
    for name, make in roads.items():
        connection = _connection(name)
        if connection is None:
            continue
        try:
            # Called past its templates: what it says is said as it is, not rendered.
            make(connection, subject, text, link).notify({})
        except Misuse:
            raise
        except Exception as error:  # an address with a token in it may stand in the exception's text
            failed.append(f"{name} ({type(error).__name__})")
        else:
            sent.append(name)
    if failed:
        raise Infrastructure(f"connection {', '.join(failed)}: the message could not be sent; see that it answers")
    log.info("told by %s: %s", ", ".join(sent) or "nobody", subject)
    return sent


def _mail(connection: Any, subject: str, text: str, link: str) -> Any:
    from airflow.providers.smtp.notifications.smtp import SmtpNotifier

    to = str(connection.extra_dejson.get("to", ""))
    if not to.strip():
        raise Misuse(f'connection {MAIL}: its extra names nobody; add "to": "reviewers@example.org"')
    address = html.escape(link, quote=True)
    return SmtpNotifier(
        to=[one.strip() for one in to.split(",") if one.strip()],
        subject=f"Corpus Guard: {subject}",
        html_content=f'<p>{html.escape(text)}</p><p><a href="{address}">{address}</a></p>',
        smtp_conn_id=MAIL,
    )


def _webhook(connection: Any, subject: str, text: str, link: str) -> Any:
    import httpx
    from airflow.sdk import BaseNotifier

    url = str(connection.password or "")
    parts = urlsplit(url)
    loopback = parts.hostname in {"127.0.0.1", "localhost", "::1"}
    if not parts.hostname or (parts.scheme != "https" and not (parts.scheme == "http" and loopback)):
        raise Misuse(f"connection {SLACK}: its password is no https:// address; put the webhook's there")

    class WebhookNotifier(BaseNotifier):
        """A message to an incoming webhook."""

        def notify(self, context: Any) -> None:
            """Post it."""
            said = html.escape(f"{text} {link}", quote=False)  # Slack asks for these three, &, < and >
            httpx.post(url, json={"text": f"Corpus Guard: {said}"}, timeout=SECONDS).raise_for_status()

    return WebhookNotifier()


def _connection(name: str) -> Any:
    from airflow.sdk import Connection
    from airflow.sdk.exceptions import AirflowNotFoundException, AirflowRuntimeError

    try:
        return Connection.get(name)
    except (AirflowNotFoundException, AirflowRuntimeError):
        return None


def _source_runs() -> list[str]:
    """Run ids, as the ledger knows them, of the refreshes whose asset events started this run; several may have come together."""
    from airflow.sdk import get_current_context

    found = get_current_context().get("triggering_asset_events") or {}
    runs = [
        f"{event.source_dag_id}/{event.source_run_id}"
        for events in found.values()
        for event in events
        if event.source_dag_id and event.source_run_id
    ]
    return list(dict.fromkeys(runs))
