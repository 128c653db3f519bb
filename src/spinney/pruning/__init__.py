"""Pruning with feature costs: the exact optimum, and all supported trade-offs."""

from __future__ import annotations

from spinney.pruning.budgeted import BudgetedForestClassifier
from spinney.pruning.frontier import Frontier, FrontierPoint
from spinney.pruning.pruner import FeatureCostPruner

__all__ = [
    "BudgetedForestClassifier",
    "FeatureCostPruner",
    "Frontier",
    "FrontierPoint",
]
