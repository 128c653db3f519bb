"""
Predict by a deadline
=====================

A controller reads its sensors and has to act within a millisecond, whatever else the
processor is doing. A forest that is evaluated as a whole has no prediction if it is
interrupted. An anytime forest has one after every single step, and takes the most
useful steps first.
"""

from __future__ import annotations

from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator

import spinney

X, y = make_classification(
    12_000, 30, n_informative=12, n_classes=4, class_sep=1.5, random_state=0
)
X = X.astype(np.float32)
forest = RandomForestClassifier(60, max_depth=10, n_jobs=2, random_state=0)
forest.fit(X[:5000], y[:5000])

# %%
# The step order is found on labelled rows that the forest was not trained on.
anytime = spinney.AnytimeForestClassifier(FrozenEstimator(forest))
anytime.fit(X[5000:7000], y[5000:7000])
X_new, y_new = X[7000:], y[7000:]
n_steps = len(anytime.order_)

print(f"{n_steps} steps in all; accuracy after some of them:")
curve = anytime.accuracy_curve(X_new, y_new)
random = spinney.AnytimeForestClassifier(
    FrozenEstimator(forest), order="random", random_state=0
).fit(X[5000:5100], y[5000:5100])
random_curve = random.accuracy_curve(X_new, y_new)
for k in (0, 10, 30, 100, 200, n_steps):
    print(f"  {k:5} steps: {curve[k]:.3f}   in random order: {random_curve[k]:.3f}")

# %%
# The accuracy after every step, compared with a random order.
fig, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
ax.plot(curve, label="backward squirrel order")
ax.plot(random_curve, label="random order")
ax.set(xlabel="steps per row", ylabel="accuracy on held-out rows")
ax.legend(frameon=False)
plt.show()

# %%
# A batch by a deadline. All rows advance together.
print(f"{len(X_new):,} rows by a deadline:")
for seconds in (0.001, 0.002, 0.005, 1.0):
    start = perf_counter()
    labels, steps_taken = anytime.predict_within(X_new, seconds)
    took = perf_counter() - start
    print(
        f"  {1000 * seconds:6.0f} ms allowed, {1000 * took:6.1f} ms taken, "
        f"{steps_taken.mean():6.1f} steps per row, "
        f"accuracy {(labels == y_new).mean():.3f}"
    )

# With enough time, the predictions are those of the forest, row for row.
assert (labels == forest.predict(X_new)).all()
print("with time for all steps, predictions are those of the forest itself")

# %%
# One row: take steps until interrupted.
session = anytime.session(X_new[0])
until = perf_counter() + 0.0001
while not session.done and perf_counter() < until:
    session.step(10)
print(
    f"one row, 0.1 ms: {session.steps_done} of {n_steps} steps, prediction "
    f"{session.predict()}, full forest {forest.predict(X_new[:1])[0]}"
)
