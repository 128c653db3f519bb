"""BudgetRF: a random forest whose trees buy cheap features first."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from spinney.base.classifier_fields import classifier_from_parts, classifier_to_parts
from spinney.base.parameters import check_count
from spinney.base.progress import progress_for
from spinney.calibration.row_splits import held_out_split
from spinney.errors import FormatError, InvalidArgumentError, SpinneyWarning
from spinney.forest.frames import in_order_of
from spinney.persistence.container import Arrays, Settings
from spinney.persistence.fields import take_array
from spinney.pruning.costs import is_amount, purchases_for
from spinney.pruning.feature_cost_classifier import FeatureCostClassifier

if TYPE_CHECKING:
    from spinney.pruning.budgeted_growing import Tree


class BudgetedForestClassifier(FeatureCostClassifier):
    """Random forest that keeps the mean cost of the features it uses within a budget.

    Each tree is grown on a bootstrap sample. Each node uses the feature and threshold
    that separate the most pairs of rows of different classes per unit of cost, measured
    in the worse of the two children. Trees are added until the features that all trees
    together use cost more than the budget, on average over held-out rows. A feature
    that several trees use is paid for once per row.

    Parameters
    ----------
    feature_costs : array-like of shape (n_features,) or mapping, default=None
        Cost of each feature, not negative. A mapping has column names or numbers as
        keys; columns that it leaves out cost 1. By default every feature costs 1. Free
        features are always tried first.
    budget : float, default=None
        Largest mean feature cost per row, measured on a quarter of the rows, which
        `fit` holds out for this. By default there is no limit, and all rows are used
        for training.
    impurity_threshold : int, default=0
        A node is split only if two classes have more rows there than this (more than
        twice as many, if they are equally frequent). With 0 the trees grow until their
        leaves are pure; higher values give smaller and cheaper trees.
    max_trees : int, default=40
        Number of trees if the budget allows for them all.
    random_state : int, RandomState instance or None, default=None
        Draws the samples and the held-out rows. Pass an int for the same forest on
        every call.
    n_jobs : int or None, default=None
        Number of threads that grow trees and predict; None means one, -1 all cores.
        The forest does not depend on it.
    verbose : bool, callable or None, default=None
        Whether to draw a progress bar on standard error; a callable is given the
        share of the work that is done. None draws one in interactive use, if standard
        error is a terminal and it takes more than two seconds; False never does.

    Attributes
    ----------
    forest_ : Forest
        The trees.
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    feature_costs_ : ndarray of shape (n_features,)
        Cost of each feature.
    purchases_ : Purchases
        The same, as `feature_cost` and `predict_lazily` count it.
    mean_costs_ : ndarray of shape (n_measured,)
        With a budget: mean cost over the held-out rows with one tree, with two, and so
        on, up to the first above the budget, if any. Empty without a budget.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if `fit` saw a data frame.

    See Also
    --------
    FeatureCostPruner : Prunes a trained forest, such as this one, to lower its cost.

    Notes
    -----
    This is BudgetRF [1]_. The impurity of a node with ``n_c`` rows of class ``c`` is
    the sum over pairs of classes of ``max(0, max(0, n_c - a) * max(0, n_d - a) - a²)``
    with ``a`` for `impurity_threshold`; a node without impurity is a leaf, and so is
    one where no threshold lowers it in both children. A split is scored by the decrease
    in impurity from the node to its worse child, divided by the cost of the feature. As
    in the original the cost counts in full at every node, even where the feature has
    already been paid for, further up or by another tree. `FeatureCostPruner` takes the
    sharing into account.

    If even the first tree is above the budget, the forest is a single leaf, which uses
    no feature and predicts the most frequent class, and `fit` warns.

    Missing and infinite values are refused. The budget holds on the held-out rows. On
    other rows of the same distribution the mean cost is close to it; under drift it may
    be higher.

    References
    ----------
    .. [1] F. Nan, J. Wang and V. Saligrama, "Feature-Budgeted Random Forest", ICML,
       2015.

    Examples
    --------
    Each feature costs 1, so the cost is the number of features used, of 30:

    >>> from sklearn.datasets import load_breast_cancer
    >>> from spinney.pruning.budgeted import BudgetedForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = BudgetedForestClassifier(budget=10.0, random_state=0).fit(X, y)
    >>> model.forest_.n_trees, round(float(model.feature_cost(X).mean()), 1)
    (6, 9.8)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    _finite_only = True

    def __init__(
        self,
        *,
        feature_costs: Any = None,
        budget: float | None = None,
        impurity_threshold: int = 0,
        max_trees: int = 40,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: Any = None,
    ) -> None:
        self.feature_costs = feature_costs
        self.budget = budget
        self.impurity_threshold = impurity_threshold
        self.max_trees = max_trees
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> BudgetedForestClassifier:
        """Grow the forest.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Training rows. They are rounded to float32.
        y : array-like of shape (n_rows,)
            Class labels.

        Returns
        -------
        self : BudgetedForestClassifier
            The fitted classifier.
        """
        from spinney.pruning.budgeted_growing import (
            assemble,
            grow_trees,
            single_leaf,
            take_within_budget,
        )

        X = in_order_of(X, None)
        X, y = validate_data(self, X, y, dtype=np.float32, order="C")
        check_classification_targets(y)
        budget = _check_budget(self.budget)
        threshold = check_count("impurity_threshold", self.impurity_threshold, 0)
        max_trees = check_count("max_trees", self.max_trees, 1)
        names = getattr(self, "feature_names_in_", None)
        purchases = purchases_for(X.shape[1], names, self.feature_costs, None)
        costs = purchases.column_cost
        self.classes_, codes = np.unique(y, return_inverse=True)
        rng = check_random_state(self.random_state)
        held_out = X[:0]
        if budget is not None:
            trained_on, left = held_out_split(codes, rng)
            X, codes, held_out = X[trained_on], codes[trained_on], X[left]
        seeds = rng.randint(np.iinfo(np.int32).max, size=max_trees)
        show = progress_for(self.verbose, "growing")
        grown = _shown(
            grow_trees(X, codes, costs, threshold, seeds, self.n_jobs), max_trees, show
        )
        if budget is None:
            trees, self.mean_costs_ = list(grown), np.zeros(0)
        else:
            trees, self.mean_costs_ = take_within_budget(
                grown, held_out, purchases, budget
            )
        if not trees:
            msg = (
                f"A single tree costs {self.mean_costs_[0]:.4g} per row, more than the "
                f"budget of {budget:.4g}, so the forest uses no feature and predicts "
                "the most frequent class. Raise the budget, or impurity_threshold for "
                "smaller trees."
            )
            warnings.warn(msg, SpinneyWarning, stacklevel=2)
            trees = [single_leaf(np.bincount(codes, minlength=len(self.classes_)))]
        self.purchases_ = purchases
        self.feature_costs_ = costs
        self.forest_ = assemble(trees, X.shape[1], self.classes_, names)
        show(1.0)
        return self

    def __spinney_save__(self) -> tuple[Settings, Arrays]:
        settings, arrays = classifier_to_parts(self)
        arrays["feature_costs"] = self.feature_costs_
        arrays["mean_costs"] = self.mean_costs_
        return settings, arrays

    @classmethod
    def __spinney_load__(
        cls, settings: Settings, arrays: Arrays
    ) -> BudgetedForestClassifier:
        classifier: BudgetedForestClassifier = classifier_from_parts(
            cls, settings, arrays
        )
        forest = classifier.forest_
        if (
            not forest.votes_by_class
            or forest.category_set is not None
            or forest.zero_is_missing is not None
            or forest.input_dtype != "float32"
        ):
            msg = "its trees must vote, and compare nothing but float32 numbers"
            raise FormatError(msg)
        costs = np.array(take_array(arrays, "feature_costs", np.float64, 1))
        valid = (np.isfinite(costs) & (costs >= 0)).all()
        if costs.shape != (forest.n_features,) or not valid:
            msg = f"feature_costs must be {forest.n_features} numbers, none below 0"
            raise FormatError(msg)
        classifier.feature_costs_ = costs
        classifier.purchases_ = purchases_for(forest.n_features, None, costs, None)
        means = take_array(arrays, "mean_costs", np.float64, 1)
        classifier.mean_costs_ = np.array(means)
        return classifier

    def _rows(self, X: Any) -> NDArray[np.float32]:
        if not hasattr(self, "forest_"):  # the check itself takes longer than this
            check_is_fitted(self)
        return validate_data(
            self, X, reset=False, dtype=np.float32, order="C", ensure_min_samples=0
        )


def _shown(
    trees: Iterator[Tree], max_trees: int, show: Callable[[float], None]
) -> Iterator[Tree]:
    """Yield trees, and show how many of them have been grown."""
    for number, tree in enumerate(trees):
        show(number / max_trees)
        yield tree


def _check_budget(budget: Any) -> float | None:
    """Return the budget as a float, or None for no limit."""
    if budget is None:
        return None
    if not is_amount(budget, infinite=True):
        msg = (
            f"budget must be a number of at least 0, or None for no limit, got "
            f"{budget!r}. It is the mean cost of the features of a row."
        )
        raise InvalidArgumentError(msg)
    return float(budget)
