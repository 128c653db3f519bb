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
from spinney.cli import answers, csv_files, predict, tables
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
    assert list(found.columns) == ["label", "n_evaluated"]
    np.testing.assert_array_equal(found["label"], labels)
    np.testing.assert_array_equal(found["n_evaluated"], counts)


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
    assert (found["n_evaluated"] == n_trees).all()
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
    assert list(found["one"].columns) == ["prediction", "n_evaluated"]
    np.testing.assert_allclose(found["one"]["prediction"], model.predict(features))
    assert list(found["two"].columns) == ["prediction_0", "prediction_1", "n_evaluated"]
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

    def asking(loaded, n_jobs, as_frame, proba):
        ask, n_trees = asking_of(loaded, n_jobs, as_frame, proba)

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


def test_labels_that_the_model_does_not_know_are_mentioned(work, tmp_path):
    table = pd.read_csv(work / "rows.csv")
    table["ill"] = table["ill"].map({0: "no", 1: "1"}).replace("1", None)
    table.to_csv(tmp_path / "rows.csv", index=False)
    arguments = ("predict", work / "fast.spinney", tmp_path / "rows.csv")
    done = run(*arguments, "-o", tmp_path / "out.csv", "--target", "ill")
    assert done.exit_code == 0, done.output
    assert "Error against the labels: 100 %" in done.stdout
    n = int(table["ill"].notna().sum())
    assert f"{n:,} of {n:,} labels are none of the model's classes (0, 1)" in (
        " ".join(done.stderr.split())
    )
    known = run(
        *("predict", work / "fast.spinney", work / "rows.csv"),
        *("-o", tmp_path / "out.csv", "--target", "ill"),
    )
    assert known.stderr == ""


def test_quiet_prints_nothing(work, tmp_path):
    out = tmp_path / "answers.csv"
    done = fine("predict", work / "fast.spinney", work / "rows.npz", "-o", out, "-q")
    assert done.output == ""
    assert out.exists()


def test_an_error_in_the_middle_leaves_the_old_file(work, tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "CSV_BLOCK", 4096)
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
        ("answers.xlsx", "must have a name that ends with .parquet, .csv"),
        ("answers", "must have a name that ends with"),
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


@pytest.fixture
def keyed(rows, tmp_path):
    """Return the path of a table with keys of several types, and what it holds."""
    table = rows.iloc[:300].assign(
        key=np.arange(300, dtype=np.int64) + 2**60,
        place=[None if k % 7 == 0 else f"p,{k}" for k in range(300)],
        day=pd.date_range("2024-01-01", periods=300, freq="h"),
        code=[f"{k:03}" for k in range(300)],
    )
    return table, tmp_path


@pytest.mark.parametrize("ending", answers.ENDINGS)
@pytest.mark.parametrize("source", [".parquet", ".feather", ".csv", ".npz"])
def test_kept_columns_come_first_in_their_order_and_types(work, keyed, source, ending):
    table, folder = keyed
    path, out = folder / f"keyed{source}", folder / f"answers{ending}"
    if source == ".npz":
        arrays = {name: table[name].to_numpy() for name in ("key", "day")}
        arrays |= {
            name: table[name].fillna("").to_numpy(str) for name in ("place", "code")
        }
        np.savez(path, X=table.iloc[:, :6].to_numpy(), y=table["ill"], **arrays)
    else:
        kind = {".csv": "csv", ".parquet": "parquet", ".feather": "feather"}[source]
        write = getattr(table, f"to_{kind}")
        write(path) if kind == "feather" else write(path, index=False)
    names = ["day", "key", "code", "place"]
    options = [word for name in names for word in ("--keep", name)]
    target = "y" if source == ".npz" else "ill"
    fine(
        "predict", work / "fast.spinney", path, "-o", out, "--target", target, *options
    )
    texts = {"key": str, "code": str} if ending == ".csv" else None
    found = pd.read_csv(out, dtype=texts) if ending == ".csv" else read(out)
    assert list(found.columns) == [*names, "label", "n_evaluated"]
    expected = spinney.load(work / "fast.spinney").predict(table.iloc[:, :6])
    np.testing.assert_array_equal(found["label"], expected)
    # No digit of a long key is lost, and no zero in front of a short one.
    assert [int(key) for key in found["key"]] == table["key"].tolist()
    assert found["code"].tolist() == table["code"].tolist()
    assert found["place"].fillna("").tolist() == table["place"].fillna("").tolist()
    assert (pd.to_datetime(found["day"]) == table["day"]).all()
    if ending != ".csv":
        assert found["key"].dtype == np.int64
        assert found["day"].dtype.kind == "M"


