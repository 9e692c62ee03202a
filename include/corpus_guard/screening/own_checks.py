"""Checks and rule packs of your own: from the extensions folder, or from a package by its entry point.

A check is a class derived from `ConfiguredCheck`: in ``checks/*.py`` of the folder, or an entry point of the
group ``corpus_guard.checks``. A rule pack is a file like ``rules/instructions.yaml`` of the package: in
``rules/*.yaml`` of the folder, or an entry point of the group ``corpus_guard.rules`` that names its path.

Rules
- A check or pack is on trial until ``policy.yaml`` has a section for it: its findings are recorded and do not
  count. With a section, empty or with its parameters, it counts.
- Its findings carry its own name, whatever it says; anything else is a failure of the check. So a check on
  trial can neither reject a document nor speak for another check.
- Its digest covers the file it comes from: an edited check is another one in every verdict.
- Names are taken once: not those of the guard's checks, and not twice.

Its code runs with the rights of the refresh. Who may write the folder, or install a package, may do whatever a
refresh may.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, Final

from corpus_guard.domain import Finding, Severity, Version, digest, sha256_bytes
from corpus_guard.errors import SettingsError
from corpus_guard.screening.check import Check, ConfiguredCheck, Hits, Params
from corpus_guard.screening.checks.instructions import Instructions, InstructionsParams
from corpus_guard.screening.rules.pack import load_rules
from corpus_guard.screening.survey.survey import Survey

CHECK_GROUP: Final = "corpus_guard.checks"
"""Entry point group of checks: each names a class."""
RULE_GROUP: Final = "corpus_guard.rules"
"""Entry point group of rule packs: each names the path of a file."""
MAX_MESSAGE: Final = 300  # characters

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,60}")
_PACKAGE: Final = "corpus_guard_own_checks"


@dataclass(frozen=True)
class OwnCheckKind:
    """A check of one's own that can be built: its parameters, and where it comes from."""

    name: str
    params_class: type[Params]
    build: Callable[[Any], Check]
    origin: str
    """The file or entry point."""
    rules: Path | None = None
    """The file of a rule pack."""


class OwnCheck:
    """A check of one's own, held to its name."""

    reads_findings = False

    def __init__(self, check: Check, file_digest: str) -> None:
        """Take a check of the extensions folder or of another package, and the digest of the file that it comes from."""
        self._check, self._file_digest = check, file_digest
        self.name = check.name
        self.across_documents, self.second_stage = check.across_documents, check.second_stage

    @cached_property
    def digest(self) -> str:
        """Return the digest of the check and of its file."""
        return digest("own-check/v1", [self._check.digest, self._file_digest])

    def applies_to(self, version: Version) -> bool:
        """Ask the check."""
        return self._check.applies_to(version)

    def skips(self, version: Version, survey: Survey) -> str | None:
        """Ask a check that compares documents."""
        skips: Callable[[Version, Survey], str | None] | None = getattr(self._check, "skips", None)
        return skips(version, survey) if skips else None

    def wants(self, version: Version, findings: Iterable[Finding], survey: Survey | None) -> str | None:
        """Ask a check of the second stage."""
        wants: Any = getattr(self._check, "wants", None)
        reason: str | None = wants(version, findings, survey) if wants else None
        return reason

    def evidence(self, version: Version, survey: Survey | None) -> Sequence[str]:
        """Ask the check."""
        evidence: Any = getattr(self._check, "evidence", None)
        parts: Sequence[str] = evidence(version, survey) if evidence else ()
        return parts

    def run(self, batch: Sequence[Version], survey: Survey | None) -> Hits:
        """Run the check, and raise where a finding is not one of its own."""
        for position, finding in self._check.run(batch, survey):
            self._require_valid(finding, batch[position])
            yield position, finding

    def _require_valid(self, finding: Finding, version: Version) -> None:
        code = finding.code.removeprefix(f"{self.name}.")
        span = finding.span
        valid = (
            finding.check == self.name
            and code != finding.code
            and all(_NAME.fullmatch(part) for part in code.split("."))
            and isinstance(finding.severity, Severity)
            and 0 <= finding.score <= 1
            and 0 < len(finding.message) <= MAX_MESSAGE
            and (span is None or 0 <= span.start <= span.end <= len(version.text))
            and not finding.muted
        )
        if not valid:
            raise ValueError(f"check {self.name}: a finding that breaks the rules of its own kind")


