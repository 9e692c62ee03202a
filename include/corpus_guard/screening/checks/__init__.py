"""Checks, one a file. `corpus_guard.screening.registry` lists them in the order they run."""
