"""Statements of a text: sentences, their values with units, and whether two sentences contradict each other.

Everything here is deterministic, reads hostile text in linear time and loads no model. Screening compares arriving
texts with what more trusted ones state; the traceback reads whether a text states what was reported. A conflict is
evidence for a person, no verdict.
"""
