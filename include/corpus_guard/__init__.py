"""Corpus Guard decides which documents may enter a RAG knowledge base, can prove what is in it, and finds what slipped through."""

__version__ = "0.1.0"
