"""The pruning problem in integers: gains of splits, prices of what they need.

The paper's integer programme (IP3) chooses a pruned version of every tree. Written in
terms of the splits that are kept instead of the leaves, it is a project selection
problem: keep a set of splits, each below a split that is kept too. Each has a gain (the
errors that its children avoid) and needs some groups (a feature for some rows), which
are paid for once however many splits need them.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from spinney.forest import LEAF, Forest
from spinney.pruning.costs import Purchases
from spinney.pruning.group_kernels import build_groups, count_pairs, restrict_groups
from spinney.pruning.kernels import best_closure, count_errors, describe_trees

NO_FLAGS = np.empty((0, 0), dtype=np.bool_)


@dataclass(frozen=True)
class Splits:
    """Splits to choose from, and what they need.

    Parameters
    ----------
    node : ndarray of shape (n_splits,), dtype=int64
        Node of the forest that each split is, parents before their children.
    parent : ndarray of shape (n_splits,), dtype=int32
        Index of the split above; -1 if there is none, or if it is kept in any case.
    gain : ndarray of shape (n_splits,), dtype=int64
        Weight of the errors that a split saves; may be negative.
    price : ndarray of shape (n_splits,), dtype=int64
        Price of what no other split needs.
    group_price : ndarray of shape (n_groups,), dtype=int64
        Price of what several splits need.
    group_offsets : ndarray of shape (n_groups + 1,), dtype=int64
        Where the splits of each group begin in `group_splits`.
    group_splits : ndarray, dtype=int32
        Indices of the splits that need each group.
    """

    node: NDArray[np.int64]
    parent: NDArray[np.int32]
    gain: NDArray[np.int64]
    price: NDArray[np.int64]
    group_price: NDArray[np.int64]
    group_offsets: NDArray[np.int64]
    group_splits: NDArray[np.int32]

    @property
    def n_splits(self) -> int:
        """Number of splits."""
        return len(self.node)

    @property
    def n_groups(self) -> int:
        """Number of groups that several splits need."""
        return len(self.group_price)

    @cached_property
    def total_gain(self) -> int:
        """Gain of keeping all splits."""
        return int(self.gain.sum())

    @cached_property
    def total_price(self) -> int:
        """Price of keeping all splits."""
        return int(self.price.sum()) + int(self.group_price.sum())

    def gain_of(self, kept: NDArray[np.bool_]) -> int:
        """Return the gain of the splits kept."""
        return int(self.gain[kept].sum())

    def price_of(self, kept: NDArray[np.bool_]) -> int:
        """Return the price of the splits kept, each group paid for once."""
        total = int(self.price[kept].sum())
        if self.n_groups:
            needed = np.logical_or.reduceat(
                kept[self.group_splits], self.group_offsets[:-1]
            )
            total += int(self.group_price[needed].sum())
        return total

    def inside(self, kept: NDArray[np.bool_]) -> Splits:
        """Return the same problem with only the splits kept to choose from."""
        return self._restricted(kept, np.zeros_like(kept))

    def outside(self, kept: NDArray[np.bool_]) -> Splits:
        """Return what is left to choose if the splits kept stay in any case."""
        return self._restricted(~kept, kept)

    def _restricted(self, chosen: NDArray[np.bool_], paid: NDArray[np.bool_]) -> Splits:
        new_index = np.where(chosen, np.cumsum(chosen) - 1, -1).astype(np.int32)
        above = self.parent[chosen]
        price = self.price[chosen]
        groups = restrict_groups(
            self.group_price,
            self.group_offsets,
            self.group_splits,
            paid,
            new_index,
            price,
        )
        # The split above is either chosen too or kept in any case.
        parent = np.where(above >= 0, new_index[above], -1).astype(np.int32)
        return Splits(self.node[chosen], parent, self.gain[chosen], price, *groups)


@dataclass(frozen=True)
class PruningProblem:
    """A forest and rows, as an optimisation problem in integers.

    Parameters
    ----------
    forest : Forest
        The forest to be pruned.
    leaves : ndarray of shape (n_rows, n_trees), dtype=int32
        Where each row ends in each tree.
    codes, weights : ndarray of shape (n_rows,), dtype=int64
        Classes of the rows, and weights as integers above 0.
    counted : ndarray of shape (n_rows, n_trees), dtype=bool
        Which rows count in which tree for errors; shape (0, 0) if all do. All rows
        count for costs.
    purchases : Purchases
        What the columns cost.
    """

    forest: Forest
    leaves: NDArray[np.int32]
    codes: NDArray[np.int64]
    weights: NDArray[np.int64]
    counted: NDArray[np.bool_]
    purchases: Purchases

    @cached_property
    def item(self) -> NDArray[np.int32]:
        """What each inner node makes a row buy; -1 at leaves."""
        feature = self.forest.feature
        inner = feature != LEAF
        item = np.where(inner, self.purchases.item_of_column[feature], -1)
        return item.astype(np.int32)

    @cached_property
    def _described(self) -> tuple[NDArray, NDArray, NDArray]:
        forest = self.forest
        return describe_trees(forest.tree_offsets, forest.left, forest.right, self.item)

    @property
    def parent(self) -> NDArray[np.int32]:
        """The node above each node; -1 for a root."""
        return self._described[1]

    @property
    def is_first(self) -> NDArray[np.bool_]:
        """Inner nodes that are the first on their path to need their item."""
        return self._described[2]

    @cached_property
    def prediction(self) -> NDArray[np.int32]:
        """The class that each node predicts, from training."""
        return self.forest.value.argmax(axis=1).astype(np.int32)

    @cached_property
    def errors(self) -> NDArray[np.int64]:
        """Weight of the rows that each node would get wrong as a leaf."""
        return count_errors(
            self.leaves,
            self.codes,
            self.weights,
            self.counted,
            self.parent,
            self.prediction,
        )

    @cached_property
    def root_errors(self) -> int:
        """Weight of the errors of all trees if each were a single leaf."""
        return int(self.errors[self.forest.tree_offsets[:-1]].sum())

    @cached_property
    def weight(self) -> int:
        """Weight of all rows."""
        return int(self.weights.sum())

    @cached_property
    def tree_weight(self) -> int:
        """Weight of all rows that count, added up over the trees."""
        if self.counted.size:
            return int((self.counted * self.weights[:, None]).sum())
        return self.weight * self.forest.n_trees

    def error(self, gain: int) -> Fraction:
        """Return the mean error of a tree, if the splits kept have this gain."""
        return Fraction(self.root_errors - gain, self.tree_weight)

    def cost(self, price: int) -> Fraction:
        """Return the mean feature cost of a row, from an integer price."""
        return price * self.purchases.unit / self.weight

    def trade_off(self, ratio: Fraction) -> Fraction:
        """Return the error per unit of cost, from a ratio of gain to price."""
        return ratio * self.weight / (self.purchases.unit * self.tree_weight)

    def ratio(self, trade_off: Fraction) -> Fraction:
        """Return the gain per unit of price: the inverse of `trade_off`."""
        return trade_off * self.purchases.unit * self.tree_weight / self.weight

    def splits(self, contract: bool = True) -> Splits:
        """Return the splits to choose from, with gains and prices.

        Parameters
        ----------
        contract : bool, default=True
            Leave out subtrees that no trade-off would keep, as they gain nothing even
            if all features are free, and merge rows with the same needs.
        """
        forest, order = self.forest, self._described[0]
        inner = order[forest.feature[order] != LEAF]
        errors = self.errors
        gain = errors[inner] - errors[forest.left[inner]] - errors[forest.right[inner]]
        split_of = np.full(forest.n_nodes + 1, -1, dtype=np.int32)  # last: no node
        split_of[inner] = np.arange(len(inner))
        if contract:
            above = split_of[self.parent[inner]]
            allowed = np.ones(len(inner), dtype=np.bool_)
            kept = best_closure(above, gain, allowed)[0]
            inner, gain = inner[kept], gain[kept]
            split_of[:] = -1
            split_of[inner] = np.arange(len(inner))
        parent = split_of[self.parent[inner]]
        price = np.zeros(len(inner), dtype=np.int64)
        buys = self.is_first & (self.purchases.price[self.item] > 0)
        n_pairs = count_pairs(self.leaves, self.parent, split_of, buys)
        groups = build_groups(
            self.leaves,
            self.weights,
            self.parent,
            split_of,
            buys,
            self.item,
            self.purchases.price,
            n_pairs,
            contract,
            price,
        )
        return Splits(inner, parent, gain, price, *groups)
