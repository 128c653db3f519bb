"""Bins of partial scores, and how sure one can be in each: the rule of Fan et al."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spinney.runtime.exit_kinds import STAY, TO_THE_END

Numbers = NDArray[np.float64]

EARLY_EXITS = ("both", "negative", "positive")


class ScoreBins(NamedTuple):
    """How sure one can be in every bin of partial scores: the rule of Fan et al.

    Let `mean` and `deviation` be those of the partial less the full score among the
    calibration rows of a bin. A row exits as positive if its partial score is above
    ``beta + mean + gamma * deviation``, as negative if it is below ``beta + mean -
    gamma * deviation``. In a bin without (or with too few) calibration rows it stays
    to the end.
    """

    beta: float  # the score from which the full ensemble decides for the second class
    width: float  # a score g is in bin floor(g / width)
    first: NDArray[np.int64]  # (n_exit_points,) number of the first bin
    offsets: NDArray[np.int64]  # (n_exit_points + 1,) where the bins begin below
    mean: Numbers  # (n_bins,) NaN where there are too few rows
    deviation: Numbers  # (n_bins,)
    gamma: float  # how many deviations are sure enough
    early_exit: str  # which predictions may be given early: both, negative, positive

    def certainty(self, k: int, partial: Numbers) -> Numbers:
        """Return by how many deviations each row is above or below the threshold.

        Parameters
        ----------
        k : int
            Index of the exit point.
        partial : ndarray of shape (n_rows,)
            Partial scores. Rows in unknown bins come out as NaN.
        """
        start, end = self.offsets[k], self.offsets[k + 1]
        number = np.floor(partial / self.width) - self.first[k]
        known = (number >= 0) & (number < end - start)
        bins = start + np.where(known, number, 0).astype(np.int64)
        ahead = partial - self.beta - np.where(known, self.mean[bins], np.nan)
        # Without deviation there is certainty, except exactly on the threshold.
        with np.errstate(divide="ignore", invalid="ignore"):
            sure = ahead / self.deviation[bins]
        return np.where(ahead == 0.0, 0.0, sure)

    def decide(self, k: int, partial: Numbers) -> NDArray[np.int64]:
        """Return the class with which each row exits, `STAY` or `TO_THE_END`.

        Parameters
        ----------
        k, partial
            As for `certainty`.
        """
        sure = self.certainty(k, partial)
        found = np.where(np.isnan(sure), TO_THE_END, STAY)
        if self.early_exit != "negative":
            found[sure > self.gamma] = 1
        if self.early_exit != "positive":
            found[sure < -self.gamma] = 0
        return found

    def fit_together(self, n_exit_points: int) -> bool:
        """Whether the arrays belong to so many exit points and to one another.

        Parameters
        ----------
        n_exit_points : int
            Number of exit points.
        """
        offsets = self.offsets
        return bool(
            self.first.shape == (n_exit_points,)
            and offsets.shape == (n_exit_points + 1,)
            and offsets[0] == 0
            and (offsets[1:] > offsets[:-1]).all()
            and self.mean.shape == (offsets[-1],)
            and self.deviation.shape == (offsets[-1],)
            and 0.0 < self.width < np.inf
            and self.gamma >= 0.0
            and self.early_exit in EARLY_EXITS
        )
