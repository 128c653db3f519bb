"""``spinney predict``, in this process: every kind of model, table and output."""

from __future__ import annotations

import json
import os

import joblib
import numba
import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from typer.testing import CliRunner

import spinney
from spinney.cli import answers, predict, tables
from spinney.cli.app import app

pytestmark = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="kernels have tests of their own"
)


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def fine(*arguments):
    done = run(*arguments)
    assert done.exit_code == 0, done.output
    return done


@pytest.fixture
def rows(work):
    return pd.read_parquet(work / "rows.parquet")


def read(path):
    """Return the answers in a file of any kind as a data frame."""
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as stored:
            return pd.DataFrame({name: stored[name] for name in stored.files})
    readers = {".csv": pd.read_csv, ".parquet": pd.read_parquet}
    return readers.get(path.suffix, pd.read_feather)(path)


@pytest.mark.parametrize("ending", answers.ENDINGS)
@pytest.mark.parametrize(
    "table", ["rows.csv", "rows.parquet", "rows.feather", "rows.npz"]
)
def test_every_table_gives_the_same_answers_in_every_output(
    work, tmp_path, rows, table, ending
):
    out = tmp_path / f"answers{ending}"
    fine(
        "predict",
        work / "fast.spinney",
        work / table,
        "-o",
        out,
        "--target",
        "y" if table.endswith("npz") else "ill",
    )
    fast = spinney.load(work / "fast.spinney")
    labels, counts = fast.predict_counted(rows.drop(columns="ill"))
    found = read(out)
    assert list(found.columns) == ["label", "trees_asked"]
    np.testing.assert_array_equal(found["label"], labels)
    np.testing.assert_array_equal(found["trees_asked"], counts)


@pytest.mark.parametrize(
    ("model", "n_trees"),
    [("forest.spinney", 25), ("model.joblib", 25), ("model.txt", 20)],
)
def test_other_models_are_evaluated_in_full(work, tmp_path, rows, model, n_trees):
    out = tmp_path / "answers.parquet"
    arguments = ("predict", work / model, work / "rows.csv", "-o", out, "--trust")
    document = json.loads(fine(*arguments, "--target", "ill", "--json").stdout)
    found = pd.read_parquet(out)
    if model == "model.joblib":
        expected = joblib.load(work / model).predict(rows.drop(columns="ill"))
        np.testing.assert_array_equal(found["label"], expected)
    assert (found["trees_asked"] == n_trees).all()
    assert document["error"] == pytest.approx((found["label"] != rows["ill"]).mean())
    assert document["rows"] == len(rows)
    assert document["rows_per_second"] == pytest.approx(
        document["rows"] / document["seconds"]
    )


def test_a_pipeline_is_evaluated_with_its_steps(work, tmp_path, rows):
    out = tmp_path / "answers.parquet"
    model = work / "pipeline.joblib"
    fine("predict", model, work / "rows.csv", "-o", out, "--target", "ill", "--trust")
    expected = joblib.load(model).predict(rows.drop(columns="ill"))
    np.testing.assert_array_equal(pd.read_parquet(out)["label"], expected)


def test_a_regressor_gives_predictions(work, tmp_path, rows):
    features = rows.drop(columns="ill")
    model = RandomForestRegressor(3, max_depth=3, random_state=0)
    model.fit(features, features["age"])
    spinney.save(spinney.read_model(model), tmp_path / "one.spinney")
    leaf = {name: [-1] for name in ("feature", "left", "right")}
    several = spinney.Forest(
        **leaf,
        tree_offsets=[0, 1],
        threshold=[0.0],
        value=[[1.5, -2.0]],
        n_features=6,
        aggregation="sum",
    )
    spinney.save(several, tmp_path / "two.spinney")
    found = {}
    for name in ("one", "two"):
        out = tmp_path / f"{name}.parquet"
        arguments = ("predict", tmp_path / f"{name}.spinney", work / "rows.csv")
        done = fine(*arguments, "-o", out, "--target", "ill")
        assert "Error against" not in done.stdout
        found[name] = pd.read_parquet(out)
    assert list(found["one"].columns) == ["prediction", "trees_asked"]
    np.testing.assert_allclose(found["one"]["prediction"], model.predict(features))
    assert list(found["two"].columns) == ["prediction_0", "prediction_1", "trees_asked"]
    assert (found["two"]["prediction_1"] == -2.0).all()


def test_anytime_and_pruned_forests_are_evaluated_too(work, tmp_path, rows):
    features, ill = rows.drop(columns="ill").to_numpy(), rows["ill"].to_numpy()
    trained = FrozenEstimator(joblib.load(work / "model.joblib").set_params())
    anytime = spinney.AnytimeForestClassifier(
        spinney.read_model(trained), order="depth"
    ).fit(features, ill)
    pruned = spinney.FeatureCostPruner(
        spinney.read_model(trained), trade_off=0.002
    ).fit(features, ill)
    for name, model in {"anytime": anytime, "pruned": pruned}.items():
        spinney.save(model, tmp_path / f"{name}.spinney")
        out = tmp_path / f"{name}.parquet"
        done = fine(
            "predict",
            tmp_path / f"{name}.spinney",
            work / "rows.csv",
            "-o",
            out,
            "--target",
            "ill",
        )
        found = pd.read_parquet(out)
        np.testing.assert_array_equal(found["label"], model.predict(features))
        assert ("feature_cost" in found) == (name == "pruned")
        assert ("Mean feature cost of a row" in done.stdout) == (name == "pruned")
    np.testing.assert_allclose(found["feature_cost"], pruned.feature_cost(features))


