"""A classifier that adds up trees until the score is as good as decided."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
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
    rule_to_parts,
    take_certificate,
    take_rule,
)
from spinney.base.early_exit_classifier import EarlyExitClassifier
from spinney.base.parameters import check_choice, check_costs
from spinney.base.progress import progress_for
from spinney.calibration.bounds import check_confidence, check_max_disagreement
from spinney.calibration.fitted_rule import FittedRule
from spinney.calibration.ladder import boldest_proven
from spinney.calibration.row_splits import RowParts, at_most, split_by_use
from spinney.cascade.fitter import RuleFitter, cautious_to_bold, measured
from spinney.cascade.fitting import (
    NEED_LABELS,
    NEED_ROWS,
    RULES,
    check_order_name,
    is_named,
)
from spinney.cascade.tables import most_rows, table_of
from spinney.errors import FormatError, InvalidArgumentError
from spinney.persistence.container import Arrays, Settings
from spinney.persistence.fields import take_setting
from spinney.runtime.early_exit import EarlyExitEngine
from spinney.runtime.exit_rule import ExitRule
from spinney.runtime.score_bins import EARLY_EXITS
from spinney.runtime.scoring import decision_threshold

# How rows are shared out between order, thresholds and proof.
SHARES = {"order": 1.0, "fit": 2.0, "prove": 2.0}
# The same, where nothing is to be proven.
SHARES_WITHOUT_PROOF = {"order": 1.0, "fit": 1.0}


class CascadeClassifier(EarlyExitClassifier):
    """Answer like the whole ensemble, as soon as the sum of its trees is clear.

    The trees of a boosted or averaged ensemble are added up in an order chosen for
    the purpose. After some of them the partial score is compared with two thresholds
    (with several classes: the lead of the best class with one); rows beyond them are
    done, the others go on. Order and thresholds are fitted to rows without labels.

    Parameters
    ----------
    estimator : estimator or Forest
        The ensemble. ``FrozenEstimator(model)`` for a trained model; an unfitted
        estimator is trained by `fit` on three quarters of the rows.
    max_disagreement : float, default=5e-3
        Share of the rows whose answer may differ from that of the whole ensemble, in
        ``[0, 1)``. See Notes for which rows.
    order : {"qwyc", "natural", "random", "individual_mse", "greedy_mse"} or \
