"""Sequences of trees from the measures of ensemble pruning, with all trees kept.

A tree is judged by what it adds to the score of each class: probabilities of a forest
that averages, one vote of a forest that counts, margins of a booster. An ensemble
decides for the class with the largest sum, the first of them if several are equal.
Among equally good trees the first one is taken.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spinney.errors import InvalidArgumentError

Scores = NDArray[np.float64]

# Sums that are equal but for rounding count as equal.
TIE = 1e-9


def individual_error(
    scores: ArrayLike, labels: ArrayLike, *, base: ArrayLike = 0.0
) -> NDArray[np.int64]:
    """Return the trees by their own error, the best first.

    Parameters
    ----------
    scores : array-like of shape (n_rows, n_trees, n_classes)
        What each tree adds to each class.
    labels : array-like of shape (n_rows,)
        The right classes, as indices.
    base : float or array-like of shape (n_classes,), default=0.0
        Scores before any tree.

    Returns
    -------
    sequence : ndarray of shape (n_trees,), dtype=int64
        Tree indices.
    """
    scores, labels, base = _checked(scores, labels, base)
    wrong = _decided(scores + base) != labels[:, None]
    return np.argsort(wrong.sum(axis=0), kind="stable")


def error_ambiguity(
    scores: ArrayLike, labels: ArrayLike, *, base: ArrayLike = 0.0
) -> NDArray[np.int64]:
    """Return the trees by their error less their ambiguity, the best first.

    Parameters
    ----------
    scores : array-like of shape (n_rows, n_trees, n_classes)
        What each tree adds to each class.
    labels : array-like of shape (n_rows,)
        The right classes, as indices.
    base : float or array-like of shape (n_classes,), default=0.0
        Scores before any tree. They shift all trees alike.

    Returns
    -------
    sequence : ndarray of shape (n_trees,), dtype=int64
        Tree indices.

    Notes
    -----
    Let ``m`` be the margin of a tree on a row: its score of the right class less those
    of all others; ``M`` the mean margin of all trees; and ``l(m) = log(1 + exp(-m))``
    the logistic loss. The mean loss of the trees exceeds the loss of their mean by
    about the mean of ``l''(M) (m - M)^2 / 2``, the ambiguity [1]_. A tree is good if
    its loss is small and its ambiguity large. Scores are divided by the largest
    absolute one, so that the curvature of the loss is felt alike by all kinds of trees.

    References
    ----------
    .. [1] Z. Jiang, H. Liu, B. Fu and Z. Wu, "Generalized Ambiguity Decompositions for
       Classification with Applications in Active Learning and Unsupervised Ensemble
       Pruning", AAAI 2017.
    """
    scores, labels, base = _checked(scores, labels, base)
    given = scores + base / scores.shape[1]
    own = given[np.arange(len(labels)), :, labels]
    margin = 2.0 * own - given.sum(axis=2)
    largest = float(np.abs(margin).max(initial=0.0))
    if largest > 0.0:
        margin /= largest
    mean = margin.mean(axis=1, keepdims=True)
    loss = np.logaddexp(0.0, -margin)
    curvature = 0.25 / np.cosh(0.5 * mean) ** 2
    ambiguity = 0.5 * curvature * (margin - mean) ** 2
    return np.argsort((loss - ambiguity).sum(axis=0), kind="stable")


def reduced_error(
    scores: ArrayLike, labels: ArrayLike, *, base: ArrayLike = 0.0
) -> NDArray[np.int64]:
    """Return the trees so that each lowers the error of those before it the most.

    Parameters
    ----------
    scores : array-like of shape (n_rows, n_trees, n_classes)
        What each tree adds to each class.
    labels : array-like of shape (n_rows,)
        The right classes, as indices.
    base : float or array-like of shape (n_classes,), default=0.0
        Scores before any tree.

    Returns
    -------
    sequence : ndarray of shape (n_trees,), dtype=int64
        Tree indices. The first is the tree with the lowest error of its own.

    References
    ----------
    .. [1] D. Margineantu and T. Dietterich, "Pruning Adaptive Boosting", ICML 1997.
    """
    return _greedy(*_checked(scores, labels, base), share=1.0)


def drep(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    base: ArrayLike = 0.0,
    rho: float = 0.25,
) -> NDArray[np.int64]:
    """Return the trees so that each differs from those before and lowers their error.

    The first is the tree with the lowest error. Then, of the trees that are left, the
    share `rho` that agrees least with the present ensemble is looked at, and the one
    of them is taken with which the ensemble has the lowest error; until all are placed.

    Parameters
    ----------
    scores : array-like of shape (n_rows, n_trees, n_classes)
        What each tree adds to each class.
    labels : array-like of shape (n_rows,)
        The right classes, as indices.
    base : float or array-like of shape (n_classes,), default=0.0
        Scores before any tree.
    rho : float, default=0.25
        Share of the remaining trees to choose from, in ``(0, 1]``, rounded up.

    Returns
    -------
    sequence : ndarray of shape (n_trees,), dtype=int64
        Tree indices.

    Notes
    -----
    Agreement is the share of the rows for which the tree alone and the ensemble so far
    decide for the same class; for two classes this orders trees like the mean product
    of the votes -1 and 1 in [1]_.

    References
    ----------
    .. [1] N. Li, Y. Yu and Z.-H. Zhou, "Diversity Regularized Ensemble Pruning", ECML
       PKDD 2012.
    """
    if not 0.0 < rho <= 1.0:
        msg = (
            f"rho must be in (0, 1], got {rho!r}. It is the share of the remaining "
            "trees to choose from: write 0.25 for a quarter."
        )
        raise InvalidArgumentError(msg)
    return _greedy(*_checked(scores, labels, base), share=rho)


def _greedy(
    scores: Scores, labels: NDArray[np.int64], base: Scores, share: float
) -> NDArray[np.int64]:
    """Place one tree after another, chosen from those that agree least."""
    by_tree = np.ascontiguousarray(np.swapaxes(scores, 0, 1))
    alone = np.stack([_decided(tree + base) for tree in by_tree])
    total = np.tile(base, (len(labels), 1))
    left = np.arange(len(by_tree))
    sequence = np.empty(len(by_tree), dtype=np.int64)
    for k in range(len(by_tree)):
        candidates = left
        if k > 0 and share < 1.0:
            agreement = (alone[left] == _decided(total)).sum(axis=1)
            n_candidates = math.ceil(share * len(left))
            least = np.argsort(agreement, kind="stable")[:n_candidates]
            candidates = left[np.sort(least)]
        n_wrong = [
            np.count_nonzero(_decided(total + by_tree[tree]) != labels)
            for tree in candidates
        ]
        chosen = candidates[np.argmin(n_wrong)]
        sequence[k] = chosen
        total += by_tree[chosen]
        left = left[left != chosen]
    return sequence


def _decided(sums: Scores) -> NDArray[np.intp]:
    """Return the class of the largest sum, the first of those that are equal to it."""
    largest = sums.max(axis=-1, keepdims=True)
    return np.argmax(sums >= largest - TIE * np.maximum(1.0, np.abs(largest)), axis=-1)


def _checked(
    scores: ArrayLike, labels: ArrayLike, base: ArrayLike
) -> tuple[Scores, NDArray[np.int64], Scores]:
    given = np.asarray(scores, dtype=np.float64)
    if given.ndim != 3 or 0 in given.shape:
        msg = (
            "scores must have shape (n_rows, n_trees, n_classes), none of them zero, "
            f"got {given.shape}."
        )
        raise InvalidArgumentError(msg)
    right = np.asarray(labels)
    if right.shape != given.shape[:1] or right.dtype.kind not in "iu":
        msg = (
            f"labels must be {given.shape[0]} class indices, one per row, got "
            f"{right.dtype} of shape {right.shape}."
        )
        raise InvalidArgumentError(msg)
    if right.min() < 0 or right.max() >= given.shape[2]:
        msg = (
            f"labels must be class indices from 0 to {given.shape[2] - 1}, got "
            f"{int(right.min())} to {int(right.max())}."
        )
        raise InvalidArgumentError(msg)
    start = np.broadcast_to(np.asarray(base, dtype=np.float64), given.shape[2:])
    return given, right.astype(np.int64), start
