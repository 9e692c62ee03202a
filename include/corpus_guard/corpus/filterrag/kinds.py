"""Kinds of classifiers; imports nothing, so that the command starts fast."""

from __future__ import annotations

from enum import StrEnum


class ClassifierKind(StrEnum):
    """Library and algorithm of a classifier."""

    XGBOOST = "xgboost"
    RANDOM_FOREST = "random_forest"
