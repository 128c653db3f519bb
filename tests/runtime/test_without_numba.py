"""Where Numba is missing, or refuses to be imported, everything works all the same."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numba
import pytest

# Processes of their own, the same whether this one compiles or not: once is enough.
pytestmark = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="tested where kernels are compiled"
)

TESTS = Path(__file__).parents[1]

# Before anything else in a fresh process.
BLOCK = """
import sys, warnings

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("numba", "llvmlite"):
            raise {error}("blocked by the test")

sys.meta_path.insert(0, Blocker())
warnings.simplefilter("error")
"""

ENGINES = """
import numpy as np
import reference, strategies
import spinney

assert spinney.config.engine == "auto"
for task in ("vote", "sum score", "sum by class"):
    forest = strategies.random_forest(3, n_trees=9, depth=12, task=task)
    X = strategies.random_rows(forest, 60)
    raw = reference.raw(forest, X)
    np.testing.assert_array_equal(forest.predict(X), forest.predictions(raw))
    np.testing.assert_array_equal(forest.predict_proba(X), forest.probabilities(raw))
    np.testing.assert_array_equal(forest.leaves(X), reference.leaves(forest, X))
    ask, share = forest.predictor(), forest.predictor(kind="proba")
    rows = forest.engine.rows(X)
    assert [ask(row) for row in rows] == list(forest.predict(X))
    assert [list(share(row)) for row in rows] == forest.predict_proba(X).tolist()

try:
    spinney.warm_up()
except spinney.SpinneyError as error:
    assert "blocked by the test" in str(error)
else:
    raise AssertionError

spinney.config.engine = "compiled"
try:
    forest.predict(X)
except spinney.SpinneyError as error:
    assert "blocked by the test" in str(error)
else:
    raise AssertionError
assert not {"numba", "llvmlite"} & set(sys.modules)
"""

CLASSIFIERS = """
import io
import numpy as np
import spinney
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator

X, y = make_classification(250, 5, random_state=0)
X = X.astype(np.float32)
model = RandomForestClassifier(7, max_depth=3, random_state=0).fit(X[:150], y[:150])
new = X[150:]
frozen = FrozenEstimator(model)
warnings.simplefilter("ignore", spinney.SpinneyWarning)  # so few rows promise little

settings = dict(max_disagreement=0.05, random_state=0)
for classifier in (
    spinney.CascadeClassifier(frozen, **settings),
    spinney.SequentialVotingClassifier(frozen, **settings),
    spinney.SequentialVotingClassifier(frozen, voting="hard", **settings),
):
    classifier.fit(new)
    labels, n_evaluated = classifier.predict_counted(new)
    assert (labels == classifier.predict(new)).all() and n_evaluated.max() <= 7
    assert (classifier.predict_full(new) == model.predict(new)).all() or (
        classifier.rule_.voting == "hard"
    )
    assert [classifier.predictor()(row) for row in new[:9]] == list(labels[:9])
    assert np.mean(labels != model.predict(new)) < 0.2

anytime = spinney.AnytimeForestClassifier(frozen).fit(new, y[150:])
assert (anytime.predict(new) == model.predict(new)).all()
anytime.predict_proba(new[:20], max_steps=7)
session = anytime.session(new[0])
session.step(3)
session.predict_proba()
anytime.predict_within(new[:20], 0.5)

assert spinney.optimal_strategy(11, 0.01).expected_votes < 11
fast = spinney.accelerate(model, new, **settings)
assert np.mean(fast.predict(new) != model.predict(new)) < 0.2
spinney.certify(fast, new)
{pruning}
"""

PRUNING = """
pruned = spinney.FeatureCostPruner(frozen, trade_off=0.01).fit(new, y[150:])
pruned.predict(new)
grown = spinney.BudgetedForestClassifier(budget=4.0, max_trees=2).fit(X[:100], y[:100])
grown.predict(new)
"""


def run(code, error="ImportError"):
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path}
    environment.pop("SPINNEY_ENGINE", None)
    done = subprocess.run(
        [sys.executable, "-c", BLOCK.replace("{error}", error) + code],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr


# A library that is not made for a Python raises what it likes.
@pytest.mark.parametrize("error", ["ImportError", "SystemError"])
def test_forests_answer_without_numba(error):
    run(ENGINES, error)


def test_classifiers_are_fitted_and_answer_without_numba():
    with_solver = find_spec("ortools") is not None
    run(CLASSIFIERS.replace("{pruning}", PRUNING if with_solver else ""))
