"""
Prune a forest so that it orders fewer laboratory tests
=======================================================

Every feature here belongs to a laboratory test. Once a test is paid for, all its values
are available to all trees. A forest uses nearly all tests for every patient. Pruning
removes the splits that cost more than they help, in all trees jointly, and returns the
whole frontier of optimal trade-offs. Needs OR-tools: ``pip install "spinney[prune]"``.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import train_test_split

import spinney

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X_train, X_rest, y_train, y_rest = train_test_split(
    X, y, test_size=0.5, stratify=y, random_state=0
)
X_valid, X_test, y_valid, y_test = train_test_split(
    X_rest, y_rest, test_size=0.5, stratify=y_rest, random_state=0
)

# %%
# Prices for illustration. Each of ten measurements gives three columns (mean, error,
# worst), bought together; the size of a cell is cheap to measure, its shape is not.
prices = {
    **{"radius": 4.0, "perimeter": 4.0, "area": 4.0},
    **{"texture": 10.0, "smoothness": 10.0, "compactness": 10.0},
    **{"concavity": 30.0, "concave points": 30.0},
    **{"symmetry": 40.0, "fractal dimension": 40.0},
}
tests = {name: [column for column in X if name in column] for name in prices}

forest = RandomForestClassifier(40, max_depth=8, random_state=0).fit(X_train, y_train)

# %%
# Prune on the rows that the forest was trained on, as the paper does; choose a point on
# validation rows, and measure it on test rows.
pruner = spinney.FeatureCostPruner(
    FrozenEstimator(forest), feature_groups=tests, feature_costs=prices, trade_off=0.0
).fit(X_train, y_train)
frontier = pruner.frontier_
print(f"{len(frontier)} forests on the frontier, each optimal at some trade-off")

print(" trade-off   nodes   cost per patient   accuracy (validation rows)")
right = []
for place, point in enumerate(frontier):
    pruned = pruner.forest_at(place)
    right.append(np.mean(pruned.predict(X_valid.to_numpy()) == y_valid))
    if place % max(1, len(frontier) // 8) == 0 or place == len(frontier) - 1:
        print(
            f"{point.trade_off:10.6f} {point.n_nodes:7} {point.cost:19.1f} "
            f"{right[-1]:10.3f}"
        )

# %%
# The whole frontier: validation accuracy against the expected cost of a patient.
fig, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
ax.plot(frontier.cost, right, ".-")
ax.set(xlabel="cost per patient", ylabel="accuracy on validation rows")
plt.show()

# %%
# The cheapest forest that is at most one percentage point worse than the largest.
good = np.flatnonzero(np.array(right) >= right[0] - 0.01)
chosen = int(good[np.argmin(frontier.cost[good])])
final = spinney.FeatureCostPruner(
    FrozenEstimator(forest),
    feature_groups=tests,
    feature_costs=prices,
    trade_off=float(frontier.trade_off[chosen]),
).fit(X_train, y_train)

full_cost = float(sum(prices.values()))
print(f"chosen: trade-off {frontier.trade_off[chosen]:.6f}")
print(f"accuracy on test rows: {final.score(X_test, y_test):.3f}", end="")
print(f", before pruning {np.mean(final.predict_full(X_test) == y_test):.3f}")
print(f"cost per patient: {final.feature_cost(X_test).mean():.1f} of {full_cost:.0f}")

# %%
# In use, a test is ordered only when a tree needs it.
table = X_test.to_numpy()
found = final.predict_lazily(lambda column, rows: table[rows, column], len(table))
assert (found.labels == final.predict(X_test)).all()
print(f"values fetched: {found.bought.mean():.0%} of the table, {found.n_calls} calls")
