"""All engines that take part: importing this module enters every adapter."""

from __future__ import annotations

from benchmarks.compare import converters, originals
from benchmarks.compare.engines import PEERS, Engine, NotApplicable, Peer, Skip

__all__ = [
    "PEERS",
    "Engine",
    "NotApplicable",
    "Peer",
    "Skip",
    "converters",
    "originals",
]
