"""What a document looks like to somebody who distrusts it.

check.py        what a check is: one class, one file, one line in registry.py
runner.py       every check over every version, failing closed
policy.py       findings → verdict
survey.py       what a run looks like as a whole
standalone.py   screening without ledger and store
"""
