"""Compiled evaluation of forests: layout, kernels, threads, early exits."""

from spinney.runtime.engine import Engine, RowPredictor
from spinney.runtime.staged import ExitRule, StagedEngine
from spinney.runtime.warming import warm_up

__all__ = ["Engine", "ExitRule", "RowPredictor", "StagedEngine", "warm_up"]
