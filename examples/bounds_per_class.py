"""
A decision threshold and a bound for each class
===============================================

A fraud model is rarely used at a threshold of one half, and a bound over all rows does
not protect the rare class. Here the model has another decision threshold, and each
class has its own bound on disagreement.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier

import spinney

X, y = make_classification(
    45_000, 20, n_informative=8, weights=[0.95], flip_y=0.01, random_state=0
)
model = HistGradientBoostingClassifier(max_iter=200, random_state=0)
model.fit(X[:8000], y[:8000])
calibration, new = X[8000:30_000], X[30_000:]

# %%
# The model predicts fraud from a probability of 0.2 on. Of the rows that it predicts as
# fraud, at most 2 % may be predicted differently; of the others, at most 0.5 %.
fast = spinney.accelerate(
    model,
    calibration,
    decision_threshold=0.2,
    max_disagreement={0: 0.005, 1: 0.02},
    random_state=0,
)
print(fast.promise_)
print(fast.acceleration_)

# %%
# New rows, by the class that the full model predicts.
certificate = spinney.certify(fast, new, per_class=True)
for label, of_class in certificate.by_class.items():
    print(label, of_class)

own = (model.predict_proba(new)[:, 1] >= 0.2).astype(int)
labels, n_evaluated = fast.predict_counted(new)
print(f"predicted fraud: {own.mean():.2%} by the model, {labels.mean():.2%} here")

# %%
# Rows far from the threshold exit after a few trees.
fig, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
bins = np.arange(0, fast.forest_.n_trees + 11, 10)
ax.hist(
    [n_evaluated[own == 0], n_evaluated[own == 1]],
    bins=bins,
    density=True,
    label=["not fraud", "fraud"],
)
ax.set(xlabel="trees evaluated", ylabel="density of rows")
ax.legend(frameon=False)
plt.show()
