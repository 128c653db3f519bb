"""Thresholds for rows of either type."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def thresholds_for(
    threshold: NDArray[np.float64], dtype: type[np.floating]
) -> NDArray[np.floating]:
    """Return thresholds that part numbers of `dtype` just as the given ones do.

    For a float32 number ``x <= t`` says the same as ``x <= t32``, where ``t32`` is the
    largest float32 not above ``t``.
    """
    if dtype is np.float64:
        return threshold
    with np.errstate(over="ignore", under="ignore"):
        rounded = threshold.astype(np.float32)
        below = np.nextafter(rounded, np.float32(-np.inf))
    return np.where(rounded.astype(np.float64) > threshold, below, rounded)
