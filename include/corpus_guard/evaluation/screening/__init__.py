"""Evaluation of screening: attacks caught, honest texts held back, and throughput."""
