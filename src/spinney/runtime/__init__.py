"""Compiled evaluation of forests: layout, kernels, threads."""

from spinney.runtime.engine import Engine, RowPredictor
from spinney.runtime.warming import warm_up

__all__ = ["Engine", "RowPredictor", "warm_up"]
