"""Notifications of people: a run failed, a refresh is late, items wait for review.

Messages go out through Airflow's notifiers, by connection. A connection that does not exist is skipped:

``corpus_guard_mail``
    e-mail (`SmtpNotifier`): host, port, login, password; extra ``{"from_email": …, "to": "a@example.org, b@example.org"}``.
``corpus_guard_slack``
    an incoming webhook of Slack, Mattermost or Rocket.Chat: the password is the webhook's whole address. Airflow's Slack provider is
    not needed.

Rules
    * a message holds names of DAGs, tasks, sources and checks, counts and a link; never the text or path of a document, never the text of
      an exception: an attack must not be mailed, nor a password that was part of an address;
    * names chosen by whoever triggered a run (its id) are shortened, with invisible characters shown, and quoted in links;
    * a notification that cannot be sent never fails the task it reports on.
"""

from __future__ import annotations

import html
import logging
import sys
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from corpus_guard.airflow.context import find_connection, refuse_unknown_parameters
from corpus_guard.errors import GuardError, Infrastructure, Misuse
from corpus_guard.invisible import reveal_invisible

if TYPE_CHECKING:
    from airflow.sdk import BaseNotifier, Connection

log = logging.getLogger(__name__)

MAIL_CONNECTION = "corpus_guard_mail"
SLACK_CONNECTION = "corpus_guard_slack"
WEBHOOK_TIMEOUT = 10  # seconds
MAX_NAME = 120  # characters of a name that somebody else chose
FAILURE_REASONS = {
    "task_failure": "a task failed",
    "timed_out": "the run took longer than its limit",
    "all_tasks_deadlocked": "its tasks wait for each other",
}


def dag_defaults(**overrides: Any) -> dict[str, Any]:
    """Return the arguments of ``@dag`` that all DAGs here share."""
    task_defaults = {
        "owner": "corpus-guard",
        "retries": 2,
        "retry_delay": timedelta(seconds=30),
        "pre_execute": refuse_unknown_parameters,
    }
    return {"catchup": False, "default_args": task_defaults, "on_failure_callback": notify_failure, **overrides}


def run_deadline(hours: float) -> Any:
    """Return a deadline (Airflow's `DeadlineAlert`) for a run, counted from when it was queued; `notify_late` is called once. 0: None.

    It needs a running scheduler. ``airflow dags test`` gets None: on Airflow 3.3.2 it crashes after a run with a deadline succeeded
    (https://github.com/apache/airflow/issues/73428).
    """
    from airflow.sdk import DeadlineAlert, DeadlineReference, SyncCallback  # type: ignore[attr-defined] # not in its stub

    if not hours or sys.argv[1:3] == ["dags", "test"]:
        return None
    return DeadlineAlert(
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=timedelta(hours=hours),
        callback=SyncCallback(notify_late, kwargs={"hours": hours}),
        name=f"not done within {hours:g} hours",
    )


def notify_failure(context: Mapping[str, Any]) -> None:
    """Send one message for a failed run (``on_failure_callback`` of every DAG). Runs in the DAG processor."""
    dag_id, run_id = context["dag"].dag_id, str(context["run_id"])
    reason = str(context.get("reason") or "")
    task = context.get("task_instance")
    last_task = f", the last one {_display_name(task.task_id)}" if task and reason == "task_failure" else ""
    subject = f"{_display_name(dag_id)} failed"
    text = (
        f"{subject}: {FAILURE_REASONS.get(reason, _display_name(reason) or 'no reason was given')}{last_task}; "
        f'run {_display_name(run_id)}. See "When it fails" in the documentation of the DAG.'
    )
    _notify_or_log(subject, text, run_link(dag_id, run_id))


def notify_late(context: Mapping[str, Any], hours: float) -> None:
    """Send one message for a run that missed its deadline; `context` holds the run as JSON, as Airflow 3.3 passes it."""
    run = context["dag_run"]
    dag_id, run_id = str(run["dag_id"]), str(run["dag_run_id"])
    queued_at = str(run.get("queued_at") or run.get("run_after") or "")
    queued = datetime.fromisoformat(queued_at).strftime(", queued %Y-%m-%d %H:%M UTC") if queued_at else ""
    subject = f"{_display_name(dag_id)} is late"
    text = (
        f"{subject}: not done {hours:g} hours after it was queued; run {_display_name(run_id)}, "
        f"{_display_name(str(run.get('state')))}{queued}. Readers are served the last sealed corpus."
    )
    _notify_or_log(subject, text, run_link(dag_id, run_id))


