"""What scikit-learn's trees hold, under the names that a `Forest` has for it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.errors import UnsupportedModelError
from spinney.forest import LEAF
from spinney.readers.joining import NodeArrays
from spinney.readers.known_members import refuse_unknown

# All that scikit-learn 1.6 to 1.9 says about a node; see `known_members`.
NODE_FIELDS = (
    "feature",
    "impurity",
    "left_child",
    "missing_go_to_left",
    "n_node_samples",
    "right_child",
    "threshold",
    "weighted_n_node_samples",
)


def column_names(model: Any) -> tuple[str, ...] | None:
    """Return the names of the columns `model` was trained on, if it knows them."""
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else tuple(map(str, names))


def nodes_of_tree(tree: Any, columns: NDArray[np.integer] | None = None) -> NodeArrays:
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
    fields = tree.__getstate__()["nodes"].dtype.names
    refuse_unknown("scikit-learn", "the nodes of a tree", fields, NODE_FIELDS)
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
            f"{name} was trained on {tree.n_outputs} targets at once, and a Forest "
            "gives one prediction per row.\nHint: spinney.accelerate(model), without "
            "rows, evaluates all trees, exactly; or train one model per target "
            "(sklearn.multioutput does that) and read each of them."
        )
        raise UnsupportedModelError(msg)
    return tree.value[:, 0, :n_values]
