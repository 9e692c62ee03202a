"""Views across documents: what a run looks like as a whole, measured once and looked up by the checks.

signals.py             cheap numbers and a MinHash of each version
source_statistics.py   median and spread of each signal in each source
resemblance.py         near duplicates in the run and in the history
agreement.py           groups of chunks that say the same in different words
nearby_chunks.py       chunks near each other, arriving and served
related_statements.py  sentences that agree with another document's, or contradict it
opposed_groups.py      groups of two and more that a more trusted document contradicts
semantics.py           groups, bank questions and related statements of each version
survey.py              all of it in one object that travels as JSON
"""
