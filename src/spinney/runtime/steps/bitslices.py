"""Small trees that are bitsliced for many rows at once instead of being walked.

The form is that of the runtime: a tree is a list of splits of sets of rows. To bitslice
a tree takes as long as to walk a few levels of it, but finds the leaves of all rows at
once; after that a step needs no comparison at all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spinney.runtime.bit_vectors import HAS_BITS
from spinney.runtime.bitslicing import Bitsliced
from spinney.runtime.layout import Categories, Layout
from spinney.runtime.steps.bitslice_kernels import (
    LeafPaths,
    choose_bitsliced,
    list_leaf_paths,
)
from spinney.runtime.tree_costs import COST_CONDITION, COST_LEVEL

# Measured costs in nanoseconds per row of one split and one tree, which keep all sets.
COST_SPLIT, COST_BITSLICED_TREE = (0.0105, 0.6) if HAS_BITS else (0.042, 1.8)


class BitslicedTrees(NamedTuple):
    """Trees that can be bitsliced, and what it costs.

    Parameters
    ----------
    splits : Bitsliced
        The trees as lists of splits.
    categories : Categories
        Part of `Layout`.
    paths : LeafPaths
        The nodes above each leaf.
    leaf_level : ndarray of shape (n_codes_of_all_trees,), dtype=int64
        The level of each leaf, by `Bitsliced.first_code` of its tree plus its code.
    costs : ndarray of shape (n_trees,), dtype=float64
        Nanoseconds per row to find the leaves, without shared conditions; infinite for
        a tree that is always walked.
    shared_costs : ndarray of shape (n_trees,), dtype=float64
        Nanoseconds per row to compare the shared conditions of one tree alone.
    """

    splits: Bitsliced
    categories: Categories
    paths: LeafPaths
    leaf_level: NDArray[np.int64]
    costs: NDArray[np.float64]
    shared_costs: NDArray[np.float64]

    @classmethod
    def of_layout(cls, layout: Layout) -> BitslicedTrees:
        """Return the trees that a layout has in the form of splits."""
        splits = layout.bitsliced
        n_splits = np.diff(splits.split_offsets)
        n_nodes = np.where(splits.is_bitsliced, 2 * n_splits + 1, 0)
        offsets = np.concatenate([[0], np.cumsum(n_nodes)])
        paths = LeafPaths(offsets, *np.empty((3, offsets[-1]), dtype=np.int64))
        list_leaf_paths(layout.walk, splits, paths)
        is_leaf = paths.code >= 0
        tree = np.repeat(np.arange(len(n_nodes)), n_nodes)[is_leaf]
        number = splits.first_code[tree] + paths.code[is_leaf]
        leaf_level = np.zeros(number.max() + 1, dtype=np.int64)
        leaf_level[number] = paths.level[is_leaf]
        is_shared = splits.split_condition < splits.n_shared
        of_split = np.repeat(np.arange(len(n_splits)), n_splits)
        n_shared = np.bincount(of_split, is_shared, minlength=len(n_splits))
        n_single = n_splits - n_shared
        costs = np.where(
            splits.is_bitsliced,
            COST_BITSLICED_TREE + COST_SPLIT * n_splits + COST_CONDITION * n_single,
            np.inf,
        )
        categories = layout.categories
        shared_costs = (COST_CONDITION * n_shared).astype(np.float64)
        return cls(splits, categories, paths, leaf_level, costs, shared_costs)

    def choose(
        self,
        before: NDArray[np.int64],
        after: NDArray[np.int64],
        in_use: float,
        is_bitsliced: NDArray[np.bool_],
    ) -> tuple[int, int, int]:
        """Choose the trees to bitslice from now on.

        A tree is walked until it would have been as cheap to bitslice it at once. So it
        never takes more than twice the time of the better choice, however many steps
        are still to come.

        Parameters
        ----------
        before, after : ndarray of shape (n_trees,), dtype=int64
            Steps taken in each tree, now and after those that are due.
        in_use : float
            Share of a padded block that real rows make up.
        is_bitsliced : ndarray of shape (n_trees,), dtype=bool
            Whether a tree is bitsliced. Updated.

        Returns
        -------
        n_bitsliced, n_new, n_walked : int
            Number of trees to step in: bitsliced ones, those bitsliced for the first
            time among them, and walked ones.
        """
        return choose_bitsliced(
            before,
            after,
            self.costs,
            self.shared_costs,
            COST_CONDITION * self.splits.n_shared,
            COST_LEVEL * in_use,
            is_bitsliced,
        )
