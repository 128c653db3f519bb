"""Rows on their way through a forest, and memory for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Memory(NamedTuple):
    """Memory for the states of rows, in one piece: many small ones take long to get."""

    rows: NDArray[np.floating]
    columns: NDArray[np.floating]  # empty: no tree can be bitsliced
    outcomes: NDArray[np.uint64]
    position: NDArray[np.uint32]
    sums: NDArray[np.int64]


@dataclass(eq=False)
class Block:
    """Some rows on their way through the forest.

    Parameters
    ----------
    first : int
        The first of them among all rows.
    rows : ndarray of shape (n_rows, n_columns + 1)
        The columns in use.
    missing : bool
        Whether there may be a NaN among them.
    columns : ndarray of shape (n_columns + 1, n_padded_rows) or None
        Memory for the same, column by column; None if no tree is to be bitsliced.
    outcomes : ndarray, dtype=uint64
        Scratch for bitslicing.
    position : ndarray of shape (n_trees, n_rows), dtype=uint32
        Node of each row in each tree that has been stepped in, counted from the root;
        for a bitsliced tree, the code of the leaf at which the row will end.
    sums : ndarray of shape (n_rows, n_classes), dtype=int64
        Running sums.
    levels : ndarray of shape (n_trees,), dtype=int64
        Steps taken in each tree.
    is_bitsliced : ndarray of shape (n_trees,), dtype=bool
        Whether a tree is bitsliced from now on.
    is_known : ndarray of shape (n_trees,), dtype=bool
        Whether it has been, so that the leaves are known.
    n_steps : int, default=0
        Steps taken.
    is_transposed : bool, default=False
        Whether `columns` are filled in.
    """

    first: int
    rows: NDArray[np.floating]
    missing: bool
    columns: NDArray[np.floating] | None
    outcomes: NDArray[np.uint64]
    position: NDArray[np.uint32]
    sums: NDArray[np.int64]
    levels: NDArray[np.int64]
    is_bitsliced: NDArray[np.bool_]
    is_known: NDArray[np.bool_]
    n_steps: int = 0
    is_transposed: bool = False

    @property
    def end(self) -> int:
        """One after the last of the rows."""
        return self.first + len(self.rows)
