"""A classifier that adds up trees until the score is decisive."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

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
from spinney.base.parameters import check_choice, check_costs
from spinney.base.progress import counted, progress_for
from spinney.calibration.bounds import check_confidence, check_max_disagreement
from spinney.calibration.fitted_rule import FittedRule, unmeasured
from spinney.calibration.limits import Bounds, check_bounds
from spinney.calibration.row_splits import at_most
from spinney.cascade.dropping import MOST_ROWS
from spinney.cascade.fitter import RuleFitter, measured
from spinney.cascade.orders import (
    NEED_LABELS,
    check_order_name,
    is_named,
)
from spinney.cascade.rungs import RULES
from spinney.cascade.tables import most_rows, table_of
from spinney.errors import FormatError, InvalidArgumentError
from spinney.ordering import ScoreTable
from spinney.persistence.container import Arrays, Settings
from spinney.persistence.fields import take_setting
from spinney.runtime.early_exit import EarlyExitEngine
from spinney.runtime.exit_rule import ExitRule
from spinney.runtime.score_bins import EARLY_EXITS
from spinney.runtime.scoring import decision_threshold

# Shares of the work, for a progress bar: once the trees are ordered, and once all
# candidates have been tried.
ORDERED, TRIED = 0.5, 0.95


class CascadeClassifier(EarlyExitClassifier):
    """Predict like the full ensemble, with early exit once the score is decisive.

    The trees of a boosted or averaged ensemble are summed in an optimised order. At
    each exit point the partial score is compared with two thresholds (with several
    classes, the lead of the best class is compared with one). Rows beyond them exit,
    the others continue. In gradient boosting with several classes, where each tree adds
    to one of them, classes that are too far behind are dropped one by one, and their
    trees are skipped. Order and thresholds are fitted to rows without labels.

    Parameters
    ----------
    estimator : estimator or Forest
        The ensemble. ``FrozenEstimator(model)`` for a trained model; an unfitted
        estimator is trained by `fit` on three quarters of the rows, drawn regardless
        of the labels; a class that is missing from them is unknown to the model.
    max_disagreement : float or {label: float}, default=5e-3
        Share of new rows whose prediction may differ from the full ensemble's, on
        average, in ``[0, 1)``. With 0 none ever differs. A mapping sets a bound for
        each class: a share of the rows that the full ensemble assigns to it. See Notes.
    order : {"qwyc", "natural", "random", "individual_mse", "greedy_mse"} or \
