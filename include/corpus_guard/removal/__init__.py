"""Removing content: withdrawal from service, which can be undone, and purges, which cannot."""
