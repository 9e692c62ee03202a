"""`guard source`: list sources, preview one before it is enabled, declare one, retire one."""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corpus_guard import errors
from corpus_guard.cli import console
from corpus_guard.cli.console import (
    SEVERITY_STYLE,
    Markup,
    format_time,
    print_table,
    say,
    say_aside,
    say_rest,
    styled,
    visible,
)
from corpus_guard.cli.options import Json, PermanentReason, Reviewer
from corpus_guard.deployment import Deployment, new_run_id
from corpus_guard.domain import TrustLevel, plural

if TYPE_CHECKING:
    from corpus_guard.intake.sources import Source
    from corpus_guard.pipeline.preview import Preview

app = typer.Typer(help="List sources, preview one before it is enabled, declare one, retire one.", no_args_is_help=True)
log = logging.getLogger(__name__)

DOCUMENTS_SHOWN = 40  # documents that would be retired; --json has all
FINDINGS_SHOWN = 3  # findings of a document in the table; --json has all
DEFAULT_SAMPLE = 500  # documents looked at; the library's default, written here so that --help needs not import it

Name = Annotated[
    str | None,
    typer.Argument(
        help="Name of a source in sources.yaml, or with --kind and --url the name of a new one.", metavar="NAME"
    ),
]
File = Annotated[
    str | None,
    typer.Option("--file", "-f", help="YAML file with the declaration, as in sources.yaml; - means standard input."),
]
Kind = Annotated[str, typer.Option(help="Kind of source: folder, rows, web, git, …")]
Url = Annotated[str, typer.Option(help="An fsspec URL, or a path relative to the folder of sources.yaml.")]
Owner = Annotated[str, typer.Option(help="Owner of the content.")]
Trust = Annotated[TrustLevel | None, typer.Option(help="Trust level.")]
More = Annotated[
    list[str] | None,
    typer.Option("--set", help="Another key of the declaration, such as fields.text=body (repeatable)."),
]
Limit = Annotated[int, typer.Option(min=0, help="Documents to fetch and screen; 0 means all.")]


@app.command("list")
def list_(as_json: Json = False) -> None:
    """List the sources of sources.yaml with owner, trust level, document counts and last run.

    No source is contacted.

    Example: `guard source list`
    """
    from corpus_guard.pipeline.status import read_sources, undeclared_sources

    with Deployment() as deployment:
        sources = read_sources(deployment.ledger, deployment.settings)
        undeclared = undeclared_sources(deployment.ledger, deployment.settings)
        path = deployment.settings.sources_file
    if as_json:
        console.print_json(sources)
        return
    if not sources:
        say(f"No source is declared in {visible(str(path))}. Add one: [bold]guard source add[/bold]")
        show_undeclared(undeclared)
        return
    numbers = ("documents", "served", "waiting")
    rows = [
        (
            source["name"],
            f"{source['kind']}, {source['trust']}",
            *(source[name] for name in numbers),
            format_time(source["last_seen_at"], missing="never"),
            Markup(f"{format_time(source['last_run_at'])} {styled(source['last_run_state'])}")
            if source["last_run"]
            else "none",
        )
        for source in sources
    ]
    print_table("Sources", ("source", "what", *numbers, "last seen (UTC)", "last run (UTC)"), rows)
    places = [(source["name"], source["owner"], source["url"]) for source in sources]
    print_table("Locations", ("source", "owner", "url"), places)
    show_undeclared(undeclared)


def show_undeclared(served: Mapping[str, int]) -> None:
    """Print a line for each source that is no longer in sources.yaml and still served."""
    for name, count in served.items():
        shown = visible(name)
        say(
            f"[bold yellow]{shown}[/bold yellow] is not in sources.yaml, and {plural(count, 'document')} of it "
            f"{'is' if count == 1 else 'are'} still served. Declare it again, or stop serving them: guard source retire {shown}"
        )