def test_kept_columns_may_be_features_or_the_target(work, tmp_path, rows):
    out = tmp_path / "answers.parquet"
    options = ("--keep", "ill", "--keep", "iron", "--target", "ill")
    fine("predict", work / "fast.spinney", work / "rows.parquet", "-o", out, *options)
    found = pd.read_parquet(out)
    pd.testing.assert_frame_equal(found[["ill", "iron"]], rows[["ill", "iron"]])


def test_a_key_is_no_feature_of_a_model_without_names(tmp_path):
    X = np.random.default_rng(0).normal(size=(90, 3))
    model = RandomForestClassifier(5, random_state=0).fit(X, X[:, 0] > 0)
    spinney.save(spinney.accelerate(model), tmp_path / "m.spinney")
    table = pd.DataFrame(X).rename(columns=str)
    table.insert(1, "id", np.arange(90))
    table.to_csv(tmp_path / "rows.csv", index=False)
    arguments = ("predict", tmp_path / "m.spinney", tmp_path / "rows.csv", "-o")
    fine(*arguments, tmp_path / "out.parquet", "--keep", "id")
    found = pd.read_parquet(tmp_path / "out.parquet")
    assert found["id"].tolist() == list(range(90))
    assert found["label"].tolist() == model.predict(X).tolist()
    done = run(*arguments, tmp_path / "out.csv", "--keep", "id", "--keep", "0")
    assert done.exit_code == 2
    assert "Columns to keep are not counted" in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("table", "options", "words"),
    [
        ("rows.csv", ("--keep", "id"), "has no column 'id' to keep; it has 'age'"),
        ("rows.npz", ("--keep", "id"), "has no array 'id' to keep; it has 'X', 'y'"),
        ("rows.npz", ("--keep", "X"), "must have one value for each"),
        ("rows.csv", ("--keep", "age", "--keep", "age"), "'age' twice"),
        ("label.csv", ("--keep", "label"), "has a column 'label' of its own"),
    ],
)
def test_what_cannot_be_kept_is_said(work, tmp_path, rows, table, options, words):
    rows.assign(label=1).to_csv(tmp_path / "label.csv", index=False)
    path = (tmp_path if table == "label.csv" else work) / table
    out = tmp_path / "answers.csv"
    arguments = ("predict", work / "fast.spinney", path, "-o", out, "--target", "ill")
    done = run(*arguments, *options)
    assert done.exit_code == 2
    assert words in " ".join(done.stderr.split())
    assert not out.exists()


def test_missing_numbers_are_refused_where_a_file_cannot_hold_them(
    work, tmp_path, rows
):
    keys = pd.array([None, *range(1, len(rows))], dtype="Int64")
    rows.assign(key=keys).to_parquet(tmp_path / "rows.parquet", index=False)
    arguments = ("predict", work / "fast.spinney", tmp_path / "rows.parquet")
    options = ("--keep", "key", "--target", "ill")
    done = run(*arguments, "-o", tmp_path / "a.npz", *options)
    assert done.exit_code == 2
    assert "missing values in a column of int64" in " ".join(done.stderr.split())
    fine(*arguments, "-o", tmp_path / "a.parquet", *options)
    found = pd.read_parquet(tmp_path / "a.parquet", dtype_backend="numpy_nullable")
    assert found["key"].isna().tolist() == [True] + [False] * (len(rows) - 1)


