"""Evaluation of forests: layout, kernels, their plain twin, threads, early exits."""

from spinney.runtime.early_exit import EarlyExitEngine
from spinney.runtime.engine import Engine
from spinney.runtime.exit_rule import ExitRule
from spinney.runtime.row_predictors import (
    EncodingPredictor,
    NumberPredictor,
    ProbabilityPredictor,
    RowPredictor,
)

__all__ = [
    "EarlyExitEngine",
    "EncodingPredictor",
    "Engine",
    "ExitRule",
    "NumberPredictor",
    "ProbabilityPredictor",
    "RowPredictor",
]
