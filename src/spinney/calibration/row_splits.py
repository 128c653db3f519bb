"""Rows shared out by what they are for: to train, order, fit, compare or prove with.

A row that has been fitted to proves nothing about new ones, so every use has rows of
its own, and how many depends on the number of rows alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.calibration.bounds import check_n_rows
from spinney.errors import InvalidArgumentError

Index = NDArray[np.intp]

# How rows are shared out: to fit order and thresholds to, to compare candidates on,
# and to establish what is promised about new rows. One candidate is only compared with
# all trees, in time, which takes few rows.
SHARES = {"fit": 0.5, "prove": 0.5}
SHARES_WITH_COMPARISON = {"fit": 0.4, "compare": 0.15, "prove": 0.45}
SHARES_OF_ONE_CANDIDATE = {"fit": 0.44, "compare": 0.06, "prove": 0.5}

# Fewer rows than this tell nothing about thresholds.
LEAST_TO_FIT = 50
# And of a class that has rows of its own to be proven on.
LEAST_OF_CLASS = 10
# Share of the rows kept back from training when the estimator is still to be trained.
HELD_OUT = 0.25


def split_rows(
    n_rows: int, shares: Sequence[float], random_state: Any = None
) -> tuple[NDArray[np.intp], ...]:
    """Return row numbers for parts that have no row in common.

    A classifier with a proven bound needs rows to choose the order of its trees, others
    to fit its thresholds, and others again to prove the bound on.

    Parameters
    ----------
    n_rows : int
        Number of rows to split.
    shares : sequence of float
        Size of each part relative to the others, above 0.
    random_state : int, RandomState instance or None, default=None
        Draws which row comes where. Pass an int for the same parts on every call.

    Returns
    -------
    parts : tuple of ndarray
        Increasing row numbers of each part; every row is in exactly one. Each part has
        at least one row as long as there are as many rows as parts.

    Notes
    -----
    No row is used both for fitting and for proving, as cross-validation would. The
    counts of a cross-validation belong to several classifiers, none of which is the one
    in use, and they depend on one another, so their sum is not binomial. A bound that
    needs no further assumptions (one for each fold, at a confidence corrected for the
    number of folds) is weaker than the bound from a single split. Anything is allowed
    before the rows for certification are used, cross-fitting included.
    """
    from sklearn.utils import check_random_state

    n_rows = check_n_rows("n_rows", n_rows, None)
    sizes = np.asarray(shares, dtype=np.float64)
    if sizes.ndim != 1 or not (np.isfinite(sizes) & (sizes > 0.0)).all():
        msg = (
            f"shares must be positive numbers, one per part, got {shares!r}. "
            "Write (1, 1, 2) for two quarters and a half."
        )
        raise InvalidArgumentError(msg)
    ends = np.rint(np.cumsum(sizes) / sizes.sum() * n_rows).astype(np.intp)
    if n_rows >= len(sizes):
        # No part is left empty by rounding: each ends at least one row after the last,
        # and leaves at least one for each of those that follow.
        places = np.arange(len(sizes))
        ends = np.maximum.accumulate(np.maximum(ends - places, 1)) + places
        ends = np.minimum(ends, n_rows - places[::-1])
    order = check_random_state(random_state).permutation(n_rows)
    return tuple(np.sort(part) for part in np.split(order, ends[:-1]))


def plain_held_out_split(
    n_rows: int, rng: np.random.RandomState
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Split rows into those to train on and those to keep back, whatever their labels.

    What is promised about new rows rests on the rows kept back being like new ones,
    given the model. So they are a random part of fixed size, drawn without a look at
    the labels, and the model is trained on nothing else than the others. A class of
    which all rows are kept back is one that the model does not know, as it does not
    know classes that only new rows have. To train on one row of each class in any case
    would keep rare classes out of the proof, and to draw again until the model knows
    all classes would make them rarer there.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    rng : RandomState
        Draws the rows.

    Returns
    -------
    trained_on, left : ndarray
        Indices of rows, ascending; a quarter of them is left, and at least one.
    """
    _check_enough_to_train(n_rows)
    n_left = max(1, int(HELD_OUT * n_rows))
    shuffled = rng.permutation(n_rows)
    return np.sort(shuffled[n_left:]), np.sort(shuffled[:n_left])


