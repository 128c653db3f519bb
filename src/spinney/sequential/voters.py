"""Voters of an ensemble: trees, or any classifiers, called only where undecided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.ensemble import BaggingClassifier, VotingClassifier
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples, check_is_fitted

from spinney.base.estimator import unwrapped
from spinney.errors import InvalidArgumentError, UnsupportedModelError
from spinney.forest import Forest
from spinney.readers import read_model
from spinney.runtime.exit_rule import leading_class
from spinney.runtime.planning import plan_exit_points
from spinney.runtime.scoring import decision_threshold, scoring_forest, tree_ranges


class TreeVoters:
    """The trees of a forest.

    Parameters
    ----------
    forest : Forest
        A classifier.

    Attributes
    ----------
    n_voters : int
        Number of trees.
    n_sums : int
        How many sums a rule sees: one for two classes, else one per class.
    is_soft : bool
        Whether the forest itself averages what its trees say.
    """

    def __init__(self, forest: Forest) -> None:
        if forest.classes_ is None:
            msg = f"{forest!r} is a regressor, whose trees have no classes to vote for."
            raise UnsupportedModelError(msg)
        if forest.aggregation == "sum":
            msg = (
                f"The trees of this model ({forest.source or 'a sum of trees'}) add to "
                "a score and do not vote.\nHint: use CascadeClassifier for gradient "
                "boosting."
            )
            raise UnsupportedModelError(msg)
        self.forest = forest
        self.classes: NDArray[Any] = forest.classes_
        self.n_voters = forest.n_trees
        self.n_sums = 1 if len(self.classes) <= 2 else len(self.classes)
        self.is_soft = forest.aggregation == "mean"
        self._scoring: dict[str, Forest] = {}

    def _scoring_forest(self, voting: str) -> Forest:
        """Return the forest whose trees hold what is added up, made on first use."""
        if voting not in self._scoring:
            self._scoring[voting] = scoring_forest(self.forest, voting)
        return self._scoring[voting]

    def check(self, voting: str) -> None:
        """Raise if the votes cannot be added up in this way."""
        if voting == "hard" and not self.forest.votes_by_class:
            msg = (
                "The trees of this model give scores that are averaged, not votes.\n"
                "Hint: use voting='soft'."
            )
            raise UnsupportedModelError(msg)

    @property
    def decision(self) -> tuple[float, float]:
        """With two classes: what sums of scores begin with, and have to exceed."""
        start = self._scoring_forest("soft").base_score[0]
        return float(start), decision_threshold(self.forest, "soft")

    def score_range(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the least and the largest score of each tree, over all classes."""
        return tree_ranges(self._scoring_forest("soft"))

    def totals(
        self, voting: str, rows: Any, n_jobs: int | None = None
    ) -> NDArray[np.float64]:
        """Return the sums of all voters, of shape (n_rows, n_sums)."""
        totals: NDArray[Any] = self._scoring_forest(voting).engine.raw(rows, n_jobs)
        return totals

    def contributions(
        self, voting: str, rows: Any, n_jobs: int | None = None
    ) -> NDArray[np.float64]:
        """Return what every voter adds, of shape (n_rows, n_voters, n_sums)."""
        added = self._scoring_forest(voting).engine.scores(rows, n_jobs)
        return added.reshape(len(added), self.n_voters, self.n_sums)

    def votes(self, rows: Any, n_jobs: int | None = None) -> NDArray[np.integer]:
        """Return the class index that each voter votes for, (n_rows, n_voters)."""
        return self.forest.engine.votes(rows, n_jobs)

    def full_classes(
        self, voting: str, rows: Any, n_jobs: int | None = None
    ) -> NDArray[np.intp]:
        """Return the class indices that all voters together give."""
        if voting == "soft":
            return self.forest.winners(self.forest.engine.raw(rows, n_jobs))
        return _majority(self.totals(voting, rows, n_jobs), self.n_voters)

    def plan(
        self,
        order: NDArray[np.int64],
        steps: NDArray[np.int64],
        undecided: NDArray[np.float64],
    ) -> NDArray[np.int64]:
        """Return the steps at which it pays to let rows leave."""
        return plan_exit_points(self.forest.take(order), steps, undecided)


