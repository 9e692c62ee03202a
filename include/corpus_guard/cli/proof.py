"""`guard verify`, `log`, `diff`, `prove`, `check-proof` and `check-attestation`: verification and proofs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from corpus_guard import errors
from corpus_guard.cli import console
from corpus_guard.cli.console import Markup, err, format_time, out, print_table, say, say_aside, visible
from corpus_guard.cli.options import Json, TrustedKeys, read_file
from corpus_guard.deployment import Deployment, new_run_id
from corpus_guard.domain import plural

if TYPE_CHECKING:
    from corpus_guard.ledger import Ledger
    from corpus_guard.proof.checking import ProofReport
    from corpus_guard.proof.deviations import Deviation
    from corpus_guard.proof.log.note import VerifierKey
    from corpus_guard.proof.verify.verification import Verification

app = typer.Typer()


SUBJECT_LENGTH = 32  # characters of what an event is about
DEVIATIONS_SHOWN = 10  # deviations; --json has all that are named


@app.command("verify")
def verify(
    max_age_hours: Annotated[
        float | None,
        typer.Option(min=0.0, help="Maximum age of the newest signed event. Default: CORPUS_GUARD_HEAD_MAX_HOURS."),
    ] = None,
    deep: Annotated[
        bool,
        typer.Option("--deep", help="Read every stored file and the models' weights, not only the share of today."),
    ] = False,
    incident: Annotated[bool, typer.Option(help="Open an incident for deviations, with their evidence.")] = True,
    as_json: Json = False,
) -> None:
    """Verify that the corpus is what was sealed and signed: recompute the log, the manifest, every record and every vector.

    Raw bytes, batches and older manifests are read in shares, another one each day (CORPUS_GUARD_VERIFY_NIGHTS).

    Exits with code 0 only if everything was checked and holds (or was accepted in an incident), with 1 if anything deviates, or if
    nothing was ever sealed. Each deviation is named. Changes nothing except the list of incidents.

    Example: `guard verify --max-age-hours 26`
    """
    from corpus_guard.forensics.re_embedding import MANY_EQUAL, count_equal_vectors
    from corpus_guard.proof.incidents import examine, is_never_sealed, open_incident

    opened = None
    with Deployment() as deployment, console.progress(not as_json) as progress:
        examined = examine(
            deployment.ledger,
            deployment.storage,
            deployment.store,
            deployment.settings,
            progress,
            max_age_hours,
            deep=deep,
        )
        # What was published and never sealed is served without proof, so it stays an incident.
        never_sealed = not examined.verification.records and is_never_sealed(deployment.ledger, examined.verification)
        if incident and not examined.clean and not never_sealed:
            opened = open_incident(
                deployment.ledger,
                deployment.storage,
                new_run_id("verify"),
                examined.unanswered or examined.verification.deviations,
            )
        sources = _sources_of(deployment.ledger, examined.verification.deviations)
        equal = count_equal_vectors(deployment.ledger)
    if as_json:
        accepted = len(examined.verification.deviations) - len(examined.unanswered)
        counts = {"accepted": accepted, "equal_vectors": equal}
        console.print_json(
            {**examined.verification.as_dict(), **counts, "incident": opened.incident_id if opened else None}
        )
    elif never_sealed:
        say("Nothing is sealed yet. Run [bold]guard refresh[/bold]: it seals what it publishes.")
    else:
        _show(examined.verification, sources)
        if examined.clean and examined.verification.deviations:
            say(
                f"{plural(len(examined.verification.deviations), 'deviation')}, all accepted: `guard incident list --state accepted`"
            )
        if opened:
            name = opened.incident_id[:8]
            say(f"Incident [bold]{name}[/bold]: guard incident show {name} · guard incident heal {name}")
        if equal:
            say(
                f"{plural(equal, 'chunk')} of an older release have the vector of {MANY_EQUAL - 1} others or more, and searches may "
                "miss documents beside them. Run [bold]guard set-apart[/bold]: it gives each its own."
            )
    if not examined.clean:
        raise typer.Exit(1)


@app.command("set-apart")
def set_apart(as_json: Json = False) -> None:
    """Give equal vectors that an older release published for equal chunks vectors of their own, and seal.

    `guard verify` says whether there are any. No model is needed, and no text changes. It may be killed or run twice.

    Example: `guard set-apart`
    """
    with console.resumable("guard set-apart"), Deployment() as deployment:
        count = deployment.set_apart(new_run_id("set-apart"))
    if as_json:
        console.print_json({"set_apart": count})
    else:
        say(
            f"{plural(count, 'chunk')} moved apart"
            if count
            else "No hundred chunks have equal vectors; nothing was changed"
        )


def _sources_of(ledger: Ledger, deviations: Sequence[Deviation]) -> dict[str, str]:
    """Return document id → source, for the documents that deviate."""
    import sqlalchemy as sa

    from corpus_guard.ledger.tables import documents

    doc_ids = {deviation.doc_id for deviation in deviations if deviation.doc_id}
    if not doc_ids:
        return {}
    with ledger.read() as connection:
        rows = connection.execute(
            sa.select(documents.c.doc_id, documents.c.source).where(documents.c.doc_id.in_(doc_ids))
        )
        return {row.doc_id: row.source for row in rows}


def _show(result: Verification, sources: Mapping[str, str]) -> None:
    if not result.holds:
        counts = Counter(
            (deviation.kind.value, sources.get(deviation.doc_id, deviation.collection or "–"), deviation.healable)
            for deviation in result.deviations
        )
        by_kind = [
            (Markup(f"[red]{kind}[/red]"), where, count, healable)
            for (kind, where, healable), count in counts.most_common()
        ]
        print_table("Deviations by kind", ("kind", "source or collection", "deviations", "healable"), by_kind)
        named = result.deviations[:DEVIATIONS_SHOWN]
        rows = [(Markup(f"[red]{each.kind.value}[/red]"), each.subject, each.message, each.healable) for each in named]
        print_table("Deviations", ("kind", "subject", "what", "healable"), rows)
        hidden = len(result.deviations) - len(named) + result.more
        if hidden:
            say(f"{hidden:,} more; --json shows the first {len(result.deviations):,}")
    say(
        f"Checked in {result.seconds:.1f} s: {plural(result.events, 'event')} under {plural(result.heads, 'head')}, "
        f"{plural(result.lines, 'line')} of the manifest, {plural(result.records, 'record')}, "
        f"{plural(result.queried, 'vector')} by query, {result.files_read:,} of "
        f"{plural(result.files_known, 'stored file')}{'' if result.files_read == result.files_known else ' (--deep reads all)'}."
    )
    if result.unsigned:
        say(f"Not signed yet: {plural(result.unsigned, 'event')}; the next seal signs what is missing.")
    total = len(result.deviations) + result.more
    say("[green]It holds.[/green]" if result.holds else f"[bold red]{plural(total, 'deviation')}.[/bold red]")


@app.command("log")
def log(
    since: Annotated[int, typer.Option(min=0, help="First event number.", metavar="SEQ")] = 0,
    kind: Annotated[str | None, typer.Option(help="Only events of this kind, such as sealed or decided.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of events; the newest are shown.")] = 50,
    as_json: Json = False,
) -> None:
    """Show the event log, newest last. With --json: one event per line.

    Example: `guard log --kind decided --limit 20`
    """
    from corpus_guard.proof.proving import logged_kinds, newest_events

    with Deployment() as deployment:
        rows = newest_events(deployment.ledger, since, kind, limit)
        if kind and not rows:
            kinds = ", ".join(logged_kinds(deployment.ledger)) or "none"
            say_aside(f"No event of the kind {visible(kind)}. Kinds in this log: {kinds}")
    if as_json:
        for row in rows:
            event = {name: getattr(row, name) for name in ("seq", "kind", "subject", "run_id", "body", "leaf_sha256")}
            out.file.write(console.as_json({**event, "at": row.at.isoformat()}) + "\n")
        return
    for row in rows:
        when, subject = format_time(row.at, seconds=True), visible(row.subject[:SUBJECT_LENGTH])
        say(f"{row.seq:>7}  {when}  [bold]{visible(row.kind):<16}[/bold] {subject}  [dim]{_told(row.body)}[/dim]")


@app.command("diff")
def diff(
    older: Annotated[int | None, typer.Argument(help="Number of the earlier seal. Default: the second newest.")] = None,
    newer: Annotated[int | None, typer.Argument(help="Number of the later seal. Default: the newest.")] = None,
    as_json: Json = False,
) -> None:
    """Show the chunks that were added, removed or modified between two seals, and the run that did it. With --json: one per line.

    Example: `guard diff`, or `guard diff 3 7`
    """
    from corpus_guard.proof.history import seal_differences

    counts: Counter[str] = Counter()
    with Deployment() as deployment:
        for difference in seal_differences(deployment.ledger, deployment.storage, older, newer):
            counts[difference.what] += 1
            if as_json:
                out.file.write(console.as_json(asdict(difference)) + "\n")
            else:
                place = f"{visible(difference.source)} · {visible(difference.uri)}"
                say(f"{difference.what:<9} {difference.chunk_id}  {place}  [dim]{visible(difference.run_id)}[/dim]")
    err.print(", ".join(f"{count:,} {what}" for what, count in sorted(counts.items())) or "no difference")


def _told(body: Any) -> str:
    """Return an event body in a few words; lists and mappings by their length."""
    if not isinstance(body, dict):
        return ""
    parts = [
        f"{name}: {len(value)}" if isinstance(value, list | dict) else f"{name}: {str(value)[:40]}"
        for name, value in body.items()
        if value is not None
    ]
    return visible(", ".join(parts))


@app.command("prove")
def prove(
    chunk: Annotated[str | None, typer.Argument(help="Id of the chunk, from `guard search --json`.")] = None,
    output: Annotated[Path | None, typer.Option("--out", "-o", help="Output file. Default: standard output.")] = None,
    export: Annotated[
        Path | None, typer.Option(help="Folder to export the whole log, manifest, head and keys to.", metavar="FOLDER")
    ] = None,
) -> None:
    """Write a proof that a chunk is in the sealed corpus, for someone who trusts the key but not this machine.

    Example: `guard prove 3f9ac1d2… -o proof.json`, then elsewhere `guard check-proof proof.json --key log.pub`
    """
    from corpus_guard.proof.proving import export_proofs
    from corpus_guard.proof.proving import prove_chunk as run

    if (chunk is None) == (export is None) or (export is not None and output is not None):
        raise errors.Misuse("give either a chunk id (with --out for its proof) or --export and a folder")
    if export is not None and export.exists() and not export.is_dir():
        raise errors.Misuse(f"--export {export}: this is a file; name a folder")
    with Deployment() as deployment:
        if export is not None:
            count = export_proofs(deployment.ledger, deployment.storage, deployment.settings, export)
            say_aside(f"{plural(count, 'event')} and the signed head written to {visible(str(export))}")
            return
        proof = run(deployment.ledger, deployment.storage, deployment.settings, chunk or "")
    with console.writing(output) as write:
        write(console.as_json(proof, indent=2) + "\n")
    if output is not None:
        name = visible(str(output))
        say_aside(f"Proof written to {name}. Whoever has the public key checks it: guard check-proof {name} --key KEY")


@app.command("check-proof")
def check_proof(
    path: Annotated[
        Path, typer.Argument(help="A proof, or a folder that `guard prove --export` wrote.", metavar="PROOF")
    ],
    key: TrustedKeys,
    text: Annotated[Path | None, typer.Option(help="File with the text of the chunk.")] = None,
    as_json: Json = False,
) -> None:
    """Check a proof with a public key only: no ledger, store or network. Exits with code 1 if it does not hold.

    Example: `guard check-proof proof.json --key log.pub --text passage.txt`
    """
    from corpus_guard.proof.checking import check_proof as run

    report = run(path, read_keys(key), read_file(text, "the text of the chunk") if text else None)
    if as_json:
        console.print_json(report.as_dict())
    else:
        show_steps(report)
        if report.holds and text is None:
            say("The text was not compared; pass it with --text.")
        out.print(_conclusion(report.holds, report.facts))
    if not report.holds:
        raise typer.Exit(1)


@app.command("check-attestation")
def check_attestation(
    path: Annotated[Path, typer.Argument(help="File that `guard export attestation` wrote.", metavar="FILE")],
    key: TrustedKeys,
    content: Annotated[Path | None, typer.Option(help="File with the bytes of the document.")] = None,
    as_json: Json = False,
) -> None:
    """Check who signed an attestation, with a public key only. Exits with code 1 if it does not hold: none of the keys did, or it is
    about other bytes.

    Example: `guard check-attestation tides.intoto.json --key log.pub --content tides.md`
    """
    from corpus_guard.proof.attestation import check_attestation as run

    envelope = read_file(path, "what `guard export attestation` wrote")
    keys, document = read_keys(key), read_file(content, "the bytes of the document") if content else None
    try:
        statement = run(envelope, keys, document)
    except errors.Inconsistent as error:
        say_aside(f"[bold red]It does not hold[/bold red]: {visible(str(error))}")
        raise typer.Exit(1) from error
    if as_json:
        console.print_json(statement)
        return
    subject = cast("list[dict[str, Any]]", statement["subject"])[0]
    say(f"document  {visible(subject['name'])}")
    say(f"SHA-256   {subject['digest']['sha256']}")
    if content is None:
        say("The bytes were not compared; pass them with --content.")
    say("[green]It holds[/green]: one of the keys signed this statement.")


def show_steps(report: ProofReport) -> None:
    """Print each step of a check, and whether it holds."""
    for step in report.steps:
        mark = "[green]holds[/green]" if step.holds else "[bold red]fails[/bold red]"
        say(f"{mark}  {step.what}: {visible(step.detail)}")


def _conclusion(holds: bool, facts: Any) -> str:
    if not holds:
        return "[bold red]It proves nothing.[/bold red]"
    return f"[green]It holds[/green] as of the seal of {format_time(facts['sealed_at'])} UTC; newer seals may say otherwise."


def read_keys(names: Iterable[str]) -> list[VerifierKey]:
    """Return the keys that options name, each one key or the keys of a file.

    Raises:
        Misuse: there is no such file, or it is empty.
    """
    return [key for name in names for key in _read_keys(name)]


def _read_keys(name: str) -> list[VerifierKey]:
    from corpus_guard.proof.log.note import VerifierKey

    path = Path(name)
    if not path.is_file():
        if "+" not in name:
            raise errors.Misuse(f"--key {name}: no such file, and no key of the form name+id+base64")
        return [VerifierKey.parse(name)]
    try:
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise errors.Misuse(
            f"--key {name}: cannot be read ({errors.why_unreadable(error)}); expected one key per line, in the form name+id+base64"
        ) from error
    if not lines:
        raise errors.Misuse(f"--key {name}: the file is empty; expected one key per line, in the form name+id+base64")
    return [VerifierKey.parse(line) for line in lines]
