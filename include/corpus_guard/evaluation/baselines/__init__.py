"""The six methods that the paper compares RAGForensics with, as judges of the same retrieved texts.

    ppl-100, ppl-90   `perplexity`    the text is odder than all, or nine tenths, of the corpus
    expgen            `explanation`   the RAG model names the text as one it used
    rkm, tkm          `keywords`      keywords of the answer from the text, or of the text, agree with the output
    poifor            `forensics`     of two groups of texts, the one it belongs to gives the output

Importing this package loads no model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Final

from corpus_guard.evaluation.baselines.explanation import ExpGen
from corpus_guard.evaluation.baselines.forensics import PoiFor
from corpus_guard.evaluation.baselines.interface import BaselineRagModel
from corpus_guard.evaluation.baselines.keywords import RKM, TKM, KeywordRarity
from corpus_guard.evaluation.baselines.perplexity import PPL, SAMPLE_SIZE, Perplexities
from corpus_guard.models import Models
from corpus_guard.traceback.judges import Judge


@dataclass(frozen=True)
class BaselineMaterial:
    """Inputs of the baselines; what two of them need is computed once."""

    models: Models
    rag: BaselineRagModel
    texts: Sequence[str] = field(repr=False)  # of the corpus; a sample of them is scored
    seed: int = 0  # of the sample
    sample: int = SAMPLE_SIZE  # texts that thresholds of perplexity are taken from

    @cached_property
    def perplexities(self) -> Perplexities:
        """Perplexities of texts and of a sample of the corpus."""
        return Perplexities(self.models, self.texts, self.seed, self.sample)

    @cached_property
    def rarity(self) -> KeywordRarity:
        """Rarity of words in the corpus."""
        return KeywordRarity.of(self.texts)


BASELINES: Final[Mapping[str, Callable[[BaselineMaterial], Judge]]] = MappingProxyType(
    {
        "ppl-100": lambda material: PPL(material.perplexities, 100),
        "ppl-90": lambda material: PPL(material.perplexities, 90),
        "expgen": lambda material: ExpGen(material.rag),
        "rkm": lambda material: RKM(material.rag),
        "tkm": lambda material: TKM(material.rarity),
        "poifor": lambda material: PoiFor(material.rag),
    }
)
"""Factory of each baseline by name. No model is loaded and no request is sent until a baseline judges."""
