"""From a reported wrong answer to the texts that caused it: RAGForensics.

Source: "Traceback of Poisoning Attacks to Retrieval-Augmented Generation" (Zhang and others, WWW 2025).

A *report* is a question, the output that was wrong, and perhaps the right one. The loop retrieves what the question retrieves, a *judge*
says of each text whether it leads to that output, and goes on until what stands is benign. Importing this imports no model.
"""

from corpus_guard.traceback.judges import Conclusion, Judge, Label, Opinion
from corpus_guard.traceback.loop import Ended, Followed, Judged, follow
from corpus_guard.traceback.suspects import Complaint, Suspect, Suspects

__all__ = [
    "Complaint",
    "Conclusion",
    "Ended",
    "Followed",
    "Judge",
    "Judged",
    "Label",
    "Opinion",
    "Suspect",
    "Suspects",
    "follow",
]
