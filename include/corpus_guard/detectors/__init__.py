"""Training, comparison and promotion of learned parts.

Each candidate is measured beside the detector in use, on questions that it was not trained on.

    judge    the embedded judge of traces             `corpus_guard.detectors.judge_candidate`
    filter   ML-FilterRAG, of the guarded retriever   `corpus_guard.detectors.filter_candidate`
    probe    of the RAG model's activations           `corpus_guard.detectors.probe_candidate`

Registering a candidate here has no effect on production: `corpus_guard.models.champion` records which
detector is in use after a person approved it.
"""
