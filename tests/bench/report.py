"""A report of every benchmark, with the commands that made it: one page, and a picture of how the jobs grow.

    python -m tests.bench.report FOLDER                 all parts: hours on two cores
    python -m tests.bench.report FOLDER --quick         small sizes and samples: for a first look, not for quoting
    python -m tests.bench.report FOLDER --skip scale    without a part; may be repeated
    python -m tests.bench.report FOLDER --only scale    only this one; may be repeated

Writes FOLDER/report.md and FOLDER/growth.svg. What a part printed is kept in FOLDER/parts and not measured again as long as its command is
the same: run it again to continue, or with other parts. Delete a part's file to measure it anew. A part that fails is named on the page and
tried again the next time. Parts that need labelled texts read them from the folder that CORPUS_GUARD_DATA names, and are left out without.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from tests.bench.scale import COLD, JOBS
from tests.bench.screening import DATA

from corpus_guard import __version__
from corpus_guard.settings import PROJECT

GUARD: Final = str(Path(sys.executable).with_name("guard"))
PICTURE: Final = "growth.svg"
SCALE: Final = "scale"  # name of the part, and folder that it continues in


@dataclass(frozen=True)
class Part:
    """A command, and what it is about."""

    name: str
    title: str
    command: tuple[str, ...]
    quick: tuple[str, ...]  # added for the quick form
    needs: str = ""  # file of the labelled texts


PYTHON: Final = (sys.executable, "-m")
PARTS: Final = (
    Part("speed", "Speed, memory, and what screening catches", (*PYTHON, "tests.bench", "--json"), ("--quick",)),
    Part(SCALE, "As a corpus grows", (*PYTHON, "tests.bench.scale", "{folder}/scale"), ("100", "300")),
    Part("claims", "Contradictions of trusted texts", (GUARD, "evaluate", "claims"), ("--seed", "1")),
    Part(
        "watch",
        "Planted hubs and bursts in the retrieval log",
        (GUARD, "evaluate", "watch"),
        ("--seed", "21", "--documents", "500", "--retrievals", "10000", "--planted", "4"),
    ),
    Part(
        "traceback",
        "Traceback of PoisonedRAG",
        (GUARD, "evaluate", "traceback", "{data}/poisonedrag_nq.jsonl"),
        ("--limit", "3"),
        needs="poisonedrag_nq.jsonl",
    ),
    Part(
        "drift",
        "Edited texts attributed to their places",
        (GUARD, "evaluate", "drift", "--poison", "{data}/poisonedrag_nq.jsonl", "--clean", "{data}/clean_wiki_corpus.jsonl"),
        ("--texts", "8"),
        needs="clean_wiki_corpus.jsonl",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Ran:
    """What a part printed."""

    command: str
    began: str  # ISO 8601, UTC
    seconds: float
    commit: str
    exit_code: int
    output: str


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is missing, and write the page. Exit code 1 where a part failed."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.report", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    names = [part.name for part in PARTS]
    parser.add_argument("folder", type=Path, help="an empty one, or one that an earlier run began")
    parser.add_argument("--quick", action="store_true", help="small sizes and samples")
    parser.add_argument("--skip", action="append", default=[], choices=names, help="leave this part out")
    parser.add_argument("--only", action="append", default=[], choices=names, help="only this part")
    chosen = parser.parse_args(arguments)
    (chosen.folder / "parts").mkdir(parents=True, exist_ok=True)
    results: list[tuple[Part, Ran | str]] = []
    for part in PARTS:
        if part.name in chosen.skip or (chosen.only and part.name not in chosen.only):
            results.append((part, "left out of this run"))
        elif part.needs and not (Path(os.environ.get(DATA, "")) / part.needs).is_file():
            results.append((part, f"left out: {DATA} names no folder with {part.needs}"))
        else:
            results.append((part, measure(part, chosen.folder, quick=chosen.quick)))
        write_report(chosen.folder, results, quick=chosen.quick)
    sys.stdout.write(f"{chosen.folder / 'report.md'}\n")
    return 1 if any(isinstance(ran, Ran) and has_failed(ran) for _, ran in results) else 0


def has_failed(ran: Ran) -> bool:
    """Return True for a command that measured nothing; 1 is the code of a target that was missed."""
    return ran.exit_code not in {0, 1} or not ran.output.strip()


def measure(part: Part, folder: Path, *, quick: bool) -> Ran:
    """Run the command of a part, or read what it printed before."""
    file = folder / "parts" / f"{part.name}.json"
    data = os.environ.get(DATA, "")
    words = (*part.command, *(part.quick if quick else ()))
    command = [word.replace("{folder}", str(folder.resolve())).replace("{data}", data) for word in words]
    shown = shlex.join([Path(command[0]).name, *command[1:]])
    if file.exists() and (kept := Ran(**json.loads(file.read_text()))).command == shown and not has_failed(kept):
        return kept
    sys.stderr.write(f"{part.name}: {shown}\n")
    began, clock = datetime.now(UTC), time.monotonic()
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        cwd=PROJECT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (PROJECT, PROJECT / "include"))), "COLUMNS": "140"},
    )
    seconds = time.monotonic() - clock
    ran = Ran(shown, began.isoformat(timespec="seconds"), seconds, _commit(), done.returncode, done.stdout)
    file.write_text(json.dumps(asdict(ran), indent=1))
    return ran


def write_report(folder: Path, results: Sequence[tuple[Part, Ran | str]], *, quick: bool) -> None:
    """Write the page and, where jobs were measured at two sizes, the picture."""
    jobs = folder / SCALE / "jobs.jsonl"
    picture = draw_growth([json.loads(line) for line in jobs.read_text().splitlines()]) if jobs.exists() else ""
    if picture:
        (folder / PICTURE).write_text(picture)
    (folder / "report.md").write_text("\n".join(_report_lines(results, quick=quick, picture=bool(picture))) + "\n")


def _report_lines(results: Sequence[tuple[Part, Ran | str]], *, quick: bool, picture: bool) -> Iterator[str]:
    yield "# Benchmark report\n"
    if quick:
        yield "**Quick form**: sizes and samples are too small to be quoted.\n"
    yield f"Corpus Guard {__version__}, {describe_machine()}. Written {datetime.now(UTC):%Y-%m-%d %H:%M} UTC.\n"
    for part, ran in results:
        yield f"## {part.title}\n"
        if isinstance(ran, str):
            yield f"{ran}\n"
            continue
        yield f"`{ran.command}`, {ran.began}, commit {ran.commit}, {ran.seconds:,.0f} s\n"
        if has_failed(ran):
            yield f"**Failed** with exit code {ran.exit_code}.\n"
        elif part.name == "speed":
            yield from ("| what | result | target |", "|---|---|---|")
            yield from (
                f"| {figure['what']} | {figure['found']} | {figure['target']}{'' if figure['met'] else ', **missed**'} |"
                for figure in json.loads(ran.output)
            )
            yield ""
        elif part.name == SCALE:
            yield f"{ran.output}"
            if picture:
                yield f"![Processor time of each job by the size of the corpus]({PICTURE})\n"
        else:
            yield f"```text\n{ran.output.rstrip()}\n```\n"


def describe_machine() -> str:
    """Return processor, cores, memory and Python in words."""
    cpus = Path("/proc/cpuinfo")
    models = [line.partition(":")[2].strip() for line in cpus.read_text().splitlines() if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    name = models[0] if models else platform.machine()
    return (
        f"{os.cpu_count()} cores of {name}, {memory:.0f} GiB, {platform.system()}, Python {platform.python_version()}"
    )


def _commit() -> str:
    """Return the commit, marked where the tree has changes; "unknown" outside a repository."""
    git = ["git", "-C", str(PROJECT), "describe", "--always", "--dirty", "--abbrev=12"]
    return subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


def draw_growth(jobs: Sequence[Mapping[str, Any]]) -> str:
    """Return an SVG of each job's processor seconds by served chunks, on logarithmic axes; "" for a single size."""
    served = {job["chunks"]: job["served"] for job in jobs if job["job"] == COLD}
    if len(served) < 2:
        return ""
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot(xscale="log", yscale="log", xlabel="served chunks", ylabel="CPU seconds")
    for name in JOBS:
        points = sorted(
            (served[job["chunks"]], job["cpu"]) for job in jobs if job["job"] == name and job["chunks"] in served
        )
        if points:
            axes.plot(*zip(*points, strict=True), marker="o", label=name)
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    axes.grid(visible=True, which="both", alpha=0.3)
    stream = io.StringIO()
    FigureCanvasSVG(figure).print_svg(stream)
    return stream.getvalue()


if __name__ == "__main__":
    sys.exit(main())
