"""Reading of the retrieval log, exposure of texts, and work on a case from the first report to its closing."""
