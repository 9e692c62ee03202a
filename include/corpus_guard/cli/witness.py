"""`guard witness`: a second party that cosigns the heads of logs and remembers the last head of each."""

from __future__ import annotations

import logging
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from corpus_guard import errors
from corpus_guard.cli import console
from corpus_guard.cli.console import format_time, print_table, say, say_aside, visible
from corpus_guard.cli.options import Json
from corpus_guard.domain import plural

app = typer.Typer(
    name="witness",
    help="Run a witness: a second party that cosigns a log's heads, each only if it continues the last one.\n\n"
    "Anyone with the log's key can rewrite its history, but not without the witness noticing. Run it where the log's operator has "
    "no access: another machine, another user, another backup.\n\n"
    "Steps: `init` here, set the printed variables at the guard, `trust` here with the guard's log.pub, `run` here.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

Home = Annotated[Path, typer.Option("--home", help="Folder of the witness: its key and its memory.", metavar="DIR")]
PORT = 8767


@app.command("init")
def init(
    home: Home,
    name: Annotated[str, typer.Option(help="Name it signs with.", show_default="witness/ and the machine's name")] = "",
    as_json: Json = False,
) -> None:
    """Create a witness: a key and an empty memory.

    Example: `guard witness init --home /srv/witness --name witness.example.org`
    """
    from corpus_guard.proof.log.witness import Witness

    vkey = Witness.create(home, name or f"witness/{platform.node() or 'local'}").verifier.encode()
    if as_json:
        console.print_json({"vkey": vkey, "home": str(home)})
        return
    say(f"Witness created in {visible(str(home))}. Public key:\n\n{visible(vkey)}\n")
    say("Set where the guard runs:\n")
    say(f"CORPUS_GUARD_WITNESS_URL=http://127.0.0.1:{PORT}")
    say(f"CORPUS_GUARD_WITNESS_KEY={visible(vkey)}\n")
    say("Then run on this machine:\n")
    say(f"guard witness trust --home {visible(str(home))} $(cat log.pub)   # from the guard's keys folder")
    say(f"guard witness run --home {visible(str(home))}")


@app.command("trust")
def trust(
    home: Home,
    vkeys: Annotated[list[str], typer.Argument(help="All lines of the log's log.pub.", metavar="VKEY")],
    as_json: Json = False,
) -> None:
    """Trust the keys of a log, so that its heads are cosigned. Replaces the earlier list: give all keys that are still valid.

    After a rotation or revocation, run it again with the new log.pub; a running witness follows at once.

    Example: `guard witness trust --home /srv/witness $(cat log.pub)`
    """
    from corpus_guard.proof.log.note import VerifierKey
    from corpus_guard.proof.log.witness import Witness

    origins = {VerifierKey.parse(vkey).name for vkey in vkeys}
    if len(origins) != 1:
        raise errors.Misuse(f"keys of {len(origins)} logs ({', '.join(sorted(origins))}): expected keys of one log")
    witness, origin = Witness(home), origins.pop()
    witness.trust(origin, vkeys)
    if as_json:
        console.print_json({"origin": origin, "vkeys": witness.store.trusted_keys()[origin]})
        return
    say(f"Heads of {visible(origin)} are cosigned if one of {plural(len(set(vkeys)), 'key')} signed them.")


@app.command("run")
def run(
    home: Home,
    port: Annotated[int, typer.Option(min=1, max=65535, help="TCP port.")] = PORT,
    host: Annotated[
        str, typer.Option(help="Address to listen on. It speaks plain HTTP: put a TLS proxy in front.")
    ] = "127.0.0.1",
) -> None:
    """Serve until stopped. The witness may be killed at any time.

    It refuses to start if its memory was restored from an older copy, because it could cosign a second history.

    Example: `guard witness run --home /srv/witness --port 8767`
    """
    from corpus_guard.proof.log.witness import Witness
    from corpus_guard.proof.log.witness_server import serve

    witness = Witness(home)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    say_aside(f"Witness {visible(witness.verifier.name)} at http://{visible(host)}:{port}")
    serve(witness, host, port)


@app.command("show")
def show(home: Home, as_json: Json = False) -> None:
    """Show the last cosigned head of each log, and all refusals. A refusal is evidence: keep both notes.

    Example: `guard witness show --home /srv/witness --json`
    """
    from corpus_guard.proof.log.witness import Witness

    witness = Witness(home)
    logs, heads, refusals = witness.store.trusted_keys(), witness.store.heads(), witness.store.refusals()
    if as_json:
        console.print_json({"vkey": witness.verifier.encode(), "logs": logs, "heads": heads, "refusals": refusals})
        return
    say(visible(witness.verifier.encode()))
    rows = [(row["origin"], row["size"], row["root"][:16] + "…", _when(row["cosigned_at"])) for row in heads]
    if rows:
        print_table("Cosigned last", ("log", "size", "root", "when"), rows)
    for origin in sorted(set(logs) - {row["origin"] for row in heads}):
        say(f"{visible(origin)}: nothing yet")
    if not refusals:
        say("Nothing was refused.")
        return
    rows = [(row["origin"], row["size"], _when(row["refused_at"]), row["reason"]) for row in refusals]
    print_table("Refused", ("log", "size", "when", "why"), rows)
    say("To see both notes of each refusal: [bold]guard witness show --json[/bold]")


def _when(seconds: int) -> str:
    return f"{format_time(datetime.fromtimestamp(seconds, UTC))} UTC"