@app.command("check")
def check(
    name: Name = None,
    file: File = None,
    kind: Kind = "",
    url: Url = "",
    owner: Owner = "",
    trust: Trust = None,
    more: More = None,
    limit: Limit = DEFAULT_SAMPLE,
    as_json: Json = False,
) -> None:
    """Preview a source: number, size and types of its documents, and the verdicts they would get.

    The source is listed completely. A sample (all with `--limit 0`) is fetched and screened by the current policy and compared with the
    ledger. Nothing is recorded, stored or served. Exits with code 1 if the source cannot be listed.

    Declared in sources.yaml: `guard source check handbook`

    Not declared yet: `guard source check wiki --kind folder --url s3://bucket/wiki --owner docs@example.org --trust open`

    Declared in another file: `guard source check --file wiki.yaml --limit 0`
    """
    declaration = _declaration(name, file, kind, url, owner, trust, more)
    with Deployment() as deployment:
        source = (
            _open_source(deployment, declaration) if declaration is not None else deployment.sources.named(str(name))
        )
        result = _preview(deployment, source, limit, as_json)
    if as_json:
        console.print_json(result.as_dict())
    else:
        _show(result)


@app.command("add")
def add(
    name: Name = None,
    file: File = None,
    kind: Kind = "",
    url: Url = "",
    owner: Owner = "",
    trust: Trust = None,
    more: More = None,
    limit: Limit = DEFAULT_SAMPLE,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    unsafe: Annotated[
        bool, typer.Option("--unsafe-skip-check", help="Declare the source without a preview; this is logged.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Declare a source: preview it as `guard source check` does, then append it to sources.yaml after your confirmation.

    Comments and order of the file are kept; an existing name is refused. The next refresh pulls the source.

    Example: `guard source add wiki --kind folder --url s3://bucket/wiki --owner docs@example.org --trust open`

    For rows of a file: `guard source add faq --kind rows --url exports/faq-*.csv --owner desk@example.org --trust reviewed
    --set fields.id=number --set fields.text=answer`
    """
    from corpus_guard.intake.sources.declarations import append_declaration

    declaration = _declaration(name, file, kind, url, owner, trust, more)
    if declaration is None:
        raise errors.Misuse(
            f"source {name or '(none)'}: no declaration given; use --file, or --kind, --url, --owner and --trust"
        )
    if (as_json or not sys.stdin.isatty()) and not yes:
        raise errors.Misuse("cannot ask for confirmation here; run guard source check first, then add --yes")
    result = None
    with Deployment() as deployment:
        path, most = deployment.settings.sources_file, deployment.settings.max_document_bytes
        source = _open_source(deployment, declaration)
        if unsafe:
            log.warning("unsafe: source %s is declared without a preview", source.name)
        else:
            result = _preview(deployment, source, limit, as_json)
            if not as_json:
                _show(result)
        if not yes:
            typer.confirm(f"Add {source.name} to {path}?", abort=True)
        append_declaration(path, declaration, max_bytes=most)
    if as_json:
        console.print_json({"added": source.name, "file": str(path), "checked": result.as_dict() if result else None})
        return
    say(f"{visible(source.name)} is declared in {visible(str(path))}")
    say(f"Pull it now: [bold]guard refresh --source {visible(source.name)}[/bold]")


@app.command("retire")
def retire(
    name: Annotated[str, typer.Argument(help="Name of a source that is no longer in sources.yaml.")],
    by: Reviewer,
    reason: PermanentReason = "",
    yes: Annotated[
        bool, typer.Option("--yes", help="Retire it. Without it, the command only lists the documents.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Stop serving the documents of a source that is no longer declared. Nothing is erased or blocked.

    To undo it, declare the source again and run `guard refresh`: its documents are fetched and judged as they are then. To erase them
    instead, use `guard purge --source`.

    Example: `guard source retire wiki --reason "moved to the handbook" --yes`
    """
    from corpus_guard.pipeline.retiring import retirable_documents

    with Deployment() as deployment:
        if not yes:
            living = retirable_documents(deployment.ledger, deployment.settings, name)
            rows = [{"document": row.uri, "served": row.target_version is not None} for row in living]
            if as_json:
                console.print_json({"source": name, "dry_run": True, "documents": rows})
                return
            shown = [(row["document"], row["served"]) for row in rows[:DOCUMENTS_SHOWN]]
            print_table(f"{plural(len(rows), 'document')} would be retired", ("document", "served"), shown)
            say_rest(rows, DOCUMENTS_SHOWN)
            say('Nothing was changed. To execute, repeat with [bold]--yes --reason "…"[/bold]')
            return
        result = deployment.retire_source(name, new_run_id("retire"), by=by, reason=reason)
    if as_json:
        console.print_json({"dry_run": False, **result})
        return
    say(
        f"{plural(result['documents'], 'document')} of {visible(name)} retired, {plural(result['chunks'], 'chunk')} removed. "
        "To serve them again, declare the source and run guard refresh"
    )


def _declaration(
    name: str | None,
    file: str | None,
    kind: str,
    url: str,
    owner: str,
    trust: TrustLevel | None,
    more: Iterable[str] | None,
) -> Mapping[str, Any] | None:
    """Return the declaration given by the options; None if they only name a source."""
    from corpus_guard.intake.sources.declarations import declaration_from_options, parse_declaration

    inline = {"kind": kind, "url": url, "owner": owner, "trust": trust.value if trust else ""}
    if file is None:
        if not any(inline.values()) and not more:
            if name is None:
                raise errors.Misuse("no source given; name one of sources.yaml, or use --file, or --kind and --url")
            return None
        return declaration_from_options({"name": name or "", **inline}, list(more or ()))
    if name is not None or more or any(inline.values()):
        raise errors.Misuse("--file holds the whole declaration; leave out the name and the other options")
    if file == "-":
        return parse_declaration(sys.stdin.read(), "standard input")
    try:
        return parse_declaration(Path(file).read_text(encoding="utf-8"), file)
    except (OSError, UnicodeDecodeError) as error:
        raise errors.Misuse(
            f"--file {file}: cannot be read ({errors.why_unreadable(error)}); give a UTF-8 YAML file"
        ) from error


def _open_source(deployment: Deployment, declaration: Mapping[str, Any]) -> Source:
    from corpus_guard.intake.sources.declarations import open_declaration

    settings = deployment.settings
    return open_declaration(
        settings.sources_file, declaration, max_bytes=settings.max_document_bytes, cache=settings.home / "cache"
    )


def _preview(deployment: Deployment, source: Source, limit: int, as_json: bool) -> Preview:
    from corpus_guard.pipeline.preview import preview

    try:
        with console.progress(not as_json) as progress:
            return preview(
                deployment.storage,
                deployment.models,
                deployment.settings,
                source,
                limit=limit or None,
                progress=progress,
            )
    except errors.SourceUnavailable as error:
        if as_json:
            console.print_json({"source": source.name, "listed": None, "problem": str(error)})
        else:
            say_aside(f"[bold red]The source cannot be listed:[/bold red] {visible(str(error))}")
        raise typer.Exit(1) from error


def _show(result: Preview) -> None:
    looked = "all" if result.looked_at == result.listed else f"{result.looked_at:,}"
    without = f", {result.unsized:,} of unknown size" if result.unsized else ""
    say(
        f"[bold]{visible(result.source)}[/bold] ({result.trust}, {visible(result.owner)}): {plural(result.listed, 'document')}, "
        f"{_bytes(result.bytes)}{without}; screened: {looked}"
    )
    _counts("Sizes", result.sizes)
    _counts("Skipped: no documents of this source", result.skipped, "entries")
    if not result.listed:
        say("No document was found. Check [bold]url[/bold], [bold]include[/bold] and [bold]exclude[/bold].")
        return
    if result.unchanged:
        say(f"{result.unchanged:,} unchanged; not judged again")
    print_table(
        "Expected verdicts",
        ("verdict", "documents", "with shadowed checks"),
        [
            (styled(name), result.verdicts[name], result.if_enforced[name])
            for name in ("accept", "quarantine", "reject")
        ],
    )
    _counts("Types", result.types)
    _counts("Fetch failures", result.failed)
    _counts("Problems", result.problems)
    rows = [
        (
            document.uri,
            styled(document.verdict),
            document.risk,
            Markup(
                "\n".join(
                    f"{styled(severity, SEVERITY_STYLE)} {visible(code)}: {visible(message)}"
                    for severity, code, message in document.findings[:FINDINGS_SHOWN]
                )
            ),
        )
        for document in result.riskiest
    ]
    if rows:
        print_table("Highest risk", ("document", "verdict", "risk", "findings"), rows)
    about = "" if result.looked_at == result.listed else f", about {result.chunks_in_all:,} in all"
    say(f"{plural(result.chunks, 'chunk')}{about}. Nothing was recorded, stored or served.")
    if not result.history:
        say("No ledger exists yet: documents were compared only with each other.")
    elif not result.served:
        say("No vector store answers: documents were not compared with served texts.")


def _counts(title: str, counts: Mapping[str, int], unit: str = "documents") -> None:
    if counts:
        print_table(title, ("", unit), counts.most_common() if isinstance(counts, Counter) else counts.items())


def _bytes(count: int) -> str:
    size, unit = float(count), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:,.0f} {unit}" if unit == "bytes" else f"{size:,.1f} {unit}"
