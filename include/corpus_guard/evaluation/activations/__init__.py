"""RevPRAG measured: prompts to record, a probe to train, and the tables of its paper."""
