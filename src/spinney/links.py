"""From raw scores to probabilities, in the arithmetic of the original library.

Each function works in the type of its argument: float32 scores (XGBoost) stay
float32, as they do in the library they come from.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

LINKS = ("identity", "logistic", "softmax", "logistic_each", "exp")


def logistic(raw: NDArray[np.floating], scale: float = 1.0) -> NDArray[np.floating]:
    """Return ``1 / (1 + exp(-scale * raw))``, without overflow."""
    one = raw.dtype.type(1)
    with np.errstate(over="ignore"):  # exp(large) = inf, and 1 / inf = 0 is right
        return one / (one + np.exp(-raw.dtype.type(scale) * raw))


def softmax(raw: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return ``exp(raw)`` normalised over the last axis."""
    powers = np.exp(raw - raw.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def class_probabilities(
    raw: NDArray[np.floating], link: str, scale: float
) -> NDArray[np.floating]:
    """Return one column per class from the raw scores of a classifier.

    Parameters
    ----------
    raw : ndarray of shape (n_rows, n_outputs)
        Raw scores. A single column is the score of the second of two classes.
    link : {"identity", "logistic", "softmax", "logistic_each"}
        How scores become probabilities. With ``"logistic_each"`` every class has its
        own logistic curve and the columns need not add up to one.
    scale : float
        Factor inside the logistic curve.
    """
    if link == "softmax":
        return softmax(raw)
    positive = raw if link == "identity" else logistic(raw, scale)
    if raw.shape[1] > 1:
        return positive
    return np.hstack([positive.dtype.type(1) - positive, positive])


def smallest_positive_score(
    is_positive: Callable[[np.floating], bool], dtype: type[np.floating]
) -> float:
    """Return the smallest raw score that a library calls positive.

    Libraries decide in different ways (raw score above zero, probability above one
    half, the larger of two rounded probabilities). All of them are steps of the raw
    score, so one number, found by bisection over the floating-point numbers
    themselves, says exactly the same.

    Parameters
    ----------
    is_positive : callable
        The library's decision for one raw score; must not fall as the score rises.
    dtype : float32 or float64
        The type of the raw score.
    """
    integer = np.int32 if dtype is np.float32 else np.int64

    def from_rank(rank: int) -> np.floating:
        # Floats in order of their bit patterns; negative ones run backwards.
        size: np.floating = np.array([abs(rank)], dtype=integer).view(dtype)[0]
        return -size if rank < 0 else size

    high = int(np.array(1.0, dtype=dtype).view(integer))
    low = -high
    if is_positive(from_rank(low)) or not is_positive(from_rank(high)):
        msg = "the decision must turn from negative to positive between -1 and 1."
        raise ValueError(msg)
    while high - low > 1:
        middle = (low + high) // 2
        if is_positive(from_rank(middle)):
            high = middle
        else:
            low = middle
    return float(from_rank(high))
