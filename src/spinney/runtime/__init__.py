"""Evaluation of forests: layout, kernels, their plain twin, threads, early exits.

The engines are imported on first use: what is light in here (numbers of exit kinds,
tables of counts) is of use without the compiler, which takes its time to load.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_MODULES = {
    "EarlyExitEngine": "spinney.runtime.early_exit",
    "EncodingPredictor": "spinney.runtime.row_predictors",
    "Engine": "spinney.runtime.engine",
    "ExitRule": "spinney.runtime.exit_rule",
    "NumberPredictor": "spinney.runtime.row_predictors",
    "ProbabilityPredictor": "spinney.runtime.row_predictors",
    "RowPredictor": "spinney.runtime.row_predictors",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(_MODULES[name]), name)
