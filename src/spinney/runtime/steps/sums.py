"""What every node adds to the classes, as whole numbers.

An anytime forest takes back what a node has added and adds what its child adds instead,
thousands of times for a row. With floats the outcome would depend on the path to a
state. Whole multiples of a tiny unit add up to the same number in any order, so that a
state of the forest has one prediction, however it was reached, and ties are ties.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spinney.errors import UnsupportedModelError
from spinney.forest import Forest
from spinney.forest.links import CLOSE

# No sum exceeds 2 to this power, so that the difference of two fits into 64 bits.
SUM_BITS = 61


@dataclass(frozen=True, eq=False)
class ClassSums:
    """The values of all nodes in units of ``2 ** -shift``, one sum per class.

    The class of the largest sum wins, the first of them if several are equal. Where a
    forest has a single score for two classes, the first class has the constant sum that
    the score must exceed.

    Parameters
    ----------
    forest : Forest
        The forest.
    table : ndarray of shape (n_nodes, n_values), dtype=int64
        What a node adds: to all classes, or, with one value, to that of its tree.
    output : ndarray of shape (n_trees,), dtype=int64
        The class that a tree adds to, or -1 for all.
    base : ndarray of shape (n_classes,), dtype=int64
        Sums before any tree.
    shift : int
        Binary digits after the point.
    divisor : float
        What the sums of a mean or a vote are divided by; 1 for all others.
    slack : int
        Where the two largest sums are further apart than this, the forest itself,
        which adds up rounded numbers, has the same winner.
    """

    forest: Forest
    table: NDArray[np.int64]
    output: NDArray[np.int64]
    base: NDArray[np.int64]
    shift: int
    divisor: float
    slack: int

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.base)

    def by_class(self) -> NDArray[np.int64]:
        """Return what each node adds to each class, as (n_nodes, n_classes)."""
        if (self.output < 0).all():
            return self.table
        offsets = self.forest.tree_offsets
        full = np.zeros((len(self.table), self.n_classes), dtype=np.int64)
        column = np.repeat(self.output, np.diff(offsets))
        full[np.arange(len(full)), column] = self.table[:, 0]
        return full

    def at_roots(self) -> NDArray[np.int64]:
        """Return the sums of the initial state, which is the same for all rows."""
        return self.base + self.by_class()[self.forest.tree_offsets[:-1]].sum(axis=0)

    def raw(self, totals: NDArray[np.int64]) -> NDArray[np.floating]:
        """Return sums as raw scores, in the type of the forest."""
        if self.forest.n_outputs < self.n_classes:
            totals = totals[:, 1:]
        raw = np.ldexp(totals.astype(np.float64), -self.shift) / self.divisor
        return raw.astype(self.forest.sum_dtype)

    def probabilities(self, totals: NDArray[np.int64]) -> NDArray[np.floating]:
        """Return class probabilities from sums, as the forest makes them."""
        return self.probabilities_of_raw(self.raw(totals))

    def probabilities_of_raw(self, raw: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return class probabilities from raw scores, as the forest makes them."""
        if self.n_classes == 1:
            return raw
        return self.forest.probabilities(raw)

    def close_calls(self, totals: NDArray[np.int64]) -> NDArray[np.intp]:
        """Return the rows whose winner is too close to be surely that of the forest."""
        if self.n_classes == 1:
            return np.empty(0, dtype=np.intp)
        if self.n_classes == 2:
            ahead = np.abs(totals[:, 1] - totals[:, 0])
        else:
            two = np.partition(totals, -2, axis=1)[:, -2:]
            ahead = two[:, 1] - two[:, 0]
        return np.flatnonzero(ahead <= self.slack)


def class_sums(forest: Forest) -> ClassSums:
    """Return the values of a classifier's nodes as whole numbers.

    Parameters
    ----------
    forest : Forest
        A classifier with values at its inner nodes.

    Raises
    ------
    UnsupportedModelError
        If the forest is a regressor or its inner nodes have no values.
    """
    _refuse_without_inner_values(forest)
    engine = forest.engine
    n_classes = len(forest.classes)  # type: ignore[arg-type]
    value = forest.value
    if forest.aggregation == "vote":
        winner = value.argmax(axis=1)
        value = np.zeros_like(value)
        value[np.arange(len(value)), winner] = 1.0
    # Dividing each value would break ties between sums; so only if it must be.
    divisor = 1.0
    if forest.aggregation != "sum":
        per_output = engine.trees_per_output.astype(np.float64)
        divisor = float(per_output[0])
        if forest.tree_output is not None:
            scale = divisor / per_output[forest.tree_output]
            value = value * np.repeat(scale, np.diff(forest.tree_offsets))[:, None]
    output = engine.tree_output.copy()
    start = forest.base_score
    if forest.n_outputs < n_classes:
        output[:] = 1
        threshold = float(engine.sum_dtype.type(forest.decision_threshold))
        start = np.array([threshold * divisor, start[0]])

    largest = np.maximum.reduceat(np.abs(value), forest.tree_offsets[:-1], axis=0)
    reach = float((np.abs(start).max() + largest.sum(axis=0)).max())
    shift = SUM_BITS - 1 - math.frexp(reach)[1] if reach > 0.0 else 0
    table = np.rint(np.ldexp(value, shift)).astype(np.int64)
    base = np.ceil(np.ldexp(start, shift)).astype(np.int64)
    if forest.n_outputs < n_classes:
        base[0] -= 1  # a score equal to the threshold is enough

    # The forest rounds every value and every sum on the way, and the mean.
    eps = float(np.finfo(engine.sum_dtype).eps)
    rounding = 2.0 * (forest.n_trees + 4) * eps * reach
    if forest.decides_by == "probability":
        # As for single rows: logistic curves can be equal at any distance.
        rounding += CLOSE * divisor if forest.link == "softmax" else np.inf
    slack = 2**62
    if rounding < reach:
        slack = int(math.ldexp(rounding, shift)) + 2 * forest.n_trees + 2
    return ClassSums(forest, table, output, base, shift, divisor, slack)


def _refuse_without_inner_values(forest: Forest) -> None:
    """Raise unless every node of the forest says something about the classes."""
    if forest.classes is None:
        msg = (
            "An anytime forest needs a classifier, and this forest is a regressor "
            f"({forest.source or 'made by hand'}). Train a classifier."
        )
        raise UnsupportedModelError(msg)
    # Roots alone may well be zero: a booster starts from its base score.
    below = forest.feature >= 0
    below[forest.tree_offsets[:-1]] = False
    if below.any() and not forest.value[below].any() and forest.value.any():
        msg = (
            "The inner nodes of this forest have no values (all are zero), so that it "
            "cannot predict before it has reached its leaves. Read it from the model "
            "with spinney.read_model, which keeps or works out the values of inner "
            "nodes, or pass them in Forest.value."
        )
        raise UnsupportedModelError(msg)
