"""Speed and memory of the refresh; and, where CORPUS_GUARD_DATA names a folder of labelled texts, what screening and two peers catch.

    python -m tests.bench                 all of it, about ten minutes on two cores; with the labelled texts an hour
    python -m tests.bench --quick         without the 20,000 chunks, and a tenth of the labelled texts
    python -m tests.bench --json          for machines
    python -m tests.bench --screening     only what is caught
    python -m tests.bench --intake        only what unchanged files cost, and what a second worker brings
    python -m tests.bench --orders        only orders to a model, beside four rule scanners and two classifiers
    python -m tests.bench --claims        only what comparing statements with trusted ones costs
    python -m tests.bench --cold [FILE]   only cold refreshes of 2,000 and 20,000 made-up documents, or texts of a file of JSON lines

Documents are made of the sample corpus's sentences, shuffled with a fixed seed: about 100 tokens a chunk, one chunk a document. Each figure
comes from processes of its own; CPU seconds include their children.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from tests.bench import intake, orders, screening
from tests.bench.figures import Figure, Ran, at_least, console, ratio, run

from corpus_guard.cli import console as look
from corpus_guard.evaluation.screening import report
from corpus_guard.evaluation.screening.evaluation import ScreeningEvaluation
from corpus_guard.evaluation.screening.experiment import slice_title
from corpus_guard.settings import PROJECT

GUARD = str(Path(sys.executable).with_name("guard"))
SMALL, LARGE = 2_000, 20_000
COMPARED_QUICK, COMPARED = 4_000, 20_000  # trusted chunks that arriving ones are compared with
PROVED_QUICK, PROVED = 6_000, 50_000  # chunks that are verified

BARE = """
import sys
from pathlib import Path
import pyarrow.parquet as pq
from corpus_guard.batches.tables import CHUNK_TEXT_COLUMNS, chunk_texts_from_table
from corpus_guard.models import Models
from corpus_guard.settings import load_settings
files = sorted(Path(sys.argv[1]).glob("storage/batches/*/versions.parquet"))
tables = (pq.read_table(file, columns=CHUNK_TEXT_COLUMNS) for file in files)
chunks = [text for table in tables for _, text in chunk_texts_from_table(table)]
Models(load_settings()).embedder.embed(chunks)
print(len(chunks))
"""

PADDING = """
import json, sys
from corpus_guard.models import Models
from corpus_guard.models.embedder import TEXTS_PER_BATCH as size
from corpus_guard.settings import load_settings
from tokenizers import Tokenizer
tokenizer = Tokenizer.from_file(str(Models(load_settings()).tokenizer_file))
tokenizer.no_padding()
tokenizer.no_truncation()
chunks = [json.loads(line)["text"] for line in open(sys.argv[1], encoding="utf-8")]
lengths = sorted(map(len, tokenizer.encode_batch(chunks)), reverse=True)
print(sum(lengths[at] * len(lengths[at : at + size]) for at in range(0, len(lengths), size)) / sum(lengths) - 1)
"""


def main() -> int:
    """Measure and print. Exit code 1 when a target is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="without the 20,000 chunks, fewer labelled texts")
    parser.add_argument("--screening", action="store_true", help="only what screening and the peers catch")
    parser.add_argument("--intake", action="store_true", help="only unchanged files and the second worker")
    parser.add_argument(
        "--orders", action="store_true", help="only orders to a model, beside four rule scanners and two classifiers"
    )
    parser.add_argument("--claims", action="store_true", help="only the comparison with trusted statements")
    parser.add_argument(
        "--cold", nargs="?", const="", metavar="FILE", help="only a cold refresh, of the texts of FILE if one is named"
    )
    parser.add_argument("--json", action="store_true", help="for machines")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="corpus-guard-bench-") as name:
        folder = Path(name)
        if arguments.orders:
            return _orders(folder, as_json=arguments.json)
        models = folder / "models-home"
        run("preparing the models", [GUARD, "models", "prepare"], {"CORPUS_GUARD_HOME": str(models)})
        if arguments.intake:
            figures, caught = _intake(folder, models, quick=arguments.quick), None
        elif arguments.cold is not None:
            file = Path(arguments.cold) if arguments.cold else None
            figures, caught = _grown(folder, models, file, quick=arguments.quick), None
        elif arguments.claims:
            figures, caught = _claims(folder, models, quick=arguments.quick), None
        else:
            figures = [] if arguments.screening else _measure(folder, models, quick=arguments.quick)
            caught = _screening(folder, models, quick=arguments.quick)
    everything = [*figures, *(_caught(caught) if caught else ())]
    if arguments.json:
        sys.stdout.write(json.dumps([asdict(figure) for figure in everything], indent=2) + "\n")
    else:
        for table in report.report_tables(caught.result, caught.screeners) if caught else ():
            look.out.print(look.table(table.title, table.columns, table.rows, right=table.columns[1:-1]))
        rows = [
            (f.what, f.found, f.target, look.Markup("[green]met[/green]" if f.met else "[red]missed[/red]"))
            for f in (*figures, *(_demanded(caught) if caught else ()))
        ]
        look.out.print(look.table("Speed and memory", ("what", "found", "target", ""), rows))
    return 0 if all(figure.met for figure in everything) else 1


