"""`guard source`: what is pulled from where, what another source would bring, and declaring it."""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corpus_guard import _console as console
from corpus_guard import errors
from corpus_guard._console import SEVERITY_STYLE, Json, err, out, styled, visible
from corpus_guard.domain import TrustLevel
from corpus_guard.guard import Guard

if TYPE_CHECKING:
    from corpus_guard.intake.sources import Source
    from corpus_guard.refresh.preview import Preview

app = typer.Typer(
    help="What is pulled from where: list it, try another source before it is enabled, declare it.",
    no_args_is_help=True,
)
log = logging.getLogger(__name__)

FIRST = 3  # findings of a document in the table; --json has all
LIMIT = 500  # documents looked at; the library's default, written here so that --help needs not import it

Name = Annotated[
    str | None,
    typer.Argument(help="A source of sources.yaml; with --kind and --url the name of a new one.", metavar="[NAME]"),
]
File = Annotated[
    str | None,
    typer.Option(
        "--file", "-f", help="The declaration as YAML, as it would stand in sources.yaml; - is standard input."
    ),
]
Kind = Annotated[str, typer.Option(help="folder, rows, or another kind of source.")]
Url = Annotated[str, typer.Option(help="An fsspec URL, or a path relative to the folder of sources.yaml.")]
Owner = Annotated[str, typer.Option(help="Who answers for the content.")]
Trust = Annotated[TrustLevel | None, typer.Option(help="How far it is trusted.")]
More = Annotated[
    list[str] | None,
    typer.Option("--set", help="Another key of the declaration, such as fields.text=body; may be given several times."),
]
Limit = Annotated[int, typer.Option(min=0, help="Documents that are fetched and screened; 0: all.")]


@app.command("list")
def list_(as_json: Json = False) -> None:
    """Every source of sources.yaml: whose it is, how far it is trusted, what is served of it, when it was last seen.

    No source is contacted.

    Example: `guard source list`
    """
    from corpus_guard.status import read_sources

    with Guard() as guard:
        found = read_sources(guard)
    if as_json:
        console.print_json(found)
        return
    numbers = ("documents", "served", "waiting")
    rows = [
        (
            visible(one["name"]),
            f"{visible(one['kind'])}, {one['trust']}",
            *(f"{one[name]:,}" for name in numbers),
            (one["last_seen_at"] or "never")[:16].replace("T", " "),
            f"{one['last_run_at'][:16].replace('T', ' ')} {styled(one['last_run_state'])}"
            if one["last_run"]
            else "none",
        )
        for one in found
    ]
    out.print(
        console.table("Sources", ("source", "what", *numbers, "last seen (UTC)", "last run (UTC)"), rows, right=numbers)
    )
    places = [(visible(one["name"]), visible(one["owner"]), visible(one["url"])) for one in found]
    out.print(console.table("From where", ("source", "owner", "url"), places))


@app.command("check")
def check(
    name: Name = None,
    file: File = None,
    kind: Kind = "",
    url: Url = "",
    owner: Owner = "",
    trust: Trust = None,
    more: More = None,
    limit: Limit = LIMIT,
    as_json: Json = False,
) -> None:
    """What a source would bring: how many documents, how large, of what type, and which verdicts they would get.

    It is listed whole; a sample of it, or all with `--limit 0`, is fetched and screened by the policy in force, with the thresholds of
    its trust and against what the ledger knows. Nothing is recorded, stored or served. Exits with 1 when it cannot be listed.

    A source of sources.yaml: `guard source check handbook`

    One that is not there yet: `guard source check wiki --kind folder --url s3://bucket/wiki --owner docs@example.org --trust open`

    One in a file of its own: `guard source check --file wiki.yaml --limit 0`
    """
    given = _given(name, file, kind, url, owner, trust, more)
    with Guard() as guard:
        source = _opened(guard, given) if given is not None else guard.source(str(name))
        found = _preview(guard, source, limit, as_json)
    if as_json:
        console.print_json(found.as_dict())
    else:
        _show(found)


