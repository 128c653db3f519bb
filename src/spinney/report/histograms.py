"""Histograms with readable bins."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_BINS = 50


def of_counts(numbers: NDArray[Any], largest: int, least: int = 0) -> dict[str, Any]:
    """Return how many rows have how many of something, in bins of whole numbers.

    Parameters
    ----------
    numbers : ndarray of shape (n_rows,)
        Whole numbers from `least` to `largest`.
    largest, least : int
        The range, shown in full.

    Returns
    -------
    histogram : dict
        ``first`` and ``last``, the numbers that each bin covers, and ``rows``.
    """
    width = -(-(largest - least + 1) // MOST_BINS)
    first = np.arange(least, largest + 1, width)
    rows = np.bincount(
        (numbers.astype(np.int64) - least) // width, minlength=len(first)
    )
    return {
        "first": first,
        "last": np.minimum(first + width - 1, largest),
        "rows": rows,
    }


def of_numbers(numbers: NDArray[np.floating]) -> dict[str, Any]:
    """Return how many rows have a number in each of some bins of equal width.

    Parameters
    ----------
    numbers : ndarray of shape (n_rows,)
        Numbers; those that are not finite are left out.

    Returns
    -------
    histogram : dict
        ``first`` and ``last``, the edges of each bin, and ``rows``.
    """
    finite = numbers[np.isfinite(numbers)].astype(np.float64)
    n_bins = int(np.clip(np.sqrt(len(finite)), 5, MOST_BINS - 10))
    if len(finite) and finite.min() == finite.max():
        n_bins = 5  # an odd number, so that there is one in the middle
    rows, edges = np.histogram(finite, bins=n_bins)
    return {"first": edges[:-1], "last": edges[1:], "rows": rows}
