"""FilterRAG and ML-FilterRAG: find poisoned texts among those retrieved for a question.

Source: "Defending Against Knowledge Poisoning Attacks During Retrieval-Augmented Generation" (Edemacu and
others, 2025).
"""
