"""Rows of a large data frame, made into an array a block at a time.

Data frames lie in memory column by column, kernels take rows: the frame stays as it is,
and only the block of rows that is evaluated next is turned around.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.forest.blocks import BlockedRows
from spinney.forest.frame_kinds import Frame


class FrameRows(BlockedRows):
    """Rows of a data frame that are an array only a block at a time.

    Parameters
    ----------
    frame : Frame
        The rows, columns in the order of the model.
    convert : callable
        Makes an array of some rows, as kernels take it.
    dtype : dtype, optional
        Of all blocks; found out if it is not given.
    """

    def __init__(
        self,
        frame: Frame,
        convert: Callable[[Frame], NDArray[np.floating]],
        dtype: np.dtype | None = None,
    ) -> None:
        self._frame = frame
        self._convert = convert
        self.shape = (frame.n_rows, len(frame.names))
        # Missing values may make wider floats of a block than the others have, whose
        # numbers are none the longer for it.
        self.dtype = dtype or convert(frame.rows(slice(0, 0))).dtype

    def _some(self, index: Any) -> FrameRows:
        return FrameRows(self._frame.rows(index), self._convert, self.dtype)

    def dense(self) -> NDArray[np.floating]:
        """Return all rows as an array."""
        return self._convert(self._frame).astype(self.dtype, copy=False)
