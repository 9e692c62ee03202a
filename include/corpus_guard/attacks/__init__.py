"""Poisoned texts, generated for training and for measuring."""
