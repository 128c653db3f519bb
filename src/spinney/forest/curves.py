"""Calibration curves behind the trees: from a score to a calibrated probability.

scikit-learn's ``CalibratedClassifierCV`` puts one of three curves behind a classifier
of two classes. All of them rise, so the label is still a matter of one threshold on the
raw score, and trees can be left out as before; only probabilities go through the curve.
The formulas are scikit-learn's own, operation for operation, to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.errors import InvalidForestError
from spinney.forest.arrays import as_frozen

KINDS = ("sigmoid", "isotonic", "temperature")

# What scikit-learn adds to a probability before it takes the logarithm.
SMALLEST_SHARE = 1e-12

# Floating-point numbers on either side of a threshold that are tried: rounding could
# make a curve fall by a bit where it should rise.
NEIGHBOURS = 64


@dataclass(frozen=True, eq=False)
class Curve:
    """A rising function from the score of the second class to its probability.

    Parameters
    ----------
    kind : {"sigmoid", "isotonic", "temperature"}
        Which formula.
    of : {"raw", "probability"}
        What it is a function of: the raw score, or the probability before calibration.
    x, y : array of shape (n_points,)
        Isotonic: the corners, between which it is linear and outside of which it is
        constant. Sigmoid: `y` holds the slope (negative) and the intercept.
        Temperature: `y` holds the inverse temperature. If `x` is float32, so is `y`.
    """

    kind: str
    of: str
    x: NDArray[np.floating] = field(default_factory=lambda: np.empty(0))
    y: NDArray[np.floating] = field(default_factory=lambda: np.empty(0))

    def __post_init__(self) -> None:
        if self.kind not in KINDS or self.of not in ("raw", "probability"):
            msg = f"a curve must be one of {KINDS}, of 'raw' or 'probability'."
            raise InvalidForestError(msg)
        narrow = np.asarray(self.x).dtype == np.float32
        for name in ("x", "y"):
            dtype = np.float32 if narrow else np.float64
            array = as_frozen(getattr(self, name), dtype, f"the curve's {name}")
            object.__setattr__(self, name, array)
        x, y = self.x, self.y
        n_wanted = {"sigmoid": 2, "temperature": 1, "isotonic": len(x)}[self.kind]
        finite = np.isfinite(x).all() and np.isfinite(y).all()
        if y.ndim != 1 or x.ndim != 1 or len(y) != n_wanted or not finite or not len(y):
            msg = f"a {self.kind} curve has {len(y)} finite numbers, {n_wanted} needed."
            raise InvalidForestError(msg)
        if self.kind == "isotonic":
            rises = bool((x[1:] > x[:-1]).all() and (y[1:] >= y[:-1]).all())
        else:
            rises = bool(y[0] <= 0 if self.kind == "sigmoid" else y[0] >= 0)
        if not rises:
            msg = f"a {self.kind} curve must rise."
            raise InvalidForestError(msg)

    def probabilities(self, scores: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return the probabilities of both classes.

        Parameters
        ----------
        scores : ndarray of shape (n_rows,)
            Raw scores, or probabilities of the second class, as `of` says.

        Returns
        -------
        both : ndarray of shape (n_rows, 2)
            Calibrated.
        """
        if self.kind == "temperature":
            from sklearn.utils.extmath import softmax

            column = scores.reshape(-1, 1)
            if self.of == "probability":
                shares = np.concatenate([1 - column, column], axis=1)
                logits = np.log(shares + SMALLEST_SHARE)
            else:
                logits = np.concatenate([-column, column], axis=1)
            both = np.zeros((len(scores), 2))
            both += softmax(self.y[0] * logits)
            return _capped(both)
        both = np.empty((len(scores), 2))
        if self.kind == "sigmoid":
            from scipy.special import expit

            both[:, 1] = expit(-(self.y[0] * scores + self.y[1]))
        else:
            both[:, 1] = self._interpolated(scores)
        both[:, 0] = 1.0 - both[:, 1]
        return _capped(both)

    def _interpolated(self, scores: NDArray[np.floating]) -> NDArray[np.floating]:
        from scipy.interpolate import interp1d

        scores = scores.astype(self.x.dtype, copy=False)
        if len(self.x) == 1:
            return self.y.repeat(len(scores))
        clipped = np.clip(scores, self.x[0], self.x[-1])
        found: NDArray[np.floating] = interp1d(self.x, self.y, kind="linear")(clipped)
        return found.astype(clipped.dtype)


def _capped(both: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return probabilities without those that rounding has made larger than one."""
    both[(both > 1.0) & (both <= 1.0 + 1e-5)] = 1.0
    return both


def turning_point(
    is_positive: Callable[[NDArray[np.floating]], NDArray[np.bool_]],
    dtype: Any,
    reach: float,
) -> float:
    """Return the smallest score that is positive, of all floating-point numbers.

    Parameters
    ----------
    is_positive : callable
        Takes scores, returns flags. Must not fall as the score rises.
    dtype : float32 or float64
        Type of the scores.
    reach : float
        No score is further from zero than this.

    Returns
    -------
    threshold : float
        Out of reach if no score is positive, or all are.

    Raises
    ------
    InvalidForestError
        If it falls near the turning point.
    """
    dtype = np.dtype(dtype)
    integer = np.int32 if dtype == np.float32 else np.int64
    largest = np.finfo(dtype).max
    last = int(np.array(min(reach, largest), dtype=dtype).view(integer))

    def scores_at(ranks: list[int]) -> NDArray[np.floating]:
        # Floats in order of their bit patterns; negative ones run backwards.
        sizes = np.array([abs(rank) for rank in ranks], dtype=integer).view(dtype)
        return np.where(np.array(ranks) < 0, -sizes, sizes)

    low, high = -last, last
    at_ends = is_positive(scores_at([low, high]))
    if at_ends[0]:
        return -float(largest)
    if not at_ends[1]:
        return float(largest)
    while high - low > 1:
        middle = (low + high) // 2
        if is_positive(scores_at([middle]))[0]:
            high = middle
        else:
            low = middle
    near = [low - k for k in range(NEIGHBOURS)], [high + k for k in range(NEIGHBOURS)]
    below, above = (
        is_positive(scores_at([rank for rank in ranks if abs(rank) <= last]))
        for ranks in near
    )
    if below.any() or not above.all():
        msg = "the probability falls as the score rises, by rounding."
        raise InvalidForestError(msg)
    return float(scores_at([high])[0])
