"""Train the stored models again: ``python tests/models/xgboost/make.py``.

Each model is kept as XGBoost writes it, next to rows and what XGBoost answered to
them: raw scores and predictions of the scikit-learn interface. The names begin with
the version of XGBoost; files of other versions stay, because they must stay readable.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import xgboost

FOLDER = Path(__file__).parent
N_ROWS = 30


def make(name, model, X, y, **fit):
    """Train `model`, and store its file and its answers."""
    rng = np.random.default_rng(0)
    model.fit(X, y, verbose=False, **fit)
    rows = X[:N_ROWS].copy()
    rows[rng.random(rows.shape) < 0.05] = np.nan
    rows[rng.random(rows.shape) < 0.03] = np.inf
    stem, _, suffix = name.rpartition(".")
    stem = f"v{xgboost.__version__}-{stem}"
    model.get_booster().save_model(FOLDER / f"{stem}.{suffix}")
    answers = {
        "rows": rows.tolist(),
        "raw": model.predict(rows, output_margin=True).tolist(),
        "predicted": model.predict(rows).tolist(),
    }
    text = json.dumps(answers).replace("], [", "],\n[")
    (FOLDER / f"{stem}.answers").write_text(text + "\n")


def main():
    rng = np.random.default_rng(0)
    X = np.column_stack(
        [rng.normal(size=300).round(2), rng.integers(0, 40, 300), rng.poisson(1, 300)]
    )
    score = X[:, 0] + (X[:, 1] * 7 % 5 > 2) - 0.5 * X[:, 2]
    X[rng.random(X.shape) < 0.1] = np.nan
    positive = (score > 0).astype(int)
    three = np.digitize(score, [-0.5, 0.8])
    small = {"n_estimators": 4, "max_depth": 3, "n_jobs": 1}

    # Exact growth with a cost per split leaves deleted nodes behind.
    model = xgboost.XGBClassifier(tree_method="exact", gamma=3.0, **small)
    make("pruned.json", model, X, positive)
    model = xgboost.XGBClassifier(
        tree_method="hist",
        feature_types=["q", "c", "q"],
        enable_categorical=True,
        base_score=0.3,
        **small,
    )
    make("categories.json", model, X, positive)
    dart = {"booster": "dart", "rate_drop": 0.5, "random_state": 0}
    make("dart.ubj", xgboost.XGBClassifier(**dart, **small), X, three)
    model = xgboost.XGBRegressor(
        tree_method="hist", multi_strategy="multi_output_tree", **small
    )
    make("vector.json", model, X, np.column_stack([score, score**2]))
    stopping = {
        "early_stopping_rounds": 2,
        "learning_rate": 1.0,
        "num_parallel_tree": 2,
    }
    model = xgboost.XGBRegressor(**(small | stopping | {"n_estimators": 12}))
    make("stopped.ubj", model, X, score, eval_set=[(X[:, ::-1], score)])


if __name__ == "__main__":
    main()
