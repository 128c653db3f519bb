"""Node arrays of scikit-learn's trees, put end to end as a `Forest` wants them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.errors import UnsupportedModelError
from spinney.forest import LEAF

# Node arrays by the name of the argument of `Forest` that they become.
Arrays = dict[str, Any]


def require_fitted(model: Any, attribute: str) -> None:
    """Raise `NotFittedError` unless training has left `attribute` on `model`."""
    if hasattr(model, attribute):
        return
    from sklearn.exceptions import NotFittedError

    msg = (
        f"This {type(model).__name__} has not been trained yet. Call its fit before "
        "spinney reads it."
    )
    raise NotFittedError(msg)


def column_names(model: Any) -> tuple[str, ...] | None:
    """Return the names of the columns `model` was trained on, if it knows them."""
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else tuple(map(str, names))


def nodes_of_tree(tree: Any, columns: NDArray[np.integer] | None = None) -> Arrays:
    """Return the node arrays of a ``tree_``, without its values.

    Parameters
    ----------
    tree : sklearn.tree._tree.Tree
        The ``tree_`` of a fitted estimator.
    columns : ndarray of int, optional
        The columns of a row that the tree was given, if not all of them in order.

    Returns
    -------
    nodes : dict of arrays
        Children are counted from the root of this tree.
    """
    inner = tree.children_left != LEAF
    feature = np.where(inner, tree.feature, LEAF)
    if columns is not None:
        feature[inner] = np.asarray(columns)[feature[inner]]
    return {
        "feature": feature,
        "threshold": np.where(inner, tree.threshold, 0.0),
        "left": tree.children_left,
        "right": tree.children_right,
        # scikit-learn lets leaves say anything here.
        "missing_left": inner & (tree.missing_go_to_left != 0),
        "n_node_samples": tree.n_node_samples,
    }


def values_of_tree(tree: Any, n_values: int, name: str) -> NDArray[np.float64]:
    """Return what each node of a ``tree_`` predicts, as (nodes, `n_values`)."""
    if tree.n_outputs != 1:
        msg = (
            f"{name} was trained on {tree.n_outputs} targets at once, and a forest "
            "gives one answer per row.\n"
            "Hint: train one model per target (sklearn.multioutput does that) and read "
            "each of them."
        )
        raise UnsupportedModelError(msg)
    return tree.value[:, 0, :n_values]


def put_end_to_end(trees: Sequence[Arrays]) -> Arrays:
    """Join the node arrays of several trees and add `tree_offsets`.

    Parameters
    ----------
    trees : sequence of dict of arrays
        The same keys for each tree; children counted from the tree's own root.
    """
    sizes = [len(tree["feature"]) for tree in trees]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    joined = {key: np.concatenate([tree[key] for tree in trees]) for key in trees[0]}
    shift = np.repeat(offsets[:-1], sizes)
    for child in ("left", "right"):
        local = joined[child].astype(np.int64)
        joined[child] = np.where(local == LEAF, LEAF, local + shift)
    joined["tree_offsets"] = offsets
    return joined


def averaged_from_leaves(joined: Arrays) -> NDArray[np.float64]:
    """Return `value` with inner nodes set to the mean of the leaves below them.

    Boosting leaves numbers of another scale at inner nodes (mean gradients without
    the Newton step, or steps before shrinkage), which no prediction of scikit-learn
    uses. The mean over the training rows below a node is what the node would have
    contributed on average, in the units of its leaves.

    Parameters
    ----------
    joined : dict of arrays
        As :func:`put_end_to_end` returns it, with a one-dimensional ``value``.
    """
    left, right = joined["left"], joined["right"]
    weight = joined["n_node_samples"].astype(np.float64)
    value = joined["value"].astype(np.float64)
    levels = []
    level = joined["tree_offsets"][:-1]
    while level.size:
        level = level[left[level] != LEAF]
        levels.append(level)
        level = np.concatenate([left[level], right[level]])
    for level in reversed(levels):
        below = np.stack([left[level], right[level]])
        share = weight[below] / weight[below].sum(axis=0)
        value[level] = (share * value[below]).sum(axis=0)
    return value
