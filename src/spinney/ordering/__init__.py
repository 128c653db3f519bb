"""Orders of trees, and the tables of scores that they are found on."""

from __future__ import annotations

from spinney.ordering.score_table import ScoreTable

__all__ = ["ScoreTable"]
