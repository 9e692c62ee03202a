"""Proof of what is in the corpus: manifests, signed heads, verification, healing and attestations."""
