"""
Reject most candidates early and rank the rest exactly
======================================================

A recommender scores a hundred thousand items and shows ten. Nearly all items are
rejected, and nobody needs their scores. With ``early_exit="negative"`` a cascade
rejects an item as soon as its partial score is low enough, and evaluates all trees for
the others, so the promising items get exactly the score that the model gives.
"""

from __future__ import annotations

from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator

import spinney

# %%
# One item in twenty is worth showing.
X, y = make_classification(
    46_000, 25, n_informative=10, weights=[0.95], class_sep=1.5, random_state=0
)
X = X.astype(np.float32)
model = HistGradientBoostingClassifier(max_iter=200, random_state=0)
model.fit(X[:8000], y[:8000])

# %%
# Calibration rows that the model was not trained on; no labels needed. With
# ``confidence`` the bound on new rows holds with that probability, which takes more
# calibration rows and a few more trees.
cascade = spinney.CascadeClassifier(
    FrozenEstimator(model),
    max_disagreement=0.002,
    early_exit="negative",
    rule="optimal",
    confidence=0.95,
    random_state=0,
).fit(X[8000:26_000])
print(cascade.certificate_)

# %%
# The rule: partial scores below the line are rejected at that exit point.
cascade.plot()
plt.show()

# %%
# New items: most are rejected after a few trees.
items = X[26_000:]
labels, n_evaluated = cascade.predict_counted(items)
rejected = n_evaluated < cascade.forest_.n_trees
print(f"{rejected.mean():.1%} of {len(items):,} items rejected early;")
print(f"{n_evaluated.mean():.0f} of {cascade.forest_.n_trees} trees evaluated per item")

own = model.predict(items)
print(f"decided differently from the model: {(labels != own).mean():.3%}")
print(f"of the items that it accepts, lost: {(labels[own == 1] == 0).mean():.2%}")

# %%
# The ten best items, by the model's own scores. Rejected items score minus infinity, so
# they come last.
scores = cascade.decision_function(items)
best = np.argsort(-scores, kind="stable")[:10]
exact = np.argsort(-model.decision_function(items), kind="stable")[:10]
print("the ten best:", best.tolist())
print("the same as without a cascade:", best.tolist() == exact.tolist())

# %%
# Time per item.
for name, score in (
    ("the model itself", model.decision_function),
    ("all trees in spinney", cascade.forest_.decision_function),
    ("the cascade", cascade.decision_function),
):
    times = []
    for _ in range(3):
        start = perf_counter()
        score(items)
        times.append(perf_counter() - start)
    print(f"{name:>22}: {1e6 * min(times) / len(items):5.2f} µs per item")
