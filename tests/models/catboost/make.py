"""Make the stored CatBoost models beside this file, with what CatBoost says of them.

Run ``python tests/models/catboost/make.py`` to make them again; with version 1.2.7, the
oldest that docs/models.md names, it makes the model on texts. Each model is a JSON
export, ``<name>.json``; ``<name>.npz`` holds rows (values on, just above and just below
borders, NaN, infinities) and the answers of the CatBoost version that wrote it.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent

# What the reader looks at; the rest is a protocol of the training.
KEPT = ("class_params", "params", "binclass_probability_threshold")


def training_rows(seed):
    """Return rows with missing values, and classes 0, 1 and 2."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 4)).astype(np.float32)
    y = np.digitize(X[:, 0] + X[:, 1] * X[:, 2], [-0.5, 0.7])
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, y


def hard_rows(document, seed, n_rows=200):
    """Return rows made of the values that are easiest to get wrong."""
    rng = np.random.default_rng(seed)
    columns = []
    for feature in document["features_info"]["float_features"]:
        borders = np.array(feature["borders"], dtype=np.float32)
        up, down = np.float32(np.inf), np.float32(-np.inf)
        special = np.array([np.nan, up, down, 0.0, -0.0], dtype=np.float32)
        with np.errstate(over="ignore"):  # the next number after the largest
            near = (borders, np.nextafter(borders, up), np.nextafter(borders, down))
        columns.append(rng.choice(np.concatenate([special, *near]), n_rows))
    return np.stack(columns, axis=1)


def store(name, model, seed):
    """Write the export of `model` and its answers."""
    path = FOLDER / f"{name}.json"
    model.save_model(str(path), format="json")
    document = json.loads(path.read_text(encoding="utf-8"))
    info = document["model_info"]
    document["model_info"] = {key: info[key] for key in KEPT if key in info}
    path.write_text(json.dumps(document) + "\n", encoding="utf-8")
    X = hard_rows(document, seed)
    np.savez_compressed(
        FOLDER / f"{name}.npz",
        X=X,
        raw=model.predict(X, prediction_type="RawFormulaVal"),
        probabilities=model.predict_proba(X),
        labels=model.predict(X).ravel().astype(str),
    )


def store_categories(name, settings):
    """Train on columns of texts, and store the export and the answers to others."""
    from catboost import CatBoostClassifier, Pool

    rng = np.random.default_rng(0)
    jobs = np.array(["smith", "cook", "", "日本", "ü", "nurse", "7"], dtype=object)
    X = np.empty((300, 3), dtype=object)
    X[:, 0] = jobs[rng.integers(0, 7, 300)]
    X[:, 1] = rng.normal(size=300).round(2)
    X[:, 2] = rng.integers(0, 3, 300).astype(str)
    y = (np.isin(X[:, 0], ["cook", "7"])) ^ (X[:, 2] == "1") ^ (X[:, 1] > 0.5)
    rows = Pool(X, y, cat_features=[0, 2])
    model = CatBoostClassifier(border_count=8, **settings).fit(rows)
    path = FOLDER / f"{name}.json"
    model.save_model(str(path), format="json", pool=rows)
    document = json.loads(path.read_text(encoding="utf-8"))
    info = document["model_info"]
    document["model_info"] = {key: info[key] for key in KEPT if key in info}
    path.write_text(json.dumps(document) + "\n", encoding="utf-8")
    others = X[:100].copy()
    others[::7, 0] = "unseen"
    others[::5, 1] = np.nan
    np.savez_compressed(
        FOLDER / f"{name}.npz",
        texts=others[:, [0, 2]].astype(str),
        numbers=others[:, 1].astype(np.float64),
        raw=model.predict(others, prediction_type="RawFormulaVal"),
        probabilities=model.predict_proba(others),
        labels=model.predict(others).astype(str),
    )


def main():
    """Train and store the models."""
    import catboost
    from catboost import CatBoostClassifier

    settings = {
        "iterations": 5,
        "depth": 3,
        "random_seed": 0,
        "thread_count": 1,
        "verbose": False,
        "allow_writing_files": False,
    }
    if catboost.__version__ == "1.2.7":
        store_categories("categories-v1.2.7", settings)
        return
    X, y = training_rows(0)
    names = np.array(["low", "middle", "high"])
    several = CatBoostClassifier(nan_mode="Max", border_count=8, **settings)
    store("multiclass-v1.2", several.fit(X, names[y]), seed=1)
    two = CatBoostClassifier(grow_policy="Lossguide", border_count=8, **settings)
    two.fit(X, y > 0)
    two.set_probability_threshold(0.3)
    store("lossguide-v1.2", two, seed=2)


if __name__ == "__main__":
    main()
