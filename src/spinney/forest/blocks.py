"""Rows that are kept in a small form, and dense only a block at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Rows that take no more than this, dense, are made dense at once.
DENSE_BYTES = 2**25
# Bytes of a dense block, and the rows that it has at least and at most.
BLOCK_BYTES = 2**24
MIN_BLOCK_ROWS, MAX_BLOCK_ROWS = 64, 16_384


class BlockedRows(ABC):
    """Rows that are made dense a block at a time when they are evaluated."""

    shape: tuple[int, int]
    dtype: np.dtype
    ndim = 2

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> Any:
        """Return some of the rows, or a single one as a dense array."""
        if isinstance(index, tuple):  # as `sklearn.utils._safe_indexing` writes it
            index = index[0]
        if isinstance(index, (int, np.integer)):
            return self[int(index) : int(index) + 1].dense()[0]
        return self._some(index)

    @abstractmethod
    def _some(self, index: Any) -> BlockedRows:
        """Return the rows of a slice, a mask or an array of numbers."""

    @abstractmethod
    def dense(self) -> NDArray[np.floating]:
        """Return all rows as an array."""

    def blocks(self) -> Iterator[NDArray[np.floating]]:
        """Yield the rows as dense arrays, in order; at least one, maybe empty."""
        width = max(1, self.shape[1] * self.dtype.itemsize)
        size = min(max(BLOCK_BYTES // width, MIN_BLOCK_ROWS), MAX_BLOCK_ROWS)
        for start in range(0, max(len(self), 1), size):
            yield self[start : start + size].dense()

    def by_block(
        self, evaluate: Callable[[NDArray[np.floating]], NDArray[Any]]
    ) -> NDArray[Any]:
        """Return what `evaluate` makes of the blocks, one after another."""
        return np.concatenate([evaluate(block) for block in self.blocks()])
