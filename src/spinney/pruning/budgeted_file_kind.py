"""Budgeted forests in files."""

from __future__ import annotations

import numpy as np

from spinney.base.classifier_fields import classifier_from_parts, classifier_to_parts
from spinney.errors import FormatError
from spinney.persistence.container import Arrays, Settings
from spinney.persistence.fields import take_array
from spinney.persistence.store import Kind, register
from spinney.pruning.budgeted import BudgetedForestClassifier
from spinney.pruning.costs import purchases_for


def to_parts(classifier: BudgetedForestClassifier) -> tuple[Settings, Arrays]:
    """Return the settings and arrays that `from_parts` makes a classifier from."""
    settings, arrays = classifier_to_parts(classifier)
    arrays["feature_costs"] = classifier.feature_costs_
    arrays["mean_costs"] = classifier.mean_costs_
    return settings, arrays


def from_parts(settings: Settings, arrays: Arrays) -> BudgetedForestClassifier:
    """Take a classifier out of settings and arrays, trusting neither."""
    classifier: BudgetedForestClassifier = classifier_from_parts(
        BudgetedForestClassifier, settings, arrays
    )
    forest = classifier.forest_
    if (
        not forest.votes_by_class
        or forest.category_set is not None
        or forest.zero_is_missing is not None
        or forest.input_dtype != "float32"
    ):
        msg = "its trees must vote, and ask nothing but comparisons of float32 numbers"
        raise FormatError(msg)
    costs = np.array(take_array(arrays, "feature_costs", np.float64, 1))
    if (
        costs.shape != (forest.n_features,)
        or not (np.isfinite(costs) & (costs >= 0)).all()
    ):
        msg = f"feature_costs must be {forest.n_features} numbers, none below 0"
        raise FormatError(msg)
    classifier.feature_costs_ = costs
    classifier.purchases_ = purchases_for(len(costs), None, costs, None)
    classifier.mean_costs_ = np.array(take_array(arrays, "mean_costs", np.float64, 1))
    return classifier


def register_kind() -> None:
    """Let `save` and `load` know budgeted forests."""
    kind = Kind("budgeted_forest", BudgetedForestClassifier, to_parts, from_parts)
    register(kind)
