"""Detectors that are trained by schedule: each candidate is measured beside the one in use, on questions that neither was trained on here.

    judge    the embedded judge of traces             `corpus_guard.evaluation.detectors.judge`
    filter   ML-FilterRAG, of the guarded retriever   `corpus_guard.evaluation.detectors.filtering`
    probe    of the RAG model's activations           `corpus_guard.evaluation.activations.candidate`

What is registered and kept here takes no effect: `corpus_guard.models.champion` says what is in use, after somebody approved.
"""
