"""What a model is, and what a row is to it."""

from __future__ import annotations

from spinney.forest.arrays import ARRAYS, ARRAYS_PER_NODE
from spinney.forest.forest import MAX_OUTPUTS, Forest
from spinney.forest.nodes import LEAF, ZERO_BAND

__all__ = ["ARRAYS", "ARRAYS_PER_NODE", "LEAF", "MAX_OUTPUTS", "ZERO_BAND", "Forest"]
