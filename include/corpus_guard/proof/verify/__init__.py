"""Verification: the log, the ledger and the collections compared with what was sealed and signed."""
