"""RevPRAG: whether an answer was forced by poisoned texts, seen in the state of the model that gives it.

Source: "RevPRAG: Revealing Poisoning Attacks in Retrieval-Augmented Generation through LLM Activation Analysis" (Tan and others, 2024).

The RAG model reads its prompt; the state of the prompt's last token at every layer is what its answer begins from. A *probe* was shown
such states of answers that were the attacker's and of answers that were right, and says of a new one which it is more like, or that it
is *unsure*. It is a second witness beside the judge of texts, and never the only one. Importing this imports no model.
"""

from corpus_guard.traceback.activations.recording import Answered, Prompted, Recorded, Recordings, collect

__all__ = ["Answered", "Prompted", "Recorded", "Recordings", "collect"]
