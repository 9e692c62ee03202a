"""The `guard` command: thin. Every command can speak JSON; every failure says what, where and what next.

Exit codes: 0 done, 1 done and something asks for attention (``--fail-on``), 2 misuse, 3 infrastructure, 4 inconsistent.
"""

from __future__ import annotations

import getpass
import json
import logging
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.panel import Panel

from corpus_guard import _console as console
from corpus_guard import errors
from corpus_guard._console import SEVERITY_STYLE, err, out, styled, visible
from corpus_guard.domain import Severity, TrustLevel, Verdict
from corpus_guard.guard import Guard

app = typer.Typer(
    name="guard",
    help="Decides which documents may enter a RAG knowledge base, and shows what is in it and why.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
quarantine_app = typer.Typer(help="What waits for a person: look at it, release it, reject it.", no_args_is_help=True)
models_app = typer.Typer(help="The embedder and the language model.", no_args_is_help=True)
app.add_typer(quarantine_app, name="quarantine")
app.add_typer(models_app, name="models")

Json = Annotated[bool, typer.Option("--json", help="Machine-readable output on standard output.")]
Source = Annotated[
    list[str] | None, typer.Option("--source", "-s", help="Only this source; may be given several times.")
]
ItemName = Annotated[str, typer.Argument(help="The item's id, or the beginning of it.", metavar="ITEM")]
Reason = Annotated[str, typer.Option("--reason", "-r", help="Why; kept with the decision.")]
Reviewer = Annotated[
    str, typer.Option(help="Who decides.", default_factory=getpass.getuser, show_default="your login name")
]
Apply = Annotated[bool, typer.Option(help="Let it take effect now; otherwise the DAG quarantine_release does.")]


class FailOn(StrEnum):
    """From which verdict on `guard screen` exits with 1."""

    NEVER = "never"
    QUARANTINE = "quarantine"
    REJECT = "reject"


@app.command()
def refresh(source: Source = None, as_json: Json = False) -> None:
    """Pull every source, screen what changed, publish what was accepted, seal.

    The same steps as the DAG `corpus_refresh`, without Airflow. Killed or run twice, it converges.

    Example: `guard refresh --source handbook`
    """
    from corpus_guard.refresh.run import refresh as run

    with Guard() as guard, console.progress(not as_json) as progress:
        sealed = run(guard, _run_id("refresh"), source or (), progress)
    if as_json:
        _print_json(sealed)
        return
    out.print(_counts(sealed))
    if (
        sealed["published"]
        == sealed["retired"]
        == sealed["accepted"]
        == sealed["quarantined"]
        == sealed["rejected"]
        == 0
    ):
        out.print(f"Nothing changed: {sealed['unchanged']} documents have the bytes they had.")
    if sealed["quarantined"]:
        out.print("What waits for you: [bold]guard quarantine list[/bold]")


@app.command()
def screen(
    path: Annotated[
        Path, typer.Argument(help="A folder, a document, or a JSONL, CSV or Parquet file of rows.", metavar="INPUT")
    ],
    output: Annotated[
        Path | None, typer.Option("--out", "-o", help="JSONL, one line a document. Default: standard output.")
    ] = None,
    text_field: Annotated[str, typer.Option(help="Rows: the column with the text.")] = "text",
    id_field: Annotated[
        str, typer.Option(help="Rows: the column with the id; row numbers where it is missing.")
    ] = "id",
    trust: Annotated[TrustLevel, typer.Option(help="How far the input's source is trusted.")] = TrustLevel.OPEN,
    one_by_one: Annotated[bool, typer.Option("--one-by-one", help="No checks that look across documents.")] = False,
    fail_on: Annotated[
        FailOn, typer.Option(help="Exit with 1 when a document has this verdict or a worse one.")
    ] = FailOn.NEVER,
) -> None:
    """Screen documents without touching a store or a ledger: one verdict for every document or row, in input order.

    Example: `guard screen docs/ --out verdicts.jsonl --fail-on quarantine`
    """
    from corpus_guard.screening.standalone import screen_input
    from corpus_guard.settings import load_settings

    counts = dict.fromkeys(Verdict, 0)
    with console.progress(output is not None) as progress:
        rows = screen_input(
            load_settings(),
            path,
            text_field=text_field,
            id_field=id_field,
            trust=trust,
            one_by_one=one_by_one,
            progress=progress,
        )
        with _writing(output) as write:
            for row in rows:
                counts[row.judgement.verdict] += 1
                write(json.dumps(row.as_dict(), ensure_ascii=False))
    total = sum(counts.values())
    parts = ", ".join(f"{count} {verdict.value}" for verdict, count in counts.items())
    err.print(f"{total} documents: {parts}")
    worse = counts[Verdict.REJECT] + (counts[Verdict.QUARANTINE] if fail_on is FailOn.QUARANTINE else 0)
    if fail_on is not FailOn.NEVER and worse:
        raise typer.Exit(1)


@app.command()
def status(as_json: Json = False) -> None:
    """What is served, what waits, how the last runs ended, and which policy decides."""
    from corpus_guard.status import read_status

    with Guard() as guard:
        report = read_status(guard)
    if as_json:
        _print_json(report)
        return
    numbers = ("documents", "served", "waiting", "rejected", "chunks")
    rows = [
        (visible(row["source"]), row["trust"], *(f"{row[name]:,}" for name in numbers)) for row in report["sources"]
    ]
    out.print(console.table("Sources", ("source", "trust", *numbers), rows, right=numbers))
    rows = [
        (row["started_at"][:19], row["kind"], styled(row["state"]), _summary(row["counts"]), visible(row["run_id"]))
        for row in report["runs"]
    ]
    out.print(console.table("Last runs", ("started (UTC)", "kind", "state", "counts", "run"), rows))
    for label, key in (
        ("Policy", "policy"),
        ("Manifest", "manifest"),
        ("Ledger", "ledger"),
        ("Storage", "storage"),
        ("Chroma", "chroma"),
    ):
        out.print(f"[bold]{label:9}[/bold] {visible(str(report[key] or 'none yet'))}", soft_wrap=True)


@app.command()
def search(
    query: Annotated[str, typer.Argument(help="A question, as a user would ask it.")],
    k: Annotated[int, typer.Option("-k", min=1, max=100, help="How many chunks.")] = 5,
    trust: Annotated[
        list[TrustLevel] | None, typer.Option(help="Only this trust level; may be given several times.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Ask the collections. What the ledger does not vouch for is withheld and named.

    Example: `guard search "How often must the sensor be calibrated?"`
    """
    from corpus_guard.corpus.retriever import GuardedRetriever

    with Guard() as guard:
        answers, withheld = GuardedRetriever(guard.ledger, guard.store, guard.models.embedder).query(
            query, k, trust or tuple(TrustLevel)
        )
    if as_json:
        _print_json(
            {"answers": [_fields(answer) for answer in answers], "withheld": [_fields(record) for record in withheld]}
        )
        return
    for answer in answers:
        title = f"{answer.similarity:.3f}  {visible(answer.source)} · {visible(answer.uri)} · {answer.trust.value}"
        out.print(Panel(visible(answer.text[:600], lines=True), title=title, title_align="left", border_style="dim"))
    if not answers:
        out.print("Nothing is published yet; run [bold]guard refresh[/bold].")
    for record in withheld:
        err.print(f"[red]withheld[/red] {record.chunk_id} in {record.collection}: {record.reason}")


@quarantine_app.command("list")
def quarantine_list(
    source: Annotated[str | None, typer.Option("--source", "-s", help="Only this source.")] = None,
    state: Annotated[str, typer.Option(help="quarantined, rejected, released or accepted.")] = "quarantined",
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 50,
    as_json: Json = False,
) -> None:
    """What waits, the riskiest first."""
    from corpus_guard.ledger.tables import VERSION_STATES
    from corpus_guard.review.queue import waiting

    if state not in VERSION_STATES:
        raise errors.Misuse(f"--state {state}: expected one of {', '.join(VERSION_STATES)}")
    with Guard() as guard:
        items, total = waiting(guard.ledger, source=source, state=state, limit=limit)
    if as_json:
        _print_json({"total": total, "items": [item.as_dict() for item in items]})
        return
    rows = [
        (
            item.version_id[:8],
            f"{item.risk:.2f}",
            visible(item.source),
            visible(item.uri),
            ", ".join(dict.fromkeys(f.code for f in item.findings if f.severity is not Severity.INFO)),
        )
        for item in items
    ]
    out.print(
        console.table(f"{total} {state}", ("item", "risk", "source", "document", "findings"), rows, right=("risk",))
    )
    if items and state == "quarantined":
        out.print(f"Look at one: [bold]guard quarantine show {items[0].version_id[:8]}[/bold]")


@quarantine_app.command("show")
def quarantine_show(item: ItemName, as_json: Json = False) -> None:
    """One item with its evidence. Invisible characters are shown as code points."""
    from corpus_guard.review.queue import evidence, find

    with Guard() as guard:
        found = evidence(guard.ledger, guard.storage, find(guard.ledger, item))
    one, version = found.item, found.version
    if as_json:
        _print_json(
            {
                **one.as_dict(),
                "stamp": version.stamp.as_dict(),
                "text": version.text,
                "hidden": version.hidden,
                "skipped": [{"check": skipped.check, "reason": skipped.reason} for skipped in found.skipped],
                "served_version": found.served_version,
                "decisions": [dict(decision) for decision in found.history],
            }
        )
        return
    stamp = version.stamp
    out.print(f"[bold]{visible(one.source)} · {visible(one.uri)}[/bold]  {styled(one.state)}, risk {one.risk:.2f}")
    out.print(
        f"item {one.version_id} · fetched {stamp.fetched_at:%Y-%m-%d %H:%M} UTC · {stamp.size:,} bytes of {stamp.media_type}"
    )
    out.print(f"owner {visible(stamp.owner)} · trust {stamp.trust.value} · sha256 {stamp.content_sha256[:16]}…")
    rows = [
        (
            styled(finding.severity.value, SEVERITY_STYLE),
            finding.code,
            visible(finding.message),
            visible(version.text[finding.span.start : finding.span.end][:160]) if finding.span else "",
        )
        for finding in one.findings
    ]
    out.print(console.table("Findings", ("severity", "code", "what", "evidence"), rows))
    for name, text in (("Text", version.text), ("Hidden text", version.hidden)):
        if text:
            more = f" (first 1,500 of {len(text):,} characters; --json has all)" if len(text) > 1500 else ""
            out.print(
                Panel(visible(text[:1500], lines=True), title=name + more, title_align="left", border_style="dim")
            )
    for decision in found.history:
        out.print(
            f"{decision['decided_at']:%Y-%m-%d %H:%M} {visible(decision['reviewer'])}: {decision['verdict']}, {visible(decision['reason'])}"
        )
    if one.state == "quarantined":
        out.print(
            f"Decide: [bold]guard quarantine release {one.version_id[:8]} --reason …[/bold] or [bold]reject[/bold]"
        )


@quarantine_app.command("release")
def quarantine_release(
    item: ItemName, reason: Reason, reviewer: Reviewer, apply: Apply = True, as_json: Json = False
) -> None:
    """Let a document in. The decision is kept for exactly these bytes."""
    _decide(item, "release", reviewer, reason, apply, as_json)


@quarantine_app.command("reject")
def quarantine_reject(
    item: ItemName, reason: Reason, reviewer: Reviewer, apply: Apply = True, as_json: Json = False
) -> None:
    """Keep a document out. The decision is kept for exactly these bytes."""
    _decide(item, "reject", reviewer, reason, apply, as_json)


@models_app.command("prepare")
def models_prepare(as_json: Json = False) -> None:
    """Find, verify and convert the models, so that no later step waits for it."""
    with Guard() as guard, err.status("verifying and converting models") if not as_json else _nothing():
        found = {"embedder": guard.models.embedder_weights, "language_model": guard.models.language_model_weights}
    if as_json:
        _print_json(
            {name: {"name": one.name, "digest": one.digest, "folder": str(one.folder)} for name, one in found.items()}
        )
        return
    rows = [(name.replace("_", " "), str(one), str(one.folder)) for name, one in found.items()]
    out.print(console.table("Models", ("role", "identity", "folder"), rows))


def main() -> None:
    """Entry point: turns our errors into one line and an exit code."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    try:
        app()
    except errors.Misuse as error:
        _fail(error, 2)
    except errors.Infrastructure as error:
        _fail(error, 3)
    except errors.GuardError as error:
        _fail(error, 4)


def _decide(item: str, verdict: Any, reviewer: str, reason: str, apply: bool, as_json: bool) -> None:
    from corpus_guard.review import decisions

    with Guard() as guard:
        decision = decisions.decide(
            guard.ledger, item, verdict, reviewer=reviewer, reason=reason, policy_digest=guard.screening.digest
        )
        applied = decisions.apply(guard, _run_id("release")) if apply else None
    if as_json:
        _print_json({"decision": _fields(decision), "applied": applied})
        return
    out.print(
        f"{styled('released' if verdict == 'release' else 'rejected')} {decision.version_id} by {visible(decision.reviewer)}"
    )
    if applied:
        out.print(
            f"{applied['published']} chunks published, {applied['retired']} retired; manifest sha256:{applied['manifest_sha256'][:16]}…"
        )
    else:
        out.print("It takes effect with the next run of the DAG quarantine_release.")


def _counts(sealed: Any) -> Any:
    verdicts = [(name, sealed[name]) for name in ("accepted", "quarantined", "rejected", "unchanged", "failed")]
    rows = [(styled(name), f"{count:,}") for name, count in verdicts] + [
        ("[bold]documents[/bold]", f"{sealed['documents']:,}")
    ]
    result = console.table("Refresh", ("verdict", "documents"), rows, right=("documents",))
    result.caption = (
        f"{sealed['published']:,} chunks published, {sealed['retired']:,} retired, {sealed['served']:,} served; "
        f"manifest sha256:{sealed['manifest_sha256'][:16]}…"
    )
    result.caption_justify = "left"
    return result


def _summary(counts: dict[str, Any] | None) -> str:
    names = ("accepted", "quarantined", "rejected", "released", "unchanged", "failed")
    return ", ".join(f"{counts[name]} {name}" for name in names if counts.get(name)) if counts else ""


def _fields(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def _print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2, default=str) + "\n")


def _run_id(kind: str) -> str:
    return f"{kind}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:8]}"


def _fail(error: Exception, code: int) -> None:
    err.print(f"[bold red]guard:[/bold red] {visible(str(error))}", soft_wrap=True)
    sys.exit(code)


@contextmanager
def _nothing() -> Iterator[None]:
    yield


@contextmanager
def _writing(path: Path | None) -> Iterator[Any]:
    if path is None:
        yield lambda line: sys.stdout.write(line + "\n")
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        yield lambda line: file.write(line + "\n")


__all__: Sequence[str] = ("app", "main")
