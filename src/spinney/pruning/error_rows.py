"""Rows that a forest is pruned with: their weights, and which trees they count for."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _check_sample_weight

from spinney.calibration.out_of_bag import out_of_bag_mask
from spinney.calibration.row_splits import held_out_split
from spinney.errors import InvalidArgumentError, SpinneyError
from spinney.forest import LEAF, Forest


def checked_weights(sample_weight: Any, X: Any) -> NDArray[np.float64]:
    """Return the weights of rows, 1 for each if none are given.

    Parameters
    ----------
    sample_weight : array-like of shape (n_rows,) or None
        Weights as they were passed.
    X : array-like of shape (n_rows, n_features)
        The rows.
    """
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if (weights < 0.0).any() or not weights.any():
        msg = (
            "sample_weight must not be negative, and not all zero, got "
            f"{weights.min():g} to {weights.max():g}. Give each row the number of "
            "rows that it stands for."
        )
        raise InvalidArgumentError(msg)
    return weights


def split_rows(
    X: Any, y: NDArray[Any], rng: np.random.RandomState
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Split rows into those to train on and those to prune with.

    Rows that are equal in all columns stay together: a copy of a training row would
    say nothing about errors. This also makes a weight of 2 mean the same as a row that
    is there twice.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_features)
        Rows.
    y : ndarray of shape (n_rows,)
        Labels.
    rng : RandomState
        Draws the rows.

    Returns
    -------
    trained_on, left : ndarray
        Indices of rows, ascending.
    """
    first, which = _distinct(X, y)
    _, left = held_out_split(y[first], rng)
    is_left = np.zeros(len(first), dtype=np.bool_)
    is_left[left] = True
    return np.flatnonzero(~is_left[which]), np.flatnonzero(is_left[which])


def _distinct(X: Any, y: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Find rows with equal contents, whatever the order of the rows.

    Returns
    -------
    first : ndarray of shape (n_distinct,)
        One row of each kind, sorted by a hash of the contents.
    which : ndarray of shape (n_rows,)
        The kind of each row, as an index into `first`.
    """
    table = np.asarray(X)
    if table.dtype.kind in "fiub":
        contents = [row.tobytes() for row in np.ascontiguousarray(table)]
    else:
        contents = [repr(row.tolist()).encode() for row in table]
    hashes = [
        hashlib.blake2b(content + repr(label).encode(), digest_size=16).hexdigest()
        for content, label in zip(contents, y.tolist(), strict=True)
    ]
    return np.unique(hashes, return_index=True, return_inverse=True)[1:]


def out_of_bag_rows(
    model: Any, forest: Forest, leaves: NDArray[np.int32]
) -> NDArray[np.bool_]:
    """Return which training rows each tree of a model has not seen.

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
    try:
        unseen = out_of_bag_mask(model, len(leaves))
    except SpinneyError as error:
        error.add_note(
            "error_rows='out_of_bag' counts the errors of each tree on the training "
            "rows that it has not seen. To count them on other rows, pass these with "
            "error_rows='given'."
        )
        raise
    # Every leaf was made for some row of the tree's own sample.
    reached = np.zeros(forest.n_nodes, dtype=np.bool_)
    reached[leaves[~unseen]] = True
    missed = (forest.feature == LEAF) & ~reached
    if missed.any():
        node = int(np.argmax(missed))
        tree = int(np.searchsorted(forest.tree_offsets, node, side="right")) - 1
        msg = (
            "error_rows='out_of_bag' needs the rows that the model was trained on, in "
            f"the same order, but a leaf of tree {tree} has none of the rows it was "
            f"grown on; got {len(leaves)} rows. Pass the training rows, or other rows "
            "with error_rows='given'."
        )
        raise InvalidArgumentError(msg)
    return unseen
