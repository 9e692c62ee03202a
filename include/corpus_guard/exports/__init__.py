"""Findings in the formats that other tools read.

findings.py   findings of the ledger and deviations of a verification, as values without any document's text
jsonl.py      native JSON Lines, complete
ocsf.py       OCSF events, for a SIEM: findings, and a case
sarif.py      a SARIF 2.1.0 log, for code hosts and editors
"""
