"""Rows that a tree was not trained on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.errors import InvalidArgumentError, UnsupportedModelError
from spinney.forest import LEAF, Forest


def out_of_bag(
    model: Any, forest: Forest, leaves: NDArray[np.int32]
) -> NDArray[np.bool_]:
    """Return which rows each tree of a model has not seen in training.

    Parameters
    ----------
    model : estimator
        A forest that was trained on bootstrap samples and knows them
        (``estimators_samples_``), as scikit-learn's forests and bagging do.
    forest : Forest
        The same, as it was read.
    leaves : ndarray of shape (n_rows, n_trees), dtype=int32
        Where the training rows end in each tree.

    Returns
    -------
    unseen : ndarray of shape (n_rows, n_trees), dtype=bool
        True for rows that are not in the sample of a tree.
    """
    samples = getattr(model, "estimators_samples_", None)
    if samples is None or getattr(model, "bootstrap", True) is False:
        msg = (
            f"error_rows='out_of_bag' needs a forest trained on bootstrap samples, got "
            f"{type(model).__name__}, which has left no rows out.\nHint: train a "
            "RandomForestClassifier, or one with bootstrap=True, or pass rows kept "
            "back from training with error_rows='given'."
        )
        raise UnsupportedModelError(msg)
    n_rows = len(leaves)
    unseen = np.ones(leaves.shape, dtype=np.bool_)
    reached = np.zeros(forest.n_nodes, dtype=np.bool_)
    for tree, sample in enumerate(samples):
        if len(sample) and np.max(sample) >= n_rows:
            _refuse(f"tree {tree} was trained on row {int(np.max(sample))}", n_rows)
        unseen[sample, tree] = False
        reached[leaves[sample, tree]] = True
    # Every leaf was made for some row of the tree's own sample.
    missed = (forest.feature == LEAF) & ~reached
    if missed.any():
        node = int(np.argmax(missed))
        tree = int(np.searchsorted(forest.tree_offsets, node, side="right")) - 1
        _refuse(f"a leaf of tree {tree} has none of the rows it was made for", n_rows)
    if not unseen.any():
        msg = (
            "error_rows='out_of_bag' found no row that any tree has left out. Train "
            "with more rows or trees, or pass rows kept back from training with "
            "error_rows='given'."
        )
        raise InvalidArgumentError(msg)
    return unseen


def _refuse(reason: str, n_rows: int) -> None:
    msg = (
        "error_rows='out_of_bag' needs the rows that the model was trained on, in "
        f"the same order, but {reason}; got {n_rows} rows. Pass the training rows, "
        "or other rows with error_rows='given'."
    )
    raise InvalidArgumentError(msg)
