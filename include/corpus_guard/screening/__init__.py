"""Screening: checks that distrust every document, and the policy that turns their findings into a verdict.

check.py        interface of a check
checks/         the checks, one a file
registry.py     their order, and how each is built from policy.yaml
runner.py       all checks over all versions, failing closed
policy.py       findings → verdict
survey/         knowledge across documents
calibration.py  forecast of a policy, and thresholds for it
canaries.py     documents with a known verdict, screened beside the real ones
standalone.py   screening without ledger and store
inputs.py       files and folders that it reads
"""
