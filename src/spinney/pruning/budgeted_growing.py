"""Trees grown on bootstrap samples, as many as a budget allows, made into a forest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import NDArray

from spinney.forest import LEAF, Forest
from spinney.pruning.budgeted_kernels import follow_rows, grow_tree
from spinney.pruning.costs import Purchases


class Tree(NamedTuple):
    """One tree, the root first.

    Attributes
    ----------
    feature, cut, left, right : ndarray of shape (n_nodes,)
        As `feature`, `threshold`, `left` and `right` of a `Forest` of this tree alone.
    counts : ndarray of shape (n_nodes, n_classes), dtype=int64
        Training rows of each class at each node.
    """

    feature: NDArray[np.int32]
    cut: NDArray[np.float64]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    counts: NDArray[np.int64]


def single_leaf(counts: NDArray[np.int64]) -> Tree:
    """Return a tree without splits, from the number of rows of each class."""
    nothing = np.full(1, LEAF, dtype=np.int32)
    return Tree(nothing, np.zeros(1), nothing, nothing, counts.reshape(1, -1))


def grow_trees(
    X: NDArray[np.float32],
    codes: NDArray[np.integer],
    costs: NDArray[np.float64],
    threshold: int,
    seeds: NDArray[np.integer],
    n_jobs: int | None,
) -> Iterator[Tree]:
    """Yield one tree per seed, each grown on a bootstrap sample of its own.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features), dtype=float32
        Training rows, all values finite.
    codes : ndarray of shape (n_rows,)
        Class indices.
    costs : ndarray of shape (n_features,)
        Cost of each feature.
    threshold : int
        Threshold of the impurity.
    seeds : ndarray of shape (n_trees,)
        What the samples are drawn with.
    n_jobs : int or None
        Number of trees grown at a time, each in a thread. The trees do not depend on
        it.
    """
    n_rows = len(X)
    columns = np.ascontiguousarray(X.T)
    # Sorted once for all trees: a sample only leaves rows out, or repeats them.
    sorted_rows = np.argsort(columns, axis=1, kind="stable").astype(np.int32)
    labels = codes.astype(np.int32)
    n_classes = int(codes.max()) + 1

    def grow(seed: int) -> Tree:
        drawn = np.random.RandomState(seed).randint(n_rows, size=n_rows)
        weights = np.bincount(drawn, minlength=n_rows).astype(np.int32)
        feature, cut, left, right, counts = grow_tree(
            columns, sorted_rows, labels, weights, costs, n_classes, threshold
        )
        return Tree(
            feature.copy(), cut.copy(), left.copy(), right.copy(), counts.copy()
        )

    at_a_time = effective_n_jobs(n_jobs)
    for first in range(0, len(seeds), at_a_time):
        some = seeds[first : first + at_a_time]
        yield from Parallel(n_jobs=n_jobs, require="sharedmem")(
            delayed(grow)(seed) for seed in some
        )


def take_within_budget(
    trees: Iterable[Tree],
    X: NDArray[np.float32],
    purchases: Purchases,
    budget: float,
) -> tuple[list[Tree], NDArray[np.float64]]:
    """Take trees until their features cost more than the budget.

    Parameters
    ----------
    trees : iterable of Tree
        Trees, in the order in which they are added.
    X : ndarray of shape (n_rows, n_features), dtype=float32
        Rows to measure the cost on.
    purchases : Purchases
        What features cost.
    budget : float
        Largest mean cost.

    Returns
    -------
    taken : list of Tree
        All trees before the first that exceeds the budget.
    mean_costs : ndarray of shape (n_measured,)
        Mean cost with one tree, with two, and so on, up to the first above the budget.
    """
    taken: list[Tree] = []
    mean_costs: list[float] = []
    used = np.zeros(X.shape, dtype=bool)
    for tree in trees:
        follow_rows(X, tree.feature, tree.cut, tree.left, tree.right, used)
        mean_costs.append(float(purchases.cost_of(used).mean()))
        if mean_costs[-1] > budget:
            break
        taken.append(tree)
    return taken, np.array(mean_costs)


def assemble(
    trees: list[Tree],
    n_features: int,
    classes: NDArray[Any],
    feature_names: Iterable[str] | None,
) -> Forest:
    """Return trees as a forest that averages the class shares at their leaves.

    Parameters
    ----------
    trees : list of Tree
        At least one.
    n_features : int
        Number of columns.
    classes : ndarray of shape (n_classes,)
        Class labels.
    feature_names : iterable of str or None
        Names of the columns.
    """
    sizes = [len(tree.feature) for tree in trees]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    shift = np.repeat(offsets[:-1], sizes)
    feature, cut, left, right, counts = (
        np.concatenate(arrays) for arrays in zip(*trees, strict=True)
    )
    inner = feature != LEAF
    n_node_samples = counts.sum(axis=1)
    return Forest(
        tree_offsets=offsets,
        feature=feature,
        threshold=cut,
        left=np.where(inner, left + shift, LEAF),
        right=np.where(inner, right + shift, LEAF),
        value=counts / n_node_samples[:, None],
        n_node_samples=n_node_samples,
        n_features=n_features,
        aggregation="mean",
        classes=classes,
        feature_names=None if feature_names is None else tuple(feature_names),
        source="BudgetedForestClassifier",
    )