array-like, default="qwyc"
        Order of the trees: chosen together with thresholds (``"qwyc"``), as trained,
        drawn at random, by squared error against labels (each tree alone, or greedily
        together), or a permutation.
    rule : {"thresholds", "fan", "optimal"}, default="thresholds"
        When a row is done: thresholds fitted step by step; the rule of Fan et al.; or
        thresholds that spread the allowed disagreement over all steps so that the
        fewest trees are evaluated.
    early_exit : {"both", "negative", "positive"}, default="both"
        Which answers may be given early. With ``"negative"`` rows are rejected early,
        and all others are scored in full. Other than ``"both"`` for two classes only.
    tree_costs : array-like of shape (n_trees,), default=None
        Cost of each tree, positive; 1 each by default. Used by ``order="qwyc"`` and
        ``rule="optimal"``. With costs given, what is minimised is their sum, and
        there are more exit points than the time that they take would suggest.
    confidence : float, default=None
        If given, the bound holds for new rows with this probability: two fifths of the
        rows are kept to prove it (half, if `fit` gets `X_order` or the order needs no
        rows; more, if these are too few), and the boldest of several candidates is
        taken for which they do.
    random_state : int, RandomState instance or None, default=None
        Draws which row is used for what, and random orders. Pass an int for the same
        result on every call.
    n_jobs : int, default=None
        Number of threads; None means one, -1 all cores.
    verbose : bool or callable, default=False
        Whether to draw a progress bar on standard error while the order is found; a
        callable is given the share of the work that is done.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    order_ : ndarray of shape (n_trees,)
        Trees in the order in which they are evaluated.
    exit_points_ : ndarray of shape (n_exit_points,)
        Numbers of trees after which a row may be done.
    lower_, upper_ : ndarray of shape (n_exit_points,) or None
        With two classes: the thresholds at each exit point.
    margin_ : ndarray of shape (n_exit_points,) or None
        With several classes: the lead above which a row is done.
    rule_ : ExitRule
        All of these in one object.
    expected_trees_ : float
        Trees evaluated per row, on average over the rows that thresholds were fitted
        to.
    expected_disagreement_ : float
        Share of these rows on which the answer differs from the full one.
    certificate_ : Certificate or None
        What is proven about new rows, if `confidence` was given.
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
    spinney.certify : What fresh rows prove about a fitted classifier.

    Notes
    -----
    The disagreement is that with the whole ensemble, not errors against the truth.

    Without `confidence` the bound is kept on the rows that the thresholds were fitted
    to, which are not those that the order was chosen on. It is no promise about new
    rows: there the disagreement is usually somewhat higher, by a half or more where
    there are only a few thousand rows.

    With `confidence` the bound is on the mean disagreement over all rows of the
    distribution that `X` is drawn from, and it holds with that probability over the
    draw of the rows kept for proof. Rows that depend on one another, rows that the
    model was trained on, or new rows of another kind (drift) invalidate it.

    The method is that of [1]_.

    References
    ----------
    .. [1] S. Wang, M. Gupta and S. You, "Quit When You Can: Efficient Evaluation of
       Ensembles with Ordering Optimization", 2018.

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
        max_disagreement: float = 5e-3,
        order: Any = "qwyc",
        rule: str = "thresholds",
        early_exit: str = "both",
        tree_costs: ArrayLike | None = None,
        confidence: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: Any = False,
    ) -> None:
        self.estimator = estimator
        self.max_disagreement = max_disagreement
        self.order = order
        self.rule = rule
        self.early_exit = early_exit
        self.tree_costs = tree_costs
        self.confidence = confidence
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    # ---------------------------------------------------------------- fitting

    def fit(self, X: Any, y: Any = None, *, X_order: Any = None) -> CascadeClassifier:
        """Choose the order of the trees, and when a row is done.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows to calibrate on, of the kind that will be predicted, thousands if
            possible. With an estimator that is still to be trained: rows to train and
            calibrate on.
        y : array-like of shape (n_rows,), default=None
            Labels; needed to train the estimator, and for orders by squared error.
        X_order : array-like of shape (n_more_rows, n_features), default=None
            Other rows to choose the order on; those that the model was trained on
            will do. Without, a part of `X` is set apart for it.

        Returns
        -------
        self : CascadeClassifier
            The fitted classifier.
        """
        rows, parts, order, bound, rng = self._prepared(X, y, X_order)
        self._adopt(self._fitted(rows, parts, order, bound, rng))
        return self

    def _prepared(
        self, X: Any, y: Any, X_order: Any
    ) -> tuple[
        NDArray[np.floating],
        RowParts,
        NDArray[np.int64],
        float,
        np.random.RandomState,
    ]:
        """Return converted rows, what they are for, the order, the bound, and rng."""
        bound = check_max_disagreement(self.max_disagreement)
        check_order_name(self.order)
        check_choice("rule", self.rule, RULES)
        check_choice("early_exit", self.early_exit, EARLY_EXITS)
        if self.confidence is not None:
            check_confidence(self.confidence)
        rows, codes = self._train_or_unwrap(X, y)
        check_costs(self.tree_costs, self.forest_.n_trees, "tree_costs")
        self._refuse_wrong_classes()
        rng = check_random_state(self.random_state)
        others = None if X_order is None else self._rows_for_order(X_order)
        needs_rows = is_named(self.order, NEED_ROWS)
        shares = dict(SHARES_WITHOUT_PROOF if self.confidence is None else SHARES)
        if not needs_rows or others is not None:
            del shares["order"]
        parts = split_by_use(
            len(rows),
            shares,
            max_disagreement=bound,
            confidence=self.confidence,
            rng=rng,
        )
        limit = most_rows(self.forest_)
        if needs_rows and others is not None:
            others = others[at_most(np.arange(len(others)), limit, rng)]
        elif needs_rows:
            assert parts.order is not None
            parts = replace(parts, order=at_most(parts.order, limit, rng))
        parts = replace(parts, fit=at_most(parts.fit, limit, rng))
        self.certificate_ = None
        show = progress_for(self.verbose, "ordering")
        if needs_rows and others is not None:
            order = self._fitter().find_order(parts, others, None, bound, rng, show)
        else:
            order = self._fitter().find_order(parts, rows, codes, bound, rng, show)
        return rows, parts, order, bound, rng

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
                f"order={self.order!r} takes rows and labels from X and y, and X_order "
                "comes without labels. Leave X_order out."
            )
            raise InvalidArgumentError(msg)
        return self._rows(X_order)

    def _fitted(
        self,
        rows: NDArray[np.floating],
        parts: RowParts,
        order: NDArray[np.int64],
        bound: float,
        rng: np.random.RandomState,
    ) -> FittedRule:
        """Return the rule, and what it does on the rows it was fitted to."""
        table = table_of(self.forest_, rows[parts.fit], self.n_jobs)
        rule = ExitRule.never(order, len(table.base))
        fitter = self._fitter()
        if len(self.classes_) > 1 and fitter.has_several_decisions(table):
            fit = fitter.planned(table, order, bound, rng)
            if parts.prove is None:
                rule = fit(bound)
            else:
                candidates = cautious_to_bold(fit, table, bound)
                rule = self._proven(candidates, rows, parts, bound) or rule
        return measured(rule, table)

    def _fitter(self) -> RuleFitter:
        return RuleFitter(
            self.forest_,
            self.order,
            self.rule,
            self.early_exit,
            self.tree_costs,
            self.n_jobs,
        )

    def _proven(
        self,
        candidates: list[Callable[[], ExitRule]],
        rows: NDArray[np.floating],
        parts: RowParts,
        bound: float,
    ) -> ExitRule | None:
        """Return the boldest rule that is proven to keep the bound, if any."""
        forest, fresh = self.forest_, rows[parts.prove]
        assert self.confidence is not None
        engine: EarlyExitEngine | None = None

        def answers_of(rule: ExitRule) -> NDArray[np.intp]:
            nonlocal engine
            engine = self._engine_for(rule, engine)
            return engine.evaluate(fresh, self.n_jobs)[0]

        proven = boldest_proven(
            (make() for make in candidates),
            answers_of,
            forest.winners(forest.engine.raw(fresh, self.n_jobs)),
            max_disagreement=bound,
            confidence=self.confidence,
            share=parts.usual_share,
            n_given=parts.n_given,
        )
        if proven is None:
            return None
        rule, self.certificate_ = proven
        return rule

    def _at_levels(self, rows: Any, levels: Iterable[float]) -> Iterator[Self]:
        rng = check_random_state(self.random_state)
        index = np.sort(at_most(np.arange(len(rows)), most_rows(self.forest_), rng))
        table = table_of(self.forest_, rows[index], self.n_jobs)
        fitter = self._fitter()
        several = fitter.has_several_decisions(table)
        rule = ExitRule.never(self.order_, len(table.base))
        for level in levels:
            bound = check_max_disagreement(level)
            if several:
                rule = fitter.planned(table, self.order_, bound, rng)(bound)
            yield self._copy_at(bound, measured(rule, table), self._engine)

    def candidates(self, X: Any, X_order: Any = None) -> list[Callable[[], Self]]:
        """Return what makes copies fitted to rows, the most cautious first.

        The classifier itself need not be fitted. The candidates are fixed before any
        row is looked at that a bound is to be proven on, and each is fitted only when
        it is called for.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows to fit to.
        X_order : array-like of shape (n_more_rows, n_features), default=None
            Other rows to choose the order on.

        Returns
        -------
        candidates : list of callables
            Each returns a fitted classifier. Empty if the model gives all rows the
            same answer.
        """
        rows, parts, order, bound, rng = self._prepared(X, None, X_order)
        table = table_of(self.forest_, rows[parts.fit], self.n_jobs)
        fitter = self._fitter()
        if not fitter.has_several_decisions(table):
            return []
        fit = fitter.planned(table, order, bound, rng)
        return self._copies(
            bound,
            [
                lambda make=make: measured(make(), table)  # type: ignore[misc]
                for make in cautious_to_bold(fit, table, bound)
            ],
        )

    def _adopt(self, fitted: FittedRule, last: EarlyExitEngine | None = None) -> None:
        super()._adopt(fitted, last)
        self._set_thresholds()
        self.expected_trees_ = fitted.expected_trees

    def _set_thresholds(self) -> None:
        rule = self.rule_
        self.lower_, self.upper_, self.margin_ = rule.lower, rule.upper, rule.margin

    def _engine_for(
        self, rule: ExitRule, last: EarlyExitEngine | None
    ) -> EarlyExitEngine:
        if last is None:
            return EarlyExitEngine(self.forest_, rule)
        return last.with_rule(rule)

    # ---------------------------------------------------------------- answering

    def _has_exact_scores(self) -> bool:
        """Whether scores may be ranked; the reason why not, as an error."""
        if self.early_exit == "negative":
            return True
        msg = (
            f"With early_exit={self.early_exit!r}, rows that are decided early have no "
            "score: they left before it was known, and a rank or an area under a curve "
            "made of partial scores would be wrong. Use early_exit='negative', which "
            "scores every row that is not rejected in full, or the decision_function "
            "of forest_, which evaluates all trees."
        )
        raise AttributeError(msg)

    @available_if(_has_exact_scores)
    def decision_function(self, X: Any) -> NDArray[np.floating]:
        """Return the exact full score of rows that were not rejected early.

        There is such a method only with ``early_exit="negative"``.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        scores : ndarray of shape (n_rows,)
            The raw score of the whole ensemble less the score from which it is
            positive; above zero where `predict` says ``classes_[1]``. Rows that were
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
        }
        return settings, arrays | rule_arrays

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
        classifier.certificate_ = take_certificate(settings)
        return classifier
