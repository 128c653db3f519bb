"""``spinney bench``: who takes part, who does not and why, and how time is taken."""

from __future__ import annotations

import json

import catboost
import joblib
import numba
import numpy as np
import pytest
import xgboost
from sklearn.ensemble import RandomForestRegressor
from typer.testing import CliRunner

from spinney.cli import bench, conversions, peers
from spinney.cli.app import app

pytestmark = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="kernels have tests of their own"
)


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def measure(work):
    """Bench a model on the rows for a moment; return what was found."""

    def measure(model, *options):
        fixed = ("--target", "ill", "--seconds", "0.05", "--max-disagreement", "0.05")
        done = run("bench", model, work / "rows.csv", *fixed, *options, "--json")
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    return measure


@pytest.fixture
def data(work):
    with np.load(work / "rows.npz") as stored:
        return stored["X"], stored["y"]


def names_of(document):
    return [engine["name"] for engine in document["engines"]]


def test_a_model_object_is_compared_with_its_own_predict(work, measure):
    document = measure(work / "model.joblib", "--trust", "--n-jobs", "2")
    assert document["original"] == "scikit-learn"
    assert names_of(document)[2] == "scikit-learn"
    assert document["engines"][0]["labels_differ"] == 0
    assert document["threads"] == 2


@pytest.mark.parametrize("ending", ["json", "ubj"])
def test_an_xgboost_file_is_compared_with_xgboost(measure, data, tmp_path, ending):
    model = xgboost.XGBClassifier(n_estimators=10, max_depth=3).fit(*data)
    model.save_model(tmp_path / f"model.{ending}")
    document = measure(tmp_path / f"model.{ending}")
    assert document["original"] == "XGBoost"
    assert document["engines"][0]["labels_differ"] == 0


@pytest.mark.parametrize("ending", ["json", "cbm"])
def test_a_catboost_file_is_compared_with_catboost(measure, data, tmp_path, ending):
    model = catboost.CatBoostClassifier(10, depth=3, verbose=0, thread_count=1)
    path = tmp_path / f"model.{ending}"
    model.fit(*data).save_model(str(path), format=ending)
    document = measure(path)
    assert document["original"] == "CatBoost"
    assert document["engines"][0]["labels_differ"] == 0


def test_of_a_spinney_file_only_the_trees_are_known(work, measure):
    document = measure(work / "forest.spinney")
    assert names_of(document) == [bench.ALL_TREES, bench.EARLY]
    assert document["original"] is None
    assert "the file holds the trees only" in document["failed"]["the original"]


def constant(answer):
    return lambda subject: lambda rows: np.full((len(rows), 2), answer)


def own(subject):
    return subject.forest.predict_proba


def refuse(subject):
    msg = "no [model] of this kind\nmore"
    raise RuntimeError(msg)


def test_peers_that_fail_differ_or_are_absent_are_named(work, measure, monkeypatch):
    kinds = ("lightgbm",)
    monkeypatch.setattr(
        bench,
        "PEERS",
        (
            peers.Peer("good", ("numpy",), kinds, own, np.float64),
            peers.Peer("other model", ("numpy",), kinds, constant([1.0, 0.0])),
            peers.Peer("failing", ("numpy",), kinds, refuse),
            peers.Peer("absent", ("numpy", "no_such_module"), kinds, own),
            peers.Peer("for others", ("numpy",), ("xgboost",), own),
        ),
    )
    document = measure(work / "model.txt")
    assert names_of(document)[3:] == ["good"]
    assert document["engines"][3]["labels_differ"] == 0
    assert document["failed"]["failing"] == "RuntimeError: no [model] of this kind"
    assert "rows differently" in document["failed"]["other model"]
    assert document["not_installed"] == ["absent"]
    done = run(
        "bench",
        work / "model.txt",
        work / "rows.csv",
        "--target",
        "ill",
        "--seconds",
        "0.05",
    )
    assert "Not timed: failing: RuntimeError: no [model] of this kind" in done.stdout
    assert "Not installed: absent" in done.stdout


def test_wrong_answers_of_all_trees_end_with_exit_code_1(work, monkeypatch):
    flipped = constant([0.0, 1.0])
    monkeypatch.setattr(bench, "original_of", lambda subject: (flipped(subject), False))
    monkeypatch.setattr(bench, "PEERS", ())
    done = run(
        "bench",
        work / "model.txt",
        work / "rows.csv",
        "--target",
        "ill",
        "--seconds",
        "0.05",
        "--quiet",
    )
    assert done.exit_code == 1
    assert "Please report this as a bug" in done.stderr


def test_a_compiler_that_takes_too_long_or_fails_is_given_up(monkeypatch):
    monkeypatch.setattr(peers, "COMPILE_SECONDS", 0.2)
    with pytest.raises(conversions.CannotTakePartError, match="takes longer than"):
        peers._compile("import time; time.sleep(60)")
    monkeypatch.setattr(peers, "COMPILE_SECONDS", 60.0)
    with pytest.raises(conversions.CannotTakePartError, match="failed: ValueError: x"):
        peers._compile("raise ValueError('x')")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--seconds", "0"), "--seconds must be above 0"),
        (("--seconds", "inf"), "--seconds must be above 0"),
        (("--max-disagreement", "-1"), "--max-disagreement must be"),
    ],
)
def test_bad_options_are_refused(work, options, words):
    done = run(
        "bench", work / "model.txt", work / "rows.csv", "--target", "ill", *options
    )
    assert done.exit_code == 2
    assert words in " ".join(done.stderr.split())


def test_regressors_are_refused(work, data, tmp_path):
    joblib.dump(RandomForestRegressor(2).fit(*data), tmp_path / "m.joblib")
    done = run("bench", tmp_path / "m.joblib", work / "rows.npz", "--trust")
    assert done.exit_code == 2
    assert "regressor" in done.stderr
