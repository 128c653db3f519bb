"""Checks of distributions of votes and of steps at which a vote may stop."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spinney.errors import InvalidArgumentError


def check_stop_steps(stop_steps: Any, n_voters: int) -> NDArray[np.bool_]:
    """Return after which numbers of votes a stop is possible, as flags, or raise."""
    may_stop = np.ones(n_voters + 1, dtype=bool)
    if stop_steps is None:
        return may_stop
    steps = np.asarray(stop_steps)
    if steps.size == 0:
        steps = steps.astype(np.int64)
    if steps.ndim != 1 or steps.dtype.kind not in "iu":
        msg = (
            "stop_steps must be a list of integers, numbers of votes after which a "
            f"stop is possible, got {stop_steps!r}."
        )
        raise InvalidArgumentError(msg)
    if steps.size and not (steps.min() >= 0 and steps.max() <= n_voters):
        msg = (
            f"stop_steps must be from 0 to {n_voters}, the number of voters, got "
            f"{int(steps.min())} to {int(steps.max())}."
        )
        raise InvalidArgumentError(msg)
    may_stop[:] = False
    may_stop[steps] = True
    may_stop[-1] = True
    return may_stop


def check_votes(votes: ArrayLike | None, n_voters: int) -> NDArray[np.float64]:
    """Return the weights of 0 to `n_voters` positive votes, or raise."""
    hint = (
        f"Pass {n_voters + 1} counts or frequencies, of 0 to {n_voters} positive "
        "votes, or None if all numbers are equally likely."
    )
    if votes is None:
        return np.ones(n_voters + 1)
    try:
        weights = np.array(votes, dtype=np.float64)
    except (TypeError, ValueError) as error:
        msg = f"votes must be numbers, got {type(votes).__name__}. {hint}"
        raise InvalidArgumentError(msg) from error
    if weights.shape != (n_voters + 1,):
        msg = f"votes must have shape ({n_voters + 1},), got {weights.shape}. {hint}"
        raise InvalidArgumentError(msg)
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0.0)))
    if len(bad):
        msg = (
            "votes must not be negative, NaN or infinite, got "
            f"{float(weights[bad[0]])!r} for {bad[0]} positive votes. {hint}"
        )
        raise InvalidArgumentError(msg)
    largest = float(weights.max())
    if largest == 0.0:
        msg = f"votes must not all be zero. {hint}"
        raise InvalidArgumentError(msg)
    # A power of two changes no proportion, and no sum or square of weights overflows.
    return np.ldexp(weights, -math.frexp(largest)[1])
