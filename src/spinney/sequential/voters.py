"""Voters of an ensemble: trees, or any classifiers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import BaggingClassifier, VotingClassifier
from sklearn.utils.validation import check_is_fitted

from spinney.errors import InvalidArgumentError, UnsupportedModelError
from spinney.forest import Forest
from spinney.readers import read_model
from spinney.runtime.planning import plan_exit_points
from spinney.runtime.scoring import decision_threshold, scoring_forest, tree_ranges
from spinney.sequential.called_voters import CalledVoters, majority


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
        return majority(self.totals(voting, rows, n_jobs), self.n_voters)

    def plan(
        self, steps: NDArray[np.int64], undecided: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """Return the steps at which it pays to let rows exit, in any order."""
        return plan_exit_points(self.forest, steps, undecided)


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
    return _voters_of_bagging(model)


def _voters_of_bagging(model: BaggingClassifier) -> CalledVoters:
    # Its own `predict` leaves out what lies beyond.
    members = model.estimators_[: model.n_estimators]
    has_probabilities = [hasattr(member, "predict_proba") for member in members]
    if any(has_probabilities) and not all(has_probabilities):
        msg = (
            "Some members of this BaggingClassifier have predict_proba and others do "
            "not, so it adds up probabilities and votes.\n"
            "Hint: train members of the same kind."
        )
        raise UnsupportedModelError(msg)
    return CalledVoters(
        members,
        model.classes_,
        model=model,
        columns=model.estimators_features_,
        is_soft=all(has_probabilities),
    )


def _voters_of_voting(model: VotingClassifier) -> CalledVoters:
    check_is_fitted(model)
    is_soft = model.voting == "soft"
    shares = None
    if model._weights_not_none is not None:
        shares = _shares(model._weights_not_none)
        if not is_soft and (shares != shares[0]).any():
            msg = (
                "The voters of this VotingClassifier have unequal weights, and the "
                "theory of random order needs equal votes.\n"
                "Hint: leave the weights out, or use voting='soft'."
            )
            raise UnsupportedModelError(msg)
    n_classes = len(model.classes_)
    for number, member in enumerate(model.estimators_):
        n_known = len(getattr(member, "classes_", model.classes_))
        if is_soft and n_known != n_classes:
            # It would take the columns of their probabilities for other classes.
            msg = (
                f"Member {number} of this VotingClassifier has {n_known} classes, and "
                f"the ensemble has {n_classes}.\n"
                "Hint: train all members on rows of all classes."
            )
            raise UnsupportedModelError(msg)
    return CalledVoters(
        model.estimators_, model.classes_, model=model, weights=shares, is_soft=is_soft
    )


def _shares(weights: Sequence[Any]) -> NDArray[np.float64]:
    """Return weights of voters with a mean of one, or raise."""
    shares = np.asarray(weights, dtype=np.float64)
    # Beyond, the model's own sums could overflow or lose digits.
    if not ((shares >= 0.0).all() and 1e-30 <= shares.max() <= 1e30):
        msg = (
            f"The weights of this VotingClassifier are {list(weights)}.\n"
            "Hint: use weights that are not negative, the largest of them about one."
        )
        raise UnsupportedModelError(msg)
    return shares / shares.mean()


def _voters_of_list(members: Sequence[Any]) -> CalledVoters:
    if not members:
        msg = "The list of classifiers is empty. Pass at least one fitted classifier."
        raise InvalidArgumentError(msg)
    for number, member in enumerate(members):
        if not hasattr(member, "predict") or not hasattr(member, "classes_"):
            msg = (
                f"Member {number} of the list is not a fitted classifier, but "
                f"{type(member).__name__}. Fit all of them first; "
                "FrozenEstimator(member) keeps them as they are."
            )
            raise InvalidArgumentError(msg)
    classes = np.unique(np.concatenate([member.classes_ for member in members]))
    return CalledVoters(members, classes)