@app.command("add")
def add(
    name: Name = None,
    file: File = None,
    kind: Kind = "",
    url: Url = "",
    owner: Owner = "",
    trust: Trust = None,
    more: More = None,
    limit: Limit = LIMIT,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    unsafe: Annotated[
        bool, typer.Option("--unsafe-skip-check", help="Declare it without having looked at it; this is logged.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Declare a source: it is checked as by `guard source check`, shown, and appended to sources.yaml once you agree.

    Comments and order of the file stay as they are; a name that is taken is refused. The next refresh pulls it.

    Example: `guard source add wiki --kind folder --url s3://bucket/wiki --owner docs@example.org --trust open`

    Rows of a file: `guard source add faq --kind rows --url exports/faq-*.csv --owner desk@example.org --trust reviewed
    --set fields.id=number --set fields.text=answer`
    """
    from corpus_guard.intake.sources.declaring import append

    given = _given(name, file, kind, url, owner, trust, more)
    if given is None:
        raise errors.Misuse(
            f"source {name or '(none)'}: nothing says what it is; give --file, or --kind, --url, --owner and --trust"
        )
    if (as_json or not sys.stdin.isatty()) and not yes:
        raise errors.Misuse("nobody can be asked here; look at it with guard source check, then give --yes")
    found = None
    with Guard() as guard:
        path, most = guard.settings.sources_file, guard.settings.max_document_bytes
        source = _opened(guard, given)
        if unsafe:
            log.warning("unsafe: source %s is declared without having been looked at", source.name)
        else:
            found = _preview(guard, source, limit, as_json)
            if not as_json:
                _show(found)
        if not yes:
            typer.confirm(f"Add {source.name} to {path}?", abort=True)
        append(path, given, max_bytes=most)
    if as_json:
        console.print_json({"added": source.name, "file": str(path), "checked": found.as_dict() if found else None})
        return
    out.print(f"{visible(source.name)} is declared in {visible(str(path))}", soft_wrap=True)
    out.print(f"Pull it now: [bold]guard refresh --source {visible(source.name)}[/bold]")


def _given(
    name: str | None,
    file: str | None,
    kind: str,
    url: str,
    owner: str,
    trust: TrustLevel | None,
    more: Iterable[str] | None,
) -> Mapping[str, Any] | None:
    """The declaration in the options; None where they only name a source."""
    from corpus_guard.intake.sources.declaring import declaration_of, read_declaration

    inline = {"kind": kind, "url": url, "owner": owner, "trust": trust.value if trust else ""}
    if file is None:
        if not any(inline.values()) and not more:
            if name is None:
                raise errors.Misuse("no source: name one of sources.yaml, or give --file, or --kind and --url")
            return None
        return declaration_of({"name": name or "", **inline}, list(more or ()))
    if name is not None or more or any(inline.values()):
        raise errors.Misuse("--file says all of the source; leave out the name and the other options")
    if file == "-":
        return read_declaration(sys.stdin.read(), "standard input")
    try:
        return read_declaration(Path(file).read_text(encoding="utf-8"), file)
    except (OSError, UnicodeDecodeError) as error:
        raise errors.Misuse(
            f"--file {file}: cannot be read ({type(error).__name__}); give a UTF-8 YAML file"
        ) from error


def _opened(guard: Guard, given: Mapping[str, Any]) -> Source:
    from corpus_guard.intake.sources.declaring import open_declaration

    settings = guard.settings
    return open_declaration(
        settings.sources_file, given, max_bytes=settings.max_document_bytes, cache=settings.home / "cache"
    )


def _preview(guard: Guard, source: Source, limit: int, as_json: bool) -> Preview:
    from corpus_guard.refresh.preview import preview

    try:
        with console.progress(not as_json) as progress:
            return preview(guard, source, limit=limit or None, progress=progress)
    except errors.SourceUnavailable as error:
        if as_json:
            console.print_json({"source": source.name, "listed": None, "problem": str(error)})
        else:
            err.print(f"[bold red]cannot be listed[/bold red] {visible(str(error))}", soft_wrap=True)
        raise typer.Exit(1) from error


def _show(found: Preview) -> None:
    looked = "all of them" if found.looked_at == found.listed else f"{found.looked_at:,} of them"
    without = f", {found.unsized:,} of unknown size" if found.unsized else ""
    out.print(
        f"[bold]{visible(found.source)}[/bold] ({found.trust}, {visible(found.owner)}): {found.listed:,} documents, "
        f"{_bytes(found.bytes)}{without}; looked at {looked}",
        soft_wrap=True,
    )
    _counts("Sizes", found.sizes)
    if found.unchanged:
        out.print(f"{found.unchanged:,} have the bytes they had; they are not judged again")
    out.print(
        console.table(
            "Would-be verdicts",
            ("verdict", "documents", "if nothing were shadowed"),
            [
                (styled(name), f"{found.verdicts[name]:,}", f"{found.if_enforced[name]:,}")
                for name in ("accept", "quarantine", "reject")
            ],
            right=("documents", "if nothing were shadowed"),
        )
    )
    _counts("Types", found.types)
    _counts("Would fail to be fetched", found.failed)
    _counts("Problems of reading them", found.problems)
    rows = [
        (
            visible(one.uri),
            styled(one.verdict),
            f"{one.risk:.2f}",
            "\n".join(
                f"{styled(severity, SEVERITY_STYLE)} {visible(code)}: {visible(message)}"
                for severity, code, message in one.findings[:FIRST]
            ),
        )
        for one in found.riskiest
    ]
    if rows:
        out.print(console.table("Looked at first", ("document", "verdict", "risk", "findings"), rows, right=("risk",)))
    about = "" if found.looked_at == found.listed else f", about {found.chunks_in_all:,} in all"
    out.print(f"{found.chunks:,} chunks{about}. Nothing was recorded, stored or served.")
    if not found.history:
        out.print("There is no ledger yet: documents were compared with each other only.")
    elif not found.served:
        out.print("No Chroma answers: agreement with texts that are served already was not looked at.")


def _counts(title: str, counts: Mapping[str, int]) -> None:
    if counts:
        pairs = counts.most_common() if isinstance(counts, Counter) else counts.items()
        rows = [(visible(name), f"{count:,}") for name, count in pairs]
        out.print(console.table(title, ("", "documents"), rows, right=("documents",)))


def _bytes(count: int) -> str:
    size, unit = float(count), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:,.0f} {unit}" if unit == "bytes" else f"{size:,.1f} {unit}"
