"""The most aggressive candidate whose expected disagreement keeps a bound.

Rows that played no part in making the candidates tell where on the ladder to stop, such
that a *new* row of the same kind disagrees with probability `max_disagreement` at most.
The probability is over these rows and the new one together: a promise on average, which
takes fewer rows than one with a stated confidence.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.calibration.bounds import check_max_disagreement, check_n_rows


def control_risk(
    differs: Iterable[NDArray[np.bool_]], n_rows: int, max_disagreement: float
) -> int | None:
    """Return the index of the most aggressive candidate whose risk is controlled.

    Parameters
    ----------
    differs : iterable of ndarray of shape (n_rows,), dtype=bool
        For each candidate, from the most conservative to the most aggressive, on which
        of the rows its prediction is not that of the full ensemble. Read only as far as
        the first candidate that is too aggressive, so a generator need not evaluate the
        others.
    n_rows : int
        Number of rows.
    max_disagreement : float
        Bound on the expected disagreement, in ``[0, 1)``.

    Returns
    -------
    index : int or None
        The most aggressive candidate; None if the first one is too aggressive already,
        or there are fewer rows than `rows_to_control` says.

    Notes
    -----
    A row counts as lost at a candidate if this one or any more conservative one
    disagrees on it, so that losses can only grow along the ladder. The candidate
    returned is the last for which ``(n_lost + 1) / (n_rows + 1) <= max_disagreement``.

    Why that is enough, for rows that are exchangeable [1]_: put the new row among the
    others and let j be the most aggressive candidate for which at most a share
    `max_disagreement` of all ``n_rows + 1`` rows is lost. The candidate returned is j
    or a more conservative one, whatever the new row is, since it would be allowed even
    if the new row were lost. And j depends on the rows as a set only, so the new row is
    as likely to be among the lost ones as any other.

    The candidates and their order must be fixed before the rows are looked at.

    References
    ----------
    .. [1] A. N. Angelopoulos, S. Bates, A. Fisch, L. Lei and T. Schuster, "Conformal
       risk control", ICLR, 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from spinney.calibration.risk_control import control_risk
    >>> rank = np.arange(1999)
    >>> control_risk([rank < 0, rank < 3, rank < 9, rank < 10], 1999, 0.005)
    2
    """
    allowed = n_allowed(n_rows, max_disagreement)
    lost = np.zeros(n_rows, dtype=np.bool_)
    boldest = None
    for index, here in enumerate(differs):
        lost |= here
        if np.count_nonzero(lost) > allowed:
            break
        boldest = index
    return boldest


def n_allowed(n_rows: int, max_disagreement: float) -> int:
    """Return how many rows may be lost; -1 if there are too few rows for any.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    max_disagreement : float
        Bound on the expected disagreement, in ``[0, 1)``.
    """
    n_rows = check_n_rows("n_rows", n_rows, None)
    return math.floor(_as_written(max_disagreement) * (n_rows + 1)) - 1


def rows_to_control(max_disagreement: float) -> int:
    """Return the fewest rows that can control the risk, even if none is lost.

    Parameters
    ----------
    max_disagreement : float
        Bound on the expected disagreement, above 0 and below 1.
    """
    return math.ceil(1 / _as_written(max_disagreement)) - 1


def _as_written(max_disagreement: Any) -> Fraction:
    """Return a bound as the decimal number that was written: 0.001 is a thousandth."""
    return Fraction(repr(check_max_disagreement(max_disagreement)))
