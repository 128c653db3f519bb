"""A classifier that adds up trees until the score is as good as decided."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from spinney.base.early_exit_classifier import EarlyStoppingClassifier
from spinney.base.progress import progress_for
from spinney.calibration.bounds import boldest_proven, check_confidence
from spinney.cascade.calibration import (
    Parts,
    engine_of,
    folds_to_order,
    planned_checks,
    quickest_plan,
    score_range,
    several_decisions,
    share_out,
)
from spinney.cascade.fan import FanPolicy
from spinney.cascade.fan_engine import FanEngine
from spinney.cascade.fitting import (
    NEED_LABELS,
    NEED_ROWS,
    RULES,
    averaged_order,
    check_order_name,
    find_order,
    fit_rule,
    is_named,
    spread_steps,
)
from spinney.cascade.tables import most_rows, table_of
from spinney.errors import InvalidArgumentError
from spinney.ordering import ExitPolicy, ScoreTable
from spinney.ordering.checks import check_choice, check_costs, check_max_disagreement
from spinney.ordering.exit_policy import never_stop
from spinney.ordering.qwyc import EARLY_EXITS
from spinney.runtime.early_exit import Policy, positive_from

# With a confidence, the candidates, fixed beforehand: first thresholds that never
# disagree on the rows they are fitted to, moved out by so many deviations; then those
# that aim at so large a part of the bound.
WIDENINGS = (2.0, 1.0, 0.5, 0.25, 0.1)
LEVELS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


class CascadeClassifier(EarlyStoppingClassifier):
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
        fewest trees are asked.
    early_exit : {"both", "negative", "positive"}, default="both"
        Which answers may be given early. With ``"negative"`` rows are rejected early,
        and all others are scored in full. Other than ``"both"`` for two classes only.
    tree_costs : array-like of shape (n_trees,), default=None
        Cost of each tree, positive; 1 each by default. Used by ``order="qwyc"`` and
        ``rule="optimal"``. With costs given, what is minimised is their sum, and
        rows are looked at more often than the time of looking would suggest.
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
        Trees in the order in which they are asked.
    checks_ : ndarray of shape (n_checks,)
        Numbers of trees after which a row may be done.
    lower_, upper_ : ndarray of shape (n_checks,) or None
        With two classes: the thresholds at each check.
    margin_ : ndarray of shape (n_checks,) or None
        With several classes: the lead above which a row is done.
    expected_trees_ : float
        Trees asked per row, on average over the rows that thresholds were fitted to.
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
    >>> labels, n_asked = quick.predict_counted(X[3000:])
    >>> bool((labels != model.predict(X[3000:])).mean() <= 0.03)
    True
    >>> bool(n_asked.mean() < 50)
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
        parts, order, bound, chance = self._prepared(X, y, X_order)
        self._adopt(self._fitted(parts, order, bound, chance))
        return self

    def _prepared(
        self, X: Any, y: Any, X_order: Any
    ) -> tuple[Parts, NDArray[np.int64], float, np.random.RandomState]:
        """Return rows by what they are for, the order, the bound and chance."""
        bound = check_max_disagreement(self.max_disagreement)
        check_order_name(self.order)
        check_choice("rule", self.rule, RULES)
        check_choice("early_exit", self.early_exit, EARLY_EXITS)
        if self.confidence is not None:
            check_confidence(self.confidence)
        rows, codes = self._train_or_unwrap(X, y)
        check_costs(self.tree_costs, self.forest_.n_trees, "tree_costs")
        self._refuse_wrong_classes()
        chance = check_random_state(self.random_state)
        given = None if X_order is None else self._rows_for_order(X_order)
        parts = share_out(
            rows,
            codes,
            given,
            to_order=is_named(self.order, NEED_ROWS),
            bound=bound,
            confidence=self.confidence,
            limit=most_rows(self.forest_),
            chance=chance,
        )
        self.certificate_ = None
        return parts, self._order(parts, bound, chance), bound, chance

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
        """Return other rows to choose the order on as the forest takes them."""
        if is_named(self.order, NEED_LABELS):
            msg = (
                f"order={self.order!r} takes rows and labels from X and y, and X_order "
                "comes without labels. Leave X_order out."
            )
            raise InvalidArgumentError(msg)
        return self._rows(X_order)

    def _order(
        self, parts: Parts, bound: float, chance: np.random.RandomState
    ) -> NDArray[np.int64]:
        """Return the order of the trees."""
        show = progress_for(self.verbose, "ordering")
        n_trees = self.forest_.n_trees
        orders: list[NDArray[np.int64]] = []

        def on_step(placed: int, _: int) -> None:
            show((len(orders) + placed / n_trees) / parts.n_folds)

        for rows, labels in folds_to_order(parts):
            table = None
            if rows is not None:
                table = table_of(self.forest_, rows, self.n_jobs)
            found = find_order(
                self.order,
                n_trees,
                table=table,
                labels=labels,
                averages=self.forest_.aggregation == "mean",
                max_disagreement=bound,
                costs=self.tree_costs,
                early_exit=self.early_exit,
                chance=chance,
                on_step=on_step,
            )
            orders.append(found)
        show(1.0)
        return averaged_order(orders)

    def _fitted(
        self,
        parts: Parts,
        order: NDArray[np.int64],
        bound: float,
        chance: np.random.RandomState,
    ) -> ExitPolicy | FanPolicy:
        """Fit the rule, and note what it does on the rows it was fitted to."""
        table = table_of(self.forest_, parts.to_fit, self.n_jobs)
        policy: ExitPolicy | FanPolicy = never_stop(table, order)
        if len(self.classes_) > 1 and several_decisions(table, self.classes_):
            fitter = self._fitter(table, order, bound, chance)
            if parts.to_prove is None:
                policy = fitter(bound)
            else:
                policy = self._proven(fitter, table, parts, bound) or policy
        self._note(policy, table)
        return policy

    def _fitter(
        self,
        table: ScoreTable,
        order: NDArray[np.int64],
        bound: float,
        chance: np.random.RandomState,
    ) -> Callable[[float], ExitPolicy | FanPolicy]:
        """Return what fits the rule to a level, with looks planned for a bound."""
        steps = spread_steps(self.forest_.n_trees)
        fit = partial(
            fit_rule,
            table=table,
            order=order,
            costs=self.tree_costs,
            early_exit=self.early_exit,
            is_random=is_named(self.order, ("random",)),
            # The same orders for all candidates.
            random_state=int(chance.randint(2**31 - 1)),
        )

        def fit_to(
            level: float, steps: NDArray[np.int64], rule: str = self.rule
        ) -> ExitPolicy | FanPolicy:
            return fit(rule, max_disagreement=level, steps=steps)

        checks = steps
        if self.tree_costs is None:
            rough = [fit_to(bound, steps)]
            if self.rule == "optimal":
                # It spreads what is allowed over all steps. Thresholds that spend it
                # at once come nearer to what a few looks can do.
                rough.append(fit_to(bound, steps, "thresholds"))
            plans = [
                planned_checks(self.forest_, policy, table, steps) for policy in rough
            ]
            checks = quickest_plan(self.forest_, plans, partial(fit_to, bound), table)
        return partial(fit_to, steps=checks)

    def _proven(
        self,
        fitter: Callable[[float], ExitPolicy | FanPolicy],
        table: ScoreTable,
        parts: Parts,
        bound: float,
    ) -> ExitPolicy | FanPolicy | None:
        """Return the boldest policy that is proven to keep the bound, if any."""
        forest, rows = self.forest_, parts.to_prove
        assert self.confidence is not None
        assert rows is not None
        engine: Policy | FanEngine | None = None

        def answers_of(policy: ExitPolicy | FanPolicy) -> NDArray[np.intp]:
            nonlocal engine
            engine = engine_of(forest, policy, engine)
            return engine.ask(rows, self.n_jobs)[0]

        proven = boldest_proven(
            (make() for make in _cautious_to_bold(fitter, table, bound)),
            answers_of,
            forest.winners(forest.engine.raw(rows, self.n_jobs)),
            max_disagreement=bound,
            confidence=self.confidence,
            share=parts.share_to_prove,
            n_given=parts.n_given,
        )
        if proven is None:
            return None
        policy, self.certificate_ = proven
        return policy

    def _note(self, policy: ExitPolicy | FanPolicy, table: ScoreTable) -> None:
        """Note what a policy does on the rows it was fitted to."""
        decisions, n_asked = policy.follow(table)
        self.expected_trees_ = float(n_asked.mean())
        self.expected_disagreement_ = float(np.mean(decisions != table.decisions))

    def _at_levels(self, X: Any, levels: Iterable[float]) -> Iterator[Self]:
        table, chance = self._fresh_table(X)
        several = several_decisions(table, self.classes_)
        policy: ExitPolicy | FanPolicy = never_stop(table, self.order_)
        for level in levels:
            bound = check_max_disagreement(level)
            if several:
                policy = self._fitter(table, self.order_, bound, chance)(bound)
            yield self._copy_with(bound, policy, table, self._engine)

    def _candidates(self, X: Any, X_order: Any) -> list[Callable[[], Self]]:
        """Return what makes copies fitted to `X`, the most cautious first.

        The classifier itself need not be fitted. The candidates are fixed before any
        row is looked at that a bound is to be proven on, and each is fitted only when
        it is called for. `X_order` are other rows, to choose an order on.
        """
        parts, order, bound, chance = self._prepared(X, None, X_order)
        table = table_of(self.forest_, parts.to_fit, self.n_jobs)
        if not several_decisions(table, self.classes_):
            return []
        fitter = self._fitter(table, order, bound, chance)
        last: Policy | FanEngine | None = None

        def fitted(make: Callable[[], ExitPolicy | FanPolicy]) -> Any:
            nonlocal last
            made = self._copy_with(bound, make(), table, last)
            last = made._engine
            return made

        return [
            partial(fitted, make) for make in _cautious_to_bold(fitter, table, bound)
        ]

    def _fresh_table(self, X: Any) -> tuple[ScoreTable, np.random.RandomState]:
        """Return the scores of rows to fit to, and where chance comes from."""
        rows = self._rows(X)
        chance = check_random_state(self.random_state)
        limit = most_rows(self.forest_)
        if len(rows) > limit:
            rows = rows[np.sort(chance.permutation(len(rows))[:limit])]
        return table_of(self.forest_, rows, self.n_jobs), chance

    def _copy_with(
        self,
        bound: float,
        policy: ExitPolicy | FanPolicy,
        table: ScoreTable,
        last: Policy | FanEngine | None,
    ) -> Self:
        fitted = self._copy_at(bound)
        fitted._note(policy, table)
        fitted._adopt(policy, last)
        return fitted

    def _adopt(
        self,
        policy: ExitPolicy | FanPolicy,
        last: Policy | FanEngine | None = None,
    ) -> None:
        """Take a policy over, and what the runtime has laid out for the last one."""
        self._policy = policy
        self._engine = engine_of(self.forest_, policy, last)
        self.order_ = policy.order
        self.checks_ = policy.check_steps
        self.lower_ = self.upper_ = self.margin_ = None
        if isinstance(policy, ExitPolicy):
            self.lower_, self.upper_ = policy.lower, policy.upper
            self.margin_ = policy.margin

    # ---------------------------------------------------------------- answering

    def _ask(self, rows: Any) -> tuple[NDArray[np.intp], NDArray[np.int32]]:
        return self._engine.ask(rows, self.n_jobs)

    def decision_function(self, X: Any) -> NDArray[np.floating]:
        """Return the exact full score of rows that were not decided early.

        With ``early_exit="negative"``, these are the rows that were not rejected.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        scores : ndarray of shape (n_rows,) or (n_rows, n_classes)
            With two classes: the raw score of the whole ensemble less the score from
            which it is positive; above zero where `predict` says ``classes_[1]``. Rows
            that were decided early have the smallest score that the ensemble can give,
            or the largest. With several classes: the raw scores, and for rows decided
            early the smallest for all classes but the winner.
        """
        rows = self._rows(X)
        classes, counts = self._ask(rows)
        forest = self.forest_
        border = positive_from(forest, "scores")
        low, high = score_range(forest)
        to_the_end = np.flatnonzero(counts == forest.n_trees)
        raw = forest.engine.raw(rows[to_the_end], self.n_jobs)
        if len(self.classes_) > 2:
            scores = np.full((len(rows), forest.n_outputs), low, dtype=raw.dtype)
            scores[np.arange(len(rows)), classes] = high
            scores[to_the_end] = raw
            return scores
        score = raw[:, 0] if raw.shape[1] == 1 else (raw[:, 1] - raw[:, 0]) / 2
        scores = np.where(classes == 1, high, low).astype(raw.dtype)
        scores[to_the_end] = score - raw.dtype.type(border)
        # The border itself is positive, and zero is not.
        least = np.finfo(raw.dtype).tiny
        return np.where(
            classes == 1, np.maximum(scores, least), np.minimum(scores, 0)
        ).astype(raw.dtype)

    def __spinney_save__(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        from spinney.cascade.file_kind import to_parts

        return to_parts(self)

    @classmethod
    def __spinney_load__(
        cls, settings: dict[str, Any], arrays: dict[str, NDArray[Any]]
    ) -> CascadeClassifier:
        from spinney.cascade.file_kind import from_parts

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
        if self._has_preprocessing():
            return lambda row: self.predict(np.asarray(row).reshape(1, -1))[0]
        return self._engine.predictor()

    def plot(self, kind: str = "thresholds", *, X: Any = None, ax: Any = None) -> Any:
        """Draw the thresholds over the order, or how many trees rows need.

        Parameters
        ----------
        kind : {"thresholds", "trees"}, default="thresholds"
            Thresholds (or margins) over the number of trees, or a histogram of the
            trees asked for the rows `X`.
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
            return plot_thresholds(self._policy, ax)
        if X is None:
            msg = "kind='trees' needs rows: pass X."
            raise InvalidArgumentError(msg)
        return plot_counts(self.predict_counted(X)[1], self.forest_.n_trees, ax)


def _cautious_to_bold(
    fitter: Callable[[float], ExitPolicy | FanPolicy], table: ScoreTable, bound: float
) -> list[Callable[[], ExitPolicy | FanPolicy]]:
    """Return what makes the candidates among which the boldest proven is taken."""

    @cache
    def safe() -> ExitPolicy | FanPolicy:
        return fitter(0.0)

    return [
        *(lambda far=far: safe().widened(table, far) for far in WIDENINGS),
        *(partial(fitter, level * bound) for level in LEVELS),
    ]
