"""Features on demand: a forest that buys values only when a tree needs them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spinney.base.parameters import check_count
from spinney.errors import InvalidArgumentError, UnsupportedModelError
from spinney.forest import Forest
from spinney.forest.rows import as_rows
from spinney.pruning.costs import Purchases, purchases_for
from spinney.runtime.conditions import node_kinds
from spinney.runtime.kernel_arrays import read_only

if TYPE_CHECKING:
    from spinney.pruning.lazy_kernels import Nodes

Fetch = Callable[[int, NDArray[np.int64]], Any]

CATEGORY_RULES = ("truncate", "floor", "exact")  # in the order of the kernel's numbers


@dataclass(frozen=True, eq=False)
class LazyPrediction:
    """Predictions of a forest, and what was bought for them.

    Parameters
    ----------
    labels : ndarray of shape (n_rows,)
        Class labels (numbers, if the forest is a regressor).
    probabilities : ndarray of shape (n_rows, n_classes) or None
        Probability of each class; None for a regressor.
    cost : ndarray of shape (n_rows,)
        What was paid for each row.
    bought : ndarray of shape (n_rows, n_features), dtype=bool
        Which features were bought for which rows.
    n_calls : int
        How often `fetch` was called.
    """

    labels: NDArray[Any]
    probabilities: NDArray[np.floating] | None
    cost: NDArray[np.float64]
    bought: NDArray[np.bool_]
    n_calls: int


def predict_lazily(
    forest: Forest,
    fetch: Fetch,
    n_rows: int,
    *,
    purchases: Purchases | None = None,
    finite_only: bool = False,
    n_jobs: int | None = None,
) -> LazyPrediction:
    """Predict rows whose features are bought one by one, as the trees need them.

    All rows descend all trees at once, each as far as its features are known. Then the
    feature that most rows wait for is bought for all of them in one call, and they
    continue, until every row is at a leaf of every tree. A row pays for the features on
    its paths in whatever order they are bought; starting with the feature that most
    rows wait for only keeps the number of calls low.

    Parameters
    ----------
    forest : Forest
        The forest.
    fetch : callable
        ``fetch(feature, rows)`` returns the values of one feature (an int, the number
        of the column) for some rows (an ascending array of row numbers), in the order
        of `rows`. It is called at most once for any feature of any row.
    n_rows : int
        Number of rows; they are called 0 to ``n_rows - 1``.
    purchases : Purchases, optional
        What features cost. By default each costs 1.
    finite_only : bool, default=False
        Refuse NaN and infinite values, instead of treating them as the forest does.
    n_jobs : int or None, default=None
        Number of threads for the final prediction; None means one, -1 all cores.

    Returns
    -------
    prediction : LazyPrediction
        The labels that ``forest.predict`` gives, and what they cost.

    Raises
    ------
    ValueError
        If an argument or a return value of `fetch` is invalid. Exceptions that `fetch`
        raises are passed on, with a note about the purchase that failed.
    """
    _check_arguments(fetch, n_rows)
    if forest.encoder is not None:
        msg = (
            f"{forest.source} looks up statistics of several columns at once, so its "
            "columns cannot be bought one by one.\nHint: train without cat_features."
        )
        raise UnsupportedModelError(msg)
    if purchases is None:
        purchases = purchases_for(forest.n_features, forest.feature_names, None, None)
    X, bought, n_calls = _buy(forest, fetch, n_rows, finite_only)
    raw = forest.engine.raw(forest.engine.rows(X), n_jobs)
    probabilities = None if forest.classes is None else forest.probabilities(raw)
    return LazyPrediction(
        labels=forest.predictions(raw),
        probabilities=probabilities,
        cost=purchases.cost_of(bought),
        bought=bought,
        n_calls=n_calls,
    )


def _check_arguments(fetch: Any, n_rows: Any) -> None:
    if not callable(fetch):
        msg = (
            f"fetch must be callable, got {type(fetch).__name__}. Pass a function that "
            "takes the number of a feature and an array of row numbers, and returns "
            "their values."
        )
        raise InvalidArgumentError(msg)
    check_count("n_rows", n_rows, 0)


def _buy(
    forest: Forest, fetch: Fetch, n_rows: int, finite_only: bool
) -> tuple[NDArray[np.float64], NDArray[np.bool_], int]:
    """Return rows with the values bought, a mask of these, and the number of calls.

    The other values are zero, and no tree compares them.
    """
    from spinney.pruning.lazy_kernels import walk_on

    shape = (int(n_rows), forest.n_features)
    X = np.zeros(shape)
    bought = np.zeros(shape, dtype=bool)
    waits = np.zeros(shape[::-1], dtype=bool)
    n_waiting = np.zeros(forest.n_features, dtype=np.int64)
    at_node = np.empty((shape[0], forest.n_trees), dtype=np.int32)
    at_node[:] = forest.tree_offsets[:-1]
    nodes = _nodes_of(forest)
    n_calls = 0
    walk_on(np.arange(shape[0]), X, bought, nodes, at_node, waits, n_waiting)
    while n_waiting.any():
        feature = int(n_waiting.argmax())
        rows = np.flatnonzero(waits[feature])
        X[rows, feature] = _fetched(forest, fetch, feature, rows, finite_only, bought)
        n_calls += 1
        bought[rows, feature] = True
        waits[feature, rows] = False
        n_waiting[feature] = 0
        walk_on(rows, X, bought, nodes, at_node, waits, n_waiting)
    return X, bought, n_calls


def _fetched(
    forest: Forest,
    fetch: Fetch,
    feature: int,
    rows: NDArray[np.int64],
    finite_only: bool,
    bought: NDArray[np.bool_],
) -> NDArray[np.floating]:
    """Return the values of one feature, rounded as the forest rounds them."""
    try:
        fetched = fetch(feature, rows.copy())
    except Exception as error:
        error.add_note(
            f"Raised by fetch({feature}, rows) for {len(rows)} rows, after "
            f"{int(bought.sum())} values had been bought. To reuse them in a retry, "
            "let fetch cache its results."
        )
        raise
    wanted = f"fetch({feature}, rows) must return {len(rows)} numbers, one per row"
    try:
        values = np.asarray(fetched)
        if values.shape == rows.shape:
            values = as_rows(values[:, None], 1, np.dtype(forest.input_dtype))[:, 0]
    except (TypeError, ValueError) as error:
        msg = f"{wanted}. The return value cannot be converted to numbers: {error}"
        raise InvalidArgumentError(msg) from error
    if values.shape != rows.shape:
        msg = (
            f"{wanted}, got an array of shape {values.shape}. Return the values in the "
            "order of rows."
        )
        raise InvalidArgumentError(msg)
    if finite_only and not np.isfinite(values).all():
        wrong = int(np.flatnonzero(~np.isfinite(values))[0])
        msg = (
            f"{wanted}, none of them NaN or infinite, got {values[wrong]} for row "
            f"{rows[wrong]}. The forest was trained without such values: impute them "
            "as before training."
        )
        raise InvalidArgumentError(msg)
    return values


def _nodes_of(forest: Forest) -> Nodes:
    """Return the nodes of a forest for the kernel."""
    from spinney.pruning.lazy_kernels import Nodes

    def given_or(array: NDArray[Any] | None, size: int, fill: int, kind: Any) -> Any:
        return read_only(np.full(size, fill, dtype=kind)) if array is None else array

    return Nodes(
        feature=forest.feature,
        threshold=forest.threshold,
        left=forest.left,
        right=forest.right,
        kind=read_only(node_kinds(forest)),
        category_set=given_or(forest.category_set, forest.n_nodes, -1, np.int32),
        category_offsets=given_or(forest.category_offsets, 1, 0, np.int64),
        category_words=given_or(forest.category_words, 0, 0, np.uint32),
        category_rule=CATEGORY_RULES.index(forest.category_rule),
    )
