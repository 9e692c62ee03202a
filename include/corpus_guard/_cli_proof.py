"""`guard verify`, `guard log`, `guard prove` and `guard check-proof`: is it still what was signed, and how a stranger sees it."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corpus_guard import _console as console
from corpus_guard import errors
from corpus_guard._console import Json, err, out, visible
from corpus_guard.guard import Guard, new_run_id

if TYPE_CHECKING:
    from corpus_guard.proof.note import VerifierKey
    from corpus_guard.proof.verification import Verification

SUBJECT = 32  # characters of what an event is about
SHOWN = 100  # deviations; --json has all that are named


def verify(
    max_age_hours: Annotated[
        float | None,
        typer.Option(min=0.0, help="How old the newest signed event may be. Default: CORPUS_GUARD_HEAD_MAX_HOURS."),
    ] = None,
    incident: Annotated[
        bool, typer.Option(help="Keep what deviates as an incident, with its evidence, until somebody answers for it.")
    ] = True,
    as_json: Json = False,
) -> None:
    """Is the corpus still what was sealed and signed? Recomputes the log, the manifest, every record and every vector.

    Exits with 0 only when all of it was checked and holds (or was accepted in an incident), with 1 when something deviates: each
    deviation is named. Changes nothing but the list of incidents.

    Example: `guard verify --max-age-hours 26`
    """
    from corpus_guard.proof.incidents import examine, open_incident

    opened = None
    with Guard() as guard, console.progress(not as_json) as progress:
        examined = examine(guard, progress, max_age_hours)
        if incident and not examined.clean:
            opened = open_incident(guard, new_run_id("verify"), examined.unanswered or examined.found.deviations)
    if as_json:
        known = {"accepted": len(examined.found.deviations) - len(examined.unanswered)}
        console.print_json({**examined.found.as_dict(), **known, "incident": opened.incident_id if opened else None})
    else:
        _show(examined.found)
        if examined.clean and examined.found.deviations:
            out.print(f"All {len(examined.found.deviations):,} were accepted: `guard incident list --state accepted`")
        if opened:
            name = opened.incident_id[:8]
            out.print(
                f"Incident [bold]{name}[/bold]: guard incident show {name} · guard incident heal {name}", soft_wrap=True
            )
    if not examined.clean:
        raise typer.Exit(1)


def _show(result: Verification) -> None:
    if not result.holds:
        rows = [
            (
                f"[red]{deviation.kind.value}[/red]",
                visible(deviation.subject),
                visible(deviation.message),
                "yes" if deviation.healable else "no",
            )
            for deviation in result.deviations[:SHOWN]
        ]
        out.print(console.table("Deviations", ("kind", "subject", "what", "healable"), rows))
        hidden = len(result.deviations) - len(rows) + result.more
        if hidden:
            out.print(f"{hidden:,} more; --json has the first {len(result.deviations):,}")
    out.print(
        f"Checked in {result.seconds:.1f} s: {result.events:,} events under {result.heads:,} heads, {result.lines:,} lines of the "
        f"manifest, {result.records:,} records, {result.queried:,} vectors by a query of their own.",
        soft_wrap=True,
    )
    if result.unsigned:
        out.print(f"{result.unsigned:,} events wait for the next seal.")
    total = len(result.deviations) + result.more
    out.print("[green]It holds.[/green]" if result.holds else f"[bold red]{total:,} deviations.[/bold red]")


def log(
    since: Annotated[int, typer.Option(min=0, help="From this event number on.", metavar="SEQ")] = 0,
    kind: Annotated[str | None, typer.Option(help="Only events of this kind, such as sealed or decided.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most, the newest.")] = 50,
    as_json: Json = False,
) -> None:
    """The event log, newest last. With --json one line an event.

    Example: `guard log --kind decided --limit 20`
    """
    from corpus_guard.proof.proving import newest_events

    with Guard() as guard:
        rows = newest_events(guard, since, kind, limit)
    if as_json:
        for row in rows:
            told = {name: getattr(row, name) for name in ("seq", "kind", "subject", "run_id", "body", "leaf_sha256")}
            out.file.write(console.as_json({**told, "at": row.at.isoformat()}) + "\n")
        return
    for row in rows:
        when, subject = _when(row.at), visible(row.subject[:SUBJECT])
        out.print(
            f"{row.seq:>7}  {when}  [bold]{visible(row.kind):<16}[/bold] {subject}  [dim]{_told(row.body)}[/dim]",
            soft_wrap=True,
        )


def diff(
    older: Annotated[int | None, typer.Argument(help="Number of a seal. Default: the last but one.")] = None,
    newer: Annotated[int | None, typer.Argument(help="Number of a later seal. Default: the last.")] = None,
    as_json: Json = False,
) -> None:
    """What changed between two seals: each chunk that was added, removed or modified, and the run that did it. --json: one a line.

    Example: `guard diff`, or `guard diff 3 7`
    """
    from corpus_guard.proof.history import differences

    counts: Counter[str] = Counter()
    with Guard() as guard:
        for one in differences(guard, older, newer):
            counts[one.what] += 1
            if as_json:
                out.file.write(console.as_json(asdict(one)) + "\n")
            else:
                place = f"{visible(one.source)} · {visible(one.uri)}"
                out.print(f"{one.what:<9} {one.chunk_id}  {place}  [dim]{visible(one.run_id)}[/dim]", soft_wrap=True)
    err.print(", ".join(f"{count:,} {what}" for what, count in sorted(counts.items())) or "no difference")


def _when(at: datetime) -> str:
    return at.isoformat(sep=" ")[:19]


def _told(body: Any) -> str:
    """A body in a few words: lists and mappings by their length."""
    if not isinstance(body, dict):
        return ""
    parts = [
        f"{name}: {len(value)}" if isinstance(value, list | dict) else f"{name}: {str(value)[:40]}"
        for name, value in body.items()
        if value is not None
    ]
    return visible(", ".join(parts))


def prove(
    chunk: Annotated[str | None, typer.Argument(help="The chunk's id, as `guard search --json` shows it.")] = None,
    output: Annotated[
        Path | None, typer.Option("--out", "-o", help="A file for the proof. Default: standard output.")
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(help="Instead of one proof: the whole log, manifest, head and keys.", metavar="FOLDER"),
    ] = None,
) -> None:
    """Write a proof that a chunk is in the corpus as it was sealed, for somebody who trusts a key and not this machine.

    Example: `guard prove 3f9ac1d2… -o proof.json`, then elsewhere `guard check-proof proof.json --key log.pub`
    """
    from corpus_guard.proof.proving import export_proofs
    from corpus_guard.proof.proving import prove as run

    if (chunk is None) == (export is None) or (export is not None and output is not None):
        raise errors.Misuse("give a chunk's id (with --out, a file for its proof), or --export and a folder; not both")
    with Guard() as guard:
        if export is not None:
            count = export_proofs(guard, export)
            err.print(f"{count:,} events and their head are in {visible(str(export))}", soft_wrap=True)
            return
        proof = run(guard, chunk or "")
    with console.writing(output) as write:
        write(console.as_json(proof, indent=2) + "\n")


def check_proof(
    path: Annotated[
        Path, typer.Argument(help="A proof, or a folder that `guard prove --export` wrote.", metavar="PROOF")
    ],
    key: Annotated[
        list[str],
        typer.Option(
            "--key",
            "-k",
            help="A trusted key or a file of such, one a line; not the one that came with the proof.",
            metavar="KEY",
        ),
    ],
    text: Annotated[Path | None, typer.Option(help="A file with the text that the chunk is said to hold.")] = None,
    as_json: Json = False,
) -> None:
    """Check a proof with nothing but a key: no ledger, no store, no network. Exits with 1 where it does not hold.

    Example: `guard check-proof proof.json --key log.pub --text passage.txt`
    """
    from corpus_guard.proof.checking import check_proof as run

    report = run(path, [one for name in key for one in _keys(name)], text.read_bytes() if text else None)
    if as_json:
        console.print_json(report.as_dict())
    else:
        for step in report.steps:
            mark = "[green]holds[/green]" if step.holds else "[bold red]fails[/bold red]"
            out.print(f"{mark}  {step.what}: {visible(step.detail)}", soft_wrap=True)
        if report.holds and text is None:
            out.print("The text itself was not compared: give it with --text.")
        out.print(_conclusion(report.holds, report.facts))
    if not report.holds:
        raise typer.Exit(1)


def _conclusion(holds: bool, facts: Any) -> str:
    if not holds:
        return "[bold red]It proves nothing.[/bold red]"
    return f"[green]It holds[/green] as of the seal of {visible(facts['sealed_at'][:19])} UTC; newer seals may say otherwise."


def _keys(name: str) -> list[VerifierKey]:
    from corpus_guard.proof.note import VerifierKey

    path = Path(name)
    if not path.is_file():
        if "+" not in name:
            raise errors.Misuse(f"--key {name}: no such file, and no key of the form name+id+base64")
        return [VerifierKey.parse(name)]
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    if not lines:
        raise errors.Misuse(f"--key {name}: the file is empty; expected a key of the form name+id+base64 a line")
    return [VerifierKey.parse(line) for line in lines]
