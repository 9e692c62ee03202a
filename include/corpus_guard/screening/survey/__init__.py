"""Views across documents: what a run looks like as a whole, measured once and looked up by the checks.

signals.py                cheap numbers and a MinHash of each version
resemblance.py            near duplicates in the run and in the history
cells.py                  cells of near vectors
nearby_chunks.py          chunks near each other, arriving and served
served_collections.py     chunks of the collections, as those are compared with that arrive
hub_reach.py              for how many questions a chunk would be among the first results
agreement.py              groups of chunks that say the same in different words
common_wording.py         what the members of a group have in common word by word
backed_claims.py          whether more trusted documents say what a group says
related_statements.py     a sentence that agrees with another document's, or contradicts it
statement_search.py       those sentences, for every chunk of a run
likely_contradictions.py  what a trained reader makes of chunks beside trusted ones
opposed_groups.py         groups of two and more that a more trusted document contradicts
semantics.py              groups, bank questions and related statements of each version
survey.py                 all of it in one object that travels as JSON, with median and spread of each signal in each source
"""