class CalledVoters:
    """Fitted classifiers that vote, called one by one.

    Parameters
    ----------
    members : sequence of fitted classifiers
        The voters.
    classes : ndarray of shape (n_classes,)
        Labels of the ensemble.
    member_labels : ndarray or None
        What the members call these classes; None if they use the same labels.
    columns : sequence of array-like or None
        Columns of a row that each voter sees; None for all of them.
    weights : ndarray of shape (n_voters,) or None
        Weights of averaged probabilities; None for equal ones.
    is_soft : bool
        Whether the ensemble itself averages probabilities.
    """

    def __init__(
        self,
        members: Sequence[Any],
        classes: NDArray[Any],
        member_labels: NDArray[Any] | None,
        columns: Sequence[ArrayLike] | None,
        weights: NDArray[np.float64] | None,
        is_soft: bool,
    ) -> None:
        self.members = [unwrapped(member) for member in members]
        self.classes = classes
        self.n_voters = len(self.members)
        self.is_soft = is_soft
        self.weights = weights
        self._labels = classes if member_labels is None else member_labels
        self._columns = columns
        self._order = np.argsort(self._labels)

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
        """Return the least and the largest score of each voter, over all classes."""
        most = np.ones(self.n_voters) if self.weights is None else self.weights
        return (-most / 2, most / 2) if self.n_sums == 1 else (0.0 * most, most)

    def start(self, n_rows: int) -> NDArray[np.float64]:
        """Return the sums of rows before the first voter, (n_rows, n_sums)."""
        return np.zeros((n_rows, self.n_sums))

    def take(self, rows: Any, index: NDArray[np.int64]) -> Any:
        """Return some of the rows."""
        return _safe_indexing(rows, index)

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
        member = self.members[voter]
        if self._columns is not None:
            rows = _safe_indexing(rows, self._columns[voter], axis=1)
        each = np.zeros((_num_samples(rows), len(self.classes)))
        if voting == "hard":
            each[np.arange(len(each)), self._codes(member.predict(rows))] = 1.0
            return self._sums(each, each[:, 1:])
        weight = 1.0 if self.weights is None else self.weights[voter]
        each[:, self._codes(member.classes_)] = weight * member.predict_proba(rows)
        return self._sums(each, (each[:, 1:] - each[:, :1]) / 2)

    def _sums(
        self, each: NDArray[np.float64], of_two: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the sums that a rule sees for one, two, or more classes."""
        if len(self.classes) == 1:
            return np.zeros((len(each), 1))
        return of_two if len(self.classes) == 2 else each

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
        """Return the class indices that all voters together give."""
        n_needed = self.n_voters if voting == "hard" else 0
        return _majority(self.totals(voting, rows), n_needed)

    def decide(
        self, voting: str, rows: Any, totals: NDArray[np.float64]
    ) -> NDArray[np.intp]:
        """Return the classes of rows for which everybody was called, in any order."""
        if voting == "hard":
            return _majority(totals, self.n_voters)
        classes = _majority(totals, 0)
        # Sums of another order may differ in the last digits.
        weights = self.n_voters if self.weights is None else self.weights.sum()
        tolerance = 1e-14 * self.n_voters * float(weights)
        if totals.shape[1] > 1:
            _, most, next_most = leading_class(totals)
            close = np.flatnonzero(~(most - next_most > tolerance))
        else:
            close = np.flatnonzero(~(np.abs(totals[:, 0]) > tolerance))
        if len(close):
            classes[close] = self.full_classes(voting, self.take(rows, close))
        return classes

    def plan(
        self,
        order: NDArray[np.int64],
        steps: NDArray[np.int64],
        undecided: NDArray[np.float64],
    ) -> NDArray[np.int64]:
        """Return all steps: a call costs more than an exit point."""
        return steps

    def _codes(self, labels: NDArray[Any]) -> NDArray[np.intp]:
        """Return labels of the members as indices into the classes."""
        return self._order[
            np.searchsorted(self._labels, np.asarray(labels), sorter=self._order)
        ]


def _majority(totals: NDArray[np.float64], n_voters: int) -> NDArray[np.intp]:
    """Return the class that wins; a tie of two goes to the first, as of several."""
    if totals.shape[1] > 1:
        return totals.argmax(axis=1)
    return (totals[:, 0] > n_voters / 2).astype(np.intp)


def voters_of(model: Any) -> TreeVoters | CalledVoters:
    """Return the voters of a fitted ensemble, or of a list of fitted classifiers.

    Parameters
    ----------
    model : model, or list of classifiers
        What `spinney.read_model` knows, a `VotingClassifier`, a `BaggingClassifier`
        of anything, or a list; all of them fitted.

    Returns
    -------
    voters : TreeVoters or CalledVoters
        The voters, in their order.

    Raises
    ------
    UnsupportedModelError
        If the members of `model` do not vote, or with unequal weights.
    """
    if isinstance(model, (list, tuple)):
        return _voters_of_list(model)
    if isinstance(model, VotingClassifier):
        return _voters_of_voting(model)
    try:
        return TreeVoters(read_model(model))
    except UnsupportedModelError:
        if not isinstance(model, BaggingClassifier):
            raise
    members = model.estimators_
    return CalledVoters(
        members,
        model.classes_,
        np.arange(len(model.classes_)),
        model.estimators_features_,
        None,
        all(hasattr(member, "predict_proba") for member in members),
    )


def _voters_of_voting(model: VotingClassifier) -> CalledVoters:
    check_is_fitted(model)
    weights = model._weights_not_none
    if model.voting == "hard" and weights is not None and len(set(weights)) > 1:
        msg = (
            "The voters of this VotingClassifier have unequal weights, and the theory "
            "of random order needs equal votes.\n"
            "Hint: leave the weights out, or use voting='soft'."
        )
        raise UnsupportedModelError(msg)
    shares = None if weights is None else np.asarray(weights, dtype=np.float64)
    return CalledVoters(
        model.estimators_,
        model.classes_,
        np.arange(len(model.classes_)),
        None,
        None if shares is None else shares / shares.mean(),
        model.voting == "soft",
    )


def _voters_of_list(members: Sequence[Any]) -> CalledVoters:
    if not members:
        msg = "The list of classifiers is empty. Pass at least one fitted classifier."
        raise InvalidArgumentError(msg)
    for number, member in enumerate(members):
        if not hasattr(member, "predict") or not hasattr(member, "classes_"):
            msg = (
                f"Member {number} of the list is no fitted classifier, but "
                f"{type(member).__name__}. Fit all of them first; "
                "FrozenEstimator(member) keeps them as they are."
            )
            raise InvalidArgumentError(msg)
    classes = np.unique(np.concatenate([member.classes_ for member in members]))
    return CalledVoters(members, classes, None, None, None, False)
