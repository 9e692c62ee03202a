"""Findings, cases and maps in the formats that other tools and people read.

findings.py         findings of the ledger and deviations of a verification, as values without any document's text
screened.py         results of a screening without a ledger, for terminals, hooks and code hosts
jsonl.py            native JSON Lines, complete
ocsf.py             OCSF events, for a SIEM: findings, and a case
sarif.py            a SARIF 2.1.0 log, for code hosts and editors
stix.py             a STIX 2.1 bundle of a case, for sharing
case_file.py        a case as one folder that the public key alone checks
case_check.py       the check of such a folder
html.py             a case, or the map of the corpus, as one page that opens without a network
html_templates.py   templates that escape every value, for these pages and those of the web
map_image.py        the map of the corpus as PNG
"""