def _orders(folder: Path, *, as_json: bool) -> int:
    names, rows = orders.compare(folder / "peers")
    if as_json:
        sys.stdout.write(json.dumps([dict(zip(names, row, strict=True)) for row in rows], indent=2) + "\n")
    else:
        look.out.print(look.table("Held back", names, rows, right=names[1:]))
    return 0


def _screening(folder: Path, models: Path, *, quick: bool) -> ScreeningEvaluation | None:
    data = Path(os.environ.get(screening.DATA, ""))
    if not os.environ.get(screening.DATA) or not data.is_dir():
        console.print(f"screening beside peers: skipped, {screening.DATA} names no folder of labelled texts")
        return None
    with console.status("screening beside peers"):
        return screening.compare(data, folder / "peers", models, console.print, quick=quick)


def _caught(evaluation: ScreeningEvaluation) -> Iterator[Figure]:
    """What has a target: ours, and the peers' rates beside it."""
    ours, *peers = evaluation.screeners
    for figure in evaluation.result.figures:
        met, counted = figure.met(ours), figure.headline(ours)
        if met is None or counted is None:
            continue
        beside = "".join(f", {peer} {report.percent(figure.headline(peer))}" for peer in peers)
        found = f"{report.percent(counted)} of {counted.n:,} [{report.interval(counted)}]{beside}"
        yield Figure(f"{figure.protocol}: {slice_title(figure.slice_key)}", found, str(figure.target), met)
    yield from _demanded(evaluation)


def _demanded(evaluation: ScreeningEvaluation) -> Iterator[Figure]:
    for what, found, bound, met in report.report_demands(evaluation.throughput, evaluation.proof):
        yield Figure(what, found, bound, met)


def _measure(folder: Path, models: Path, *, quick: bool) -> list[Figure]:
    refreshed = _grown(folder, models, None, quick=quick)
    small = folder / str(SMALL)
    warm = run(
        "refresh with nothing changed", [sys.executable, "-X", "importtime", GUARD, "refresh", "--json"], _env(small)
    )
    padding = run("padding", [sys.executable, "-c", PADDING, str(small / "rows.jsonl")], _env(small))
    command = [sys.executable, "-m", "tests.bench.rules", str(small / "rows.jsonl")]
    rules = json.loads(run("rule tier", command, _env(small)).output.splitlines()[-1])
    loaded = sorted(name for name in ("torch", "great_expectations", "chromadb") if f" {name}\n" in warm.output)
    figures = [
        *refreshed,
        Figure(
            "padding of the embedder's batches, of its tokens", f"{float(padding.output.split()[-1]):.1%}", "—", True
        ),
        Figure("nothing changed: heavy modules imported", ", ".join(loaded) or "none", "none", not loaded),
        Figure("nothing changed: wall time", f"{warm.wall:.1f} s for {SMALL:,} documents", "—", True),
        at_least("rules without the classifier of orders, chunks a second a core", rules["without"], 20_000),
        Figure("the same with it", f"{rules['with']:,.0f}", "—", True),
    ]
    figures += _intake(folder, models, quick=quick)
    figures += _claims(folder, models, quick=quick)
    return [*figures, *_proof(folder, PROVED_QUICK if quick else PROVED)]


def _grown(folder: Path, models: Path, file: Path | None, *, quick: bool) -> list[Figure]:
    """Refresh homes named by their sizes, each ÷ embedding its chunks, and compare their memory."""
    refreshed = {
        size: _cold(_home(folder, str(size), size, models, file)) for size in (SMALL, LARGE)[: 1 if quick else 2]
    }
    figures = [figure for found, _ in refreshed.values() for figure in found]
    if quick:
        return figures
    small, large = (ran for _, ran in refreshed.values())
    growth = large.memory / small.memory
    found = f"{growth:.2f} ({small.memory / 2**20:,.0f} → {large.memory / 2**20:,.0f} MiB)"
    within = 0.9 <= growth <= 1.1
    return [*figures, Figure(f"peak memory, {LARGE:,} ÷ {SMALL:,} documents", found, "0.9 to 1.1", within)]


def _cold(home: Path) -> tuple[list[Figure], Ran]:
    cold = run("cold refresh", [GUARD, "refresh", "--json"], _env(home))
    bare = run("bare embedding of its chunks", [sys.executable, "-c", BARE, str(home)], _env(home))
    chunks = int(bare.output.split()[-1])
    title = f"cold refresh of {chunks:,} chunks ÷ bare embedding"
    figures = [
        ratio(f"{title}, wall time", cold.wall / bare.wall, 1.35, f"{cold.wall:.1f} s ÷ {bare.wall:.1f} s"),
        ratio("the same, CPU time", cold.cpu / bare.cpu, 1.25, f"{cold.cpu:.1f} s ÷ {bare.cpu:.1f} s"),
        at_least("chunks a CPU second of the cold refresh", chunks / cold.cpu, 55),
    ]
    return figures, cold


