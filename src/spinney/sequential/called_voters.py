"""Voters of any kind, called one by one, and only for rows that are undecided.

What counts as the prediction of the whole ensemble is what its own `predict` says, down
to the last tie. Sums that voters add up to in another order are rounded in another way,
so rows whose sums are too close to call are left to the model itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array
from sklearn.utils.validation import _num_samples

from spinney.base.estimator import unwrapped
from spinney.errors import UnsupportedModelError
from spinney.forest.frames import rows_at
from spinney.runtime.final_classes import leading_class

# Models add up in float32 if that is what the voters return, and in nothing coarser.
COARSEST = np.float32
# Probabilities may be so much below 0 or above 1, by rounding in float32.
OUTSIDE = 1e-6


class CalledVoters:
    """Fitted classifiers that vote, called one by one.

    Parameters
    ----------
    members : sequence of fitted classifiers
        The voters.
    classes : ndarray of shape (n_classes,)
        Labels of the ensemble.
    model : fitted ensemble, optional
        The ensemble that they are the members of, which calls its classes by their
        index when it speaks to them. Without one, members use the labels themselves,
        and votes or probabilities are added up in the order of the members; a tie goes
        to the first class.
    columns : sequence of array-like, optional
        Columns of a row that each voter sees, as an array; None for all of them.
    weights : ndarray of shape (n_voters,), optional
        Weights of averaged probabilities, with a mean of one; None for equal ones.
    is_soft : bool, default=False
        Whether the ensemble itself averages probabilities.
    """

    def __init__(
        self,
        members: Sequence[Any],
        classes: NDArray[Any],
        *,
        model: Any = None,
        columns: Sequence[ArrayLike] | None = None,
        weights: NDArray[np.float64] | None = None,
        is_soft: bool = False,
    ) -> None:
        self.members = [unwrapped(member) for member in members]
        self.classes = classes
        self.n_voters = len(self.members)
        self.is_soft = is_soft
        self.weights = np.ones(self.n_voters) if weights is None else weights
        self._model = model
        self._columns = columns
        self._member_labels = classes if model is None else np.arange(len(classes))

    @property
    def n_sums(self) -> int:
        """How many sums a rule sees: one for two classes, else one per class."""
        return 1 if len(self.classes) <= 2 else len(self.classes)

    def check(self, voting: str) -> None:
        """Raise if the votes cannot be added up in this way."""
        for member in self.members:
            if voting == "soft" and not hasattr(member, "predict_proba"):
                msg = (
                    f"{type(member).__name__} has no predict_proba, so its votes "
                    "cannot be averaged.\nHint: use voting='hard'."
                )
                raise UnsupportedModelError(msg)

    @property
    def decision(self) -> tuple[float, float]:
        """With two classes: what sums of scores begin with, and have to exceed."""
        return 0.0, 0.0

    def score_range(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the least and the largest score of each voter, over all classes.

        What is left of the voters has to be able to make up for rounding, too. It is
        counted once: with the most extreme voter, which every rest is taken to hold.
        """
        most = self.weights * (1.0 + OUTSIDE)
        least = -self.weights * OUTSIDE
        if self.n_sums == 1:
            most = (most - least) / 2
            least = -most
        most[most.argmax()] += self._tolerance
        least[least.argmin()] -= self._tolerance
        return least, most

    def start(self, n_rows: int) -> NDArray[np.float64]:
        """Return the sums of rows before the first voter, (n_rows, n_sums)."""
        return np.zeros((n_rows, self.n_sums))

    def take(self, rows: Any, index: NDArray[np.int64]) -> Any:
        """Return some of the rows."""
        return rows_at(rows, index)

    # ---------------------------------------------------------------- one voter

    def contribution(self, voting: str, voter: int, rows: Any) -> NDArray[np.float64]:
        """Return what one voter adds to the sums of each row.

        Parameters
        ----------
        voting : {"hard", "soft"}
            Votes, or (weighted) probabilities; for two classes, 1 for the second
            class, or half the difference of the two probabilities.
        voter : int
            Index of the voter.
        rows : array-like of shape (n_rows, n_features)
            Rows in the type that the voters expect.

        Returns
        -------
        added : ndarray of shape (n_rows, n_sums)
        """
        n_classes = len(self.classes)
        each = self._added(voting, voter, rows)
        if n_classes == 1:
            return np.zeros((len(each), 1))
        if n_classes > 2:
            return each
        return each[:, 1:] if voting == "hard" else (each[:, 1:] - each[:, :1]) / 2

    def _added(self, voting: str, voter: int, rows: Any) -> NDArray[np.float64]:
        """Return the vote of one voter, or its weighted probabilities, by class."""
        member, n_rows = self.members[voter], _num_samples(rows)
        each = np.zeros((n_rows, len(self.classes)))
        if n_rows == 0:
            return each
        if self._columns is not None:
            # As the model does it: an array, and of this the columns.
            rows = check_array(rows, dtype=None, ensure_all_finite=False)
            rows = rows[:, self._columns[voter]]
        if voting == "hard":
            each[np.arange(n_rows), self._codes(member, member.predict(rows))] = 1.0
            return each
        given = np.asarray(member.predict_proba(rows))
        _check_probabilities(member, given)
        if self._model is not None and given.shape[1] == len(self.classes):
            each[:] = given
        else:
            each[:, self._codes(member, member.classes_)] = given
        each *= self.weights[voter]
        return each

    def _codes(self, member: Any, given: Any) -> NDArray[np.intp]:
        """Return labels that a member uses as indices into the classes, or raise."""
        known, labels = self._member_labels, np.asarray(given)
        codes = np.searchsorted(known, labels).clip(max=len(known) - 1)
        strange = known[codes] != labels
        if np.any(strange):
            msg = (
                f"{type(member).__name__} predicts "
                f"{labels[strange][:1].tolist()[0]!r}, which is not a class of "
                "the ensemble, whose members' classes are "
                f"{known[:8].tolist()}{' and others' if len(known) > 8 else ''}."
            )
            raise UnsupportedModelError(msg)
        return codes

    # ---------------------------------------------------------------- all voters

    def contributions(
        self, voting: str, rows: Any, n_jobs: int | None = None
    ) -> NDArray[np.float64]:
        """Return what every voter adds, of shape (n_rows, n_voters, n_sums)."""
        voters = range(self.n_voters)
        return np.stack([self.contribution(voting, k, rows) for k in voters], axis=1)

    def votes(self, rows: Any, n_jobs: int | None = None) -> NDArray[Any]:
        """Return the class index that each voter votes for, (n_rows, n_voters)."""
        added = self.contributions("hard", rows)
        return added[:, :, 0] if self.n_sums == 1 else added.argmax(axis=2)

    def totals(
        self, voting: str, rows: Any, n_jobs: int | None = None
    ) -> NDArray[np.float64]:
        """Return the sums of all voters, of shape (n_rows, n_sums)."""
        totals = self.start(_num_samples(rows))
        for voter in range(self.n_voters):
            totals += self.contribution(voting, voter, rows)
        return totals

    def full_classes(
        self, voting: str, rows: Any, n_jobs: int | None = None
    ) -> NDArray[np.intp]:
        """Return the class indices that all voters together give.

        Where the model itself decides in this way, they are those of its `predict`.
        """
        n_rows = _num_samples(rows)
        if n_rows == 0:
            return np.zeros(0, dtype=np.intp)
        if self._model is not None and self.is_soft == (voting == "soft"):
            return np.searchsorted(self.classes, self._model.predict(rows))
        if voting == "hard":
            return majority(self.totals("hard", rows), self.n_voters)
        sums = np.zeros((n_rows, len(self.classes)))
        for voter in range(self.n_voters):
            sums += self._added("soft", voter, rows)
        return sums.argmax(axis=1)

    def decide(
        self, voting: str, rows: Any, totals: NDArray[np.float64]
    ) -> NDArray[np.intp]:
        """Return the classes of rows for which everybody was called, in any order."""
        if voting == "hard" or len(self.classes) == 1:
            return majority(totals, self.n_voters)  # counts: nothing is rounded
        if self.n_sums == 1:
            classes = (totals[:, 0] > 0.0).astype(np.intp)
            margin, tolerance = np.abs(totals[:, 0]), self._tolerance
        else:
            classes = totals.argmax(axis=1)
            _, most, next_most = leading_class(totals)
            margin, tolerance = most - next_most, 2 * self._tolerance
        close = np.flatnonzero(~(margin > tolerance))  # NaN among them
        if len(close):
            classes[close] = self.full_classes(voting, self.take(rows, close))
        return classes

    def probabilities(
        self, voting: str, totals: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the share of each class in the sums of all voters.

        Parameters
        ----------
        voting : {"hard", "soft"}
            What was added up.
        totals : ndarray of shape (n_rows, n_sums)
            The sums.

        Returns
        -------
        probabilities : ndarray of shape (n_rows, n_classes)
            Shares of the votes, or (weighted) means of probabilities.
        """
        if len(self.classes) == 1:
            return np.ones((len(totals), 1))
        if self.n_sums > 1:
            return totals / self.n_voters
        second = totals if voting == "hard" else totals + self.n_voters / 2
        return np.column_stack([self.n_voters - second, second]) / self.n_voters

    @property
    def _tolerance(self) -> float:
        """More than the sum of one class can differ by from that of the model.

        A sum of n products, in whatever order or blocks, and divided by a number, is
        off by at most ``k * u / (1 - k * u)`` of the sum of its parts, with ``u`` the
        unit roundoff and ``k = n + 1`` roundings on the way of each part. The parts
        add up to no more than the weights do. Theirs in the coarsest type and ours in
        float64, with weights that were divided before, together stay below what
        ``k = n + 4`` gives. Twice of it has room for the denominator and for
        probabilities slightly above one. Half the difference of two classes is as much
        off as one class.
        """
        roundoff = float(np.finfo(COARSEST).eps) / 2
        return 2.0 * (self.n_voters + 4) * roundoff * float(self.weights.sum())

    def plan(
        self, steps: NDArray[np.int64], undecided: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """Return all steps: a call costs more than an exit point."""
        return steps


def majority(totals: NDArray[np.float64], n_voters: int) -> NDArray[np.intp]:
    """Return the class that has most votes; a tie goes to the first.

    Parameters
    ----------
    totals : ndarray of shape (n_rows, n_sums)
        Votes for the second of two classes, or for each of several.
    n_voters : int
        Number of voters.
    """
    if totals.shape[1] > 1:
        return totals.argmax(axis=1)
    return (totals[:, 0] > n_voters / 2).astype(np.intp)


def _check_probabilities(member: Any, given: NDArray[Any]) -> None:
    """Raise if something is not known about probabilities that is relied upon."""
    name = type(member).__name__
    if given.ndim != 2:
        msg = (
            f"predict_proba of {name} must return an array of shape (rows, classes), "
            f"got the shape {given.shape}.\nHint: use voting='hard'."
        )
        raise UnsupportedModelError(msg)
    if given.dtype.kind == "f" and np.finfo(given.dtype).eps > np.finfo(COARSEST).eps:
        msg = (
            f"predict_proba of {name} returned {given.dtype}, which is too imprecise "
            "to bound the rounding errors of sums.\nHint: use voting='hard'."
        )
        raise UnsupportedModelError(msg)
    if np.any(given < -OUTSIDE) or np.any(given > 1.0 + OUTSIDE):
        msg = (
            f"predict_proba of {name} returned values from {np.nanmin(given):g} to "
            f"{np.nanmax(given):g}, and probabilities are between 0 and 1.\n"
            "Hint: use voting='hard'."
        )
        raise UnsupportedModelError(msg)
