"""MLflow runs, registered models, metrics and plots."""
