"""The served corpus: the Chroma collections, how they are written, and how they are queried."""
