"""Tests that a rule must pass, on rows that it was not fitted to, to keep a bound."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from spinney.calibration.bounds import clopper_pearson_upper
from spinney.calibration.risk_control import n_allowed

Codes = NDArray[np.intp]


class RungTest(Protocol):
    """A test of one bound, passed by one rule after another until the first fails."""

    def passes(self, answers: Codes) -> bool:
        """Return whether a bound can be promised for a rule with these predictions."""
        ...


class ExpectedShare:
    """Risk control: a new row differs with a probability of at most a bound.

    Parameters
    ----------
    full : ndarray
        Class indices of all rows, by the full ensemble.
    rows : ndarray of int
        The rows that count.
    bound : float
        The bound.

    Notes
    -----
    See `spinney.calibration.risk_control.control_risk`. Rows count as lost that this
    rule or a more conservative one predicts differently; their number can only grow.
    So if another test ends the testing earlier, fewer are lost, and the bound holds all
    the more. For the rows of one class the argument is the same given that the new row
    is of this class, whatever other rows there are.
    """

    def __init__(self, full: Codes, rows: Codes, bound: float) -> None:
        self._full, self._rows = full[rows], rows
        self._allowed = n_allowed(len(rows), bound)
        self._lost = np.zeros(len(rows), dtype=np.bool_)

    def passes(self, answers: Codes) -> bool:
        """Return whether few enough rows are lost."""
        self._lost |= answers[self._rows] != self._full
        return int(np.count_nonzero(self._lost)) <= self._allowed


class ProvenShare:
    """Clopper-Pearson: the share that differs keeps a bound, with a confidence.

    Parameters
    ----------
    full, rows, bound
        As in `ExpectedShare`.
    confidence : float
        The confidence.

    Notes
    -----
    See `spinney.calibration.ladder.certify_sequence`. With several bounds, each rule
    has to pass all tests, each at the full confidence, and all bounds then hold
    *together* with this confidence: to take a rule that breaks any of them, the first
    rule that breaks any must have passed, and with it the one test of the bound that
    it breaks.
    """

    def __init__(
        self, full: Codes, rows: Codes, bound: float, confidence: float
    ) -> None:
        self._full, self._rows = full[rows], rows
        self._bound, self._confidence = bound, confidence

    def passes(self, answers: Codes) -> bool:
        """Return whether the upper end of the confidence interval keeps the bound."""
        n_rows = len(self._rows)
        count = int(np.count_nonzero(answers[self._rows] != self._full))
        return clopper_pearson_upper(count, n_rows, self._confidence) <= self._bound