def run_link(dag_id: str, run_id: str) -> str:
    """Return the address of a run in Airflow's UI."""
    return f"{airflow_url()}/dags/{quote(dag_id, safe='')}/runs/{quote(run_id, safe='')}"


def airflow_url() -> str:
    """Return the address of Airflow's UI, without a trailing slash."""
    from airflow.sdk.configuration import conf

    return str(conf.get("api", "base_url", fallback="")).rstrip("/")


def review_pages(path: str = "") -> str:
    """Return the address of a review page inside Airflow's UI.

    Args:
        path: in the app, as `corpus_guard.airflow.plugin.deep_link` takes it.
    """
    from corpus_guard.airflow.plugin import deep_link

    return f"{airflow_url()}/{deep_link(path)}"


def notify(subject: str, text: str, link: str) -> None:
    """Send a message over every connection that exists; where none does, the log says so.

    Raises:
        Infrastructure: a message could not be sent; the other connections were tried.
        Misuse: a connection is incomplete.
    """
    notifiers = {MAIL_CONNECTION: _mail_notifier, SLACK_CONNECTION: _webhook_notifier}
    sent: list[str] = []
    failed: list[str] = []
    incomplete: list[Misuse] = []
    for name, make_notifier in notifiers.items():
        try:
            connection = find_connection(name)
            if connection is None:
                continue
            # `notify` directly: the message is sent as it is, not rendered as a template.
            make_notifier(connection, subject, text, link).notify({})
        except Misuse as error:
            incomplete.append(error)
        except Exception as error:  # the exception's text may hold an address with a token
            failed.append(f"{name} ({type(error).__name__})")
        else:
            sent.append(name)
    if incomplete:
        raise incomplete[0]
    if failed:
        raise Infrastructure(f"connection {', '.join(failed)}: the message could not be sent; check that it answers")
    if sent:
        log.info("notified over %s: %s", ", ".join(sent), subject)
    else:
        log.warning(
            "nobody was notified: add the connection %s or %s. The message was: %s",
            MAIL_CONNECTION,
            SLACK_CONNECTION,
            text,
        )


def _notify_or_log(subject: str, text: str, link: str) -> None:
    try:
        notify(subject, text, link)
    except GuardError as error:
        log.warning("%s; the message was: %s", error, text)


def _display_name(name: str) -> str:
    return reveal_invisible(name[:MAX_NAME], "")


def _mail_notifier(connection: Connection, subject: str, text: str, link: str) -> BaseNotifier:
    from airflow.providers.smtp.notifications.smtp import SmtpNotifier

    recipients = [name.strip() for name in str(connection.extra_dejson.get("to", "")).split(",") if name.strip()]
    if not recipients:
        raise Misuse(f'connection {MAIL_CONNECTION}: its extra has no recipient; add "to": "reviewers@example.org"')
    address = html.escape(link, quote=True)
    return SmtpNotifier(
        to=recipients,
        subject=f"Corpus Guard: {subject}",
        html_content=f'<p>{html.escape(text)}</p><p><a href="{address}">{address}</a></p>',
        smtp_conn_id=MAIL_CONNECTION,
    )


def _webhook_notifier(connection: Connection, subject: str, text: str, link: str) -> BaseNotifier:
    import httpx
    from airflow.sdk import BaseNotifier

    url = str(connection.password or "")
    parts = urlsplit(url)
    is_loopback = parts.hostname in {"127.0.0.1", "localhost", "::1"}
    if not parts.hostname or (parts.scheme != "https" and not (parts.scheme == "http" and is_loopback)):
        raise Misuse(
            f"connection {SLACK_CONNECTION}: its password is not an https:// address; enter the webhook's address there"
        )

    class WebhookNotifier(BaseNotifier):
        """A notifier that posts to an incoming webhook."""

        def notify(self, context: Any) -> None:
            """Post the message."""
            message = html.escape(f"{text} {link}", quote=False)  # Slack asks for &, < and > to be escaped
            payload = {"text": f"Corpus Guard: {message}"}
            httpx.post(url, json=payload, timeout=WEBHOOK_TIMEOUT).raise_for_status()

    return WebhookNotifier()
