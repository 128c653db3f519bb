"""Voters that are called once for rows that many candidates are tried on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.forest.frames import rows_at
from spinney.runtime.early_exit import CalledEnsemble


class RememberedVoters:
    """An ensemble that is called, with what its members have said about some rows.

    Rows are given as indices into these. Each member is called at most once, for all of
    them, and adds what it would add for any part of them.

    Parameters
    ----------
    voters : CalledEnsemble
        The ensemble.
    rows : array-like of shape (n_rows, n_features)
        The rows.
    """

    def __init__(self, voters: CalledEnsemble, rows: Any) -> None:
        self.classes = voters.classes
        self.n_voters = voters.n_voters
        self._voters = voters
        self._rows = rows
        self._said: dict[tuple[str, int], NDArray[np.float64]] = {}

    def start(self, n_rows: int) -> NDArray[np.float64]:
        """Return the sums of rows before the first member, (n_rows, n_sums)."""
        return self._voters.start(n_rows)

    def take(
        self, rows: NDArray[np.intp], index: NDArray[np.int64]
    ) -> NDArray[np.intp]:
        """Return some of the rows."""
        return rows[index]

    def contribution(
        self, voting: str, voter: int, rows: NDArray[np.intp]
    ) -> NDArray[np.float64]:
        """Return what one member adds to the sums of rows, (n_rows, n_sums)."""
        key = (voting, voter)
        if key not in self._said:
            self._said[key] = self._voters.contribution(voting, voter, self._rows)
        return self._said[key][rows]

    def decide(
        self, voting: str, rows: NDArray[np.intp], totals: NDArray[np.float64]
    ) -> NDArray[np.intp]:
        """Return the classes of rows for which all members were called."""
        return self._voters.decide(voting, rows_at(self._rows, rows), totals)
