"""The collections as somebody sees them who trusts nothing in them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from corpus_guard.corpus.store import MODEL_KEY, Store
from corpus_guard.domain import TrustLevel


@dataclass(frozen=True, slots=True)
class Terms:
    """How a collection compares, and what."""

    space: str
    model: str  # whose vectors it says it holds

    def __str__(self) -> str:
        return f"{self.space} over {self.model}"


class Inspected(Store):
    """A store that is only looked at."""

    def terms(self) -> Mapping[str, Terms]:
        """Every collection that is ours or looks like it, by name."""
        levels = "|".join(level.value for level in TrustLevel)
        # `corpus-b-open` belongs to the deployment whose prefix is `corpus-b`.
        others = re.compile(rf"{re.escape(self.prefix)}-.+-({levels})")
        with self._errors():
            return {
                collection.name: Terms(
                    str((collection.configuration.get("hnsw") or {}).get("space")),
                    str((collection.metadata or {}).get(MODEL_KEY)),
                )
                for collection in self._client.list_collections()
                if collection.name.startswith(f"{self.prefix}-") and not others.fullmatch(collection.name)
            }
