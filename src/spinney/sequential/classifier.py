"""A classifier that asks voters until the vote is as good as over."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils.validation import _num_samples, check_is_fitted, validate_data

from spinney.base.early_exit_classifier import EarlyStoppingClassifier
from spinney.base.estimator import unwrapped
from spinney.calibration.bounds import (
    boldest_proven,
    check_confidence,
    share_to_prove,
    split_rows,
)
from spinney.calibration.out_of_bag import (
    class_counts,
    filled_scores,
    out_of_bag_mask,
    positive_vote_weights,
)
from spinney.errors import InvalidArgumentError
from spinney.runtime.early_exit import Policy
from spinney.sequential.checks import (
    check_choice,
    check_max_disagreement,
    check_min_votes,
    check_votes,
)
from spinney.sequential.optimal import OBJECTIVES
from spinney.sequential.problems import (
    Problem,
    ScoresOfSeveral,
    ScoresOfTwo,
    Solved,
    VotesOfSeveral,
    VotesOfTwo,
    everybody,
)
from spinney.sequential.voters import (
    CalledVoters,
    CallingPolicy,
    voters_of,
)

VOTINGS = ("auto", "hard", "soft")
# With a confidence: what part of the bound the candidates aim at, fixed beforehand.
LEVELS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
# Scores that are kept in memory at most, in 8 bytes each.
MOST_SCORES = 50_000_000
# Share of the rows that is kept for the certification then.
CERTIFIED_SHARE = 0.5


class SequentialVotingClassifier(EarlyStoppingClassifier):
    """Answer like the whole ensemble, after asking only a few of its voters.

    The trees (or other voters) are asked in random order. After each of them, or
    after some of them where looking costs more than it saves, the votes so far tell
    whether the rest is likely to change the result; if not, the row is done. How
    likely is likely is worked out from `max_disagreement`.

    Parameters
    ----------
    estimator : estimator, Forest or list of fitted classifiers
        The ensemble. ``FrozenEstimator(model)`` for a trained model, whose `fit` then
        takes unlabelled rows; an unfitted estimator is trained by `fit` on three
        quarters of the rows, and the rest is used to calibrate. Forests of every
        kind that `spinney.read_model` knows and whose trees vote are run by compiled
        code. The members of a `VotingClassifier`, of a `BaggingClassifier` of
        anything, or of a list are called one by one, for undecided rows only.
    max_disagreement : float, default=1e-3
        Bound on the share of rows whose answer is not that of the whole ensemble, in
        ``[0, 1)``. With 0 a row is done only when the rest cannot change the result.
    voting : {"auto", "hard", "soft"}, default="auto"
        The whole ensemble of reference: the majority of the votes (``"hard"``), the
        mean of the probabilities (``"soft"``), or as the model itself decides.
    objective : {"minimean", "minimixed", "minimax"}, default="minimean"
        What is minimised, and over which rows the bound holds, see
        `spinney.optimal_strategy`. Other than ``"minimean"`` for hard votes of two
        classes only.
    confidence : float, default=None
        If given, the bound holds for new rows with this probability: half of the rows
        are kept to prove it, or more, if these are too few. Without, it is a bound on
        the mean over the calibration rows and all orders of the trees.
    min_votes : int, default=1
        Voters to be asked in any case. With 0, hard votes of two classes may be
        decided without any.
    random_state : int, RandomState instance or None, default=None
        Draws the order of the voters, once for all rows, and what rows to hold out.
        Pass an int for the same results on every call.
    n_jobs : int, default=None
        Number of threads; None means one, -1 all cores.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    voting_ : {"hard", "soft"}
        How the whole ensemble decides.
    order_ : ndarray of shape (n_voters,)
        Order in which the voters are asked.
    checks_ : ndarray
        Numbers of voters after which a row may be done.
    strategy_ : StoppingStrategy or None
        The strategy, for hard votes of two classes.
    expected_votes_ : float
        Voters asked per row, on average over the calibration rows and all orders.
    expected_disagreement_ : float
        Share of the calibration rows on which the answer differs, on average over
        all orders.
    certificate_ : Certificate or None
        What is proven about new rows, if `confidence` was given.
    forest_ : Forest or None
        The ensemble as a forest; None if its members are no trees.
    estimator_ : estimator
        The trained ensemble.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if `X` was a data frame.

    See Also
    --------
    spinney.optimal_strategy : The strategy alone, for votes of any kind.
    spinney.certify : What fresh rows prove about a fitted classifier.

    Notes
    -----
    The bound is on the disagreement with the whole ensemble, not on errors against
    the truth. It is a mean over rows, with ``"minimixed"`` and ``"minimax"`` a bound
    for every row, and over the random order (for these two also over lots that the
    strategy draws): one order is drawn by `fit` and serves all rows, so the share seen
    with it scatters around its mean. Rows of another kind than the calibration rows
    (drift) invalidate it, except for ``"minimixed"`` and ``"minimax"``.

    Examples
    --------
    >>> import spinney
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from sklearn.frozen import FrozenEstimator
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(101, random_state=0).fit(X[::2], y[::2])
    >>> quick = spinney.SequentialVotingClassifier(
    ...     FrozenEstimator(forest), max_disagreement=0.01, random_state=0
    ... ).fit(X[1::2])
    >>> labels, n_asked = quick.predict_counted(X[1::2])
    >>> bool((labels != forest.predict(X[1::2])).mean() <= 0.02)
    True
    >>> bool(n_asked.mean() < 30)
    True
    """

    def __init__(
        self,
        estimator: Any,
        *,
        max_disagreement: float = 1e-3,
        voting: str = "auto",
        objective: str = "minimean",
        confidence: float | None = None,
        min_votes: int = 1,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.max_disagreement = max_disagreement
        self.voting = voting
        self.objective = objective
        self.confidence = confidence
        self.min_votes = min_votes
        self.random_state = random_state
        self.n_jobs = n_jobs

    # ---------------------------------------------------------------- fitting

    def fit(
        self, X: Any, y: Any = None, *, votes: ArrayLike | str | None = None
    ) -> SequentialVotingClassifier:
        """Find out when it is safe to stop asking.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows to calibrate on, of the kind that will be predicted. With an
            estimator that is still to be trained: rows to train and calibrate on.
        y : array-like of shape (n_rows,), default=None
            Labels; needed only to train the estimator.
        votes : {None, "uniform", "out_of_bag"} or array-like, default=None
            How votes are distributed. By default they are counted on `X`.
            ``"out_of_bag"``: `X` are the rows that a bagged forest was trained on,
            and each counts with the trees that have not seen it. For hard votes of
            two classes also ``"uniform"``, all numbers of positive votes being
            equally likely, or weights of 0 to `n_voters` positive votes.

        Returns
        -------
        self : SequentialVotingClassifier
            The fitted classifier.
        """
        rows, bound, chance = self._prepared(X, y, votes)
        if len(self.classes_) == 1:
            solved = everybody(self._voters.n_voters, 1)
        elif self.confidence is None:
            problem = self._problem(rows, votes, chance)
            solved = self._solved(problem, bound, chance)
        else:
            solved = self._certified(rows, votes, bound, chance)
        self._adopt(solved)
        return self

    def _prepared(
        self, X: Any, y: Any = None, votes: ArrayLike | str | None = None
    ) -> tuple[Any, float, np.random.RandomState]:
        """Set the voters and their order; return rows, the bound and chance."""
        bound = check_max_disagreement(self.max_disagreement)
        check_choice("voting", self.voting, VOTINGS)
        check_choice("objective", self.objective, OBJECTIVES)
        if self.confidence is not None:
            check_confidence(self.confidence)
        out_of_bag = isinstance(votes, str) and votes == "out_of_bag"
        X, _ = self._train(X, y, hold_out=not out_of_bag)
        rows = self._read_voters(X)
        voters = self._voters
        soft = voters.is_soft if self.voting == "auto" else self.voting == "soft"
        self.voting_ = "soft" if soft else "hard"
        self._counting = "scores" if soft else "votes"
        voters.check(self._counting)
        check_min_votes(self.min_votes, voters.n_voters)
        self._check_objective()
        chance = check_random_state(self.random_state)
        self.order_ = chance.permutation(voters.n_voters).astype(np.int64)
        self.certificate_ = None
        return rows, bound, chance

    def _read_voters(self, X: Any) -> Any:
        """Set the voters; return the rows as they take them."""
        model = unwrapped(self.estimator_)
        self._voters = voters_of(model)
        self.classes_ = self._voters.classes
        self.forest_ = None
        if isinstance(self._voters, CalledVoters):
            return X
        self.forest_ = self._voters.forest
        return self.forest_.engine.rows(self._preprocessed(X))

    def _check_objective(self) -> None:
        """Raise if the objective is not to be had for these voters."""
        if self.objective == "minimean" or (
            self.voting_ == "hard" and self._voters.n_sums == 1
        ):
            return
        what = (
            "soft votes" if self.voting_ == "soft" else f"{len(self.classes_)} classes"
        )
        msg = (
            f"objective={self.objective!r} is for hard votes of two classes, got "
            f"{what}. Use objective='minimean'"
        )
        msg += ", or voting='hard'." if self._voters.n_sums == 1 else "."
        raise InvalidArgumentError(msg)

    def _problem(self, rows: Any, votes: Any, chance: np.random.RandomState) -> Problem:
        """Return what is to be solved, with the rows in the form it needs."""
        voters, counting = self._voters, self._counting
        if _num_samples(rows) == 0:
            msg = "There are no rows to calibrate on. Pass at least one."
            raise InvalidArgumentError(msg)
        named = isinstance(votes, str)
        if named:
            check_choice("votes", votes, ("uniform", "out_of_bag"))
        two_hard = counting == "votes" and voters.n_sums == 1
        if votes is not None and not two_hard and not (named and votes == "out_of_bag"):
            msg = (
                "votes can be given for hard votes of two classes only; here they are "
                f"{self.voting_}, of {len(self.classes_)} classes. Leave votes out to "
                "have them counted."
            )
            raise InvalidArgumentError(msg)
        if named and votes == "out_of_bag":
            return self._problem_out_of_bag(rows, chance)
        if two_hard:
            if votes is None:
                totals = voters.totals(counting, rows, self.n_jobs)[:, 0]
                weights = np.bincount(
                    totals.astype(np.int64), minlength=voters.n_voters + 1
                ).astype(np.float64)
            else:
                weights = check_votes(None if named else votes, voters.n_voters)
            return VotesOfTwo(voters.n_voters, weights, self.objective, self.min_votes)
        if counting == "votes":
            counts = voters.totals(counting, rows, self.n_jobs).astype(np.int64)
            return VotesOfSeveral(voters.n_voters, counts, self.min_votes)
        rows = _safe_indexing(rows, self._not_too_many(_num_samples(rows), chance))
        said = voters.say_all(counting, rows, self.n_jobs)
        classes = voters.decide(counting, rows, self.n_jobs)
        return self._problem_of_scores(said, classes)

    def _problem_of_scores(
        self, said: NDArray[np.float64], classes: NDArray[np.intp]
    ) -> Problem:
        """Return the problem for what every voter adds to the sums of every row."""
        voters = self._voters
        if voters.n_sums == 1:
            return ScoresOfTwo(
                said[:, :, 0],
                classes == 1,
                *voters.decision,
                voters.score_range(),
                self.min_votes,
            )
        return ScoresOfSeveral(said, classes, voters.score_range(), self.min_votes)

    def _problem_out_of_bag(self, rows: Any, chance: np.random.RandomState) -> Problem:
        """Return the problem for training rows, each with the trees that missed it."""
        voters, counting = self._voters, self._counting
        model = unwrapped(self.estimator_)
        if isinstance(model, Pipeline):
            model = unwrapped(model[-1])
        mask = out_of_bag_mask(model, _num_samples(rows))
        if isinstance(voters, CalledVoters):
            votes = voters.say_all("votes", rows)
            cast = votes[:, :, 0] if voters.n_sums == 1 else votes.argmax(axis=2)
        else:
            cast = voters.forest.votes(rows, self.n_jobs)
        if counting == "votes" and voters.n_sums == 1:
            weights = positive_vote_weights(cast, mask)
            return VotesOfTwo(voters.n_voters, weights, self.objective, self.min_votes)
        if counting == "votes":
            counts = class_counts(cast, mask, len(self.classes_), chance)
            return VotesOfSeveral(voters.n_voters, counts, self.min_votes)
        kept = self._not_too_many(len(mask), chance)
        said = voters.say_all(counting, _safe_indexing(rows, kept), self.n_jobs)
        filled = filled_scores(said, mask[kept], chance)
        totals = filled.sum(axis=1)
        classes = totals.argmax(axis=1)
        if voters.n_sums == 1:
            start, beta = voters.decision
            classes = (start + totals[:, 0] > beta).astype(np.intp)
        return self._problem_of_scores(filled, classes)

    def _not_too_many(
        self, n_rows: int, chance: np.random.RandomState
    ) -> NDArray[np.intp]:
        """Return which rows to work out scores for: as many as memory allows."""
        most = max(1, MOST_SCORES // (self._voters.n_voters * self._voters.n_sums))
        if n_rows <= most:
            return np.arange(n_rows)
        return np.sort(chance.choice(n_rows, most, replace=False))

    def _planned(
        self, problem: Problem, bound: float, chance: np.random.RandomState
    ) -> NDArray[np.int64]:
        """Solve with all stops, see where rows leave, and return those that pay."""
        steps = problem.steps
        rough = problem.solve(bound, steps, chance, rough=True)
        return self._voters.plan(self.order_, steps, rough.undecided)

    def _solved(
        self, problem: Problem, bound: float, chance: np.random.RandomState
    ) -> Solved:
        """Solve with those stops that pay."""
        return problem.solve(bound, self._planned(problem, bound, chance), chance)

    def _solutions(
        self, problem: Problem, bound: float, chance: np.random.RandomState
    ) -> list[Callable[[], Solved]]:
        """Return what makes solutions, from the most cautious to the boldest."""
        checks = self._planned(problem, bound, chance)
        return [
            partial(problem.solve, level * bound, checks, chance) for level in LEVELS
        ]

    def _certified(
        self, rows: Any, votes: Any, bound: float, chance: np.random.RandomState
    ) -> Solved:
        """Return the boldest candidate that is proven to keep the bound on new rows."""
        assert self.confidence is not None
        if isinstance(votes, str) and votes == "out_of_bag":
            msg = (
                "confidence is proven on rows that the model was not trained on, and "
                "votes='out_of_bag' means training rows. Leave one of the two out."
            )
            raise InvalidArgumentError(msg)
        n_rows = _num_samples(rows)
        share = share_to_prove(n_rows, CERTIFIED_SHARE, bound, self.confidence)
        fitted_on, proven_on = split_rows(n_rows, (1.0 - share, share), chance)
        problem = self._problem(_safe_indexing(rows, fitted_on), votes, chance)
        fresh = _safe_indexing(rows, proven_on)
        proven = boldest_proven(
            (solve() for solve in self._solutions(problem, bound, chance)),
            lambda solved: self._follow(self._policy_of(solved), solved.at_once, fresh)[
                0
            ],
            self._voters.decide(self._counting, fresh, self.n_jobs),
            max_disagreement=bound,
            confidence=self.confidence,
            share=CERTIFIED_SHARE,
            n_given=n_rows,
        )
        if proven is None:
            return everybody(self._voters.n_voters, self._voters.n_sums)
        solved, self.certificate_ = proven
        return solved

    def _at_levels(self, X: Any, levels: Iterable[float]) -> Iterator[Self]:
        chance = check_random_state(self.random_state)
        solved = everybody(self._voters.n_voters, 1)
        problem = None
        if len(self.classes_) > 1:
            problem = self._problem(self._rows(X), None, chance)
        for level in levels:
            bound = check_max_disagreement(level)
            if problem is not None:
                solved = self._solved(problem, bound, chance)
            yield self._copy_with(bound, solved)

    def _candidates(self, X: Any) -> list[Callable[[], Self]]:
        """Return what makes copies fitted to `X`, the most cautious first.

        The classifier itself need not be fitted. The candidates are fixed before any
        row is looked at that a bound is to be proven on, and each is fitted only when
        it is called for.
        """
        rows, bound, chance = self._prepared(X)
        problem = self._problem(rows, None, chance)
        return [
            lambda solve=solve: self._copy_with(bound, solve())  # type: ignore[misc]
            for solve in self._solutions(problem, bound, chance)
        ]

    def _copy_with(self, bound: float, solved: Solved) -> Self:
        fitted = self._copy_at(bound)
        fitted._adopt(solved)
        return fitted

    def _adopt(self, solved: Solved) -> None:
        """Take over what was solved."""
        self.strategy_ = solved.strategy
        self.checks_ = solved.rule.checks
        self.expected_votes_ = solved.expected_votes
        self.expected_disagreement_ = solved.disagreement
        self._at_once = solved.at_once
        self._policy = self._policy_of(solved)

    def _policy_of(self, solved: Solved) -> Policy | CallingPolicy:
        return self._voters.policy(self._counting, self.order_, solved.rule)

    # ---------------------------------------------------------------- answering

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_policy")

    def _ask(self, rows: Any) -> tuple[NDArray[np.intp], NDArray[np.int32]]:
        return self._follow(self._policy, self._at_once, rows)

    def _follow(
        self, policy: Policy | CallingPolicy, at_once: bool, rows: Any
    ) -> tuple[NDArray[np.intp], NDArray[np.int32]]:
        """Return class indices and numbers of voters asked."""
        if at_once:
            n_rows = _num_samples(rows)
            return np.zeros(n_rows, dtype=np.intp), np.zeros(n_rows, dtype=np.int32)
        return policy.ask(rows, self.n_jobs)

    def _rows(self, X: Any) -> Any:
        """Return rows to be answered as the voters take them."""
        check_is_fitted(self)
        if self.forest_ is not None:
            return super()._rows(X)
        if self._takes_as_is(X):
            validate_data(self, X, reset=False, skip_check_array=True)
            return X
        finite = not self._takes_missing()
        return validate_data(self, X, reset=False, ensure_all_finite=finite)

    def predict_full(self, X: Any) -> NDArray[Any]:
        """Answer with the whole ensemble that `voting` names.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        labels : ndarray of shape (n_rows,)
            Class labels: of the majority of all votes, or of the mean of all
            probabilities, which is the answer of the model itself.
        """
        rows = self._rows(X)
        return self.classes_[self._voters.decide(self._counting, rows, self.n_jobs)]

    def _model_answers(self, X: Any) -> NDArray[Any]:
        """Answer as the trained ensemble's own `predict` does."""
        counting = "scores" if self._voters.is_soft else "votes"
        rows = self._rows(X)
        return self.classes_[self._voters.decide(counting, rows, self.n_jobs)]

    def __spinney_save__(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        from spinney.sequential.file_kind import to_parts

        return to_parts(self)

    @classmethod
    def __spinney_load__(
        cls, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]
    ) -> SequentialVotingClassifier:
        from spinney.sequential.file_kind import from_parts

        return from_parts(settings, arrays)

    def predictor(self) -> Callable[[NDArray[np.floating]], Any]:
        """Return a thin callable that answers one row at a time, for serving.

        Returns
        -------
        predictor : callable
            ``predictor(row)`` takes a one-dimensional array of `n_features_in_`
            numbers, float32 or the type that the model compares in, and returns the
            label. Nothing beyond type and length is checked, which makes it fast.
        """
        check_is_fitted(self)
        if (
            isinstance(self._policy, CallingPolicy)
            or self._at_once
            or self._has_preprocessing()
        ):
            return lambda row: self.predict(np.asarray(row).reshape(1, -1))[0]
        return self._policy.predictor()
