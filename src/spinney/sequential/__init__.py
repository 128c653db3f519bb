"""Early stopping of a majority vote, with a bound on the disagreement."""

from __future__ import annotations

from spinney.sequential.optimal import optimal_strategy
from spinney.sequential.poll import Poll
from spinney.sequential.strategy import StoppingStrategy

__all__ = ["Poll", "StoppingStrategy", "optimal_strategy"]
