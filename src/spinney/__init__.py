"""Ask only as many trees as each prediction needs."""

from __future__ import annotations

from spinney._version import __version__
from spinney.errors import (
    FormatError,
    InvalidArgumentError,
    InvalidForestError,
    PollDecidedError,
    SpinneyError,
    SpinneyWarning,
    UnsupportedModelError,
)
from spinney.files import load, save
from spinney.forest import Forest
from spinney.readers import read_model
from spinney.sequential import Poll, StoppingStrategy, optimal_strategy

__all__ = [
    "Forest",
    "FormatError",
    "InvalidArgumentError",
    "InvalidForestError",
    "Poll",
    "PollDecidedError",
    "SpinneyError",
    "SpinneyWarning",
    "StoppingStrategy",
    "UnsupportedModelError",
    "__version__",
    "load",
    "optimal_strategy",
    "read_model",
    "save",
]
