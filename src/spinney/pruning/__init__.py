"""Pruning with feature costs: the exact optimum, and all supported trade-offs."""

from __future__ import annotations

from spinney.pruning.budgeted import BudgetedForestClassifier
from spinney.pruning.budgeted_file_kind import register_kind as _register_budgeted
from spinney.pruning.file_kind import register_kind as _register_pruner
from spinney.pruning.pruner import FeatureCostPruner
from spinney.pruning.table import Frontier, FrontierPoint

__all__ = [
    "BudgetedForestClassifier",
    "FeatureCostPruner",
    "Frontier",
    "FrontierPoint",
]

_register_budgeted()
_register_pruner()
