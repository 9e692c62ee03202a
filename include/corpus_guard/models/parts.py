"""Files of the package that decide: rules, learned parameters, trained classifiers, canaries.

Their hashes stand in the event of each change of the configuration, and a verification compares them: a file that somebody
edited is noticed before a run works under it. Weights are pinned in `corpus_guard.models.weights`.
"""

from __future__ import annotations

from typing import Final

from corpus_guard.domain import sha256_bytes
from corpus_guard.settings import PACKAGE

PATTERNS: Final = (
    "corpus/filterrag/*.json",
    "screening/canaries.yaml",
    "screening/learned/*.npz",
    "screening/learned/*.yaml",
    "screening/rules/*.yaml",
    "traceback/judges/*.json",
)


def hash_parts() -> dict[str, str]:
    """Return the SHA-256 (hex) of each of these files, by its path below the package."""
    files = sorted(path for pattern in PATTERNS for path in PACKAGE.glob(pattern))
    return {path.relative_to(PACKAGE).as_posix(): sha256_bytes(path.read_bytes()) for path in files}
