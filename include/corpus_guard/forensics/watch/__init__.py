"""Watch over the retrieval log: documents that are retrieved as no honest document is."""
