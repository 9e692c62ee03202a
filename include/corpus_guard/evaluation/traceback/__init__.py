"""Evaluation of tracebacks: attacks on a temporary corpus, judges, and defences."""
