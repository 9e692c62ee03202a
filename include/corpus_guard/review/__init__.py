"""The quarantine: what waits, what people decide, and how a decision takes effect.

reviewer.py    who decides
queue.py       what waits, page by page
evidence.py    one item with everything to decide on
decisions.py   release, reject, escalate: bound to the bytes and to what was seen, kept
undoing.py     taking back, and what time does
applying.py    decisions take effect through the same outbox as a refresh
history.py     everything anybody decided, page by page
muting.py      a rule that means nothing in a source: two people say so
campaigns.py   what belongs together
health.py      false alarms, time to decision, what is overdue
labels.py      decisions as labels
notices.py     what is told to people: what waits after a run, what waits too long
"""
