"""Texts that praise a product in most of their sentences.

What it does not do: judge whether the praise is deserved.
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from corpus_guard.domain import Severity, Version
from corpus_guard.screening.check import ConfiguredCheck, Hits, Params
from corpus_guard.screening.survey.survey import Survey

_BESIDE = Path(__file__).with_name("shop_talk.yaml")
RULES = _BESIDE if _BESIDE.is_file() else Path(sys.prefix) / "share" / "corpus-guard" / "shop_talk.yaml"

_SENTENCE = re.compile(r"[^.!?\n]+[.!?]?")
_PRAISE = re.compile(r"\b(?:best|amazing|incredible|unbeatable|must-have|world-class)\b", re.IGNORECASE)


class AdvertsParams(Params):
    """The section ``adverts`` of policy.yaml."""

    max_share: float = Field(default=0.5, ge=0, le=1)
    """Share of sentences that may praise."""
    min_sentences: int = Field(default=4, ge=1)
    """A shorter text says too little to count."""


class Adverts(ConfiguredCheck[AdvertsParams]):
    """Counts sentences that praise."""

    name = "adverts"
    params_class = AdvertsParams
    code_version = ("1",)

    def run(self, batch: Sequence[Version], survey: Survey | None) -> Hits:
        """Look at each version by itself."""
        for position, version in enumerate(batch):
            sentences = [match[0] for match in _SENTENCE.finditer(version.text) if match[0].strip()]
            share = sum(bool(_PRAISE.search(sentence)) for sentence in sentences) / max(len(sentences), 1)
            if len(sentences) >= self.params.min_sentences and share > self.params.max_share:
                message = (
                    f"{share:.0%} of the sentences praise something; at most {self.params.max_share:.0%} are expected."
                )
                yield position, self.finding("praise", Severity.MEDIUM, min(share, 1.0), message)
