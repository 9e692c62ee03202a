"""The signed event log: Merkle trees, signed heads, keys, anchors and witnesses."""
