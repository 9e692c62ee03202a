"""Honest texts written for this project: for what no data set holds."""
