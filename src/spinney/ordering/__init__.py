"""Sequences of trees, and when to stop on the way through them."""

from __future__ import annotations

from spinney.ordering.exit_policy import ExitPolicy
from spinney.ordering.score_table import ScoreTable

__all__ = ["ExitPolicy", "ScoreTable"]
