"""The `guard` command: one file per command group."""
