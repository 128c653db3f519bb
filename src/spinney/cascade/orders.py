"""Orders of trees by name."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spinney.base.parameters import check_choice
from spinney.errors import InvalidArgumentError
from spinney.ordering import ScoreTable
from spinney.ordering.qwyc import Progress, qwyc
from spinney.ordering.squared_error import greedy_mse, individual_mse
from spinney.runtime.order_checks import check_order

ORDERS = ("qwyc", "natural", "random", "individual_mse", "greedy_mse")
NEED_ROWS = ("qwyc", "individual_mse", "greedy_mse")
NEED_LABELS = ("individual_mse", "greedy_mse")


def check_order_name(order: Any) -> None:
    """Raise if `order` is a text, but not the name of an order."""
    if isinstance(order, str):
        check_choice("order", order, ORDERS)


def is_named(order: Any, names: tuple[str, ...]) -> bool:
    """Whether `order` is one of these names, and not a permutation."""
    return isinstance(order, str) and order in names


def find_order(
    order: str | ArrayLike,
    n_trees: int,
    *,
    table: ScoreTable | None = None,
    labels: NDArray[np.intp] | None = None,
    averages: bool = False,
    max_disagreement: float = 0.0,
    costs: ArrayLike | None = None,
    early_exit: str = "both",
    rng: np.random.RandomState | None = None,
    on_step: Progress | None = None,
) -> NDArray[np.int64]:
    """Return an order of trees, given by its name or as a permutation.

    Parameters
    ----------
    order : {"qwyc", "natural", "random", "individual_mse", "greedy_mse"} or array-like
        The order.
    n_trees : int
        Number of trees.
    table : ScoreTable, optional
        Scores of the rows to find it on, for those that need rows.
    labels : ndarray of shape (n_rows,), optional
        Class indices of these rows, for those that need labels.
    averages : bool, default=False
        Whether the ensemble averages its trees: each then stands for the whole.
    max_disagreement, costs, early_exit
        As in `qwyc`.
    rng : RandomState, optional
        Draws a random order.
    on_step : callable, optional
        As in `qwyc`.
    """
    if not isinstance(order, str):
        return check_order(order, n_trees)
    if order == "natural":
        return np.arange(n_trees, dtype=np.int64)
    if order == "random":
        assert rng is not None
        return rng.permutation(n_trees).astype(np.int64)
    assert table is not None
    if order == "qwyc":
        found = qwyc(
            table,
            max_disagreement,
            costs=costs,
            early_exit=early_exit,
            on_step=on_step,
        )
        return found.order
    if labels is None:
        msg = (
            f"order={order!r} needs labels: it compares the trees with the true "
            "labels. Pass y, or use order='qwyc', which needs none."
        )
        raise InvalidArgumentError(msg)
    return _by_squared_error(order, table, labels, averages)


def _by_squared_error(
    order: str, table: ScoreTable, labels: NDArray[np.intp], averages: bool
) -> NDArray[np.int64]:
    """Order by squared error against labels as -1 and 1, or halves for averages.

    A row of a class that the model does not know (-1) is none of its classes.
    """
    scores = np.swapaxes(table.scores, 0, 1)
    if table.is_binary:
        target = np.where(labels < 0, 0.0, 2.0 * labels - 1.0)
    else:
        n_classes = len(table.base)
        classes = np.arange(n_classes)
        target = 2.0 * (labels[:, None] == classes) - 1.0
        if scores.shape[2] == 1:
            scores = scores * (table.tree_output[:, None] == classes)
    if averages:
        scores, target = scores * table.n_trees, 0.5 * target
        if not table.is_binary:
            target = target + 0.5  # a share of one for the class, none for others
    aggregation = "mean" if averages else "sum"
    if order == "individual_mse":
        return individual_mse(scores, target, aggregation=aggregation)
    if not averages:
        target = target - (table.base[0] if table.is_binary else table.base)
    return greedy_mse(scores, target, aggregation=aggregation)
