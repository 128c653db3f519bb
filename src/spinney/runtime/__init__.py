"""Compiled evaluation of forests: layout, kernels, threads, early exits."""

from spinney.runtime.early_exit import EarlyExitEngine
from spinney.runtime.engine import Engine, RowPredictor
from spinney.runtime.exit_rule import ExitRule
from spinney.runtime.warming import warm_up

__all__ = ["EarlyExitEngine", "Engine", "ExitRule", "RowPredictor", "warm_up"]
