"""Evaluation of tracebacks: attacks on a temporary corpus, the texts that judges accuse, and the answers under defences."""
