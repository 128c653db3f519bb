"""Step orders by name, and what one is worth."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from spinney.anytime.ordering_rows import OrderingRows, Progress
from spinney.errors import InvalidArgumentError
from spinney.forest import Forest
from spinney.ordering.step_orders import check_order_name

# Share of the rows that the quit-when-you-can sequence may decide differently.
QWYC_MAX_DISAGREEMENT = 0.005


def make_order(
    data: OrderingRows,
    order: str | ArrayLike,
    *,
    random_state: Any = None,
    n_jobs: int | None = None,
    on_progress: Progress | None = None,
) -> NDArray[np.int64]:
    """Return a step order by its name, or check one that is given.

    Parameters
    ----------
    data : OrderingRows
        The forest and the rows to rate orders on.
    order : str or array-like of int
        One of `ORDERS`, or a tree index per step.
    random_state : int, RandomState instance or None, default=None
        Draws the random order.
    n_jobs : int or None, default=None
        Number of threads; None means one, -1 all cores.
    on_progress : callable, optional
        Called from time to time with the amount of work done and of all work, by the
        orders that take long to find.

    Returns
    -------
    order : ndarray of shape (n_steps,), dtype=int64
        Tree to step in; every tree as often as it is deep.
    """
    depths = data.forest.depths
    if not isinstance(order, str):
        return check_order(order, depths)
    check_order_name(order)
    if order in ("optimal", "unoptimal"):
        from spinney.anytime.states import optimal_steps

        return optimal_steps(
            data,
            worst=order == "unoptimal",
            n_jobs=n_jobs,
            on_progress=on_progress,
        )
    if order in ("forward_squirrel", "backward_squirrel"):
        from spinney.anytime.squirrel import squirrel_steps

        return squirrel_steps(
            data,
            backward=order == "backward_squirrel",
            n_jobs=n_jobs,
            on_progress=on_progress,
        )
    if order == "random":
        steps = np.repeat(np.arange(data.forest.n_trees), depths)
        return check_random_state(random_state).permutation(steps)
    kind, _, name = order.partition("_")
    sequence = tree_sequence(data, name or "natural")
    return (depth_order if kind == "depth" else breadth_order)(sequence, depths)


def depth_order(
    sequence: NDArray[np.int64], depths: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the order that takes each tree to its leaves before the next one.

    Parameters
    ----------
    sequence : ndarray of shape (n_trees,)
        All trees, in the order in which they are started.
    depths : ndarray of shape (n_trees,)
        Number of levels below the root of each tree.
    """
    return np.repeat(sequence, depths[sequence])


def breadth_order(
    sequence: NDArray[np.int64], depths: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the order that takes a step in each tree in turn.

    Parameters
    ----------
    sequence : ndarray of shape (n_trees,)
        All trees, in the order of their turns.
    depths : ndarray of shape (n_trees,)
        Number of levels below the root of each tree.
    """
    rounds = [sequence[depths[sequence] > level] for level in range(int(depths.max()))]
    return np.concatenate([np.empty(0, dtype=np.int64), *rounds])


def tree_sequence(data: OrderingRows, name: str) -> NDArray[np.int64]:
    """Return all trees in the sequence of this name.

    Parameters
    ----------
    data : OrderingRows
        The forest and the rows to rate trees on.
    name : str
        One of `TREE_SEQUENCES`.
    """
    forest = data.forest
    if name == "natural":
        return np.arange(forest.n_trees)
    # What each tree adds to each class when it is evaluated alone.
    leaves = forest.engine.leaves(data.rows)
    values = np.ldexp(data.sums.by_class().astype(np.float64), -data.sums.shift)
    base = np.ldexp(data.sums.base.astype(np.float64), -data.sums.shift)
    scores = values[leaves]
    if name == "qwyc":
        return _qwyc_sequence(forest, scores, base)
    from spinney.ordering import measures

    measure = {
        "individual_error": measures.individual_error,
        "error_ambiguity": measures.error_ambiguity,
        "reduced_error": measures.reduced_error,
        "drep": measures.drep,
    }[name]
    return measure(scores, data.labels, base=base)


def _qwyc_sequence(
    forest: Forest, scores: NDArray[np.float64], base: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Return the trees as quit-when-you-can evaluates them."""
    from spinney.ordering.qwyc import qwyc
    from spinney.ordering.score_table import ScoreTable

    if scores.shape[2] != 2:
        msg = (
            "The quit-when-you-can sequence is for two classes, and this forest has "
            f"{scores.shape[2]}. Use another one, 'drep' for example."
        )
        raise InvalidArgumentError(msg)
    # The second class wins if its sum exceeds that of the first.
    table = ScoreTable.of_scores(
        scores[:, :, 1] - scores[:, :, 0],
        base=float(base[1] - base[0]),
        beta=float(np.nextafter(0.0, 1.0)),
    )
    return qwyc(table, QWYC_MAX_DISAGREEMENT).order


def check_order(order: ArrayLike, depths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return an order as an array, or raise if it does not step through the forest.

    Parameters
    ----------
    order : array-like of int
        A tree index per step.
    depths : ndarray of shape (n_trees,)
        Number of levels below the root of each tree.
    """
    steps = np.asarray(order)
    hint = (
        "Every tree must be stepped in exactly as often as it is deep: order "
        f"np.repeat(np.arange({len(depths)}), forest.depths) as you like."
    )
    if steps.ndim != 1 or (steps.size and steps.dtype.kind not in "iu"):
        msg = (
            "order must be a one-dimensional array of tree indices, got "
            f"{steps.dtype} of shape {steps.shape}. {hint}"
        )
        raise InvalidArgumentError(msg)
    if steps.size and (steps.min() < 0 or steps.max() >= len(depths)):
        unknown = steps[(steps < 0) | (steps >= len(depths))][0]
        msg = (
            f"order names tree {int(unknown)}, and the forest has the trees 0 to "
            f"{len(depths) - 1}. {hint}"
        )
        raise InvalidArgumentError(msg)
    counts = np.bincount(steps.astype(np.int64), minlength=len(depths))
    wrong = np.flatnonzero(counts != depths)
    if len(wrong):
        tree = int(wrong[0])
        msg = (
            f"order steps {int(counts[tree])} times in tree {tree}, which is "
            f"{int(depths[tree])} deep. {hint}"
        )
        raise InvalidArgumentError(msg)
    return np.array(steps, dtype=np.int64)


def normalised_mean_accuracy(curve: ArrayLike) -> float:
    """Return the mean accuracy over all states, relative to that of the last.

    Parameters
    ----------
    curve : array-like of shape (n_steps + 1,)
        Accuracy in every state, the initial one included.

    Returns
    -------
    nma : float
        1 if the final accuracy is there from the start. NaN if it is zero.
    """
    accuracies = np.asarray(curve, dtype=np.float64)
    if accuracies.ndim != 1 or accuracies.size == 0:
        msg = (
            "curve must hold one accuracy per state, got shape "
            f"{accuracies.shape}. Pass what accuracy_curve returns."
        )
        raise InvalidArgumentError(msg)
    if accuracies[-1] == 0.0:
        return float("nan")
    return float(accuracies.mean() / accuracies[-1])
