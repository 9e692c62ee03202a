"""Screening, measured: attacks caught, honest texts held back, and at what speed."""
