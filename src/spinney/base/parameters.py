"""Checks of what callers pass in, one for each kind of argument."""

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


def check_count(
    name: str, value: Any, least: int, most: int | None = None, hint: str = ""
) -> int:
    """Return an integer within its range, or raise.

    Parameters
    ----------
    name : str
        What the caller calls it.
    value : int
        What was passed.
    least, most : int
        The range; no `most` for none.
    hint : str, default=""
        What to do, for the message.
    """
    wanted = f"of at least {least}" if most is None else f"from {least} to {most}"
    is_integer = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_integer or value < least or (most is not None and value > most):
        msg = f"{name} must be an integer {wanted}, got {value!r}. {hint}".rstrip()
        raise InvalidArgumentError(msg)
    return int(value)


def check_n_voters(n_voters: Any) -> int:
    """Return the number of voters as an int, or raise."""
    hint = "Pass how many voters there are in all, 101 for example."
    return check_count("n_voters", n_voters, 1, None, hint)


def check_min_votes(min_votes: Any, n_voters: int) -> int:
    """Return the least number of votes as an int, or raise."""
    hint = (
        f"There are {n_voters} voters; with 0 a decision may be taken without a vote."
    )
    return check_count("min_votes", min_votes, 0, n_voters, hint)
