"""BudgetedForestClassifier keeps the conventions of scikit-learn."""

from __future__ import annotations

import numba
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from spinney.pruning.budgeted import BudgetedForestClassifier

pytestmark = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="the kernels have tests of their own"
)


# The checks train on all sorts of rows, some too hard for any budget.
@pytest.mark.filterwarnings("ignore:A single tree costs")
@parametrize_with_checks(
    [
        BudgetedForestClassifier(max_trees=10),
        BudgetedForestClassifier(max_trees=10, budget=4.0, impurity_threshold=1),
    ]
)
def test_scikit_learns_common_exit_points_pass(estimator, check):
    check(estimator)
