"""Train the stored models again: ``python tests/models/lightgbm/make.py v4``.

Each model is kept as the text that LightGBM writes, next to rows and what LightGBM
answered to them: raw scores and probabilities. Only made anew when a newer format is
to be added, under a new name; old files stay, because they must stay readable. Names
end in the version of the format, or of LightGBM (v2.1, v2.2, v3.3; on Python 3.8).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import lightgbm
import numpy as np

FOLDER = Path(__file__).parent
N_ROWS = 30


def make(name, y, categorical_feature=(), n_trees=4, **parameters):
    """Train on the rows X and store the text of the model and its answers."""
    rng = np.random.default_rng(0)
    booster = lightgbm.train(
        {
            "num_leaves": 6,
            "min_data_in_leaf": 3,
            "min_data_per_group": 3,
            "verbose": -1,
            "num_threads": 1,
            **parameters,
        },
        lightgbm.Dataset(X, y, categorical_feature=list(categorical_feature)),
        n_trees,
    )
    rows = X[:N_ROWS].copy()
    rows[rng.random(rows.shape) < 0.05] = np.nan
    rows[rng.random(rows.shape) < 0.03] = np.inf
    booster.save_model(str(FOLDER / f"{name}.txt"))
    answers = {
        "lightgbm": lightgbm.__version__,
        "rows": rows.tolist(),
        "raw": booster.predict(rows, raw_score=True).tolist(),
        "predicted": booster.predict(rows).tolist(),
    }
    text = json.dumps(answers).replace("], [", "],\n[")
    (FOLDER / f"{name}.json").write_text(text + "\n")


def make_on_frame(name):
    """Train on a data frame with category columns; store the answers to another."""
    import pandas as pd

    rng = np.random.default_rng(0)
    texts = np.array(["smith", "cook", "", "日本", "ü"], dtype=object)
    numbers = np.array([30, 10, 20])
    frame = pd.DataFrame(
        {
            "job": pd.Categorical(texts[rng.integers(0, 5, 300)]),
            "age": rng.normal(size=300).round(2),
            "size": pd.Categorical(numbers[rng.integers(0, 3, 300)]),
        }
    )
    y = (frame["job"] == "cook") ^ (frame["size"] == 10) ^ (frame["age"] > 0.5)
    frame.loc[::9, "job"] = None
    settings = {"objective": "binary", "num_leaves": 6, "min_data_in_leaf": 3}
    settings |= {"min_data_per_group": 3, "cat_smooth": 1, "verbose": -1}
    booster = lightgbm.train(settings, lightgbm.Dataset(frame, y), 4)
    booster.save_model(str(FOLDER / f"{name}.txt"))
    rows = frame[:N_ROWS].copy()
    codes = np.column_stack(
        [rows["job"].cat.codes, rows["age"], rows["size"].cat.codes]
    ).astype(float)
    codes[codes == -1] = np.nan
    other = rows.copy()  # another order, a value that is not known
    other["job"] = other["job"].cat.set_categories(["new", *texts[::-1]])
    other.loc[::4, "job"] = "new"
    jobs = [None if job != job else job for job in other["job"].astype(object)]
    answers = {
        "lightgbm": lightgbm.__version__,
        "rows": codes.tolist(),
        "raw": booster.predict(rows, raw_score=True).tolist(),
        "predicted": booster.predict(rows).tolist(),
        "frame": {
            "job": jobs,
            "age": other["age"].tolist(),
            "size": other["size"].astype(int).tolist(),
        },
        "raw_of_frame": booster.predict(other, raw_score=True).tolist(),
    }
    text = json.dumps(answers, ensure_ascii=False).replace("], [", "],\n[")
    (FOLDER / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    X = np.column_stack(
        [rng.normal(size=300).round(2), rng.integers(0, 40, 300), rng.poisson(1, 300)]
    )
    score = X[:, 0] + (X[:, 1] * 7 % 5 > 2) - 0.5 * X[:, 2]
    X[rng.random(X.shape) < 0.1] = np.nan
    three = np.digitize(score, [-0.5, 0.8])

    version = sys.argv[1]
    make(f"binary-{version}", score > 0, objective="binary", zero_as_missing=True)
    few = {"cat_smooth": 1, "cat_l2": 1}
    categories = f"categories-{version}"
    make(categories, score > 0, [1], objective="binary", sigmoid=0.5, **few)
    make(f"multiclass-{version}", three, objective="multiclass", num_class=3, n_trees=2)
    if version != "v4":
        sys.exit()
    make(
        "forest-v4",
        three,
        objective="multiclassova",
        num_class=3,
        n_trees=2,
        boosting="rf",
        bagging_freq=1,
        bagging_fraction=0.6,
    )
    make("poisson-v4", np.exp(score / 2), objective="poisson", boosting="dart")
    make_on_frame("frame-v4")
