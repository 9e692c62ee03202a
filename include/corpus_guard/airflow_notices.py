"""Who is told what: messages by connection, a run that failed, a refresh that is late.

Messages go out through Airflow's notifiers, by connection; where a connection is not there, that road is not taken:

``corpus_guard_mail``
    e-mail (`SmtpNotifier`): host, port, login, password; extra ``{"from_email": …, "to": "a@example.org, b@example.org"}``.
``corpus_guard_slack``
    an incoming webhook of Slack, or of what understands the same (Mattermost, Rocket.Chat): the password is its whole address. The
    Slack provider of Airflow is not needed.

Rules
    * a message holds names of DAGs, tasks, sources and checks, counts and a link; never a text of a document, a place or the text of an
      exception: nobody mails an attack, and nobody mails a password that stood in an address;
    * what comes from whoever triggered a run (its id) is shown with its invisible characters in brackets, cut, and quoted in links;
    * telling never fails what it tells of.
"""

from __future__ import annotations

import html
import logging
import sys
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote, urlsplit

from corpus_guard._unseen import in_brackets
from corpus_guard.errors import GuardError, Infrastructure, Misuse

log = logging.getLogger(__name__)

MAIL = "corpus_guard_mail"
SLACK = "corpus_guard_slack"
SECONDS = 10  # a webhook's answer
SHOWN = 120  # characters of a name that somebody else chose
REASONS = {
    "task_failure": "a task failed",
    "timed_out": "it took longer than a run may",
    "all_tasks_deadlocked": "its tasks wait for each other",
}


def shared(**changes: Any) -> dict[str, Any]:
    """What every DAG here has in common, as arguments of ``@dag``."""
    task = {"owner": "corpus-guard", "retries": 2, "retry_delay": timedelta(seconds=30)}
    return {"catchup": False, "default_args": task, "on_failure_callback": tell_failure, **changes}


def late_after(hours: float) -> Any:
    """The deadline of a run, counted from when it was queued; people are told once when it passes (`tell_late`). 0: none.

    The scheduler looks, and a worker of the executor calls: where no scheduler runs, nobody is told. ``airflow dags test`` gets none: on
    Airflow 3.3.2 it ends in a traceback after a run with a deadline succeeded (https://github.com/apache/airflow/issues/73428).
    """
    from airflow.sdk import DeadlineAlert, DeadlineReference, SyncCallback  # type: ignore[attr-defined] # not in its stub

    if not hours or sys.argv[1:3] == ["dags", "test"]:
        return None
    return DeadlineAlert(
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=timedelta(hours=hours),
        callback=SyncCallback(tell_late, kwargs={"hours": hours}),
        name=f"not done within {hours:g} hours",
    )


def tell_failure(context: Mapping[str, Any]) -> None:
    """``on_failure_callback`` of every DAG: one message a run, however many of its tasks failed. Runs in the DAG processor."""
    dag, run = context["dag"].dag_id, str(context["run_id"])
    reason = str(context.get("reason") or "")
    task = context.get("task_instance")
    which = f", the last one {_shown(task.task_id)}" if task is not None and reason == "task_failure" else ""
    subject = f"{_shown(dag)} failed"
    text = (
        f"{subject}: {REASONS.get(reason, _shown(reason) or 'no reason was given')}{which}; run {_shown(run)}. "
        f'What to do stands under "When it fails" in the documentation of the DAG.'
    )
    _tell_safely(subject, text, run_link(dag, run))


def tell_late(context: Mapping[str, Any], hours: float) -> None:
    """Called when a run is not done in time; `context` is what Airflow 3.3 gives a deadline's callback: the run as JSON."""
    run = context["dag_run"]
    dag, run_id = str(run["dag_id"]), str(run["dag_run_id"])
    since = str(run.get("queued_at") or run.get("run_after") or "")
    begun = datetime.fromisoformat(since).strftime(", queued %Y-%m-%d %H:%M UTC") if since else ""
    subject = f"{_shown(dag)} is late"
    text = (
        f"{subject}: not done {hours:g} hours after it was queued; run {_shown(run_id)}, {_shown(str(run.get('state')))}{begun}. "
        "Readers are served what was sealed before."
    )
    _tell_safely(subject, text, run_link(dag, run_id))


def run_link(dag: str, run: str) -> str:
    """Address of a run in Airflow's UI."""
    return f"{base_url()}/dags/{quote(dag, safe='')}/runs/{quote(run, safe='')}"


def base_url() -> str:
    """Address of Airflow's UI, without a slash at its end."""
    from airflow.sdk.configuration import conf

    return str(conf.get("api", "base_url", fallback="")).rstrip("/")


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


def _tell_safely(subject: str, text: str, link: str) -> None:
    try:
        roads = tell(subject, text, link)
    except GuardError as error:
        log.warning("%s; what should have been told: %s", error, text)
        return
    if not roads:
        log.warning("nobody was told, neither connection %s nor %s is there: %s", MAIL, SLACK, text)


def _shown(name: str) -> str:
    return in_brackets(name[:SHOWN], "")


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
