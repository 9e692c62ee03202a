"""Attacks made here, from texts written for this project: for what no data set holds."""