@pytest.mark.parametrize("ending", answers.ENDINGS)
def test_labels_may_be_texts(tmp_path, ending):
    X = np.random.default_rng(0).normal(size=(60, 3))
    y = np.where(X[:, 0] > 0, "healthy", "ill")
    model = RandomForestClassifier(3, random_state=0).fit(X, y.astype(object))
    spinney.save(spinney.read_model(model), tmp_path / "m.spinney")
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    out = tmp_path / f"answers{ending}"
    done = fine("predict", tmp_path / "m.spinney", tmp_path / "rows.npz", "-o", out)
    assert read(out)["label"].tolist() == model.predict(X).tolist()
    assert "Error against the labels" in done.stdout


def test_parts_are_read_answered_and_written_one_at_a_time(work, tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "ROWS_PER_PART", 400)
    steps = []
    parts_of, asking_of = tables.Table.parts, predict._predicting

    def parts(self):
        for part in parts_of(self):
            steps.append(("read", len(part.rows)))
            yield part

    def asking(loaded, n_jobs, as_frame):
        ask, n_trees = asking_of(loaded, n_jobs, as_frame)

        def watched(rows):
            if len(rows) > 1:  # the first row warms up
                steps.append(("answered", len(rows)))
            return ask(rows)

        return watched, n_trees

    taken_of = answers._Sink.taken

    def taken(self):
        steps.append(("written",))
        return taken_of(self)

    monkeypatch.setattr(tables.Table, "parts", parts)
    monkeypatch.setattr(predict, "_predicting", asking)
    monkeypatch.setattr(answers._Sink, "taken", taken)
    for table in ("rows.parquet", "rows.npz", "rows.feather"):
        steps.clear()
        fine(
            "predict",
            work / "fast.spinney",
            work / table,
            "-o",
            tmp_path / "answers.parquet",
            "--target",
            "ill",
        )
        expected = []
        for n_rows in (400, 400, 400, 300):
            expected += [("read", n_rows), ("answered", n_rows), ("written",)]
        assert steps == [*expected, ("written",)]  # the end of the file


def test_the_target_may_be_absent_and_labels_may_be_missing(work, tmp_path, rows):
    rows.drop(columns="ill").to_csv(tmp_path / "bare.csv", index=False)
    arguments = ("predict", work / "fast.spinney")
    options = ("-o", tmp_path / "answers.csv", "--target", "ill", "--json")
    document = json.loads(fine(*arguments, tmp_path / "bare.csv", *options).stdout)
    assert document["error"] is None
    document = json.loads(fine(*arguments, work / "nan.csv", *options).stdout)
    assert (document["rows"], document["rows_with_label"]) == (20, 19)
    done = fine(*arguments, work / "nan.csv", *options[:-1])
    assert "of the 19 rows with a label" in done.stdout


def test_quiet_prints_nothing(work, tmp_path):
    out = tmp_path / "answers.csv"
    done = fine("predict", work / "fast.spinney", work / "rows.npz", "-o", out, "-q")
    assert done.output == ""
    assert out.exists()


def test_an_error_in_the_middle_leaves_the_old_file(work, tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "CSV_BLOCK", 4096)
    lines = (work / "rows.csv").read_text().splitlines()
    lines[-1] = "many" + lines[-1][lines[-1].index(",") :]
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    out = tmp_path / "answers.csv"
    out.write_text("old")
    done = run(
        "predict",
        work / "fast.spinney",
        tmp_path / "rows.csv",
        "-o",
        out,
        "--target",
        "ill",
    )
    assert done.exit_code == 2
    assert "invalid value 'many'" in done.stderr
    assert out.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == [out.name, "rows.csv"]


@pytest.mark.parametrize(
    ("out", "words"),
    [
        ("answers.xlsx", "must be a file that ends with .parquet, .csv"),
        ("answers", "must be a file that ends with"),
        ("none/answers.csv", "There is no directory"),
        ("folder.csv", "is a directory"),
        ("rows.csv", "is both read and written"),
        ("locked.csv", "No permission to write"),
    ],
)
def test_a_place_that_cannot_be_written_to_is_refused_at_once(
    work, tmp_path, monkeypatch, out, words
):
    (tmp_path / "rows.csv").write_bytes((work / "rows.csv").read_bytes())
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "locked.csv").touch()

    def access(path, mode):  # the real one lets root write to every file
        return mode == os.R_OK or not str(path).endswith("locked.csv")

    monkeypatch.setattr("spinney.cli.outputs.os.access", access)
    done = run(
        "predict", "no model at all", tmp_path / "rows.csv", "-o", tmp_path / out
    )
    assert done.exit_code == 2
    assert words in " ".join(done.stderr.split())
