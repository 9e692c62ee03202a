"""``airflow`` as the command line starts it, which writes down at its end what it imported.

python watched_airflow.py <file for the names of modules> dags test ...
"""

from __future__ import annotations

import atexit
import os
import sys
from pathlib import Path

modules_file, sys.argv = Path(sys.argv[1]), ["airflow", *sys.argv[2:]]
started_here = os.getpid()


@atexit.register
def _write() -> None:
    if os.getpid() == started_here:
        modules_file.write_text("\n".join(sorted(sys.modules)))


if __name__ == "__main__":
    from airflow.__main__ import main

    main()
