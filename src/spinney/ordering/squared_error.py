"""Orders by squared error against the labels: each tree alone, or greedily together."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spinney.base.parameters import check_choice
from spinney.errors import InvalidArgumentError

AGGREGATIONS = ("sum", "mean")


def individual_mse(
    scores: ArrayLike, target: ArrayLike, *, aggregation: str = "sum"
) -> NDArray[np.int64]:
    """Order trees by the squared error that each has alone, the smallest first.

    Parameters
    ----------
    scores : array-like of shape (n_rows, n_trees) or (n_rows, n_trees, n_outputs)
        What each tree says.
    target : array-like of shape (n_rows,) or (n_rows, n_outputs)
        What it should say.
    aggregation : {"sum", "mean"}, default="sum"
        Whether trees are added or averaged; alone that makes no difference.

    Returns
    -------
    order : ndarray of shape (n_trees,), dtype=int64
        Trees. Of equally good ones the first comes first.
    """
    said, wanted = _checked(scores, target, aggregation)
    errors = ((said - wanted) ** 2).mean(axis=1)
    return np.argsort(errors, kind="stable").astype(np.int64)


def greedy_mse(
    scores: ArrayLike, target: ArrayLike, *, aggregation: str = "sum", base: float = 0.0
) -> NDArray[np.int64]:
    """Order trees so that each next one leaves the least squared error of those so far.

    Parameters
    ----------
    scores : array-like of shape (n_rows, n_trees) or (n_rows, n_trees, n_outputs)
        What each tree says.
    target : array-like of shape (n_rows,) or (n_rows, n_outputs)
        What they should say together.
    aggregation : {"sum", "mean"}, default="sum"
        Whether the trees so far are added or averaged.
    base : float, default=0.0
        With ``"sum"``: what is there before any tree.

    Returns
    -------
    order : ndarray of shape (n_trees,), dtype=int64
        Trees. Of equally good ones the first comes first.
    """
    said, wanted = _checked(scores, target, aggregation)
    wanted = wanted - base
    n_trees = len(said)
    # Everything that errors depend on is in the products of trees with one another
    # and with the target; the rows are needed only once.
    products = said @ said.T
    with_target = said @ wanted
    with_sum = np.zeros(n_trees)  # product of each tree with the sum of those placed
    squares = np.diagonal(products)
    left = np.ones(n_trees, dtype=bool)
    order = np.empty(n_trees, dtype=np.int64)
    for step in range(n_trees):
        # Squared error with each tree in addition, less what is the same for all; a
        # mean times the number of trees, so that nothing is divided and ties are exact.
        n_averaged = step + 1 if aggregation == "mean" else 1
        errors = 2.0 * with_sum + squares - 2.0 * n_averaged * with_target
        errors[~left] = np.inf
        order[step] = chosen = int(np.argmin(errors))
        left[chosen] = False
        with_sum += products[chosen]
    return order


def _checked(
    scores: ArrayLike, target: ArrayLike, aggregation: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return scores by tree and the target, both without further axes, or raise."""
    check_choice("aggregation", aggregation, AGGREGATIONS)
    said = np.asarray(scores, dtype=np.float64)
    wanted = np.asarray(target, dtype=np.float64)
    if said.ndim not in (2, 3) or wanted.shape != said.shape[:1] + said.shape[2:]:
        msg = (
            "target must have the shape of scores without the axis of the trees, got "
            f"scores of shape {said.shape} and a target of shape {wanted.shape}."
        )
        raise InvalidArgumentError(msg)
    if said.size == 0:
        msg = f"There is nothing to order by: scores have shape {said.shape}."
        raise InvalidArgumentError(msg)
    if not (np.isfinite(said).all() and np.isfinite(wanted).all()):
        msg = "scores and target must be finite: squared errors are compared."
        raise InvalidArgumentError(msg)
    by_tree = np.ascontiguousarray(np.swapaxes(said, 0, 1))
    return by_tree.reshape(len(by_tree), -1), wanted.ravel()