def load_own_checks(folder: Path, taken_names: Iterable[str]) -> Mapping[str, OwnCheckKind]:
    """Find the checks and rule packs of the folder and of installed packages.

    Args:
        folder: with ``checks/`` and ``rules/`` in it; both may be absent.

    Raises:
        SettingsError: one cannot be loaded, or its name is taken; the message names its file or package.
    """
    kinds: dict[str, OwnCheckKind] = {}
    taken = dict.fromkeys((*taken_names, "parsing"), "the guard")
    for kind in _find_kinds(folder):
        if not _NAME.fullmatch(kind.name):
            raise SettingsError(f"{kind.origin}: the name {kind.name!r}: expected lower case letters, digits and _")
        if kind.name in taken:
            raise SettingsError(f"{kind.origin}: the name {kind.name} is taken by {taken[kind.name]}; choose another")
        kinds[kind.name], taken[kind.name] = kind, kind.origin
    return MappingProxyType(kinds)


def _find_kinds(folder: Path) -> Iterator[OwnCheckKind]:
    for path in sorted((folder / "checks").glob("*.py")):
        if not path.name.startswith("_"):
            yield from _kinds_of_file(path)
    for point in sorted(entry_points(group=CHECK_GROUP), key=lambda point: point.value):
        cls = _load(point)
        module = sys.modules.get(getattr(cls, "__module__", ""))
        file = Path(str(getattr(module, "__file__", None) or ""))
        yield _kind_of_class(cls, file, f"entry point {point.value}")
    for path in sorted((folder / "rules").glob("*.yaml")):
        yield _kind_of_pack(path, str(path))
    for point in sorted(entry_points(group=RULE_GROUP), key=lambda point: point.value):
        yield _kind_of_pack(Path(_load(point)), f"entry point {point.value}")


def _kinds_of_file(path: Path) -> Iterator[OwnCheckKind]:
    module = _import_file(path)
    classes = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, ConfiguredCheck) and value.__module__ == module.__name__
    ]
    if not classes:
        raise SettingsError(
            f"{path}: no check: expected a class that derives from corpus_guard.screening.check.ConfiguredCheck"
        )
    for cls in classes:
        yield _kind_of_class(cls, path, str(path))


def _import_file(path: Path) -> ModuleType:
    # A name of its own, so that a file called email.py replaces nothing.
    name = f"{_PACKAGE}_{sha256_bytes(str(path.resolve()).encode())[:12]}_{path.stem}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise SettingsError(f"{path}: cannot be imported; expected a Python file")
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # another author's code: whatever it raises, the message must name the file
        del sys.modules[name]
        raise SettingsError(
            f"{path}: cannot be imported ({type(error).__name__}: {error}); mend it or move it away"
        ) from error
    return module


def _kind_of_class(cls: Any, file: Path, origin: str) -> OwnCheckKind:
    complete = (
        isinstance(cls, type)
        and issubclass(cls, ConfiguredCheck)
        and all(hasattr(cls, attribute) for attribute in ("name", "params_class", "code_version", "run"))
    )
    if not complete or not file.is_file():
        raise SettingsError(
            f"{origin}: expected a class that derives from corpus_guard.screening.check.ConfiguredCheck, with name, params_class, "
            "code_version and run"
        )
    content = sha256_bytes(file.read_bytes())
    return OwnCheckKind(cls.name, cls.params_class, lambda params: OwnCheck(cls(params), content), origin)


def _kind_of_pack(path: Path, origin: str) -> OwnCheckKind:
    name = load_rules(path).pack

    def build(params: InstructionsParams) -> Check:
        return Instructions(params, pack=path, name=name)

    return OwnCheckKind(name, InstructionsParams, build, origin, rules=path)


def _load(point: EntryPoint) -> Any:
    try:
        return point.load()
    except Exception as error:  # another package's code: whatever it raises, the message must name the package
        raise SettingsError(
            f"entry point {point.value} cannot be loaded ({type(error).__name__}: {error}); reinstall its package"
        ) from error