def held_out_split(
    y: NDArray[Any], rng: np.random.RandomState
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Split rows into those to train on and those to keep back, class by class.

    Rare classes never come among those kept back: nothing can be promised about new
    rows from these, for which there is `plain_held_out_split`.

    Parameters
    ----------
    y : ndarray of shape (n_rows,)
        Labels. Each class keeps at least one row to train on.
    rng : RandomState
        Draws the rows.

    Returns
    -------
    trained_on, left : ndarray
        Indices of rows, ascending; about a quarter of each class is left.
    """
    _check_enough_to_train(len(y))
    _, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    shuffled = rng.permutation(len(y))
    by_class = shuffled[np.argsort(codes[shuffled], kind="stable")]
    rank = np.arange(len(y)) - np.repeat(np.cumsum(counts) - counts, counts)
    left = rank < np.repeat(np.floor(HELD_OUT * counts), counts)
    if not left.any():
        # So few rows of each class that a quarter of them is none: take one.
        spare = np.repeat(counts > 1, counts) & (rank == 0)
        if not spare.any():
            msg = (
                f"There are too few rows: n_samples={len(y)}, each with a different "
                "label, and one must be held out for calibration. Pass more rows."
            )
            raise InvalidArgumentError(msg)
        left[np.argmax(spare)] = True
    return np.sort(by_class[~left]), np.sort(by_class[left])


def _check_enough_to_train(n_rows: int) -> None:
    """Raise if there are no two parts to make of rows."""
    if n_rows < 2:
        msg = (
            f"There are too few rows: n_samples={n_rows}, and some are needed for "
            "training, others for calibration. Pass more rows."
        )
        raise InvalidArgumentError(msg)


@dataclass(frozen=True)
class RowParts:
    """Rows by what they are for, as indices.

    Parameters
    ----------
    fit : ndarray
        Rows to fit order and thresholds to.
    compare : ndarray
        Rows to compare candidates on; none if there is nothing to compare.
    prove : ndarray
        Rows that nothing was fitted to, to establish a promise on.
    n_given : int
        How many rows there are in all.
    by_class : ndarray of shape (n_classes,) or None
        How many of them the full ensemble puts into each class, if that was found out.
    """

    fit: Index
    compare: Index
    prove: Index
    n_given: int
    by_class: NDArray[np.int64] | None = None

    @property
    def given(self) -> NDArray[np.int64]:
        """How many rows there are of each class, or in all."""
        return np.array([self.n_given]) if self.by_class is None else self.by_class


def split_by_use(
    n_rows: int,
    shares: Mapping[str, float],
    n_to_prove: int,
    rng: np.random.RandomState,
    least_to_fit: int = LEAST_TO_FIT,
) -> RowParts:
    """Split rows by what they are for.

    Where the usual share is too few to promise anything, as many rows as a promise
    takes are kept for it, if enough are left to fit something to. How many depends on
    numbers alone, and on nothing in the rows.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    shares : mapping
        Size of each part relative to the others: one of the `SHARES`.
    n_to_prove : int
        Rows that a promise takes at least; 0 if it takes none, and none are kept then.
    rng : RandomState
        Draws which row comes where.
    least_to_fit : int, default=50
        How many rows are to be left besides those for the promise.
    """
    sizes = dict(shares)
    if n_to_prove == 0:
        del sizes["prove"]
    elif sizes["prove"] * n_rows < n_to_prove <= n_rows - least_to_fit:
        others = 1.0 - sizes.pop("prove")
        left = 1.0 - n_to_prove / n_rows
        sizes = {use: left * size / others for use, size in sizes.items()}
        sizes["prove"] = n_to_prove / n_rows
    nothing = np.arange(0)
    if n_rows < len(sizes):
        # Too few to tell anything; whatever comes out is fitted to them.
        return RowParts(np.arange(n_rows), nothing, nothing, n_rows)
    drawn = split_rows(n_rows, list(sizes.values()), rng)
    parts = dict(zip(sizes, drawn, strict=True))
    return RowParts(
        parts["fit"],
        parts.get("compare", nothing),
        parts.get("prove", nothing),
        n_rows,
    )


def split_by_class(
    codes: Index,
    shares: Mapping[str, float],
    n_to_prove: NDArray[np.int64],
    rng: np.random.RandomState,
) -> RowParts:
    """Split the rows of each class on their own, by what they are for.

    For bounds on classes and no others: given its class, a row is like a new row of
    this class, however many rows of which class come where.

    Parameters
    ----------
    codes : ndarray of shape (n_rows,)
        Class indices that the full ensemble gives the rows.
    shares : mapping
        As in `split_by_use`.
    n_to_prove : ndarray of shape (n_classes,)
        Rows that a promise takes at least, of each class.
    rng : RandomState
        Draws which row comes where.
    """
    counts = np.bincount(codes, minlength=len(n_to_prove))
    uses: dict[str, list[Index]] = {"fit": [], "compare": [], "prove": []}
    for c in np.flatnonzero(counts).tolist():
        rows = np.flatnonzero(codes == c)
        parts = split_by_use(len(rows), shares, int(n_to_prove[c]), rng, LEAST_OF_CLASS)
        for use, found in uses.items():
            found.append(rows[getattr(parts, use)])
    nothing = np.arange(0)
    fit, compare, prove = (
        np.sort(np.concatenate([nothing, *found])) for found in uses.values()
    )
    return RowParts(fit, compare, prove, len(codes), counts)


def at_most(index: Index, limit: int, rng: np.random.RandomState) -> Index:
    """Return indices of rows, of more than `limit` a random part.

    Parameters
    ----------
    index : ndarray of shape (n_rows,)
        The indices.
    limit : int
        How many to keep.
    rng : RandomState
        Draws which ones.
    """
    return index if len(index) <= limit else index[rng.permutation(len(index))[:limit]]
