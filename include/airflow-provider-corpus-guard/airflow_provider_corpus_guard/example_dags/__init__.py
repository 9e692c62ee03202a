"""Example DAGs."""
