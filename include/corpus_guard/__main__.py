"""Run the `guard` command as ``python -m corpus_guard``, where its script is not on the path."""

from corpus_guard.cli.main import main

main()
