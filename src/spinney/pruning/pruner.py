"""The classifier that buys fewer features.

Solvers and compiled kernels are imported on use, so that importing spinney stays quick.
"""

from __future__ import annotations

import hashlib
import math
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import _safe_indexing, assert_all_finite, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from spinney.base.classifier_fields import classifier_from_parts, classifier_to_parts
from spinney.base.estimator import (
    EnsembleClassifier,
    held_out_split,
    is_trained,
    unwrapped,
)
from spinney.base.progress import progress_for
from spinney.errors import InvalidArgumentError, UnsupportedModelError
from spinney.forest import Forest
from spinney.persistence.container import Arrays, Settings
from spinney.persistence.fields import part_forest_to_parts, take_setting
from spinney.pruning.costs import Purchases, purchases_for, whole_numbers
from spinney.pruning.lazy import Fetch, LazyPrediction, cost_of, predict_lazily
from spinney.pruning.out_of_bag import out_of_bag
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

if TYPE_CHECKING:
    from spinney.pruning.frontier import Solver

SOLVERS = ("mincut", "lp", "dantzig_wolfe")
ERROR_ROWS = ("given", "out_of_bag")


class FeatureCostPruner(EnsembleClassifier):
    """Forest classifier that is pruned to buy fewer features.

    Every feature costs something, once per row, however many trees look at it. `fit`
    cuts off the subtrees that cost more than they gain: the pruned forest has the
    least mean error of its trees plus `trade_off` times the mean feature cost of a
    row, and this is the exact optimum over all ways to prune all trees [1]_.

    Parameters
    ----------
    estimator : estimator or Forest
        A forest of trees that each vote for a class (random forest, extra trees,
        bagging, a single tree). A trained one goes in as ``FrozenEstimator(model)``
        or as a `Forest`; an unfitted one is trained by `fit`.
    feature_costs : array-like of shape (n_features,) or mapping, optional
        Cost of each feature, not negative. A mapping has names or numbers of columns
        (or names of `feature_groups`) as keys; what it does not name costs 1, and so
        does everything without it.
    trade_off : float, optional
        Error that a unit of cost is worth, not negative. Exactly one of `trade_off`
        and `budget` must be given.
    budget : float, optional
        Largest mean feature cost of a row, on the rows that `fit` prunes with.
    solver : {"mincut", "lp", "dantzig_wolfe"}, default="mincut"
        How the optimum is found: by minimum cuts (needs OR-tools, the extra
        ``prune``), by the linear programme of the paper, or by its decomposition
        into trees. All find the same optimum. The last two are far slower and are
        there to check the first, or to spread the work by joblib.
    feature_groups : mapping, optional
        From the name of a group to the columns that are bought together, for the
        price of one: ``{"blood test": ["iron", "ferritin"]}``.
    error_rows : {"given", "out_of_bag"}, default="given"
        Rows that errors are counted on: those given to `fit` (kept back from
        training, if `fit` trains the estimator), or for each tree the training rows
        that it has not seen. The latter needs a forest that knows its bootstrap
        samples, and the rows it was trained on.
    complete : bool, default=False
        With a `budget` that no trade-off reaches exactly, take the best forest within
        it (or, for large forests, a good one) instead of the best supported one.
    random_state : int, RandomState instance or None, default=None
        Draws the rows that are kept back if the estimator is still to be trained.
    n_jobs : int or None, default=None
        Number of threads to predict with, and of jobs for the decomposition.
    verbose : bool or callable, default=False
        Whether to draw a progress bar on standard error; a callable is given the
        share of the work that is done.

    Attributes
    ----------
    forest_ : Forest
        The pruned forest. Nodes that become leaves predict what they learnt in
        training.
    full_forest_ : Forest
        The forest before pruning.
    frontier_ : Frontier
        All supported trade-offs: trade_off, cost, error, ensemble_error, n_nodes.
    point_ : FrontierPoint
        The same for `forest_`.
    gap_ : float
        By how much the mean error of a tree could be lower within the budget, at
        most; 0 if `forest_` is proven to be the best. Without `complete`, the best
        among the supported ones is asked for, and is found.
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
    Errors and costs are those of the rows given to `fit`: a forest chosen by looking
    at them will do slightly worse on others. What is minimised is the mean error of a
    single tree; that of the forest as a whole is lower, and is reported beside it.

    Costs, and weights of rows, that are decimal numbers or simple fractions are
    computed with exactly, others rounded to 1/65536 of the largest.

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
        verbose: Any = False,
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

    # ---------------------------------------------------------------- fitting

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> FeatureCostPruner:
        """Prune the forest, after training it if need be.

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
        self._purchases = self._checked_purchases()
        from spinney.pruning.problem import NO_FLAGS, PruningProblem
        from spinney.pruning.search import prune

        leaves = forest.leaves(rows, self.n_jobs)
        counted = NO_FLAGS
        if self.error_rows == "out_of_bag":
            counted = out_of_bag(unwrapped(self.estimator_), forest, leaves)
            heavy = weights > 0.0
            counted, leaves = counted[heavy], leaves[heavy]
            codes, weights = codes[heavy], weights[heavy]
        problem = PruningProblem(
            forest, leaves, codes, whole_numbers(weights)[0], counted, self._purchases
        )
        found = prune(
            problem,
            self._solver(),
            trade_off=self.trade_off,
            budget=self.budget,
            complete=self.complete,
            progress=progress_for(self.verbose, "pruning"),
        )
        self.forest_ = found.forest
        self.frontier_ = found.frontier
        self.point_ = found.point
        self.gap_ = found.gap
        self._until = found.until
        return self

    def _check_parameters(self) -> None:
        """Raise for parameters that no data could make right."""
        for name, choices in (("solver", SOLVERS), ("error_rows", ERROR_ROWS)):
            value = getattr(self, name)
            if not isinstance(value, str) or value not in choices:
                alternatives = ", ".join(map(repr, choices))
                msg = f"{name} must be one of {alternatives}, got {value!r}."
                raise InvalidArgumentError(msg)
        if (self.trade_off is None) == (self.budget is None):
            given = "neither" if self.budget is None else "both"
            msg = (
                f"Exactly one of trade_off and budget must be given, got {given}. A "
                "budget is the largest mean feature cost of a row; a trade-off is the "
                "error that a unit of cost is worth."
            )
            raise InvalidArgumentError(msg)
        for name in ("trade_off", "budget"):
            value = getattr(self, name)
            if value is None:
                continue
            is_number = isinstance(value, Real) and not isinstance(value, bool)
            if not is_number or not 0.0 <= value < math.inf:
                hint = (
                    "The cheapest forest has no split left and costs 0."
                    if name == "budget"
                    else "With 0, features are free."
                )
                msg = f"{name} must be a number from 0 up, got {value!r}. {hint}"
                raise InvalidArgumentError(msg)
        if self.solver == "mincut":
            from spinney.pruning.mincut import import_max_flow

            import_max_flow()

    def _prepare(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[NDArray[np.floating], NDArray[np.int64], NDArray[np.float64]]:
        """Train or take the model; return rows, classes and weights to prune with."""
        X, y = self._checked(X, y)
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        weights = _checked_weights(sample_weight, X)
        by_bag = self.error_rows == "out_of_bag"
        # Out-of-bag rows are known by their number among all training rows.
        if not by_bag and not weights.all():
            heavy = np.flatnonzero(weights)
            X, y, weights = _safe_indexing(X, heavy), y[heavy], weights[heavy]
        if is_trained(self.estimator):
            self.estimator_ = self.estimator
        else:
            trained_on = left = np.arange(len(y))
            if not by_bag:
                trained_on, left = self._parted(X, y)
            given = {}
            if sample_weight is not None:
                given["sample_weight"] = weights[trained_on]
            self.estimator_ = clone(self.estimator).fit(
                _safe_indexing(X, trained_on), y[trained_on], **given
            )
            X, y, weights = _safe_indexing(X, left), y[left], weights[left]
        forest = read_model(unwrapped(self.estimator_))
        _check_forest(forest, type(self).__name__)
        self.full_forest_ = self.forest_ = forest
        self.classes_: Any = forest.classes_
        rows = forest.engine.rows(self._preprocessed(X))
        return rows, self._codes(y).astype(np.int64), weights

    def _parted(self, X: Any, y: Any) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Part rows into those to train on and those to prune with.

        Rows that are equal in all columns stay together: a copy of a training row
        would say nothing about errors. This also makes a weight of 2 mean the same
        as a row that is there twice.
        """
        first, which = _distinct(X, y)
        chance = check_random_state(self.random_state)
        _, left = held_out_split(y[first], chance)
        is_left = np.zeros(len(first), dtype=np.bool_)
        is_left[left] = True
        return np.flatnonzero(~is_left[which]), np.flatnonzero(is_left[which])

    def _checked_purchases(self) -> Purchases:
        """Return what features cost, by the names that `fit` or the model knows."""
        forest = self.full_forest_
        names = forest.feature_names
        if len(getattr(self, "feature_names_in_", ())) == forest.n_features:
            names = tuple(self.feature_names_in_)
        return purchases_for(
            forest.n_features, names, self.feature_costs, self.feature_groups
        )

    def _solver(self) -> Solver:
        """Return the function that finds the best splits at a trade-off."""
        if self.solver == "lp":
            from spinney.pruning.linear import solve_lp

            return solve_lp
        if self.solver == "dantzig_wolfe":
            from spinney.pruning.dantzig_wolfe import solve_dantzig_wolfe

            return partial(solve_dantzig_wolfe, n_jobs=self.n_jobs)
        from spinney.pruning.mincut import solve_mincut

        return solve_mincut

    # ---------------------------------------------------------------- asking

    def predict(self, X: Any) -> NDArray[Any]:
        """Answer with the pruned forest.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        labels : ndarray of shape (n_rows,)
            Class labels.
        """
        rows = self._rows(X)
        return self.forest_.predict(rows, self.n_jobs)

    def predict_proba(self, X: Any) -> NDArray[np.floating]:
        """Return the probability of each class by the pruned forest.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        probabilities : ndarray of shape (n_rows, n_classes)
            In the order of `classes_`.
        """
        rows = self._rows(X)
        return self.forest_.predict_proba(rows, self.n_jobs)

    def predict_full(self, X: Any) -> NDArray[Any]:
        """Answer with the forest before pruning.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        labels : ndarray of shape (n_rows,)
            Class labels.
        """
        rows = self._rows(X)
        return self.full_forest_.predict(rows, self.n_jobs)

    def features_used(self, X: Any) -> NDArray[np.bool_]:
        """Return the columns that the pruned forest looks at, row by row.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        used : ndarray of shape (n_rows, n_columns), dtype=bool
            True where a row is asked for a column by any tree.
        """
        from spinney.pruning.kernels import describe_trees
        from spinney.pruning.usage import mark_features

        rows = self._rows(X)
        forest = self.forest_
        used = np.zeros((len(rows), forest.n_features), dtype=np.bool_)
        parent = describe_trees(
            forest.tree_offsets, forest.left, forest.right, forest.feature
        )[1]
        mark_features(forest.leaves(rows, self.n_jobs), parent, forest.feature, used)
        return used

    def feature_cost(self, X: Any) -> NDArray[np.float64]:
        """Return what each row has to pay for the features that it is asked for.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        cost : ndarray of shape (n_rows,)
            Sum of the costs of the features used; columns that are bought together
            count once.
        """
        return cost_of(self.features_used(X), self._purchases)

    def predict_lazily(self, fetch: Fetch, n_rows: int) -> LazyPrediction:
        """Predict rows whose features are bought one by one, as the trees need them.

        Parameters
        ----------
        fetch : callable
            ``fetch(feature, rows)`` returns the values of one feature (an int, the
            number of the column) for some rows (an ascending array of row numbers), in
            the order of `rows`. It is asked at most once for any feature of any row.
        n_rows : int
            Number of rows; they are called 0 to ``n_rows - 1``.

        Returns
        -------
        prediction : LazyPrediction
            `labels` and `probabilities` as `predict` and `predict_proba` give them,
            `cost` as `feature_cost`, the mask `bought`, and the number of calls.
        """
        check_is_fitted(self)
        if self._has_preprocessing():
            msg = (
                "predict_lazily buys the columns that the trees look at, but the model "
                "is a pipeline that makes them from others. Prune its last step on "
                "rows that the steps before it have transformed."
            )
            raise UnsupportedModelError(msg)
        return predict_lazily(
            self.forest_,
            fetch,
            n_rows,
            purchases=self._purchases,
            n_jobs=self.n_jobs,
        )

    def forest_at(self, place: int) -> Forest:
        """Return the pruned forest at a point of the frontier.

        Parameters
        ----------
        place : int
            Place of the point in `frontier_`; -1 is the smallest forest.

        Returns
        -------
        forest : Forest
            The forest.
        """
        n_points = len(self.frontier_)
        if not -n_points <= place < n_points:
            msg = (
                f"place must be between {-n_points} and {n_points - 1}, got {place}: "
                f"the frontier has {n_points} points."
            )
            raise InvalidArgumentError(msg)
        from spinney.pruning.pruned import prune_forest

        return prune_forest(self.full_forest_, self._until >= place % n_points)

    # ---------------------------------------------------------------- files

    def __spinney_save__(self) -> tuple[Settings, Arrays]:
        settings, arrays = classifier_to_parts(self)
        settings |= {"gap": self.gap_, "point": list(self.point_)}
        arrays["kept_until"] = self._until
        for part_settings, part_arrays in (
            part_forest_to_parts("full", self.full_forest_),
            frontier_to_parts(self.frontier_),
            purchases_to_parts(self._purchases),
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
        pruner._until = take_kept_until(arrays, full, len(pruner.frontier_))
        pruner._purchases = take_purchases(settings, arrays, full.n_features)
        pruner.gap_ = take_setting(settings, "gap", float)
        pruner.point_ = take_point(settings)
        return pruner


def _distinct(X: Any, y: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Find rows with equal contents, whatever the order of the rows.

    Returns
    -------
    first : ndarray of shape (n_distinct,)
        One row of each kind, sorted by a hash of the contents.
    which : ndarray of shape (n_rows,)
        The kind of each row, by its place in `first`.
    """
    table = np.asarray(X)
    if table.dtype.kind in "fiub":
        contents = [row.tobytes() for row in np.ascontiguousarray(table)]
    else:
        contents = [repr(row.tolist()).encode() for row in table]
    hashes = [
        hashlib.blake2b(content + repr(label).encode(), digest_size=16).hexdigest()
        for content, label in zip(contents, y.tolist(), strict=True)
    ]
    return np.unique(hashes, return_index=True, return_inverse=True)[1:]


def _checked_weights(sample_weight: Any, X: Any) -> NDArray[np.float64]:
    """Return the weights of rows, 1 for each if none are given."""
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if (weights < 0.0).any() or not weights.any():
        msg = (
            "sample_weight must not be negative, and not all zero, got "
            f"{weights.min():g} to {weights.max():g}. Give each row the number of "
            "rows that it stands for."
        )
        raise InvalidArgumentError(msg)
    return weights


def _check_forest(forest: Forest, name: str) -> None:
    """Raise unless each tree of a forest votes for a class."""
    if forest.votes_by_class:
        return
    if forest.classes_ is None:
        msg = (
            f"{name} needs a classifier, got a forest of regression trees "
            f"({forest.source}). Errors are counted by class: train a classifier."
        )
    else:
        msg = (
            f"{name} needs trees that each vote for a class, but those of "
            f"{forest.source or 'this forest'} add to a score, and one tree alone is "
            "neither right nor wrong. Train a random forest, extra trees or bagging."
        )
    raise UnsupportedModelError(msg)
