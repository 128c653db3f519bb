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
from spinney.runtime import ExitRule
from spinney.runtime.early_exit import Policy, positive_from, scoring_forest
from spinney.runtime.planning import plan_checks
from spinney.runtime.row_kernels import finish_block, settle_block


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
        self._policy: Policy | None = None

    def _scoring_forest(self, counting: str) -> Forest:
        """Return the forest whose trees hold what is added up, made on first use."""
        if counting not in self._scoring:
            self._scoring[counting] = scoring_forest(self.forest, counting)
        return self._scoring[counting]

    def check(self, counting: str) -> None:
        """Raise if the voters cannot be counted in this way."""
        if counting == "votes" and not self.forest.votes_by_class:
            msg = (
                "The trees of this model give scores that are averaged, not votes.\n"
                "Hint: use voting='soft'."
            )
            raise UnsupportedModelError(msg)

    @property
    def decision(self) -> tuple[float, float]:
        """With two classes: what sums of scores begin with, and have to exceed."""
        start = self._scoring_forest("scores").base_score[0]
        return float(start), positive_from(self.forest, "scores")

    def score_range(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the least and the largest score of each tree, over all classes."""
        scoring = self._scoring_forest("scores")
        value = np.where(scoring.feature[:, None] < 0, scoring.value, np.nan)
        starts = scoring.tree_offsets[:-1]
        return (
            np.fmin.reduceat(np.nanmin(value, axis=1, initial=np.inf), starts),
            np.fmax.reduceat(np.nanmax(value, axis=1, initial=-np.inf), starts),
        )

    def totals(
        self, counting: str, X: Any, n_jobs: int | None = None
    ) -> NDArray[np.float64]:
        """Return the sums of all voters, of shape (n_rows, n_sums)."""
        totals: NDArray[Any] = self._scoring_forest(counting).engine.raw(X, n_jobs)
        return totals

    def say_all(
        self, counting: str, X: Any, n_jobs: int | None = None
    ) -> NDArray[np.float64]:
        """Return what every voter adds, of shape (n_rows, n_voters, n_sums)."""
        said = self._scoring_forest(counting).scores(X, n_jobs)
        return said.reshape(len(said), self.n_voters, self.n_sums)

    def decide(
        self, counting: str, X: Any, n_jobs: int | None = None
    ) -> NDArray[np.intp]:
        """Return the class indices that all voters together give."""
        if counting == "scores":
            return self.forest.winners(self.forest.engine.raw(X, n_jobs))
        return _majority(self.totals(counting, X, n_jobs), self.n_voters)

    def policy(self, counting: str, order: NDArray[np.int64], rule: ExitRule) -> Policy:
        """Return how rows are asked, in this order and by this rule."""
        last = self._policy
        if (
            last is not None
            and last.counting == counting
            and np.array_equal(last.order, order)
        ):
            self._policy = last.with_rule(rule)
        else:
            self._policy = Policy(self.forest, counting, order, rule)
        return self._policy

    def plan(
        self,
        order: NDArray[np.int64],
        steps: NDArray[np.int64],
        undecided: NDArray[np.float64],
    ) -> NDArray[np.int64]:
        """Return the steps at which it pays to look whether rows may leave."""
        return plan_checks(self.forest.take(order), steps, undecided)


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

    def check(self, counting: str) -> None:
        """Raise if the voters cannot be counted in this way."""
        for member in self.members:
            if counting == "scores" and not hasattr(member, "predict_proba"):
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

    def say(self, counting: str, voter: int, X: Any) -> NDArray[np.float64]:
        """Return what one voter adds to the sums of each row.

        Parameters
        ----------
        counting : {"votes", "scores"}
            Votes, or (weighted) probabilities; for two classes, 1 for the second
            class, or half the difference of the two probabilities.
        voter : int
            Number of the voter.
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        said : ndarray of shape (n_rows, n_sums)
        """
        member = self.members[voter]
        if self._columns is not None:
            X = _safe_indexing(X, self._columns[voter], axis=1)
        each = np.zeros((_num_samples(X), len(self.classes)))
        if counting == "votes":
            each[np.arange(len(each)), self._codes(member.predict(X))] = 1.0
            return self._sums(each, each[:, 1:])
        weight = 1.0 if self.weights is None else self.weights[voter]
        each[:, self._codes(member.classes_)] = weight * member.predict_proba(X)
        return self._sums(each, (each[:, 1:] - each[:, :1]) / 2)

    def _sums(
        self, each: NDArray[np.float64], of_two: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the sums that a rule sees for one, two, or more classes."""
        if len(self.classes) == 1:
            return np.zeros((len(each), 1))
        return of_two if len(self.classes) == 2 else each

    def say_all(
        self, counting: str, X: Any, n_jobs: int | None = None
    ) -> NDArray[np.float64]:
        """Return what every voter adds, of shape (n_rows, n_voters, n_sums)."""
        said = [self.say(counting, voter, X) for voter in range(self.n_voters)]
        return np.stack(said, axis=1)

    def totals(
        self, counting: str, X: Any, n_jobs: int | None = None
    ) -> NDArray[np.float64]:
        """Return the sums of all voters, of shape (n_rows, n_sums)."""
        total = np.zeros((_num_samples(X), self.n_sums))
        for voter in range(self.n_voters):
            total += self.say(counting, voter, X)
        return total

    def decide(
        self, counting: str, X: Any, n_jobs: int | None = None
    ) -> NDArray[np.intp]:
        """Return the class indices that all voters together give."""
        n_needed = self.n_voters if counting == "votes" else 0
        return _majority(self.totals(counting, X), n_needed)

    def policy(
        self, counting: str, order: NDArray[np.int64], rule: ExitRule
    ) -> CallingPolicy:
        """Return how rows are asked, in this order and by this rule."""
        return CallingPolicy(self, counting, order, rule)

    def plan(
        self,
        order: NDArray[np.int64],
        steps: NDArray[np.int64],
        undecided: NDArray[np.float64],
    ) -> NDArray[np.int64]:
        """Return all steps: a call costs more than a look."""
        return steps

    def _codes(self, labels: NDArray[Any]) -> NDArray[np.intp]:
        """Return labels of the members as indices into the classes."""
        return self._order[
            np.searchsorted(self._labels, np.asarray(labels), sorter=self._order)
        ]


class CallingPolicy:
    """An order of voters, and a rule when to stop calling them.

    Parameters
    ----------
    voters : CalledVoters
        The voters.
    counting : {"votes", "scores"}
        What is added up.
    order : ndarray of shape (n_voters,)
        In which order they are called.
    rule : ExitRule
        When a row may leave.
    """

    def __init__(
        self,
        voters: CalledVoters,
        counting: str,
        order: NDArray[np.int64],
        rule: ExitRule,
    ) -> None:
        self.voters = voters
        self.counting = counting
        self.order = order
        self.rule = rule

    @property
    def checks(self) -> NDArray[np.int64]:
        """Numbers of voters after which a row may leave."""
        return self.rule.checks

    def ask(
        self, X: Any, n_jobs: int | None = None
    ) -> tuple[NDArray[np.intp], NDArray[np.int32]]:
        """Answer rows, calling as few voters for each as the rule allows.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.
        n_jobs : int or None, default=None
            Voters are called one at a time and decide themselves on their threads.

        Returns
        -------
        classes : ndarray of shape (n_rows,)
            Class indices.
        counts : ndarray of shape (n_rows,), dtype=int32
            Number of voters called.
        """
        voters, rule = self.voters, self.rule
        n_rows = _num_samples(X)
        classes = np.zeros(n_rows, dtype=np.intp)
        counts = np.zeros(n_rows, dtype=np.int32)
        place = np.arange(n_rows)
        totals = np.zeros((n_rows, voters.n_sums))
        check_at = {int(step): k for k, step in enumerate(rule.checks)}
        rows = X
        for step, voter in enumerate(self.order, start=1):
            if len(place) == 0:
                break
            totals += voters.say(self.counting, int(voter), rows)
            k = check_at.get(step)
            if k is None:
                continue
            n_left = settle_block(
                totals,
                place,
                rule.kind,
                k,
                step,
                rule.bounds,
                rule.stops,
                classes,
                counts,
            )
            if n_left < len(place):
                totals, place = totals[:n_left], place[:n_left]
                rows = _safe_indexing(X, place)
        if len(place):
            self._finish(X, totals, place, classes, counts)
        return classes, counts

    def _finish(
        self,
        X: Any,
        totals: NDArray[np.float64],
        place: NDArray[np.int64],
        classes: NDArray[np.intp],
        counts: NDArray[np.int32],
    ) -> None:
        """Answer the rows for which everybody was called."""
        voters = self.voters
        n_voters = voters.n_voters
        start, tolerance = float(n_voters // 2 + 1), 0.0
        if self.counting == "scores":
            # Sums of another order may differ in the last digits.
            weights = n_voters if voters.weights is None else voters.weights.sum()
            start, tolerance = 0.0, 1e-14 * n_voters * float(weights)
        finish_block(totals, place, n_voters, start, tolerance, classes, counts)
        close = place[classes[place] < 0]
        if len(close):
            classes[close] = voters.decide(self.counting, _safe_indexing(X, close))


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
