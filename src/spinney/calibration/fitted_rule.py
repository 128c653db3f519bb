"""An exit rule, and what it does on the rows that it was fitted to."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.runtime.exit_rule import ExitRule


@dataclass(frozen=True, eq=False)
class FittedRule:
    """An exit rule and its measure.

    Parameters
    ----------
    rule : ExitRule
        When rows exit.
    expected_trees : float
        Trees (or other voters) evaluated per row, on average over the calibration rows
        and, where the order is random, over orders.
    disagreement : float
        Share of the rows on which the prediction is not that of the full ensemble,
        likewise.
    undecided : ndarray of shape (n_exit_points,)
        Share of the rows that stay at each exit point, likewise.
    strategy : StoppingStrategy or None
        For hard votes of two classes: the strategy behind the rule.
    """

    rule: ExitRule
    expected_trees: float
    disagreement: float
    undecided: NDArray[np.float64]
    strategy: Any = None


def unmeasured(rule: ExitRule) -> FittedRule:
    """Return a rule of which it is not known yet what it does.

    Parameters
    ----------
    rule : ExitRule
        The rule.
    """
    return FittedRule(rule, math.nan, math.nan, np.zeros(0))


def evaluates_all(order: NDArray[np.int64], n_sums: int, voting: str) -> FittedRule:
    """Return the rule that evaluates all trees for every row.

    Parameters
    ----------
    order : ndarray of shape (n_trees,)
        Trees in the order in which they are evaluated.
    n_sums : int
        How many sums there are for a row.
    voting : {"hard", "soft"}
        What is added up.
    """
    rule = ExitRule.never(order, n_sums, voting)
    return FittedRule(rule, float(len(order)), 0.0, np.zeros(0))
