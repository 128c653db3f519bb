"""Real models on real rows: every answer of the code is that of Python."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import datasets
import spinney
from export.native import Native

pytestmark = [pytest.mark.targets]


def rows(name):
    X, y = datasets.real(name, 16_000)
    if name != "letter":
        y = (y == np.bincount(y).argmax()).astype(int)
    return X[:6000], y[:6000], X[6000:11_000], X[11_000:]


def lightgbm(X, y, n_trees, leaves):
    from lightgbm import LGBMClassifier

    return LGBMClassifier(
        n_estimators=n_trees, num_leaves=leaves, verbose=-1, n_jobs=1
    ).fit(X, y)


def xgboost(X, y, n_trees, depth):
    from xgboost import XGBClassifier

    return XGBClassifier(n_estimators=n_trees, max_depth=depth, n_jobs=1).fit(X, y)


MODELS = {
    "RF 101 full depth": ("magic", lambda X, y: forest(X, y, 101, None)),
    "RF 20 x 8": ("magic", lambda X, y: forest(X, y, 20, 8)),
    "LightGBM 500 x 31": ("magic", lambda X, y: lightgbm(X, y, 500, 31)),
    "XGBoost 500 x 6": ("magic", lambda X, y: xgboost(X, y, 500, 6)),
    "RF of 26 classes": ("letter", lambda X, y: forest(X, y, 50, None)),
    "LightGBM of 26 classes": ("letter", lambda X, y: lightgbm(X, y, 20, 31)),
    "XGBoost of 26 classes": ("letter", lambda X, y: xgboost(X, y, 20, 6)),
}


def forest(X, y, n_trees, depth):
    return RandomForestClassifier(n_trees, max_depth=depth, random_state=0).fit(X, y)


@pytest.mark.parametrize("name", MODELS)
def test_all_trees_and_early_exit(name, tmp_path):
    data, train = MODELS[name]
    X, y, calibration, test = rows(data)
    model = train(X, y)
    test = test.copy()
    test[:300][np.random.default_rng(0).random(test[:300].shape) < 0.1] = np.nan
    whole = spinney.read_model(model)
    for layout in ("fast", "packed"):
        native = Native(whole, tmp_path, flags=("-O2",), layout=layout)
        expected = whole.winners(whole.engine.raw(whole.engine.rows(test)))
        assert np.array_equal(native.counted(test)[0], expected)
    fast = spinney.accelerate(
        model, calibration, max_disagreement=0.005, random_state=0
    )
    folder = tmp_path / "early"
    folder.mkdir()
    native = Native(fast, folder, flags=("-O2",))
    labels, counts = fast.predict_counted(test)
    classes, found = native.counted(test)
    assert np.array_equal(fast.classes_[classes], labels)
    assert np.array_equal(found, counts)
    integer = tmp_path / "integer"
    integer.mkdir()
    native = Native(
        fast, integer, arithmetic="integer", X=test[300:], input_type="float32"
    )
    differ = fast.classes_[native.counted(test)[0]] != model.predict(test)
    assert differ[300:].mean() < 0.01
