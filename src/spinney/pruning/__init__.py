"""Pruning with feature costs: the exact optimum, and all supported trade-offs."""

from __future__ import annotations

from spinney.pruning.budgeted import BudgetedForestClassifier
from spinney.pruning.pruner import FeatureCostPruner
from spinney.pruning.table import Frontier, FrontierPoint

__all__ = [
    "BudgetedForestClassifier",
    "FeatureCostPruner",
    "Frontier",
    "FrontierPoint",
]
