"""What is served: the Chroma collections, how they are written, and how they are asked."""
