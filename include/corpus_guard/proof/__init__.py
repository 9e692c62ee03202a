"""What is in the corpus, in a form that can be checked."""
