"""The adapters against the real LangChain and LlamaIndex, which live in an environment of their own (`make frameworks`)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from environment import PROJECT

FRAMEWORKS = Path(os.environ.get("GUARD_TEST_FRAMEWORKS", PROJECT / "var" / "frameworks"))
PACKAGES = FRAMEWORKS / "lib" / "python3.11" / "site-packages"
# At the end of the path: where both environments have a package, ours is used.
RUN = "import sys; sys.path.append(sys.argv.pop(1)); import pytest; sys.exit(pytest.main(sys.argv[1:]))"
# No strict markers: LangChain's tests carry those of its own plugins.
PLUGINS = [
    *("-p", "pytest_timeout"),
    *("-p", "pytest_asyncio.plugin"),
    *("-o", "asyncio_mode=auto"),
    *("-o", "addopts="),
]


@pytest.mark.slow
@pytest.mark.skipif(not PACKAGES.is_dir(), reason="no environment with the frameworks: make frameworks")
@pytest.mark.parametrize("contract", ["langchain_contract.py", "llamaindex_contract.py"])
def test_an_adapter_keeps_the_contract_of_its_framework(contract: str, tmp_path: Path) -> None:
    arguments = ["-q", *PLUGINS, f"--basetemp={tmp_path / 'pt'}", str(Path(__file__).with_name(contract))]
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(PACKAGES), *arguments],
        cwd=PROJECT,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-2_000:]
    assert " skipped" not in done.stdout
