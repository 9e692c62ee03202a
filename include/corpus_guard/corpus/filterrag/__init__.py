"""FilterRAG and ML-FilterRAG: poisoned texts among those retrieved for a question.

Source: "Defending Against Knowledge Poisoning Attacks During Retrieval-Augmented Generation" (Edemacu and others, 2025).
Importing this imports no model; `learned` holds training and model files.
"""

from corpus_guard.corpus.filterrag.features import FeatureExtractor, Features, Reading
from corpus_guard.corpus.filterrag.filters import Filter, FilterRAG, MLFilterRAG, Opinion, make_filter
from corpus_guard.corpus.filterrag.words import Density, WordMatcher

__all__ = [
    "Density",
    "FeatureExtractor",
    "Features",
    "Filter",
    "FilterRAG",
    "MLFilterRAG",
    "Opinion",
    "Reading",
    "WordMatcher",
    "make_filter",
]
