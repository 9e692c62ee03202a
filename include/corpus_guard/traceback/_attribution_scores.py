"""The parameters of `corpus_guard.traceback.attribution`: two logistic scores, as `corpus_guard.evaluation.drift.fit` gives them.

No weight is negative: to have more in common never makes a text less likely to be the one.
"""

from __future__ import annotations

from typing import Final

from corpus_guard.screening._logistic import Logistic

TRAINED_ON: Final = (
    "the tuning half of PoisonedRAG's adversarial texts and of passages from encyclopaedias and manuals: 380 texts among 1,600 others, "
    "0, 30 and 50 % of words edited, reordered and re-chunked"
)
SHINGLES: Final = Logistic.model_validate(
    {
        "version": "1",
        "trained_on": TRAINED_ON,
        "intercept": -6.899,
        "features": {
            "whole": {"mean": 0.0384, "scale": 0.0808, "weight": 2.091},
            "lead": {"mean": -0.1735, "scale": 0.1634, "weight": 1.385},
        },
    }
)
"""From the texts alone."""
EMBEDDING: Final = Logistic.model_validate(
    {
        "version": "1",
        "trained_on": TRAINED_ON,
        "intercept": -5.469,
        "features": {
            "similarity": {"mean": 0.2874, "scale": 0.1305, "weight": 1.011},
            "nearer": {"mean": -0.2749, "scale": 0.2210, "weight": 1.113},
        },
    }
)
"""From the vectors alone."""
