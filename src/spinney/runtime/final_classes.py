"""The class of a row from its sums, once all trees are added up."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


def leading_class(totals: Numbers) -> tuple[NDArray[np.int64], Numbers, Numbers]:
    """Return the class of the largest sum, this sum, and the next largest one.

    Parameters
    ----------
    totals : ndarray of shape (n_rows, n_classes)
        Sums, of at least two classes. Of equal ones the first leads.
    """
    winner = totals.argmax(axis=1).astype(np.int64)
    best_two = np.partition(totals, -2, axis=1)[:, -2:]
    return winner, best_two[:, 1], best_two[:, 0]


def final_answers(
    totals: Numbers, decision_threshold: float, tolerance: float
) -> NDArray[np.int64]:
    """Return the classes of rows that all trees were evaluated for.

    Parameters
    ----------
    totals : ndarray of shape (n_rows, n_sums)
        Sums of all trees.
    decision_threshold : float
        With one sum: the smallest one of the second class.
    tolerance : float
        Sums that lie closer together than this (or to `decision_threshold`) are left
        open; 0 if sums are exact.

    Returns
    -------
    answers : ndarray of shape (n_rows,), dtype=int64
        Class indices, -1 where the sums are too close to call.
    """
    if totals.shape[1] == 1:
        answers = (totals[:, 0] >= decision_threshold).astype(np.int64)
        apart = np.abs(totals[:, 0] - decision_threshold)
    else:
        answers, most, next_most = leading_class(totals)
        apart = most - next_most
    return np.where(apart > tolerance, answers, -1) if tolerance > 0 else answers
