"""``spinney predict`` on category columns: files have what the model knows."""

from __future__ import annotations

import numba
import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from typer.testing import CliRunner

import spinney
from spinney.cli import tables
from spinney.cli.app import app

pytestmark = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="kernels have tests of their own"
)

VALUES = {
    "integers": [3, 7, 11, 2],
    "texts": ["b", "a", "NA", "?"],
    "digits": ["01", "1", "2", "10"],
    "flags": [True, False],
}


def make(library):
    if library == "histogram":
        return HistGradientBoostingClassifier(max_iter=10)
    if library == "catboost":
        catboost = pytest.importorskip("catboost")
        return catboost.CatBoostClassifier(
            iterations=15, verbose=0, allow_writing_files=False, cat_features=["kind"]
        )
    if library == "lightgbm":
        lightgbm = pytest.importorskip("lightgbm")
        return lightgbm.LGBMClassifier(n_estimators=20, verbose=-1, n_jobs=1)
    xgboost = pytest.importorskip("xgboost")
    if tuple(map(int, xgboost.__version__.split(".")[:2])) < (3, 1):
        pytest.skip("categories are not kept before 3.1")
    return xgboost.XGBClassifier(n_estimators=10, enable_categorical=True, n_jobs=1)


def trained(library, values, tmp_path):
    """Return a table, and what the model of the stored file says to it."""
    rng = np.random.default_rng(0)
    kind = np.array(values, dtype=object)[rng.integers(0, len(values), 600)]
    x = rng.normal(size=600).round(3)
    y = (x > 0) ^ (kind == values[0])
    # What a model of CatBoost was trained without, it refuses.
    if library != "catboost":
        kind[::9] = None
    plain = pd.DataFrame({"x": x, "kind": pd.array(kind.tolist())})
    frame = plain
    if library != "catboost":
        frame = plain.assign(kind=pd.Categorical(kind, sorted(values)))
    model = make(library).fit(frame, y.astype(int))
    spinney.save(spinney.accelerate(model), tmp_path / "model.spinney")
    return frame, plain, model.predict(frame)


def predict(table, tmp_path):
    out = tmp_path / "answers.npz"
    arguments = ["predict", tmp_path / "model.spinney", table, "-o", out, "--quiet"]
    done = CliRunner().invoke(app, list(map(str, arguments)))
    if done.exit_code:
        return done.stderr
    with np.load(out) as found:
        return found["label"]


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("library", ["catboost", "lightgbm", "xgboost", "histogram"])
def test_values_are_those_of_the_model_in_every_file(
    library, kind, tmp_path, monkeypatch
):
    if (library, kind) == ("xgboost", "flags"):
        pytest.skip("XGBoost does not take them")
    monkeypatch.setattr(tables, "ROWS_PER_PART", 256)
    frame, plain, expected = trained(library, VALUES[kind], tmp_path)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    frame.to_parquet(tmp_path / "rows.parquet")
    plain.to_parquet(tmp_path / "plain.parquet")
    frame.to_feather(tmp_path / "rows.feather")
    for name in ("rows.csv", "rows.parquet", "plain.parquet", "rows.feather"):
        found = predict(tmp_path / name, tmp_path)
        if (library, kind, name) == ("catboost", "flags", "rows.csv"):
            assert "flags (true, false) in a CSV file" in " ".join(found.split())
        else:
            np.testing.assert_array_equal(found, expected, err_msg=name)


def test_a_missing_whole_number_is_refused_as_by_catboost(tmp_path):
    frame, _, _ = trained("catboost", VALUES["integers"], tmp_path)
    frame["kind"] = frame["kind"].astype("Int64")
    frame.loc[5, "kind"] = None
    frame.to_parquet(tmp_path / "rows.parquet")
    frame.to_csv(tmp_path / "rows.csv", index=False)
    for name in ("rows.parquet", "rows.csv"):
        assert "missing" in predict(tmp_path / name, tmp_path)
