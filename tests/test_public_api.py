"""The public names of the package are pinned: adding or removing one is a decision."""

from __future__ import annotations

import subprocess
import sys

import corpus_guard


def test_the_public_names() -> None:
    assert corpus_guard.__all__ == ["Deployment", "GuardedRetriever", "__version__", "screen"]
    for name in corpus_guard.__all__:
        assert getattr(corpus_guard, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(corpus_guard, "Guard")


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = "import sys, corpus_guard; print(sorted({name.partition('.')[0] for name in sys.modules} & {'torch', 'numpy', 'sqlalchemy'}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
