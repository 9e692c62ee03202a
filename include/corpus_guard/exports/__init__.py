"""Findings in the forms other tools read.

findings.py   what leaves: findings of the ledger and deviations of a verification, as values that hold no document's text
jsonl.py      native JSON Lines, complete
ocsf.py       OCSF Detection Finding events, for a SIEM
sarif.py      a SARIF 2.1.0 log, for code hosts and editors
"""
