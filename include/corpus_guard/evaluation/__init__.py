"""Experiments: defences, the papers' tables, drift, and the evaluation of screening.

Production imports nothing from here.
"""
