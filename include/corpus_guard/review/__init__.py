"""The quarantine: what waits, what people decided, and how a decision takes effect.

queue.py       what waits, with its evidence
decisions.py   release and reject: bound to the bytes, kept, applied through the same outbox as a refresh
"""
