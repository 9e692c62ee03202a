"""Rule packs: files of patterns for text that gives orders to a model."""
