"""What a fresh machine installs."""

from __future__ import annotations

import re
from pathlib import Path

LOCK = (Path(__file__).parent.parent / "requirements.txt").read_text()


def test_the_lock_is_exact_and_brings_no_gigabytes_of_cuda() -> None:
    names = re.findall(r"^([\w.-]+)(?:\[[\w,]+\])?(==\S+)?", LOCK, re.MULTILINE)
    packages = {name.lower(): version for name, version in names}

    assert len(packages) > 100
    assert [name for name, version in packages.items() if not version] == []
    assert [name for name in packages if name.startswith(("nvidia-", "cuda-", "triton"))] == []
    assert packages["torch"] == "==2.13.0"  # no local tag: every index can serve it
