"""Ask only as many trees as each prediction needs."""

from __future__ import annotations

import importlib as _importlib
import typing as _typing

from spinney._version import __version__
from spinney.calibration.bounds import Certificate, certify
from spinney.errors import (
    FormatError,
    InvalidArgumentError,
    InvalidForestError,
    PollDecidedError,
    SpinneyError,
    SpinneyWarning,
    UnsupportedModelError,
)
from spinney.forest import Forest
from spinney.persistence.store import load, save
from spinney.readers import read_model
from spinney.sequential import Poll, StoppingStrategy, optimal_strategy

if _typing.TYPE_CHECKING:
    from spinney.acceleration.accelerate import accelerate
    from spinney.acceleration.warming import warm_up
    from spinney.anytime import AnytimeForestClassifier
    from spinney.base.all_trees import AllTreesClassifier
    from spinney.base.all_trees_regressor import AllTreesRegressor
    from spinney.calibration.monitor import Monitor
    from spinney.cascade import CascadeClassifier
    from spinney.export import compile, export_c
    from spinney.pruning import BudgetedForestClassifier, FeatureCostPruner
    from spinney.runtime.choice import config
    from spinney.sequential.classifier import SequentialVotingClassifier

__all__ = [
    "AllTreesClassifier",
    "AllTreesRegressor",
    "AnytimeForestClassifier",
    "BudgetedForestClassifier",
    "CascadeClassifier",
    "Certificate",
    "FeatureCostPruner",
    "Forest",
    "FormatError",
    "InvalidArgumentError",
    "InvalidForestError",
    "Monitor",
    "Poll",
    "PollDecidedError",
    "SequentialVotingClassifier",
    "SpinneyError",
    "SpinneyWarning",
    "StoppingStrategy",
    "UnsupportedModelError",
    "__version__",
    "accelerate",
    "certify",
    "compile",
    "config",
    "export_c",
    "load",
    "optimal_strategy",
    "read_model",
    "save",
    "warm_up",
]

# Classifiers need the compiled runtime, which takes its time to load: on first use.
_ON_FIRST_USE = {
    "AllTreesClassifier": "spinney.base.all_trees",
    "AllTreesRegressor": "spinney.base.all_trees_regressor",
    "AnytimeForestClassifier": "spinney.anytime",
    "BudgetedForestClassifier": "spinney.pruning",
    "CascadeClassifier": "spinney.cascade",
    "FeatureCostPruner": "spinney.pruning",
    "Monitor": "spinney.calibration.monitor",
    "SequentialVotingClassifier": "spinney.sequential.classifier",
    "accelerate": "spinney.acceleration.accelerate",
    "compile": "spinney.export",
    "config": "spinney.runtime.choice",
    "export_c": "spinney.export",
    "warm_up": "spinney.acceleration.warming",
}


def __getattr__(name: str) -> object:
    if name == "integrations":
        return _importlib.import_module("spinney.integrations")
    if name in _ON_FIRST_USE:
        return getattr(_importlib.import_module(_ON_FIRST_USE[name]), name)
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
