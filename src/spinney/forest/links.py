"""From raw scores to probabilities, in the arithmetic of the original library.

Each function works in the type of its argument: float32 scores (XGBoost) stay
float32, as they do in the library they come from.
"""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from spinney.errors import UnsupportedModelError

LINKS = ("identity", "logistic", "softmax", "logistic_each", "exp", "none")


# XGBoost keeps the exponent below this, so that no probability is zero.
LARGEST_FLOAT32_EXPONENT = np.float32(88.7)
_LARGEST_EXPONENT = float(LARGEST_FLOAT32_EXPONENT)
_ONE = np.float32(1)


# Scores further apart than this have different probabilities, even in float32.
CLOSE = 1e-3


# So few numbers are quicker one by one in Python than all at once in NumPy.
FEW = 3

# And so many are quicker column by column.
MANY = 200


@cache
def c_float_function(
    name: str, substitute: Callable[[float], float]
) -> Callable[[np.floating], np.float32]:
    """Return a float32 function of the C library, the one that XGBoost calls.

    Parameters
    ----------
    name : str
        Name of the function, such as ``"logf"``.
    substitute : callable
        The same function in double, for systems where the library is not found; it
        gives another last bit for about one number in two hundred.
    """
    try:
        library = ctypes.CDLL("ucrtbase" if os.name == "nt" else None)
        function = getattr(library, name)
    except (OSError, AttributeError):
        return lambda x: np.float32(substitute(float(x)))
    function.restype = ctypes.c_float
    function.argtypes = [ctypes.c_float]
    return lambda x: np.float32(function(x))


def exponential(x: NDArray[np.floating], as_in_c: bool = False) -> NDArray[np.floating]:
    """Return ``exp(x)`` in the type of `x`.

    NumPy's own float32 exponential is off by a bit on every sixth number, so float32
    goes by way of double, which differs from the C library on one in a thousand.
    With `as_in_c` it has the C library's own bits: float32 number by number, and double
    as NumPy's exponential of complex numbers, which calls that of the C library, while
    its own for doubles has another last bit for one number in twenty.
    """
    if x.dtype != np.float32:
        if not as_in_c:
            return np.exp(x)
        with np.errstate(invalid="ignore"):
            return np.exp(x.astype(np.complex128)).real
    if as_in_c:
        powers = np.frompyfunc(c_float_function("expf", math.exp), 1, 1)(x)
        return np.asarray(powers, dtype=np.float32)
    return np.exp(x.astype(np.float64)).astype(np.float32)


@cache
def _expit() -> Callable[..., NDArray[np.float64]]:
    """Return the logistic curve of SciPy, which takes a while to import."""
    from scipy.special import expit

    return expit


def logistic(raw: NDArray[np.floating], scale: float = 1.0) -> NDArray[np.floating]:
    """Return ``1 / (1 + exp(-scale * raw))``, without overflow.

    Doubles go through SciPy, whose `expit` calls the exponential of the C library, as
    LightGBM, CatBoost and scikit-learn do. NumPy's own has another last bit for one
    number in twenty on processors with AVX-512.
    """
    if raw.dtype != np.float32:
        scaled = raw if scale == 1.0 else raw.dtype.type(scale) * raw
        return np.asarray(_expit()(scaled))
    one = np.float32(1)
    exponent = np.minimum(-np.float32(scale) * raw, LARGEST_FLOAT32_EXPONENT)
    return one / (one + exponential(exponent))


def logistic_pair(score: float, scale: float) -> tuple[float, float]:
    """Return the probabilities of two classes for one double, as `logistic` has them.

    Parameters
    ----------
    score : float
        Raw score of the second class.
    scale : float
        Factor inside the logistic curve.
    """
    try:
        power = math.exp(-scale * score)  # the function of the C library, too
    except OverflowError:
        power = math.inf
    positive = 1.0 / (1.0 + power)
    return 1.0 - positive, positive


def _float32_pair(score: float, scale: float) -> tuple[np.float32, np.float32]:
    """Return the same for one float32, with every step rounded to float32."""
    single = np.float32
    exponent = -score if scale == 1.0 else float(-single(scale) * single(score))
    power = single(np.exp(min(exponent, _LARGEST_EXPONENT)))
    positive = _ONE / (_ONE + power)
    return _ONE - positive, positive


