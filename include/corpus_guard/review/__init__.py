"""The quarantine: what waits for review, what people decide, and how a decision takes effect.

reviewer.py    the person who decides
queue.py       waiting items, page by page
evidence.py    one item with everything needed to decide
decisions.py   release, reject, escalate: bound to the bytes and to what the reviewer saw
undo.py        undoing a decision; escalating what nobody decided in time
release.py     applying decisions through the same outbox as a refresh
records.py     decisions and acts, as the other modules read them
history.py     all decisions and acts, page by page
muting.py      ignoring a rule in a source, confirmed by two people
campaigns.py   groups of near-duplicates
health.py      false alarms, time to decision, overdue items
labels.py      decisions as labels for training
notices.py     summaries of waiting and overdue items
"""
