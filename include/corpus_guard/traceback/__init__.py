"""Trace from a reported wrong answer to the texts that caused it: RAGForensics.

Source: "Traceback of Poisoning Attacks to Retrieval-Augmented Generation" (Zhang and others, WWW 2025).

A *report* is a question, the wrong output and, where somebody knew it, the right one. The loop retrieves the
texts that the question retrieves, a *judge* decides for each text whether it leads to that output, and the
loop repeats until no poisoned text is left among those retrieved. Importing this package loads no model.
"""