def _intake(folder: Path, models: Path, *, quick: bool) -> list[Figure]:
    chunks = intake.CHUNKS // 4 if quick else intake.CHUNKS
    return [
        *intake.unchanged(folder, models, intake.FILES // 10 if quick else intake.FILES),
        *intake.two_workers(_home(folder, "workers", chunks, models), chunks),
    ]


def _claims(folder: Path, models: Path, *, quick: bool) -> list[Figure]:
    home, served = folder / "claims", COMPARED_QUICK if quick else COMPARED
    home.mkdir()
    (home / "models").symlink_to(models / "models")
    command = [sys.executable, "-m", "tests.bench.contradictions", str(home), str(served)]
    found = json.loads(run(f"comparing with {served:,} trusted chunks", command, {}).output.splitlines()[-1])
    return [
        ratio(
            f"comparing a chunk with {served:,} trusted ones ÷ embedding it, CPU time with the server's",
            found["compare_ms"] / found["embed_ms"],
            0.15,
            f"{found['compare_ms']:.1f} ms ÷ {found['embed_ms']:.1f} ms",
        )
    ]


def _proof(folder: Path, chunks: int) -> list[Figure]:
    home = folder / "proof"
    home.mkdir()
    ran = run(f"proof of {chunks:,} chunks", [sys.executable, "-m", "tests.bench.proof", str(home), str(chunks)], {})
    found = json.loads(ran.output.splitlines()[-1])
    seconds, limit = found["verify_seconds"], 300 * chunks / PROVED
    return [
        Figure(
            "manifest of 1,000,000 lines with its root and signature, CPU",
            f"{found['manifest_cpu']:.1f} s",
            "≤ 8 s",
            found["manifest_cpu"] <= 8,
        ),
        at_least("events appended a second", found["events_a_second"], 5_000),
        *(
            ratio(
                f"publishing 2,000 chunks, each looked for by its vector ÷ not, {title}",
                found[f"publish_{what}_looking"] / found[f"publish_{what}_blind"],
                2,
                f"{found[f'publish_{what}_looking']:.2f} s ÷ {found[f'publish_{what}_blind']:.2f} s",
            )
            for what, title in (("wall", "wall time"), ("cpu", "CPU time with the server's"))
        ),
        Figure(
            f"verification of {chunks:,} chunks, every vector asked for itself",
            f"{seconds:.1f} s, memory + {found['verify_growth_mib']:.0f} MiB; --deep {found['verify_deep_seconds']:.1f} s",
            f"≤ {limit:.0f} s",
            seconds <= limit,
        ),
        ratio(
            "the same ÷ without comparing rows and reading a share of the stored files, CPU time with the server's",
            found["verify_cpu_seconds"] / found["verify_without_rows_and_files_cpu_seconds"],
            1.3,
            f"{found['verify_cpu_seconds']:.1f} s ÷ {found['verify_without_rows_and_files_cpu_seconds']:.1f} s",
        ),
    ]


def _home(folder: Path, name: str, chunks: int, models: Path, file: Path | None = None) -> Path:
    home = folder / name
    home.mkdir()
    (home / "models").symlink_to(models / "models")
    with (home / "rows.jsonl").open("w", encoding="utf-8") as rows:
        for number, text in enumerate(_texts_of(file, chunks) if file else _texts(chunks)):
            rows.write(json.dumps({"id": number, "text": text}) + "\n")
    sources = {
        "name": "bench",
        "kind": "rows",
        "url": "rows.jsonl",
        "owner": "bench",
        "trust": "reviewed",
        "fields": {"id": "id", "text": "text"},
    }
    (home / "sources.yaml").write_text(json.dumps({"sources": [sources]}))
    return home


def _texts(count: int) -> list[str]:
    corpus = PROJECT / "include" / "sample_corpus"
    prose = " ".join(path.read_text(encoding="utf-8") for path in sorted(corpus.glob("handbook/*.md")))
    sentences = [s for s in re.split(r"(?<=[.!?])\s+", re.sub(r"[#*|`>-]+", " ", prose)) if 40 < len(s) < 200]
    chance = random.Random(7)
    return [" ".join(chance.sample(sentences, 5)) for _ in range(count)]


def _texts_of(file: Path, count: int) -> list[str]:
    with file.open(encoding="utf-8") as rows:
        texts = [json.loads(row)["text"] for row in rows]
    return texts[:: max(1, len(texts) // count)][:count]


def _env(home: Path) -> dict[str, str]:
    return {"CORPUS_GUARD_HOME": str(home), "CORPUS_GUARD_SOURCES_FILE": str(home / "sources.yaml")}


if __name__ == "__main__":
    sys.exit(main())
