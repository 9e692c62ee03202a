"""Options that several commands share, each defined once."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from corpus_guard.errors import Misuse, why_unreadable

if TYPE_CHECKING:
    from corpus_guard.deployment import Deployment
    from corpus_guard.review.identities import ReviewAct


def login_name() -> str:
    """Return the name of the user who runs the command, whatever the environment says."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container's user may have no name
        return f"uid {os.getuid()}"


Json = Annotated[bool, typer.Option("--json", help="Write machine-readable JSON to standard output.")]
Reviewer = Annotated[
    str,
    typer.Option(help="Name of the person who decides.", default_factory=login_name, show_default="your login name"),
]
Reporter = Annotated[
    str,
    typer.Option(help="Name of the person who reports.", default_factory=login_name, show_default="your login name"),
]
Reason = Annotated[str, typer.Option("--reason", "-r", help="Reason; kept with the decision.")]
PermanentReason = Annotated[
    str, typer.Option("--reason", "-r", help="Reason; kept permanently, so do not quote the content.")
]
AfterPage = Annotated[str | None, typer.Option(help="Page token that the previous page printed.", metavar="PAGE")]
FileFormat = Annotated[
    str | None, typer.Option("--format", help="Format: csv, jsonl, langfuse or phoenix. Default: detected.")
]
OwnKey = Annotated[
    Path | None,
    typer.Option(
        "--key",
        help="Your own private key (`guard reviewer key`), to sign with where two people are needed.",
        metavar="FILE",
    ),
]
FromSource = Annotated[str | None, typer.Option("--source", "-s", help="Only this source.")]
FromSources = Annotated[list[str] | None, typer.Option("--source", "-s", help="Only this source; repeat for several.")]
MaxRows = Annotated[int, typer.Option(min=1, help="Maximum number of rows.")]
CorrectAnswer = Annotated[str | None, typer.Option(help="The right answer, if you know it.")]
Attacks = Annotated[list[Path], typer.Option("--poison", help="JSONL with attacks; several files allowed.")]
HonestTexts = Annotated[list[Path], typer.Option("--clean", help="JSONL with honest texts; several files allowed.")]
HonestSentences = Annotated[
    list[Path], typer.Option("--honest", help="Folder, text file or JSONL with honest texts; several allowed.")
]
Translations = Annotated[
    list[Path] | None,
    typer.Option("--translations", help="Folder with message catalogues (.mo) of programs; several allowed."),
]
MaxSentences = Annotated[
    int,
    typer.Option(
        min=0, help="Maximum number of honest sentences; half as many translations are added, 10,000 at most."
    ),
]
ReaderRuns = Annotated[
    int, typer.Option(min=1, help="Trainings of each reader whose weights are averaged; each takes minutes to an hour.")
]
READER_RUNS = 2
"""Trainings whose mean the package ships."""
Share = Annotated[
    float,
    typer.Option(
        min=0.01,
        max=1,
        help="With --start: how much the new weights count in the mean that is written; the rest are those of --start. "
        "After many examples 0.3 to 0.5 forgets less.",
    ),
]
TrustedKeys = Annotated[
    list[str],
    typer.Option(
        "--key",
        "-k",
        help="Trusted key, or a file with one key per line. Do not use a key that came with what is checked.",
        metavar="KEY",
    ),
]
JsonFile = Annotated[
    Path | None, typer.Option("--json", help="Write all figures to this file; - means standard output.")
]
LogToMlflow = Annotated[
    bool, typer.Option(help="Log the run to MLflow (MLFLOW_TRACKING_URI, else a file in CORPUS_GUARD_HOME).")
]


def review_act(deployment: Deployment, name: str, key: Path | None, reason: str) -> ReviewAct:
    """Return the act of the person whose private key the file `key` holds; without a file, of whoever types a command.

    Anyone with this shell and the ledger's address may use any name.

    Raises:
        Misuse: there is no reason.
        SettingsError: the file holds no private key, or others can read it.
        NotAllowed: the key belongs to nobody in reviewers.yaml.
    """
    from corpus_guard.proof.log.key_files import read_private_key
    from corpus_guard.review.identities import ReviewAct
    from corpus_guard.review.reviewer import CLI_AUTH
    from corpus_guard.review.reviewer import Reviewer as ReviewerIdentity

    identities = deployment.identities
    person = identities.sign_in(read_private_key(key), login_name()) if key else ReviewerIdentity(name, name, CLI_AUTH)
    return ReviewAct(person, reason, deployment.screening.digest, identities)


def refuse_share_of_nothing(start: Path | None, share: float) -> None:
    """Refuse a share of new weights where there are no old ones.

    Raises:
        Misuse: always then.
    """
    if share < 1 and not start:
        raise Misuse(f"--share {share:g}: there is nothing to share with; expected --start with weights to go on from")


def read_questions(path: Path | None) -> tuple[str, ...]:
    """Return the questions of the file that ``--bank`` names; none without one.

    Raises:
        Misuse: it cannot be read, or holds none.
    """
    if path is None:
        return ()
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise Misuse(
            f"--bank {path}: cannot be read ({why_unreadable(error)}); expected UTF-8 text with one question per line"
        ) from error
    questions = tuple(line.strip() for line in lines if line.strip())
    if not questions:
        raise Misuse(f"--bank {path}: no question in it; expected one per line")
    return questions


def read_file(path: Path, expected: str) -> bytes:
    """Return the bytes of a file that an argument names.

    Args:
        expected: what the file should hold, in words.

    Raises:
        Misuse: it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise Misuse(f"{path}: {why_unreadable(error)}; expected {expected}") from error


class ManyFiles(TyperCommand):
    """Command whose repeatable options take several values: ``--poison a.jsonl b.jsonl`` works, and so does a shell's ``*``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Repeat the option before every further file."""
        repeatable = {name for param in self.params if getattr(param, "multiple", False) for name in param.opts}
        spread: list[str] = []
        option, has_value = "", False
        for argument in args:
            if argument.startswith("-") and argument != "-":
                option, has_value = (argument if argument in repeatable else ""), False
            elif option:
                if has_value:
                    spread.append(option)
                has_value = True
            spread.append(argument)
        return super().parse_args(ctx, spread)
