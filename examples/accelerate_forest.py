"""
Accelerate a random forest and certify it
=========================================

Three disjoint sets of rows: one to train on, one without labels to calibrate early
exit, and one to certify the result. The file at the end is what a service or a batch
job loads.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import spinney

X, y = make_classification(
    37_000, 20, n_informative=8, flip_y=0.02, class_sep=1.5, random_state=0
)
X = X.astype(np.float32)
model = RandomForestClassifier(150, max_depth=10, n_jobs=2, random_state=0)
model.fit(X[:5000], y[:5000])

# %%
# ``max_disagreement`` bounds how often a prediction on new rows differs from
# ``model.predict``, on average over the draw of the calibration rows. A part of these
# rows is held out: nothing is fitted to it, and it determines how early rows may exit.
fast = spinney.accelerate(model, X[5000:17_000], max_disagreement=0.005, random_state=0)
print(fast.acceleration_)

# %%
# Fresh rows give a certificate that holds with 95 % confidence.
# ``accelerate(..., confidence=0.95)`` promises such a bound itself.
fresh, truth = X[17_000:], y[17_000:]
certificate = spinney.certify(fast, fresh, confidence=0.95)
print(certificate)
if certificate.upper_bound > 0.01:
    print("not good enough: pass more rows to accelerate, or a confidence")

# %%
# How many trees were evaluated, and what early exit costs in accuracy.
labels, n_evaluated = fast.predict_counted(fresh)
print(f"trees evaluated: {n_evaluated.mean():.1f} of {fast.forest_.n_trees} on average")
print(f"accuracy: {(labels == truth).mean():.4f}", end=", ")
print(f"with all trees: {(model.predict(fresh) == truth).mean():.4f}")

# %%
# Most rows exit after a few trees.
fig, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
ax.hist(n_evaluated, bins=np.arange(0, fast.forest_.n_trees + 5, 5))
ax.set(xlabel="trees evaluated", ylabel="held-out rows")
plt.show()

# %%
# The file holds arrays and settings, no pickle.
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "fast.spinney"
    spinney.save(fast, path)
    print(f"file: {path.stat().st_size / 1e6:.1f} MB, without pickle")
    loaded = spinney.load(path)
    assert (loaded.predict(fresh) == labels).all()


# %%
# Time per row in one batch, on one thread each.
def microseconds(predict):
    """Return the shortest time per row of three calls."""
    times = []
    for _ in range(3):
        start = perf_counter()
        predict(fresh)
        times.append(perf_counter() - start)
    return 1e6 * min(times) / len(fresh)


model.n_jobs = 1
print(f"scikit-learn: {microseconds(model.predict):6.2f} µs per row")
print(f"spinney:      {microseconds(fast.predict):6.2f} µs per row")