array-like, default="qwyc"
        Order of the trees: chosen together with thresholds (``"qwyc"``), as trained,
        drawn at random, by squared error against labels (each tree alone, or greedily
        together), or a permutation. Where classes are dropped, ``"qwyc"`` keeps the
        trees as trained, a round of all classes at a time.
    rule : {"thresholds", "fan", "optimal"}, default="thresholds"
        When a row exits. ``"thresholds"``: beyond thresholds at which an early
        prediction is equally likely to be wrong at every exit point. ``"fan"``: by the
        rule of Fan et al. ``"optimal"``: beyond thresholds that distribute the allowed
        disagreement over the exit points so that the fewest trees are evaluated.
        Classes are dropped with ``"thresholds"`` only.
    early_exit : {"both", "negative", "positive"}, default="both"
        Which predictions may exit early. With ``"negative"`` rows are rejected early,
        and all others are scored in full. ``"negative"`` and ``"positive"`` are for two
        classes only.
    tree_costs : array-like of shape (n_trees,), default=None
        Cost of each tree, positive; 1 each by default. Used by ``order="qwyc"`` and
        ``rule="optimal"``. With costs given, their sum is minimised, and there are
        more exit points than evaluation time alone would justify.
    per_class : bool, default=False
        Whether a single `max_disagreement` is a bound for each class.
    decision_threshold : float, default=None
        For two classes: the probability of the second class from which it is
        predicted, as in `spinney.read_model`. The bound then covers these predictions;
        None for the model's own decision.
    confidence : float, default=None
        If given, the bound holds for new rows with this probability over the draw of
        the rows, and not only on average. It takes more rows and more trees.
    random_state : int, RandomState instance or None, default=None
        Draws which row is used for what, and random orders. Pass an int for the same
        result on every call.
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
    order_ : ndarray of shape (n_trees,)
        Trees in the order in which they are evaluated.
    exit_points_ : ndarray of shape (n_exit_points,)
        Numbers of trees after which a row may exit.
    lower_, upper_ : ndarray of shape (n_exit_points,) or None
        With two classes: the thresholds at each exit point.
    margin_ : ndarray of shape (n_exit_points,) or None
        With several classes: the lead above which a row exits.
    leads_ : ndarray of shape (n_exit_points, n_classes, n_classes) or None
        Where classes are dropped: the lead of the first class, if it is leading, above
        which the second is dropped.
    rule_ : ExitRule
        All of these in one object.
    expected_trees_ : float
        Trees evaluated per row, on average over the held-out calibration rows.
    expected_disagreement_ : float
        Share of these rows on which the prediction differs from the full ensemble's.
    promise_ : Promise or None
        What is promised about new rows; ``print(promise_)`` says it in a sentence.
    certificate_ : Certificate or None
        The promise as a certificate, if `confidence` was given.
    class_changes_ : tuple of ClassChange
        How often each class is predicted on the calibration rows, by all trees and
        with early exit.
    forest_ : Forest
        The ensemble.
    estimator_ : estimator
        The trained ensemble.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if `X` was a data frame.

    See Also
    --------
    spinney.SequentialVotingClassifier : Trees in random order, and a theory for it.
    spinney.certify : Bounds the disagreement of a fitted classifier on fresh rows.

    Notes
    -----
    Disagreement is measured against the full ensemble; it is not an error rate.

    The bound is for new rows from the distribution of `X`. Order and thresholds are
    fitted to one half of `X`: a sequence of rules from the most conservative to the
    most aggressive. The other half determines which of them is used (risk control
    [2]_): averaged over the draw of `X`, the prediction for a new row differs with a
    probability of at most `max_disagreement`. With `confidence` the share of such rows
    keeps the bound with that probability over the draw of the second half. If half of
    the rows are too few for the bound, more are held out for it; if all are too few, a
    warning says how many are needed, and rows exit only where the remaining trees
    cannot change the prediction.

    Bounds for classes are established on the rows of each class: averaged over the draw
    of `X`, the prediction for a new row that the full ensemble assigns to a class
    differs with a probability of at most its bound. With `confidence` all of them hold
    together with that probability. Rules are fitted to rows in which rare classes have
    more weight.

    Dependent rows, rows that the model was trained on, or new rows from another
    distribution (drift) invalidate the promise.

    The order is that of [1]_.

    References
    ----------
    .. [1] S. Wang, M. Gupta and S. You, "Quit When You Can: Efficient Evaluation of
       Ensembles with Ordering Optimization", 2018.
    .. [2] A. N. Angelopoulos, S. Bates, A. Fisch, L. Lei and T. Schuster, "Conformal
       risk control", ICLR, 2024.

    Examples
    --------
    >>> import spinney
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.ensemble import GradientBoostingClassifier
    >>> from sklearn.frozen import FrozenEstimator
    >>> X, y = make_classification(4000, random_state=0)
    >>> model = GradientBoostingClassifier(random_state=0).fit(X[:1000], y[:1000])
    >>> quick = spinney.CascadeClassifier(
    ...     FrozenEstimator(model), max_disagreement=0.01, random_state=0
    ... ).fit(X[1000:3000])
    >>> labels, n_evaluated = quick.predict_counted(X[3000:])
    >>> bool((labels != model.predict(X[3000:])).mean() <= 0.03)
    True
    >>> bool(n_evaluated.mean() < 50)
    True
    """

    def __init__(
        self,
        estimator: Any,
        *,
        max_disagreement: Bounds = 5e-3,
        order: Any = "qwyc",
        rule: str = "thresholds",
        early_exit: str = "both",
        tree_costs: ArrayLike | None = None,
        per_class: bool = False,
        decision_threshold: float | None = None,
        confidence: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: Any = None,
    ) -> None:
        self.estimator = estimator
        self.max_disagreement = max_disagreement
        self.order = order
        self.rule = rule
        self.early_exit = early_exit
        self.tree_costs = tree_costs
        self.per_class = per_class
        self.decision_threshold = decision_threshold
        self.confidence = confidence
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    # ---------------------------------------------------------------- fitting

    def fit(self, X: Any, y: Any = None, *, X_order: Any = None) -> CascadeClassifier:
        """Fit the order of the trees and the exit rule.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Calibration rows, like those to be predicted, thousands if possible. With an
            unfitted estimator: rows to train and calibrate on.
        y : array-like of shape (n_rows,), default=None
            Labels; needed to train the estimator, and for orders by squared error.
        X_order : array-like of shape (n_more_rows, n_features), default=None
            Other rows to choose the order on; those that the model was trained on
            are fine. By default, the rows that thresholds are fitted to.

        Returns
        -------
        self : CascadeClassifier
            The fitted classifier.
        """
        self._check_settings()
        show = progress_for(self.verbose, "calibrating")
        rows, codes = self._read(X, y)
        limits = self._limits()
        bound = limits.level
        rng = check_random_state(self.random_state)
        parts = self._shared_out(
            len(rows), lambda: self._full_classes(rows), limits, rng
        )

        def first(share: float) -> None:
            show(ORDERED * share)

        order = self._ordered(rows, codes, parts.fit, X_order, bound, rng, first)
        table = self._table(rows[parts.fit], rng)
        fitter = self._fitter()
        ladder: list[Callable[[], FittedRule]] = []
        if len(self.classes_) > 1 and fitter.has_several_decisions(table):
            makers = fitter.ladder(table, order, bound, rng) if bound > 0.0 else []
            # What the chosen one does is measured on fresh rows.
            ladder = counted(_unmeasured(makers), show, ORDERED, TRIED)
        fresh = rows[parts.prove]
        fitted = self._calibrated(
            ladder,
            lambda: measured(fitter.certain(table, order), table),
            fresh,
            self._full_classes(fresh),
            parts,
            self._engine_for,
            limits,
        )
        self._adopt(fitted)
        self._measure_on(fresh)
        show(TRIED)
        self._learn_probabilities(rows)
        show(1.0)
        return self

    def _full_classes(self, rows: NDArray[np.floating]) -> NDArray[np.intp]:
        """Return the class indices that all trees together give converted rows."""
        return self.forest_.winners(self.forest_.engine.raw(rows, self.n_jobs))

    def _measure_on(self, fresh: NDArray[np.floating]) -> None:
        """Set what the rule does on rows that nothing was fitted to, if there are."""
        if self.promise_ is not None and self.promise_.n_rows:
            _, n_evaluated = self._evaluate(fresh)
            self.expected_trees_ = float(n_evaluated.mean())
            self.expected_disagreement_ = (
                self.promise_.n_disagreements / self.promise_.n_rows
            )

    def _check_settings(self) -> None:
        """Raise if a setting is wrong, whatever the model is."""
        check_bounds(self.max_disagreement, self.per_class)
        check_order_name(self.order)
        check_choice("rule", self.rule, RULES)
        check_choice("early_exit", self.early_exit, EARLY_EXITS)
        if self.confidence is not None:
            check_confidence(self.confidence)

    def _read(
        self, X: Any, y: Any = None
    ) -> tuple[NDArray[np.floating], NDArray[np.intp] | None]:
        """Set the model; return converted rows and class indices to calibrate on."""
        rows, codes = self._train_or_unwrap(X, y)
        check_costs(self.tree_costs, self.forest_.n_trees, "tree_costs")
        self._refuse_wrong_classes()
        return rows, codes

    def _ordered(
        self,
        rows: NDArray[np.floating],
        codes: NDArray[np.intp] | None,
        to_fit: NDArray[np.intp],
        X_order: Any,
        bound: float,
        rng: np.random.RandomState,
        show: Callable[[float], None],
    ) -> NDArray[np.int64]:
        """Return the order of the trees, found on some of the rows or on others."""
        if X_order is not None:
            rows, codes = self._rows_for_order(X_order), None
            to_fit = np.arange(len(rows))
        some = at_most(to_fit, most_rows(self.forest_), rng)
        return self._fitter().find_order(
            rows[some],
            None if codes is None else codes[some],
            bound,
            rng,
            show,
        )

    def _table(
        self, rows: NDArray[np.floating], rng: np.random.RandomState
    ) -> ScoreTable:
        """Return the scores of rows, of very many a random part."""
        most = most_rows(self.forest_)
        if self._fitter().drops_classes:
            most = min(most, MOST_ROWS)
        some = np.sort(at_most(np.arange(len(rows)), most, rng))
        return table_of(self.forest_, rows[some], self.n_jobs)

    def _refuse_wrong_classes(self) -> None:
        """Raise if settings do not go with the number of classes."""
        n_classes = len(self.classes_)
        if n_classes > 2 and (self.early_exit != "both" or self.rule == "fan"):
            setting = (
                f"early_exit={self.early_exit!r}"
                if self.early_exit != "both"
                else "rule='fan'"
            )
            msg = (
                f"{setting} is for two classes, and the model has {n_classes}. Use "
                "early_exit='both' with the rule 'thresholds' or 'optimal'."
            )
            raise InvalidArgumentError(msg)

    def _rows_for_order(self, X_order: Any) -> NDArray[np.floating]:
        """Return other rows to choose the order on, converted."""
        if is_named(self.order, NEED_LABELS):
            msg = (
                f"order={self.order!r} needs the labels of its rows, and X_order "
                "has none. Leave X_order out."
            )
            raise InvalidArgumentError(msg)
        return self._rows(X_order)

    def _fitter(self) -> RuleFitter:
        return RuleFitter(
            self.forest_,
            self.order,
            self.rule,
            self.early_exit,
            self.tree_costs,
            self.n_jobs,
        )

    def _at_levels(self, rows: Any, levels: Iterable[float]) -> Iterator[Self]:
        rng = check_random_state(self.random_state)
        table = self._table(rows, rng)
        fitter = self._fitter()
        several = fitter.has_several_decisions(table)
        for level in levels:
            bound = check_max_disagreement(level) if several else 0.0
            rule = fitter.fit_to_rows(table, self.order_, bound, rng)
            yield self._copy_at(level, measured(rule, table), self._engine)

    def candidates(self, X: Any) -> list[Callable[[], Self]]:
        """Return factories of copies fitted to rows, the most conservative first.

        The classifier itself need not be fitted. The candidates are fixed before any
        row that a bound is to be established on is seen, and each is fitted only
        when its factory is called. The first one never differs from the full ensemble.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows to fit to.

        Returns
        -------
        candidates : list of callables
            Each returns a fitted classifier. There is only the first one if the model
            gives all rows the same prediction, or `max_disagreement` is 0.
        """
        self._check_settings()
        rows, _ = self._read(X)
        limits = self._limits()
        bound = limits.level
        rng = check_random_state(self.random_state)
        if limits.by_class is not None:
            every = np.arange(len(rows))
            rows = rows[limits.balanced(every, self._full_classes(rows), rng)]
        show = progress_for(self.verbose, "ordering")
        order = self._ordered(rows, None, np.arange(len(rows)), None, bound, rng, show)
        table = self._table(rows, rng)
        fitter = self._fitter()
        makers: list[Callable[[], ExitRule]] = [lambda: fitter.certain(table, order)]
        if bound > 0.0 and fitter.has_several_decisions(table):
            makers += fitter.ladder(table, order, bound, rng)
        if fitter.drops_classes:
            # To follow a table takes longer than to predict rows; who chooses measures.
            return self._copies(bound, _unmeasured(makers))
        return self._copies(bound, _all_measured(makers, table))

    def _adopt(self, fitted: FittedRule, last: EarlyExitEngine | None = None) -> None:
        super()._adopt(fitted, last)
        self._set_thresholds()
        self.expected_trees_ = fitted.expected_trees

    def _set_thresholds(self) -> None:
        rule = self.rule_
        self.lower_, self.upper_, self.margin_ = rule.lower, rule.upper, rule.margin
        self.leads_ = rule.leads

    def _engine_for(
        self, rule: ExitRule, last: EarlyExitEngine | None
    ) -> EarlyExitEngine:
        if last is None:
            return EarlyExitEngine(self.forest_, rule)
        return last.with_rule(rule)

    # ---------------------------------------------------------------- predicting

    def _has_exact_scores(self) -> bool:
        """Whether scores may be ranked; the reason why not, as an error."""
        if self.early_exit == "negative":
            return True
        msg = (
            f"With early_exit={self.early_exit!r}, rows that exit early have no "
            "full score, and a rank or an area under a curve computed from partial "
            "scores would be wrong. Use predict_proba, which returns the mean of "
            "similar calibration rows, early_exit='negative', which scores "
            "every row that is not rejected in full, or the decision_function of "
            "forest_, which evaluates all trees."
        )
        raise AttributeError(msg)

    @available_if(_has_exact_scores)
    def decision_function(self, X: Any) -> NDArray[np.floating]:
        """Return the exact full score of rows that were not rejected early.

        Available only with ``early_exit="negative"``.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        scores : ndarray of shape (n_rows,)
            The raw score of the whole ensemble minus the decision threshold; above zero
            where `predict` returns ``classes_[1]``. Rows that were
            rejected early have the smallest score that the ensemble can give.
        """
        rows = self._rows(X)
        classes, n_evaluated = self._evaluate(rows)
        forest = self.forest_
        threshold = decision_threshold(forest, "soft")
        lowest, _ = self._engine.score_range()
        to_the_end = np.flatnonzero(n_evaluated == forest.n_trees)
        raw = forest.engine.raw(rows[to_the_end], self.n_jobs)
        score = raw[:, 0] if raw.shape[1] == 1 else (raw[:, 1] - raw[:, 0]) / 2
        scores = np.full(len(rows), lowest, dtype=raw.dtype)
        scores[to_the_end] = score - raw.dtype.type(threshold)
        # The threshold itself is positive, and zero is not.
        least = np.finfo(raw.dtype).tiny
        return np.where(
            classes == 1, np.maximum(scores, least), np.minimum(scores, 0)
        ).astype(raw.dtype)

    def plot(self, kind: str = "thresholds", *, X: Any = None, ax: Any = None) -> Any:
        """Draw the thresholds over the order, or how many trees rows need.

        Parameters
        ----------
        kind : {"thresholds", "trees"}, default="thresholds"
            Thresholds (or margins) over the number of trees, or a histogram of the
            trees evaluated for the rows `X`.
        X : array-like of shape (n_rows, n_features), default=None
            Rows, for ``"trees"``.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        ax : matplotlib Axes
            What was drawn on.
        """
        from spinney.cascade.plotting import plot_counts, plot_thresholds

        check_is_fitted(self)
        check_choice("kind", kind, ("thresholds", "trees"))
        if kind == "thresholds":
            return plot_thresholds(self.rule_, ax)
        if X is None:
            msg = "kind='trees' needs rows: pass X."
            raise InvalidArgumentError(msg)
        return plot_counts(self.predict_counted(X)[1], self.forest_.n_trees, ax)

    # ---------------------------------------------------------------- files

    def __spinney_save__(self) -> tuple[Settings, Arrays]:
        settings, arrays = classifier_to_parts(self)
        rule_settings, rule_arrays = rule_to_parts(self.rule_)
        settings |= rule_settings | {
            "certificate": certificate_to_setting(self.certificate_),
            "expected_disagreement": self.expected_disagreement_,
            "expected_trees": self.expected_trees_,
            "promise": promise_to_setting(self.promise_),
        }
        return settings, arrays | rule_arrays | self._probabilities_to_arrays()

    @classmethod
    def __spinney_load__(cls, settings: Settings, arrays: Arrays) -> Self:
        classifier: Self = classifier_from_parts(cls, settings, arrays)
        rule = take_rule(settings, arrays)
        if rule.voting != "soft":
            msg = "its rule must be about scores"
            raise FormatError(msg)
        engine = engine_of_parts(classifier.forest_, rule)
        trees = take_setting(settings, "expected_trees", float)
        disagreement = take_setting(settings, "expected_disagreement", float)
        classifier._adopt(FittedRule(rule, trees, disagreement, np.zeros(0)), engine)
        classifier.promise_ = take_promise(settings)
        classifier.certificate_ = take_certificate(settings, classifier.promise_)
        classifier.class_changes_ = ()
        classifier._take_probabilities(arrays)
        return classifier


def _all_measured(
    makers: Iterable[Callable[[], ExitRule]], table: ScoreTable
) -> list[Callable[[], FittedRule]]:
    """Return what makes rules together with what they do on the rows of a table."""
    return [lambda make=make: measured(make(), table) for make in makers]  # type: ignore[misc]


def _unmeasured(
    makers: Iterable[Callable[[], ExitRule]],
) -> list[Callable[[], FittedRule]]:
    """Return what makes rules of which it is not known yet what they do."""
    return [lambda make=make: unmeasured(make()) for make in makers]  # type: ignore[misc]
