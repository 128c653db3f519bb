"""Ask only as many trees as each prediction needs."""

from __future__ import annotations

from spinney._version import __version__
from spinney.errors import (
    FormatError,
    InvalidForestError,
    SpinneyError,
    SpinneyWarning,
    UnsupportedModelError,
)
from spinney.files import load, save
from spinney.forest import Forest
from spinney.readers import read_model

__all__ = [
    "Forest",
    "FormatError",
    "InvalidForestError",
    "SpinneyError",
    "SpinneyWarning",
    "UnsupportedModelError",
    "__version__",
    "load",
    "read_model",
    "save",
]
