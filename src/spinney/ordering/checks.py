"""Checks of what callers pass to orders and rules."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spinney.errors import InvalidArgumentError


def check_choice(name: str, value: Any, choices: Sequence[str]) -> str:
    """Return `value` if it is one of `choices`, or raise."""
    if not isinstance(value, str) or value not in choices:
        alternatives = ", ".join(map(repr, choices))
        msg = f"{name} must be one of {alternatives}, got {value!r}."
        raise InvalidArgumentError(msg)
    return value


def check_max_disagreement(max_disagreement: Any) -> float:
    """Return the share of rows that may be decided differently, or raise."""
    hint = "It is a share of the rows: write 0.005 for five rows in a thousand."
    is_number = isinstance(max_disagreement, Real) and not isinstance(
        max_disagreement, bool
    )
    number = float(max_disagreement) if is_number else np.nan
    if not 0.0 <= number < 1.0:
        msg = f"max_disagreement must be in [0, 1), got {max_disagreement!r}. {hint}"
        raise InvalidArgumentError(msg)
    return number


def check_costs(
    costs: ArrayLike | None, n_trees: int, name: str = "costs"
) -> NDArray[np.float64]:
    """Return the cost of each tree, 1 by default, or raise."""
    if costs is None:
        return np.ones(n_trees)
    hint = f"Pass {n_trees} positive numbers, one per tree, or None if all cost 1."
    try:
        checked = np.array(costs, dtype=np.float64)
    except (TypeError, ValueError) as error:
        msg = f"{name} must be numbers, got {type(costs).__name__}. {hint}"
        raise InvalidArgumentError(msg) from error
    if checked.shape != (n_trees,):
        msg = f"{name} must have shape ({n_trees},), got {checked.shape}. {hint}"
        raise InvalidArgumentError(msg)
    bad = np.flatnonzero(~(np.isfinite(checked) & (checked > 0.0)))
    if len(bad):
        msg = (
            f"{name} must be positive and finite, got "
            f"{float(checked[bad[0]])!r} for tree {bad[0]}. {hint}"
        )
        raise InvalidArgumentError(msg)
    return checked


def check_order(order: ArrayLike, n_trees: int) -> NDArray[np.int64]:
    """Return an order of all trees, or raise."""
    hint = f"Pass every number from 0 to {n_trees - 1} exactly once."
    given = np.asarray(order)
    if given.dtype.kind not in "iu" or given.ndim != 1:
        msg = (
            "order must be a one-dimensional array of integers, got dtype "
            f"{given.dtype} and shape {given.shape}. {hint}"
        )
        raise InvalidArgumentError(msg)
    checked = given.astype(np.int64)
    if len(checked) != n_trees:
        msg = (
            f"order must name each of the {n_trees} trees once, got {len(checked)} "
            f"numbers. {hint}"
        )
        raise InvalidArgumentError(msg)
    if not np.array_equal(np.sort(checked), np.arange(n_trees)):
        strange = np.flatnonzero((checked < 0) | (checked >= n_trees))
        if len(strange):
            problem = f"names tree {checked[strange[0]]}, which there is not"
        else:
            twice = np.flatnonzero(np.bincount(checked) > 1)[0]
            problem = f"names tree {twice} more than once"
        msg = f"order must be a permutation of the trees, but {problem}. {hint}"
        raise InvalidArgumentError(msg)
    return checked


def check_steps(steps: ArrayLike | None, n_trees: int) -> NDArray[np.int64]:
    """Return the steps after which a stop is possible, or raise.

    None stands for all of them: after 1, 2, ..., `n_trees` - 1 trees. After the last
    tree everything is decided anyway.
    """
    if steps is None:
        return np.arange(1, n_trees, dtype=np.int64)
    given = np.asarray(steps)
    if given.size == 0:
        return np.empty(0, dtype=np.int64)
    if (
        given.dtype.kind not in "iu"
        or given.ndim != 1
        or np.any(np.diff(given.astype(np.int64)) <= 0)
        or given[0] < 1
        or given[-1] >= n_trees
    ):
        msg = (
            "check_steps must be ascending integers from 1 to the number of trees "
            f"less one ({n_trees - 1}), got {steps!r}. Write range(8, {n_trees}, 8) to "
            "look after every eighth tree."
        )
        raise InvalidArgumentError(msg)
    return given.astype(np.int64)


def check_rows(n_rows: int) -> None:
    """Raise if there are no rows to fit on."""
    if n_rows == 0:
        msg = "There are no rows to fit on. Pass at least one, better thousands."
        raise InvalidArgumentError(msg)


def check_positive(name: str, value: Any) -> float:
    """Return a positive, finite number as a float, or raise."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    number = float(value) if is_number else np.nan
    if not 0.0 < number < np.inf:
        msg = f"{name} must be a positive, finite number, got {value!r}."
        raise InvalidArgumentError(msg)
    return number


def check_count(name: str, value: Any, least: int) -> int:
    """Return an integer that is not too small, or raise."""
    is_integer = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_integer or int(value) < least:
        msg = f"{name} must be an integer of at least {least}, got {value!r}."
        raise InvalidArgumentError(msg)
    return int(value)
