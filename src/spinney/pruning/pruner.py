"""The classifier that prunes a forest to lower its feature cost.

Solvers and compiled kernels are imported on use, so that importing spinney stays quick.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from spinney.base.classifier_fields import classifier_from_parts, classifier_to_parts
from spinney.base.estimator import EnsembleClassifier, is_trained
from spinney.base.parameters import check_choice
from spinney.base.progress import progress_for
from spinney.errors import (
    InvalidArgumentError,
    SpinneyWarning,
    UnsupportedModelError,
)
from spinney.forest import Forest
from spinney.forest.class_votes import check_votes_by_class
from spinney.forest.frames import rows_at
from spinney.persistence.container import Arrays, Settings
from spinney.persistence.fields import part_forest_to_parts, take_setting
from spinney.pruning.costs import Purchases, integer_multiples, is_amount, purchases_for
from spinney.pruning.error_rows import checked_weights, out_of_bag_rows, split_rows
from spinney.pruning.feature_cost_classifier import FeatureCostClassifier
from spinney.pruning.lazy import Fetch, LazyPrediction
from spinney.pruning.pruner_fields import (
    frontier_to_parts,
    purchases_to_parts,
    take_frontier,
    take_full_forest,
    take_kept_until,
    take_point,
    take_purchases,
)
from spinney.readers import read_model
from spinney.readers.wrapped import parted

SOLVERS = ("mincut", "lp", "dantzig_wolfe")
ERROR_ROWS = ("given", "out_of_bag")


class FeatureCostPruner(EnsembleClassifier, FeatureCostClassifier):
    """Prunes a forest so that predictions need fewer or cheaper features.

    Every feature has a cost, which is paid once per row, however many trees use it.
    `fit` removes the subtrees that cost more than they gain: the pruned forest
    minimises the mean error of its trees plus `trade_off` times the mean feature cost
    of a row. This is the exact optimum over all ways to prune all trees [1]_.

    Parameters
    ----------
    estimator : estimator or Forest
        A forest of trees that each vote for a class (random forest, extra trees,
        bagging, a single tree). A trained one goes in as ``FrozenEstimator(model)``
        or as a `Forest`; an unfitted one is trained by `fit`.
    feature_costs : array-like of shape (n_features,) or mapping, optional
        Cost of each feature, not negative. A mapping has names or numbers of columns
        (or names of `feature_groups`) as keys; what it leaves out costs 1, and without
        a mapping everything does.
    trade_off : float, optional
        Error accepted per unit of cost saved, not negative. Exactly one of `trade_off`
        and `budget` must be given.
    budget : float, optional
        Largest mean feature cost of a row, on the rows that `fit` prunes with.
    solver : {"mincut", "lp", "dantzig_wolfe"}, default="mincut"
        How the optimum is found: by minimum cuts (needs OR-tools, the extra ``prune``),
        by the linear programme of the paper, or by its decomposition into trees. All
        find the same optimum. The last two are far slower; they serve to check the
        first, or to distribute the work with joblib.
    feature_groups : mapping, optional
        From the name of a group to the columns that are bought together, for the
        price of one: ``{"blood test": ["iron", "ferritin"]}``.
    error_rows : {"given", "out_of_bag"}, default="given"
        Rows on which errors are counted: those given to `fit` (held out from training,
        if `fit` trains the estimator), or for each tree its out-of-bag training rows.
        The latter needs a forest that records its bootstrap samples, and the rows it
        was trained on.
    complete : bool, default=False
        With a `budget` that falls between two trade-offs, take the best forest within
        it (or, for large forests, a good one) instead of the best one on the frontier.
    random_state : int, RandomState instance or None, default=None
        Draws the held-out rows if the estimator is still to be trained.
    n_jobs : int or None, default=None
        Number of threads to predict with, and of jobs for the decomposition.
    verbose : bool, callable or None, default=None
        Whether to draw a progress bar on standard error; a callable is given the
        share of the work that is done. None draws one in interactive use, if standard
        error is a terminal and it takes more than two seconds; False never does.

    Attributes
    ----------
    forest_ : Forest
        The pruned forest. Nodes that become leaves predict the class distribution of
        their training rows.
    full_forest_ : Forest
        The forest before pruning.
    frontier_ : Frontier
        All supported trade-offs: trade_off, cost, error, ensemble_error, n_nodes.
    point_ : FrontierPoint
        The same for `forest_`.
    purchases_ : Purchases
        Features and groups of features with their costs, from `feature_costs` and
        `feature_groups`.
    gap_ : float
        Upper bound on how much lower the mean error of a tree could be within the
        budget; 0 if `forest_` is proven optimal. Without `complete`, `forest_` is the
        best one on the frontier, and the gap is 0.
    estimator_ : estimator or Forest
        The trained model.
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if `fit` was given a data frame.

    Notes
    -----
    Errors and costs are measured on the rows passed to `fit`: a forest chosen by them
    is slightly worse on other rows. The objective is the mean error of a single tree;
    the error of the forest as a whole is lower, and is reported as well.

    Costs, and weights of rows, that are decimal numbers or simple fractions are handled
    exactly; others are rounded to 1/65536 of the largest.

    References
    ----------
    .. [1] F. Nan, J. Wang and V. Saligrama, "Optimally Pruning Decision Tree Ensembles
       With Feature Cost", 2016.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from sklearn.frozen import FrozenEstimator
    >>> from spinney.pruning import FeatureCostPruner
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(20, random_state=0).fit(X[:300], y[:300])
    >>> pruner = FeatureCostPruner(FrozenEstimator(forest), budget=12, complete=True)
    >>> pruner = pruner.fit(X[300:], y[300:])
    >>> bool(pruner.feature_cost(X[300:]).mean() <= 12)
    True
    """

    def __init__(
        self,
        estimator: Any,
        *,
        feature_costs: Any = None,
        trade_off: float | None = None,
        budget: float | None = None,
        solver: str = "mincut",
        feature_groups: Any = None,
        error_rows: str = "given",
        complete: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: Any = None,
    ) -> None:
        self.estimator = estimator
        self.feature_costs = feature_costs
        self.trade_off = trade_off
        self.budget = budget
        self.solver = solver
        self.feature_groups = feature_groups
        self.error_rows = error_rows
        self.complete = complete
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> FeatureCostPruner:
        """Prune the forest, after training it if it is not trained.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows to prune with. For a trained model these should be rows that it has
            not seen, unless errors are counted on out-of-bag rows.
        y : array-like of shape (n_rows,)
            Their labels.
        sample_weight : array-like of shape (n_rows,), optional
            How much each row counts, for errors, for costs and in training. Not
            negative; rows of weight 0 are left out.

        Returns
        -------
        self : FeatureCostPruner
            The fitted classifier.
        """
        self._check_parameters()
        if y is None:
            msg = (
                f"{type(self).__name__} requires y to be passed, but the target y is "
                "None. Errors are counted with the labels of the rows."
            )
            raise InvalidArgumentError(msg)
        rows, codes, weights = self._prepare(X, y, sample_weight)
        forest = self.full_forest_
        self.purchases_ = self._checked_purchases()
        from spinney.pruning.problem import NO_FLAGS, PruningProblem
        from spinney.pruning.search import prune, solver_for

        leaves = forest.engine.leaves(rows, self.n_jobs)
        counted = NO_FLAGS
        if self.error_rows == "out_of_bag":
            model = parted(self.estimator_).ensemble
            counted = out_of_bag_rows(model, forest, leaves)
            weighs = weights > 0.0
            counted, leaves = counted[weighs], leaves[weighs]
            codes, weights = codes[weighs], weights[weighs]
        problem = PruningProblem(
            forest,
            leaves,
            codes,
            integer_multiples(weights)[0],
            counted,
            self.purchases_,
        )
        found = prune(
            problem,
            solver_for(self.solver, self.n_jobs),
            trade_off=self.trade_off,
            budget=self.budget,
            complete=self.complete,
            progress=progress_for(self.verbose, "pruning"),
        )
        self.forest_ = found.forest
        self.frontier_ = found.frontier
        self.point_ = found.point
        self.gap_ = found.gap
        self._kept_until = found.until
        self._warn_if_constant()
        return self

    def _warn_if_constant(self) -> None:
        """Warn if nothing but roots is left, and there was something better."""
        bought = self.frontier_.cost[self.frontier_.cost > 0.0]
        if not len(bought) or self.forest_.n_nodes > self.forest_.n_trees:
            return
        if self.budget is None:
            setting, remedy = f"trade_off={self.trade_off:g}", "Pass a smaller one"
        else:
            setting, remedy = f"budget={self.budget:g}", "Pass a larger one"
        msg = (
            f"With {setting} all trees are pruned to their roots: the forest uses no "
            f"feature and predicts the same class for every row. {remedy}: the "
            f"cheapest forest with a split costs {bought.min():.4g} per row."
        )
        warnings.warn(msg, SpinneyWarning, stacklevel=3)

    def _check_parameters(self) -> None:
        """Raise for parameters that are invalid whatever the data."""
        check_choice("solver", self.solver, SOLVERS)
        check_choice("error_rows", self.error_rows, ERROR_ROWS)
        if (self.trade_off is None) == (self.budget is None):
            given = "neither" if self.budget is None else "both"
            msg = (
                f"Exactly one of trade_off and budget must be given, got {given}. A "
                "budget is the largest mean feature cost of a row; a trade-off is the "
                "error that a unit of cost is worth."
            )
            raise InvalidArgumentError(msg)
        for name, value, hint in (
            ("trade_off", self.trade_off, "With 0, features are free."),
            (
                "budget",
                self.budget,
                "The cheapest forest has no split left and costs 0.",
            ),
        ):
            if value is not None and not is_amount(value):
                msg = f"{name} must be a number from 0 up, got {value!r}. {hint}"
                raise InvalidArgumentError(msg)
        if self.solver == "mincut":
            from spinney.pruning.mincut import import_max_flow

            import_max_flow()

    def _prepare(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[NDArray[np.floating], NDArray[np.int64], NDArray[np.float64]]:
        """Train the model if needed; return rows, classes and weights to prune with."""
        X, y = self._checked(X, y)
        check_classification_targets(y)
        weights = checked_weights(sample_weight, X)
        by_bag = self.error_rows == "out_of_bag"
        # Out-of-bag rows are identified by their index among all training rows.
        if not by_bag and not weights.all():
            weighs = np.flatnonzero(weights)
            X, y, weights = rows_at(X, weighs), y[weighs], weights[weighs]
        if is_trained(self.estimator):
            self.estimator_ = self.estimator
        else:
            trained_on = left = np.arange(len(y))
            if not by_bag:
                rng = check_random_state(self.random_state)
                trained_on, left = split_rows(X, y, rng)
            given = {}
            if sample_weight is not None:
                given["sample_weight"] = weights[trained_on]
            self.estimator_ = clone(self.estimator).fit(
                rows_at(X, trained_on), y[trained_on], **given
            )
            X, y, weights = rows_at(X, left), y[left], weights[left]
        forest = read_model(parted(self.estimator_).ensemble)
        check_votes_by_class(forest, type(self).__name__)
        self.full_forest_ = self.forest_ = forest
        self.classes_: Any = forest.classes_
        rows = self._converted(self._preprocessed(X))
        return rows, self._codes(y).astype(np.int64), weights

    def _checked_purchases(self) -> Purchases:
        """Return feature costs, by the column names from `fit` or from the model."""
        forest = self.full_forest_
        names = forest.feature_names
        if len(getattr(self, "feature_names_in_", ())) == forest.n_features:
            names = tuple(self.feature_names_in_)
        return purchases_for(
            forest.n_features, names, self.feature_costs, self.feature_groups
        )

    def predict_full(self, X: Any) -> NDArray[Any]:
        rows = self._rows(X)
        forest = self.full_forest_
        return forest.predictions(forest.engine.raw(rows, self.n_jobs))

    def predict_lazily(self, fetch: Fetch, n_rows: int) -> LazyPrediction:
        check_is_fitted(self)
        if self.has_preprocessing:
            msg = (
                "predict_lazily buys the columns that the trees compare, but the model "
                "is a pipeline that computes them from others. Prune its last step on "
                "rows that the steps before it have transformed."
            )
            raise UnsupportedModelError(msg)
        return super().predict_lazily(fetch, n_rows)

    def forest_at(self, index: int) -> Forest:
        """Return the pruned forest at a point of the frontier.

        Parameters
        ----------
        index : int
            Index of the point in `frontier_`; -1 is the smallest forest.

        Returns
        -------
        forest : Forest
            The forest.
        """
        n_points = len(self.frontier_)
        if not -n_points <= index < n_points:
            msg = (
                f"index must be between {-n_points} and {n_points - 1}, got {index}: "
                f"the frontier has {n_points} points."
            )
            raise InvalidArgumentError(msg)
        from spinney.pruning.pruned import prune_forest

        return prune_forest(self.full_forest_, self._kept_until >= index % n_points)

    def __spinney_save__(self) -> tuple[Settings, Arrays]:
        settings, arrays = classifier_to_parts(self)
        settings |= {"gap": self.gap_, "point": list(self.point_)}
        arrays["kept_until"] = self._kept_until
        for part_settings, part_arrays in (
            part_forest_to_parts("full", self.full_forest_),
            frontier_to_parts(self.frontier_),
            purchases_to_parts(self.purchases_),
        ):
            settings |= part_settings
            arrays |= part_arrays
        return settings, arrays

    @classmethod
    def __spinney_load__(cls, settings: Settings, arrays: Arrays) -> FeatureCostPruner:
        pruner: FeatureCostPruner = classifier_from_parts(cls, settings, arrays)
        full = take_full_forest(pruner.forest_, settings, arrays)
        pruner.estimator = pruner.estimator_ = FrozenEstimator(full)
        pruner.full_forest_ = full
        pruner.frontier_ = take_frontier(settings, arrays)
        pruner._kept_until = take_kept_until(arrays, full, len(pruner.frontier_))
        pruner.purchases_ = take_purchases(settings, arrays, full.n_features)
        pruner.gap_ = take_setting(settings, "gap", float)
        pruner.point_ = take_point(settings)
        return pruner
