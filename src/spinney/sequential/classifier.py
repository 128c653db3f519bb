"""A classifier that evaluates voters until the result of the vote is almost certain."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import _num_samples, check_is_fitted, validate_data

from spinney.base.classifier_fields import (
    certificate_to_setting,
    classifier_from_parts,
    classifier_to_parts,
    engine_of_parts,
    promise_to_setting,
    rule_to_parts,
    take_certificate,
    take_promise,
    take_rule,
)
from spinney.base.early_exit_classifier import EarlyExitClassifier
from spinney.base.parameters import check_choice, check_min_votes
from spinney.base.progress import counted, progress_for
from spinney.calibration.bounds import check_confidence, check_max_disagreement
from spinney.calibration.fitted_rule import FittedRule, evaluates_all
from spinney.calibration.ladder import LEVELS_OF_VOTES, rungs
from spinney.calibration.limits import Bounds, Limits, check_bounds
from spinney.calibration.promise import Promise
from spinney.errors import FormatError, InvalidArgumentError, UnsupportedModelError
from spinney.forest import Forest
from spinney.forest.frames import rows_at
from spinney.persistence.container import Arrays, Settings
from spinney.persistence.fields import take_setting
from spinney.readers import read_model
from spinney.readers.wrapped import parted
from spinney.runtime.early_exit import EarlyExitEngine
from spinney.runtime.exit_rule import ExitRule
from spinney.sequential.called_voters import CalledVoters
from spinney.sequential.optimal import OBJECTIVES
from spinney.sequential.problem_maker import ProblemMaker
from spinney.sequential.problems import Problem
from spinney.sequential.remembered import RememberedVoters
from spinney.sequential.strategy import StoppingStrategy
from spinney.sequential.voters import TreeVoters, voters_of

VOTINGS = ("auto", "hard", "soft")
# Parts of the bound for which the exit points of all candidates are chosen. Those for
# the bound alone would leave the more conservative ones hardly any.
PLANNED_FOR = (0.05, 0.2, 0.5, 1.0)
# Shares of the work, for a progress bar: once the rows are read, once exit points are
# planned, and once all candidates have been tried.
PREPARED, PLANNED, SOLVED = 0.1, 0.3, 0.95


class SequentialVotingClassifier(EarlyExitClassifier):
    """Predict like the full ensemble, evaluating only a few of its voters.

    The trees (or other voters) are evaluated in random order. At each exit point, a row
    exits if the remaining votes are unlikely to change the result. How unlikely they
    have to be follows from `max_disagreement`.

    Parameters
    ----------
    estimator : estimator, Forest or list of fitted classifiers
        The ensemble. ``FrozenEstimator(model)`` for a trained model, whose `fit` then
        takes unlabelled rows; an unfitted estimator is trained by `fit` on three
        quarters of the rows, and the rest is used to calibrate. The split ignores the
        labels, so that the held-out rows are like new rows; a class that is missing
        from the training rows is unknown to the model. Forests of every kind that
        `spinney.read_model` supports and whose trees vote are run by compiled code.
        The members of a `VotingClassifier`, of a `BaggingClassifier` of any estimator,
        or of a list are called one by one, for undecided rows only.
    max_disagreement : float or {label: float}, default=1e-3
        Share of new rows whose prediction may differ from the full ensemble's, on
        average, in ``[0, 1)``. With 0 a row exits only when the remaining voters cannot
        change the result. A mapping sets a bound for each class: a share of the rows
        that the full ensemble assigns to it. See Notes.
    voting : {"auto", "hard", "soft"}, default="auto"
        How the full ensemble decides: by the majority of the votes (``"hard"``), by the
        mean of the probabilities (``"soft"``), or as the model itself does.
    objective : {"minimean", "minimixed", "minimax"}, default="minimean"
        What is minimised, and over which rows the bound holds, see
        `spinney.optimal_strategy`. ``"minimixed"`` and ``"minimax"`` are for hard votes
        of two classes only.
    per_class : bool, default=False
        Whether a single `max_disagreement` is a bound for each class.
    decision_threshold : float, default=None
        For two classes and soft votes of trees: the probability of the second class
        from which it is predicted, as in `spinney.read_model`. The bound then covers
        these predictions; None for the model's own decision.
    confidence : float, default=None
        If given, the bound holds for new rows with this probability over the draw of
        the rows, and not only on average. It takes more rows and more voters.
    min_votes : int, default=1
        Voters that are always evaluated. With 0, hard votes of two classes may be
        decided without any.
    random_state : int, RandomState instance or None, default=None
        Draws the order of the voters, once for all rows, and which rows to hold out.
        Pass an int for the same results on every call.
    n_jobs : int, default=None
        Number of threads; None means one, -1 all cores.
    verbose : bool, callable or None, default=None
        Whether to draw a progress bar on standard error; a callable is given the
        share of the work that is done. None draws one in interactive use, if standard
        error is a terminal and it takes more than two seconds; False never does.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    voting_ : {"hard", "soft"}
        How the full ensemble decides.
    order_ : ndarray of shape (n_voters,)
        Order in which the voters are evaluated.
    exit_points_ : ndarray
        Numbers of voters after which a row may exit.
    rule_ : ExitRule
        Order, exit points and exit conditions, in one object.
    strategy_ : StoppingStrategy or None
        The strategy, for hard votes of two classes.
    expected_votes_ : float
        Voters evaluated per row, on average over the rows that the strategy was fitted
        to and all orders.
    expected_disagreement_ : float
        Share of these rows on which the prediction differs, on average over all orders.
    promise_ : Promise or None
        What is promised about new rows; ``print(promise_)`` says it in a sentence.
    certificate_ : Certificate or None
        The promise as a certificate, if `confidence` was given.
    class_changes_ : tuple of ClassChange
        How often each class is predicted on the calibration rows, by all voters and
        with early exit.
    forest_ : Forest or None
        The ensemble as a forest; None if its members are not trees.
    estimator_ : estimator
        The trained ensemble.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if `X` was a data frame.

    See Also
    --------
    spinney.optimal_strategy : The strategy alone, for votes of any kind.
    spinney.certify : Bounds the disagreement of a fitted classifier on fresh rows.

    Notes
    -----
    The bound is on the disagreement with the full ensemble, not on errors against the
    true labels, for new rows from the distribution of `X`. Strategies are fitted to one
    half of `X`, from the most conservative to the most aggressive. The other half
    determines which of them is used, in the order that was drawn (risk control [1]_):
    averaged over the draw of `X`, the prediction for a new row differs with a
    probability of at most `max_disagreement`. With `confidence` the share of such rows
    keeps the bound with that probability over the draw of the second half. If half of
    the rows are too few for the bound, more are held out for it; if all are too few, a
    warning says how many are needed, and a row exits only when the remaining voters
    cannot change the result. Bounds for classes are established on the rows of each
    class: the prediction for a new row that the full ensemble assigns to a class
    differs with a probability of at most its bound; with `confidence` all of them hold
    together with that probability. Rows from another distribution (drift), or rows that
    the model was trained on, invalidate the promise.

    With ``"minimixed"`` and ``"minimax"`` the bound holds for every row, whatever `X`
    is, over the random order and the random draws of the strategy. With `votes` it
    holds on average over votes of that distribution and the random order. One order is
    drawn by `fit` and used for all rows, so the observed share varies around its mean.

    References
    ----------
    .. [1] A. N. Angelopoulos, S. Bates, A. Fisch, L. Lei and T. Schuster, "Conformal
       risk control", ICLR, 2024.

    Examples
    --------
    >>> import spinney
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from sklearn.frozen import FrozenEstimator
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(101, random_state=0).fit(X[::2], y[::2])
    >>> quick = spinney.SequentialVotingClassifier(
    ...     FrozenEstimator(forest), max_disagreement=0.03, random_state=0
    ... ).fit(X[1::2])
    >>> print(quick.promise_)  # doctest: +ELLIPSIS
    On new rows of the same kind, at most 3 % of the predictions differ, on average ...
    >>> labels, n_evaluated = quick.predict_counted(X[1::2])
    >>> bool((labels != forest.predict(X[1::2])).mean() <= 0.05)
    True
    >>> bool(n_evaluated.mean() < 30)
    True
    """

    def __init__(
        self,
        estimator: Any,
        *,
        max_disagreement: Bounds = 1e-3,
        voting: str = "auto",
        objective: str = "minimean",
        per_class: bool = False,
        decision_threshold: float | None = None,
        confidence: float | None = None,
        min_votes: int = 1,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: Any = None,
    ) -> None:
        self.estimator = estimator
        self.max_disagreement = max_disagreement
        self.voting = voting
        self.objective = objective
        self.per_class = per_class
        self.decision_threshold = decision_threshold
        self.confidence = confidence
        self.min_votes = min_votes
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    # ---------------------------------------------------------------- fitting

    def fit(
        self, X: Any, y: Any = None, *, votes: ArrayLike | str | None = None
    ) -> SequentialVotingClassifier:
        """Fit the stopping strategy to calibration rows.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Calibration rows, like those to be predicted. With an unfitted estimator:
            rows to train and calibrate on.
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
        show = progress_for(self.verbose, "calibrating")
        rows, order, limits, rng = self._prepared(X, y, votes)
        bound = limits.level
        show(PREPARED)
        promise = self._promise_without_rows(votes, limits)
        if len(self.classes_) == 1 or len(order) == 1:
            fitted = evaluates_all(order, self._voters.n_sums, self.voting_)
            self._promise(Promise("never", bound))
        elif promise is not None:
            problem = self._problem(rows, order, votes, rng)
            assert promise.max_disagreement is not None
            fitted = self._solved(problem, promise.max_disagreement, rng)
            self._promise(promise)
        else:
            fitted = self._risk_controlled(rows, order, votes, limits, rng, show)
        self._adopt(fitted)
        show(SOLVED)
        self._learn_probabilities(rows)
        show(1.0)
        return self

    def _promise_without_rows(self, votes: Any, limits: Limits) -> Promise | None:
        """Return what is promised whatever rows say; None if they have to say it."""
        bound, named = limits.level, isinstance(votes, str)
        if votes is not None and limits.by_class is not None:
            msg = (
                "Bounds for classes are established on rows of each class, which votes "
                "do not contain. Leave votes out, or pass a single max_disagreement "
                "and per_class=False."
            )
            raise InvalidArgumentError(msg)
        if named and votes == "out_of_bag" and self.confidence is not None:
            msg = (
                "A bound with confidence needs rows that the model was not trained on, "
                "and votes='out_of_bag' uses the training rows. Leave one of the two "
                "out."
            )
            raise InvalidArgumentError(msg)
        if bound == 0.0:
            return Promise("never", 0.0)
        if self.confidence is not None:
            return None
        if self.objective != "minimean":
            # What holds for each row holds for those of each class.
            least = bound if limits.by_class is None else float(limits.by_class.min())
            return Promise("each row", least)
        if votes is None:
            return None
        return Promise(
            "out of bag" if named and votes == "out_of_bag" else "votes", bound
        )

    def _prepared(
        self, X: Any, y: Any = None, votes: ArrayLike | str | None = None
    ) -> tuple[Any, NDArray[np.int64], Limits, np.random.RandomState]:
        """Set the voters; return converted rows, the order, the bounds and rng."""
        check_bounds(self.max_disagreement, self.per_class)
        check_choice("voting", self.voting, VOTINGS)
        check_choice("objective", self.objective, OBJECTIVES)
        if self.confidence is not None:
            check_confidence(self.confidence)
        out_of_bag = isinstance(votes, str) and votes == "out_of_bag"
        X, _ = self._train(X, y, hold_out=None if out_of_bag else "plain")
        rows = self._read_voters(X)
        voters = self._voters
        soft = voters.is_soft if self.voting == "auto" else self.voting == "soft"
        self.voting_ = "soft" if soft else "hard"
        voters.check(self.voting_)
        limits = self._limits()
        check_min_votes(self.min_votes, voters.n_voters)
        self._check_objective()
        rng = check_random_state(self.random_state)
        order = rng.permutation(voters.n_voters).astype(np.int64)
        return rows, order, limits, rng

    def _read_voters(self, X: Any) -> Any:
        """Set the voters; return the rows in the type that they expect."""
        model = parted(self.estimator_).ensemble
        if self.decision_threshold is not None:
            if self.voting == "hard":
                msg = (
                    "decision_threshold applies to the model's probabilities, but "
                    "voting='hard' counts votes. Use voting='auto'."
                )
                raise InvalidArgumentError(msg)
            model = self._at_threshold(model)
        self._voters = voters_of(model)
        self.classes_ = self._voters.classes
        self.forest_ = None
        if isinstance(self._voters, CalledVoters):
            return self._preprocessed(X)
        self.forest_ = self._voters.forest
        return self.forest_.engine.rows(self._preprocessed(X))

    def _at_threshold(self, model: Any) -> Forest:
        """Return the ensemble as a forest that decides at the threshold, or raise."""
        try:
            return read_model(model, decision_threshold=self.decision_threshold)
        except UnsupportedModelError as error:
            if not isinstance(voters_of(model), CalledVoters):
                raise
            msg = (
                "decision_threshold is for trees whose probabilities are read from the "
                f"model, and the members of this {type(model).__name__} are called one "
                "by one. Leave decision_threshold out."
            )
            raise InvalidArgumentError(msg) from error

    def _check_objective(self) -> None:
        """Raise if the objective is not available for these voters."""
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

    def _problem(
        self,
        rows: Any,
        order: NDArray[np.int64],
        votes: Any,
        rng: np.random.RandomState,
    ) -> Problem:
        """Return what is to be solved, with the rows in the form it needs."""
        model = parted(self.estimator_).ensemble
        posed = ProblemMaker(
            self._voters,
            self.voting_,
            order,
            self.objective,
            self.min_votes,
            self.n_jobs,
        )
        return posed.problem(rows, votes, model, rng)

    def _planned(
        self, problem: Problem, bound: float, rng: np.random.RandomState
    ) -> NDArray[np.int64]:
        """Solve with all exit points, see where rows exit; return those that pay.

        They are fixed without regard to the order drawn, over which the promise is.
        """
        rough = problem.solve(bound, problem.steps, rng, rough=True)
        return self._voters.plan(problem.steps, rough.undecided)

    def _rungs(
        self, problem: Problem, bound: float, rng: np.random.RandomState
    ) -> list[Callable[[], FittedRule]]:
        """Return what makes the candidates, the most conservative first.

        All have the same exit points: a row that exits with one exits with more
        aggressive ones not later, and nearly always with the same prediction, so that
        along the ladder few rows are lost that the most aggressive predicts rightly.
        """
        parts = [part * bound for part in PLANNED_FOR]
        points = self._planned_together(problem, parts, rng)
        fit = partial(problem.solve, points=points, rng=rng)
        return rungs(fit, bound, LEVELS_OF_VOTES)

    def _planned_together(
        self, problem: Problem, levels: Sequence[float], rng: np.random.RandomState
    ) -> NDArray[np.int64]:
        """Return the exit points that pay for any of some bounds.

        What is solved for one bound after another at the same exit points shares most
        of the work.
        """
        plans = [self._planned(problem, level, rng) for level in levels]
        return np.unique(np.concatenate(plans))

    def _solved(
        self, problem: Problem, bound: float, rng: np.random.RandomState
    ) -> FittedRule:
        """Return the best rule for a bound, with exits where they pay."""
        return problem.solve(bound, self._planned(problem, bound, rng), rng)

    def _risk_controlled(
        self,
        rows: Any,
        order: NDArray[np.int64],
        votes: Any,
        limits: Limits,
        rng: np.random.RandomState,
        show: Callable[[float], None],
    ) -> FittedRule:
        """Return the most aggressive candidate that keeps all bounds on new rows."""
        parts = self._shared_out(
            _num_samples(rows), lambda: self._full_classes(rows), limits, rng
        )
        problem = self._problem(rows_at(rows, parts.fit), order, votes, rng)
        fresh = rows_at(rows, parts.prove)
        full = self._full_classes(fresh)
        engine_for = self._engine_for
        if isinstance(self._voters, CalledVoters):
            remembered = RememberedVoters(self._voters, fresh)
            fresh = np.arange(len(full))

            def engine_for(
                rule: ExitRule, last: EarlyExitEngine | None
            ) -> EarlyExitEngine:
                return EarlyExitEngine(remembered, rule)

        return self._calibrated(
            counted(self._rungs(problem, limits.level, rng), show, PLANNED, SOLVED),
            lambda: self._solved(problem, 0.0, rng),
            fresh,
            full,
            parts,
            engine_for,
            limits,
        )

    def _full_classes(self, rows: Any) -> NDArray[np.intp]:
        """Return the class indices that all voters together give converted rows."""
        return self._voters.full_classes(self.voting_, rows, self.n_jobs)

    def _at_levels(self, rows: Any, levels: Iterable[float]) -> Iterator[Self]:
        rng = check_random_state(self.random_state)
        fitted = evaluates_all(self.order_, 1, self.voting_)
        problem = None
        if len(self.classes_) > 1:
            problem = self._problem(rows, self.order_, None, rng)
        bounds = [check_max_disagreement(level) for level in levels]
        if problem is not None and bounds:
            points = self._planned_together(problem, bounds, rng)
        for bound in bounds:
            if problem is not None:
                fitted = problem.solve(bound, points, rng)
            yield self._copy_at(bound, fitted, self._engine)

    def candidates(self, X: Any) -> list[Callable[[], Self]]:
        """Return factories of copies fitted to rows, the most conservative first.

        The classifier itself need not be fitted. The candidates are fixed before any
        row that a bound is to be established on is seen, and each is fitted only
        when its factory is called. The first one never differs from the full ensemble
        as `voting` defines it.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows to fit to.

        Returns
        -------
        candidates : list of callables
            Each returns a fitted classifier. There is only the first one if
            `max_disagreement` is 0.
        """
        rows, order, limits, rng = self._prepared(X)
        bound = limits.level
        if limits.by_class is not None:
            every = np.arange(_num_samples(rows))
            drawn = limits.balanced(every, self._full_classes(rows), rng)
            rows = rows_at(rows, drawn)
        problem = self._problem(rows, order, None, rng)
        makers = [lambda: self._solved(problem, 0.0, rng)]
        if bound > 0.0:
            makers += self._rungs(problem, bound, rng)
        return self._copies(bound, makers)

    def _adopt(self, fitted: FittedRule, last: EarlyExitEngine | None = None) -> None:
        super()._adopt(fitted, last)
        self.strategy_ = fitted.strategy
        self.expected_votes_ = fitted.expected_trees

    def _engine_for(
        self, rule: ExitRule, last: EarlyExitEngine | None
    ) -> EarlyExitEngine:
        if last is not None:
            return last.with_rule(rule)
        voters = self._voters
        ensemble = voters if isinstance(voters, CalledVoters) else voters.forest
        return EarlyExitEngine(ensemble, rule)

    # ---------------------------------------------------------------- predicting

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_engine")

    def _rows(self, X: Any) -> Any:
        """Return converted rows: as the voters expect them."""
        if not hasattr(self, "_engine"):  # the check itself takes longer than this
            check_is_fitted(self)
        if self.forest_ is not None:
            return super()._rows(X)
        if self._takes_as_is(X):
            validate_data(self, X, reset=False, skip_check_array=True)
            return self._preprocessed(X)
        finite = not self._takes_missing()
        return validate_data(self, X, reset=False, ensure_all_finite=finite)

    def predict_full(self, X: Any) -> NDArray[Any]:
        """Predict with the full ensemble, as `voting` defines it.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        labels : ndarray of shape (n_rows,)
            Class labels: of the majority of all votes, or of the mean of all
            probabilities, which is the prediction of the model itself.
        """
        return self._full_labels(X, self.voting_)

    def predict_model(self, X: Any) -> NDArray[Any]:
        """Predict class labels, as the trained ensemble's own `predict` does.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        labels : ndarray of shape (n_rows,)
            Class labels.
        """
        return self._full_labels(X, "soft" if self._voters.is_soft else "hard")

    def _full_labels(self, X: Any, voting: str) -> NDArray[Any]:
        """Return the labels that all voters together give."""
        classes = self._voters.full_classes(voting, self._rows(X), self.n_jobs)
        return self.classes_[classes]

    def _own_probabilities(
        self, rows: Any, sums: NDArray[np.float64] | None = None
    ) -> NDArray[np.floating]:
        voters = self._voters
        if not isinstance(voters, CalledVoters):
            return super()._own_probabilities(rows, sums)
        if sums is None:
            sums = voters.totals(self.voting_, rows, self.n_jobs)
        return voters.probabilities(self.voting_, sums)

    def _decides_otherwise(self) -> bool:
        # Sums of called voters are rounded otherwise than those of the model.
        return self.forest_ is None or super()._decides_otherwise()

    def _full_sums(self, rows: Any) -> tuple[NDArray[np.floating], float]:
        sums = self._voters.totals(self.voting_, rows, self.n_jobs)
        if self.voting_ == "hard":
            return sums, self._voters.n_voters // 2 + 0.5
        return sums, self._voters.decision[1]

    # ---------------------------------------------------------------- files

    def __spinney_save__(self) -> tuple[Settings, Arrays]:
        settings, arrays = classifier_to_parts(self)
        rule_settings, rule_arrays = rule_to_parts(self.rule_)
        strategy = self.strategy_
        settings |= rule_settings | {
            "at_once": self.rule_.at_once,
            "certificate": certificate_to_setting(self.certificate_),
            "expected_disagreement": self.expected_disagreement_,
            "expected_votes": self.expected_votes_,
            "promise": promise_to_setting(self.promise_),
            "strategy": None if strategy is None else strategy.to_dict(),
        }
        return settings, arrays | rule_arrays | self._probabilities_to_arrays()

    @classmethod
    def __spinney_load__(cls, settings: Settings, arrays: Arrays) -> Self:
        classifier: Self = classifier_from_parts(cls, settings, arrays)
        forest = classifier.forest_
        at_once = take_setting(settings, "at_once", bool)
        rule = take_rule(settings, arrays, at_once)
        engine = engine_of_parts(forest, rule)
        if forest.aggregation == "sum":
            msg = "the trees of its forest must vote"
            raise FormatError(msg)
        classifier._voters = TreeVoters(forest)
        classifier.voting_ = rule.voting
        votes = take_setting(settings, "expected_votes", float)
        disagreement = take_setting(settings, "expected_disagreement", float)
        strategy = None
        if settings.get("strategy", 0) is None:
            del settings["strategy"]
        else:
            parts = take_setting(settings, "strategy", dict)
            strategy = StoppingStrategy.from_dict(parts)
        fitted = FittedRule(rule, votes, disagreement, np.zeros(0), strategy)
        classifier._adopt(fitted, engine)
        classifier.promise_ = take_promise(settings)
        classifier.certificate_ = take_certificate(settings, classifier.promise_)
        classifier.class_changes_ = ()
        classifier._take_probabilities(arrays)
        return classifier
