"""``airflow`` as the command line starts it, again and again: one run for each line of JSON on standard input.

A line holds the words of the command, its environment, and a folder for its log, its exit code, the modules that are imported when it
ends, and a copy of Airflow's database.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import sys
import traceback
from contextlib import closing
from pathlib import Path


def run(words: list[str], env: dict[str, str], folder: str) -> None:
    """Run the command and write down how it ended."""
    os.environ.clear()
    os.environ.update(env)
    os.chdir(folder)
    log = os.open("run.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    code = 0
    sys.argv = ["airflow", *words]
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        from airflow.__main__ import main  # reads its configuration from the environment

        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdout.flush()
    sys.stderr.flush()
    Path("modules").write_text("\n".join(sorted(sys.modules)))
    name = f"{env['AIRFLOW_HOME']}/airflow.db"
    with closing(sqlite3.connect(name)) as database, closing(sqlite3.connect("airflow.db")) as copy:
        database.backup(copy)
    Path("code.new").write_text(str(code))
    Path("code.new").rename("code")


if __name__ == "__main__":
    for line in sys.stdin:
        run(**json.loads(line))
