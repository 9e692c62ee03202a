"""`guard export`: findings and attestations in the forms other tools read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import unquote

import typer

from corpus_guard import _console as console
from corpus_guard import errors
from corpus_guard._console import out, visible
from corpus_guard.guard import Guard

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from corpus_guard.exports.findings import Item
    from corpus_guard.ledger import Ledger

app = typer.Typer(help="Findings and attestations, for other tools.", no_args_is_help=True)


class Form(StrEnum):
    """What findings are written as."""

    JSONL = "jsonl"
    OCSF = "ocsf"
    SARIF = "sarif"


Output = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="A file, which appears whole or not at all. Default: standard output."),
]


@app.command("findings")
def findings(
    form: Annotated[
        Form,
        typer.Option("--format", "-f", help="jsonl: everything. ocsf: for a SIEM. sarif: for code hosts, editors."),
    ] = Form.JSONL,
    source: Annotated[str | None, typer.Option("--source", "-s", help="Only this source.")] = None,
    state: Annotated[str | None, typer.Option(help="Only quarantined, rejected, released or accepted.")] = None,
    since: Annotated[
        datetime | None,
        typer.Option(help="Only what was judged then or later, UTC.", formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"]),
    ] = None,
    output: Output = None,
) -> None:
    """Findings of the ledger, with document, version, stamp, verdict and decision, and without a word of any document.

    `jsonl` and `ocsf` are one JSON object a line and as long as they like; a SARIF log is one document, which its readers hold in
    memory: narrow a large one by `--source`, `--state` or `--since`. URIs are percent-encoded. What is exported again has the same ids.

    Example: `guard export findings --format ocsf --since 2026-03-01 --out events.jsonl`

    Example: `guard export findings --format sarif --source handbook --state quarantined -o handbook.sarif`
    """
    from corpus_guard.exports.findings import sightings

    count = 0

    def counted(items: Iterable[Item]) -> Iterator[Item]:
        nonlocal count
        for count, item in enumerate(items, start=1):  # noqa: B007
            yield item

    after = since.replace(tzinfo=UTC) if since else None
    with Guard() as guard, console.writing(output) as write:
        for piece in _pieces(form, counted(sightings(guard.ledger, source=source, state=state, since=after))):
            write(piece)
    if output is not None:
        out.print(f"{count:,} findings written to {visible(str(output))}", soft_wrap=True)


@app.command("incident")
def incident(
    name: Annotated[str, typer.Argument(help="The incident's id, or the beginning of it.", metavar="INCIDENT")],
    form: Annotated[Form, typer.Option("--format", "-f", help="jsonl, ocsf or sarif, as for findings.")] = Form.JSONL,
    output: Output = None,
) -> None:
    """The deviations of an incident, for a SIEM or a ticket.

    Example: `guard export incident 3fa9 --format ocsf -o incident.jsonl`
    """
    from corpus_guard.exports.findings import breaches
    from corpus_guard.proof.incidents import deviations_of, find

    with Guard() as guard, console.writing(output) as write:
        found = find(guard.ledger, name)
        for piece in _pieces(form, breaches(deviations_of(guard, found), found.opened_at)):
            write(piece)


@app.command("attestation")
def attestation(
    name: Annotated[
        str,
        typer.Argument(
            help="A version's id or the beginning of it, or a document's URI.", metavar="VERSION|DOCUMENT_URI"
        ),
    ],
    output: Output = None,
) -> None:
    """How a served document came in, signed: an in-toto statement in a DSSE envelope.

    Says who fetched what and when, what was found, who decided, and the hashes of every chunk in the collections; signed by the key
    that signs the log's heads. Whoever holds the public key can check it without this deployment.

    Example: `guard export attestation guides/tides.md -o tides.intoto.json`

    Example: `guard export attestation 3f9ac1d2`
    """
    from corpus_guard.exports.findings import as_json
    from corpus_guard.proof.attestation import attest

    with Guard() as guard:
        version = _version(guard.ledger, name)
        envelope = attest(guard.ledger, version, load_signer(guard))
        with console.writing(output) as write:
            write(as_json(envelope) + "\n")
    if output is not None:
        out.print(f"Attestation of version {version} written to {visible(str(output))}", soft_wrap=True)


def load_signer(guard: Guard) -> Ed25519PrivateKey:
    """The active key of the log.

    Raises:
        SettingsError: nothing was sealed yet, or the private key is not on this machine.
    """
    from corpus_guard.proof.keys import Keyring

    return Keyring.open(guard.settings.keys).signers()[0].private


def _pieces(form: Form, items: Iterable[Item]) -> Iterator[str]:
    from corpus_guard.exports import jsonl, ocsf, sarif

    if form is Form.SARIF:
        yield from sarif.pieces(items)
        yield "\n"
    else:
        yield from (line + "\n" for line in (ocsf if form is Form.OCSF else jsonl).lines(items))


def _version(ledger: Ledger, name: str) -> str:
    import sqlalchemy as sa

    from corpus_guard.ledger.tables import documents
    from corpus_guard.review.queue import find

    # As it is called, with its source before it, or as an export wrote it.
    names = {name, unquote(name)}
    statement = sa.select(documents.c.source, documents.c.target_version).where(
        documents.c.uri.in_(names) | (documents.c.source + "/" + documents.c.uri).in_(names)
    )
    with ledger.read() as connection:
        rows = connection.execute(statement.order_by(documents.c.source)).all()
    if not rows:
        return find(ledger, name).version_id
    if len(rows) > 1:
        raise errors.Misuse(
            f"document {name!r} is in the sources {', '.join(row.source for row in rows)}; name its version instead, as "
            "`guard export findings` and `guard quarantine list` show it"
        )
    if rows[0].target_version is None:
        raise errors.Misuse(
            f"document {name!r} has no version that is served; expected one, because only that can be attested"
        )
    return str(rows[0].target_version)