def saved_models(work, rows, folder):
    """Yield name, saved file, its probabilities and the model itself."""
    features, ill = rows.drop(columns="ill"), rows["ill"]
    model = joblib.load(work / "model.joblib")
    trained, forest = FrozenEstimator(model), spinney.read_model(model)
    named = np.where(features["age"] > 0.5, "old", np.where(ill == 1, "ill", "well"))
    texts = RandomForestClassifier(5, random_state=0).fit(features, named)
    made = {
        "forest": forest,
        "sequential": spinney.load(work / "fast.spinney"),
        "cascade": spinney.CascadeClassifier(
            trained, max_disagreement=0.05, random_state=0
        ).fit(features),
        "all trees": spinney.accelerate(model),
        "several": spinney.accelerate(texts),
        "pipeline": spinney.accelerate(joblib.load(work / "pipeline.joblib")),
        "anytime": spinney.AnytimeForestClassifier(forest, order="depth").fit(
            features.to_numpy(), ill.to_numpy()
        ),
        "pruned": spinney.FeatureCostPruner(forest, trade_off=0.002).fit(
            features.to_numpy(), ill.to_numpy()
        ),
    }
    for name, one in made.items():
        path = folder / f"{name.replace(' ', '-')}.spinney"
        spinney.save(one, path)
        given = features.to_numpy() if name in ("anytime", "pruned") else features
        yield name, path, one.predict_proba(given), one


def test_probabilities_have_a_column_for_each_class(work, tmp_path, rows):
    for name, path, expected, model in saved_models(work, rows, tmp_path):
        out = tmp_path / "answers.parquet"
        fine(
            "predict",
            path,
            work / "rows.parquet",
            "-o",
            out,
            "--proba",
            "--keep",
            "ill",
        )
        found = pd.read_parquet(out)
        wanted = [f"probability_{label}" for label in model.classes_]
        assert list(found.columns[-len(wanted) :]) == wanted, name
        np.testing.assert_allclose(found[wanted].to_numpy(), expected, err_msg=name)
        assert found["ill"].tolist() == rows["ill"].tolist()
    for model, trust in (("model.txt", ()), ("pipeline.joblib", ("--trust",))):
        arguments = (work / model, work / "rows.csv", "-o", out, "--target", "ill")
        fine("predict", *arguments, "--proba", *trust)
        found = pd.read_parquet(out).filter(like="probability_")
        own = (
            joblib.load(work / model).predict_proba(rows.drop(columns="ill"))
            if trust
            else spinney.read_model(work / model).predict_proba(rows.iloc[:, :6])
        )
        np.testing.assert_allclose(found.to_numpy(), own, rtol=1e-6)


def test_regressors_have_no_probabilities(work, tmp_path, rows):
    features = rows.drop(columns="ill")
    model = RandomForestRegressor(3, max_depth=3, random_state=0)
    fast = spinney.accelerate(model.fit(features, features["age"]))
    spinney.save(fast, tmp_path / "m.spinney")
    arguments = ("predict", tmp_path / "m.spinney", work / "rows.csv")
    out = tmp_path / "answers.csv"
    done = run(*arguments, "-o", out, "--proba")
    assert done.exit_code == 2
    assert "it is a regressor" in " ".join(done.stderr.split())
    fine(*arguments, "-o", out, "--keep", "age", "--keep", "ill")
    found = pd.read_csv(out)
    assert list(found.columns) == ["age", "ill", "prediction", "n_evaluated"]
    np.testing.assert_allclose(found["prediction"], model.predict(features), rtol=1e-6)


@pytest.mark.parametrize(
    "table", ["rows.csv", "rows.parquet", "rows.feather", "rows.npz"]
)
def test_a_missing_column_is_reported_before_the_model_is_loaded(
    work, tmp_path, monkeypatch, table
):
    monkeypatch.setattr(predict, "load_anything", None)
    out = tmp_path / "predictions.parquet"
    done = run("predict", work / "model.txt", work / table, "-o", out, "--keep", "idd")
    assert done.exit_code == 2
    assert "has no" in done.stderr
    assert "'idd' to keep" in " ".join(done.stderr.split())
