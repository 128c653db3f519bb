"""
LightGBM with category columns, one row at a time
=================================================

Models trained on data frames with category columns are read exactly: values are mapped
by the model's own mapping, and unseen or missing ones are treated as LightGBM treats
them. Needs LightGBM and pandas.
"""

from __future__ import annotations

from timeit import repeat

import lightgbm
import numpy as np
import pandas as pd

import spinney

rng = np.random.default_rng(0)
n_rows = 20_000
frame = pd.DataFrame(
    {
        "city": pd.Categorical(rng.choice(["Bergen", "Oslo", "Tromsø"], n_rows)),
        "plan": pd.Categorical(rng.choice(["basic", "family", "business"], n_rows)),
        "months": rng.integers(1, 72, n_rows),
        "usage": rng.gamma(2.0, 15.0, n_rows),
    }
)
risk = (
    0.8 * (frame["plan"] == "basic")
    - 0.5 * (frame["city"] == "Oslo")
    - 0.03 * frame["months"]
    + 0.02 * frame["usage"]
)
left = rng.random(n_rows) < 1 / (1 + np.exp(-risk))
model = lightgbm.LGBMClassifier(n_estimators=200, verbose=-1)
model.fit(frame[:10_000], left[:10_000])

# %%
# Without rows, ``accelerate`` is exact: all trees, the model's own predictions.
fast = spinney.accelerate(model)
new = frame[10_000:]
assert (fast.predict(new) == model.predict(new)).all()
assert (fast.predict_proba(new) == model.predict_proba(new)).all()
print(fast.forest_.categories_)

# %%
# A row as a dict, as a service gets it. LightGBM treats a city that it has not seen in
# training as missing, and so does spinney.
predict_one = fast.predictor(kind="proba")
row = {"city": "Bodø", "plan": "basic", "months": 3, "usage": 41.5}
print(predict_one(row))

# The same row for LightGBM: a frame with the categories of the training data.
one = pd.DataFrame([row])
one["city"] = pd.Categorical([None], categories=frame["city"].cat.categories)
one["plan"] = pd.Categorical(one["plan"], categories=frame["plan"].cat.categories)
print(model.predict_proba(one)[0])

# %%
# Microseconds for one row.
for name, call in (
    ("LightGBM", lambda: model.predict_proba(one)),
    ("spinney", lambda: predict_one(row)),
):
    print(f"{name:>8}: {1e6 * min(repeat(call, number=50, repeat=5)) / 50:8.1f} µs")
