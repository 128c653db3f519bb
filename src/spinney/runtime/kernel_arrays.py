"""The one convention about arrays that can, or cannot, be written to.

To Numba a read-only array is of another type: a kernel that meets both kinds is
compiled twice, which takes seconds. So every argument of a kernel is of one kind:

* rows of a batch are read-only, because those of a data frame may be, and spinney
  never writes to them (`read_only`);
* all else (layouts, tables, exit rules, scratch memory, the row of a `predictor`) can
  be written to; what comes from a forest or a caller is copied first (`own_copy`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray


def read_only(rows: NDArray[Any]) -> NDArray[Any]:
    """Return rows as kernels take them: the same memory, read-only."""
    if rows.flags.writeable:
        rows = rows.view()
        rows.flags.writeable = False
    return rows


def own_copy(values: ArrayLike, dtype: DTypeLike | None = None) -> NDArray[Any]:
    """Return values as kernels take them beside the rows: in memory of our own."""
    return np.array(values, dtype=dtype)
