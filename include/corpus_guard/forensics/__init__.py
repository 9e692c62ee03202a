"""What the retrieval log tells, whom a text has reached, and how a case is worked from the first report to its closing."""
