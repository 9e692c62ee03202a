"""Additions of a deployment to the guard's checks: suites of expectations, checks and rule packs of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from corpus_guard.errors import SettingsError
from corpus_guard.screening.own_checks import OwnCheckKind, load_own_checks
from corpus_guard.screening.suites.frame import column_meanings
from corpus_guard.screening.suites.suite import Suite, load_suites
from corpus_guard.settings import Settings


@dataclass(frozen=True)
class Extensions:
    """Suites and checks of a deployment."""

    suites: tuple[Suite, ...] = ()
    checks: Mapping[str, OwnCheckKind] = field(default_factory=lambda: MappingProxyType({}))


NO_EXTENSIONS: Final = Extensions()


def load_extensions(settings: Settings, check_names: Iterable[str]) -> Extensions:
    """Read the extensions folder and the entry points of installed packages.

    Args:
        settings: name the folder; the default one may be absent.

    Raises:
        SettingsError: the folder that the environment names is absent, or something in it is wrong.
    """
    folder = settings.extensions_folder
    if "extensions_folder" in settings.model_fields_set and not folder.is_dir():
        raise SettingsError(f"environment variable CORPUS_GUARD_EXTENSIONS_FOLDER: {folder}: no such folder; create it")
    names = tuple(check_names)
    checks = load_own_checks(folder, names)
    columns = column_meanings(("parsing", *names, *checks))
    return Extensions(load_suites(folder / "expectations", columns), checks)
