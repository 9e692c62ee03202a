"""What a text states: sentences, their values with units, and whether two sentences contradict each other.

Everything here is deterministic, reads hostile text in linear time and loads no model. Screening will use it to
compare arriving texts with what more trusted ones state, and the traceback to compare an answer's claim with the
texts that were retrieved for it; today `guard claims` shows it. A conflict is evidence for a person, no verdict.
"""