def softmax(raw: NDArray[np.floating], as_in_c: bool = False) -> NDArray[np.floating]:
    """Return ``exp(raw)`` normalised over the last axis."""
    if as_in_c and raw.dtype == np.float64 and raw.ndim == 2:
        # As LightGBM adds them up: one after another.
        if len(raw) <= FEW:
            return np.array([_softmax_of_one(row) for row in raw.tolist()]).reshape(
                raw.shape
            )
        if len(raw) < MANY:
            powers = exponential(raw - raw.max(axis=1, keepdims=True), as_in_c=True)
            return powers / np.add.accumulate(powers, axis=1)[:, -1:]
        columns = np.ascontiguousarray(raw.T)
        powers = exponential(columns - columns.max(axis=0), as_in_c=True)
        total = powers[0].copy()
        for column in powers[1:]:
            total += column
        return np.ascontiguousarray((powers / total).T)
    powers = exponential(raw - raw.max(axis=-1, keepdims=True), as_in_c)
    # XGBoost adds up its float32 powers in double.
    total = powers.sum(axis=-1, keepdims=True, dtype=np.float64)
    return powers / total.astype(raw.dtype)


def scipy_softmax(raw: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return ``scipy.special.softmax(raw, axis=1)``, float32 powers and sums included.

    Parameters
    ----------
    raw : ndarray of shape (n_rows, n_outputs)
        Raw scores, in C order.
    """
    powers = np.exp(raw - raw.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def _softmax_of_one(row: list[float]) -> list[float]:
    """Return the same for the doubles of one row."""
    largest = max(row)
    powers = [math.exp(score - largest) for score in row]
    total = sum_in_order(powers)
    return [power / total for power in powers]


def sum_in_order(numbers: list[float]) -> float:
    """Return a sum as C adds it up; Python's own is more precise since 3.12."""
    total = 0.0
    for number in numbers:
        total += number
    return total


def class_probabilities(
    raw: NDArray[np.floating], link: str, scale: float, as_in_c: bool = False
) -> NDArray[np.floating]:
    """Return one column per class from the raw scores of a classifier.

    Parameters
    ----------
    raw : ndarray of shape (n_rows, n_outputs)
        Raw scores. A single column is the score of the second of two classes.
    link : {"identity", "logistic", "softmax", "logistic_each", "none"}
        How scores become probabilities; ``"none"`` is refused. With
        ``"logistic_each"`` every class has its own logistic curve and the columns need
        not add up to one.
    scale : float
        Factor inside the logistic curve.
    as_in_c : bool, default=False
        Whether softmax is as in C; see `exponential`.
    """
    if link == "softmax":
        return softmax(raw, as_in_c and raw.dtype == np.float64)
    if link == "none":
        msg = "This model has scores and labels, but no probabilities."
        raise UnsupportedModelError(msg)
    if len(raw) <= FEW and link == "logistic" and raw.shape[1] == 1:
        one_by_one = _float32_pair if raw.dtype == np.float32 else logistic_pair
        few = np.empty((len(raw), 2), dtype=raw.dtype)
        for i in range(len(raw)):
            few[i, 0], few[i, 1] = one_by_one(raw.item(i), scale)
        return few
    positive = raw if link == "identity" else logistic(raw, scale)
    if raw.shape[1] > 1:
        return positive
    both = np.empty((len(raw), 2), dtype=positive.dtype)
    both[:, 1] = positive[:, 0]
    np.subtract(1, both[:, 1], out=both[:, 0])
    return both


def likeliest_classes(
    raw: NDArray[np.floating], link: str, scale: float
) -> NDArray[np.intp]:
    """Return the class of the largest probability, as rounding makes them.

    Rounding can make two probabilities equal though their scores differ, and then the
    first wins.

    Parameters
    ----------
    raw : ndarray of shape (n_rows, n_outputs)
        Raw scores, at least two columns.
    link, scale
        As for `class_probabilities`.
    """
    if link != "softmax":
        return class_probabilities(raw, link, scale).argmax(axis=1)
    if len(raw) <= FEW:
        clear = [_clear_winner(row) for row in raw.tolist()]
        if min(clear, default=0) >= 0:
            return np.array(clear, dtype=np.intp)
    winners = raw.argmax(axis=1)
    if len(raw) < MANY:
        best_two = np.partition(raw, -2, axis=1)[:, -2:]
        close = np.flatnonzero(best_two[:, 1] - best_two[:, 0] <= CLOSE)
    else:
        columns = np.ascontiguousarray(raw.T)
        least = columns.max(axis=0) - columns.dtype.type(CLOSE)
        close = np.flatnonzero((columns >= least).sum(axis=0) > 1)
    if len(close):
        winners[close] = softmax(raw[close], as_in_c=True).argmax(axis=1)
    return winners


def _clear_winner(row: list[float]) -> int:
    """Return the index of the largest score, -1 if another is close to it."""
    largest = max(row)
    least = largest - CLOSE
    n_close = 0
    for score in row:
        if not score < least:
            n_close += 1
    return row.index(largest) if n_close == 1 else -1


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
