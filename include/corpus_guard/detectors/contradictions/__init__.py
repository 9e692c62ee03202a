"""Training of the reader of contradictions."""
