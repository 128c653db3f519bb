"""``spinney accelerate``: what it tells, writes and refuses."""

from __future__ import annotations

import json

import joblib
import numba
import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.ensemble import RandomForestRegressor
from sklearn.preprocessing import SplineTransformer
from typer.testing import CliRunner

import spinney
from spinney.cli.app import app

pytestmark = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="kernels have tests of their own"
)


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def accelerate(work, tmp_path):
    """Accelerate the forest on the rows; other options are appended."""
    fixed = (work / "model.joblib", work / "rows.csv", "--trust", "--target", "ill")
    out = ("-o", tmp_path / "fast.spinney")
    return lambda *options: run("accelerate", *fixed, *out, *options)


def test_a_proven_bound_is_told_and_kept_in_the_file(accelerate, tmp_path):
    done = accelerate("--confidence", "0.9", "--max-disagreement", "0.05", "--json")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    fast = spinney.load(tmp_path / "fast.spinney")
    assert document["promise_kept"] is True
    assert document["acceleration"] == fast.acceleration_.to_dict()
    assert document["chosen"] == fast.acceleration_.chosen.name
    if fast.certificate_ is not None:  # else nothing was faster than all trees
        assert fast.certificate_.upper_bound <= 0.05
        assert document["certificate"]["confidence"] == 0.9


@pytest.mark.parametrize("option", [(), ("--json",), ("--quiet",)])
def test_a_bound_that_cannot_be_proven_ends_with_exit_code_1_and_a_file(
    accelerate, tmp_path, option
):
    done = accelerate("--confidence", "0.95", "--max-disagreement", "1e-5", *option)
    assert done.exit_code == 1
    told = " ".join(done.stderr.split())
    assert "could not be established" in told
    assert "The file was written anyway" in told
    fast = spinney.load(tmp_path / "fast.spinney")
    assert fast.promise_.kind == "never"
    if option == ("--json",):
        assert json.loads(done.stdout)["promise_kept"] is False
    assert (done.stdout == "") == (option == ("--quiet",))


def test_another_decision_threshold_is_that_of_the_answers(accelerate, work, tmp_path):
    done = accelerate("--max-disagreement", "0", "--threshold", "0.8")
    assert done.exit_code == 0, done.output
    with np.load(work / "rows.npz") as stored:
        rows = stored["X"]
    forest = spinney.load(work / "forest.spinney")
    expected = forest.classes_[(forest.predict_proba(rows)[:, 1] >= 0.8).astype(int)]
    fast = spinney.load(tmp_path / "fast.spinney")
    np.testing.assert_array_equal(fast.predict(rows), expected)


def test_with_a_bound_of_zero_no_answer_changes(accelerate, work, tmp_path):
    done = accelerate("--max-disagreement", "0")
    assert done.exit_code == 0, done.output
    with np.load(work / "rows.npz") as stored:
        rows = stored["X"]
    expected = spinney.load(work / "forest.spinney").predict(rows)
    fast = spinney.load(tmp_path / "fast.spinney")
    np.testing.assert_array_equal(fast.predict(rows), expected)


@pytest.mark.parametrize("method", ["sequential", "cascade"])
def test_a_method_can_be_named(accelerate, method):
    done = accelerate("--method", method, "--max-disagreement", "0.05", "--json")
    assert done.exit_code == 0, done.output
    tried = {
        trial["method"] for trial in json.loads(done.stdout)["acceleration"]["trials"]
    }
    assert tried <= {"all trees", method}


@pytest.mark.parametrize("ending", [".html", ".txt"])
def test_the_report_is_of_the_kind_that_its_name_says(accelerate, tmp_path, ending):
    page = tmp_path / f"page{ending}"
    done = accelerate("--max-disagreement", "0.05", "--report", page)
    assert done.exit_code == 0, done.output
    assert f"Written to {page}" in done.stdout
    assert page.read_text().startswith("<!") == (ending == ".html")


def test_rows_without_a_label_are_told_and_the_report_does_without(
    work, tmp_path, accelerate
):
    lines = (work / "rows.csv").read_text().splitlines()
    lines[1] = lines[1].rpartition(",")[0] + ","
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    done = run(
        *("accelerate", work / "model.txt", tmp_path / "rows.csv", "--target", "ill"),
        *("--max-disagreement", "0.05", "-o", tmp_path / "a.spinney"),
        *("--report", tmp_path / "page.txt"),
    )
    assert done.exit_code == 0, done.output
    assert "1 of 1,500 rows have no label" in done.stderr


def test_a_target_that_is_no_column_is_told_where_the_report_needs_it(work, tmp_path):
    done = run(
        *("accelerate", work / "model.txt", work / "rows.csv", "--target", "il"),
        *("--max-disagreement", "0.05", "-o", tmp_path / "a.spinney"),
        *("--report", tmp_path / "page.txt"),
    )
    assert done.exit_code == 0, done.output
    assert "--target il names no column" in done.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--report", "page.pdf"), "The report must have a name that ends with .html"),
        (("--report", "none/page.html"), "There is no directory"),
        (("--max-disagreement", "2"), "--max-disagreement must be"),
        (("--confidence", "95"), "confidence must be above 0 and below 1"),
        (("--method", "magic"), "'magic' is not one of"),
    ],
)
def test_bad_options_are_refused(accelerate, tmp_path, options, words):
    done = accelerate(*options)
    assert done.exit_code == 2
    assert words in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.output
    assert list(tmp_path.iterdir()) == []


def test_two_outputs_need_two_places(accelerate, tmp_path):
    done = accelerate("--report", tmp_path / "fast.spinney")
    assert done.exit_code == 2
    done = run(
        "prune",
        "m",
        "d",
        "-o",
        tmp_path / "x.svg",
        "--plot",
        tmp_path / "x.svg",
        "--budget",
        "1",
    )
    assert "cannot take two outputs" in done.stderr


@pytest.mark.parametrize("command", ["accelerate", "prune", "anytime"])
def test_a_pipeline_of_unknown_steps_is_refused_before_the_work(
    work, tmp_path, command
):
    pipeline = joblib.load(work / "pipeline.joblib")
    pipeline.steps.insert(0, ("curves", SplineTransformer()))
    joblib.dump(pipeline, tmp_path / "odd.joblib")
    more = ("--target", "ill")
    if command == "accelerate":
        more += ("-o", tmp_path / "x.spinney")
    done = run(command, tmp_path / "odd.joblib", work / "rows.csv", "--trust", *more)
    assert done.exit_code == 2
    words = " ".join(done.stderr.split())
    assert "(SplineTransformer, StandardScaler, RandomForestClassifier)" in words
    assert "without pickle" in words


def test_a_pipeline_is_accelerated_and_predicts(work, tmp_path):
    out = tmp_path / "fast.spinney"
    settings = ("--max-disagreement", "0.05", "--target", "ill", "-o", out)
    done = run(
        "accelerate", work / "pipeline.joblib", work / "rows.csv", "--trust", *settings
    )
    assert done.exit_code == 0, done.stderr
    answers = tmp_path / "answers.npz"
    done = run("predict", out, work / "rows.csv", "-o", answers, "--target", "ill")
    assert done.exit_code == 0, done.stderr
    fast = spinney.load(out)
    assert fast.has_preprocessing
    rows = pd.read_csv(work / "rows.csv").drop(columns="ill")
    with np.load(answers) as found:
        assert np.array_equal(found["label"], fast.predict(rows))


def test_a_model_on_category_columns_takes_a_table_of_texts(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "a b": rng.normal(size=3000),
            "kind": rng.choice(["x", "y", "z"], 3000),
        }
    )
    labels = (frame["kind"] == "y") ^ (frame["a b"] > 0.3)
    model = LGBMClassifier(n_estimators=30, verbose=-1, n_jobs=1)
    model.fit(frame.astype({"kind": "category"}), labels)
    model.booster_.save_model(tmp_path / "model.txt")
    frame.loc[::10, "kind"] = None
    frame.loc[::11, "kind"] = "unseen"
    frame.to_csv(tmp_path / "rows.csv", index=False)
    frame.to_parquet(tmp_path / "rows.parquet")
    expected = model.predict(frame.astype({"kind": "category"}))
    out = tmp_path / "fast.spinney"
    for table in ("rows.csv", "rows.parquet"):
        done = run("accelerate", tmp_path / "model.txt", tmp_path / table, "-o", out)
        assert done.exit_code == 0, done.stderr
        for file in ("model.txt", "fast.spinney"):
            answers = tmp_path / "answers.npz"
            done = run("predict", tmp_path / file, tmp_path / table, "-o", answers)
            assert done.exit_code == 0, done.stderr
            with np.load(answers) as found:
                differ = found["label"] != expected
            assert differ.mean() <= (0.0 if file == "model.txt" else 0.01)


def test_a_file_that_is_accelerated_already_is_named(work, tmp_path):
    out = ("-o", tmp_path / "x.spinney")
    done = run("accelerate", work / "fast.spinney", work / "rows.csv", *out)
    assert done.exit_code == 2
    assert "holds a SequentialVotingClassifier" in done.stderr


def test_without_rows_the_answers_are_those_of_the_model(work, tmp_path):
    out = tmp_path / "fast.spinney"
    done = run("accelerate", work / "model.txt", "-o", out)
    assert done.exit_code == 0, done.output
    assert "All 20 trees are evaluated" in " ".join(done.stdout.split())
    fast = spinney.load(out)
    with np.load(work / "rows.npz") as stored:
        rows = stored["X"]
    np.testing.assert_array_equal(
        fast.predict_counted(rows)[0],
        spinney.read_model(work / "model.txt").predict(rows),
    )
    answers = tmp_path / "answers.csv"
    done = run("predict", out, work / "rows.csv", "--target", "ill", "-o", answers)
    assert done.exit_code == 0, done.output
    assert set(pd.read_csv(answers)["label"]) == {0, 1}
    document = json.loads(
        run("accelerate", work / "model.txt", "-o", out, "--json").stdout
    )
    assert (document["chosen"], document["acceleration"]) == ("all trees", None)


def test_without_rows_regressors_go_all_the_way(work, tmp_path):
    table = pd.read_csv(work / "rows.csv").drop(columns="ill")
    model = RandomForestRegressor(4, random_state=0).fit(table, table["iron"])
    joblib.dump(model, tmp_path / "model.joblib")
    out, answers = tmp_path / "fast.spinney", tmp_path / "answers.csv"
    done = run("accelerate", tmp_path / "model.joblib", "--trust", "-o", out)
    assert done.exit_code == 0, done.output
    done = run("predict", out, work / "rows.csv", "-o", answers)
    assert done.exit_code == 0, done.output
    # As texts, for the reader of numbers in pandas 2 rounds the last digits.
    found = pd.read_csv(answers, dtype=str)["prediction"].astype(float)
    np.testing.assert_allclose(found, model.predict(table), rtol=1e-15)
    told = run("inspect", out).stdout
    assert "regressor of which all trees are evaluated" in told
    done = run(
        "accelerate", tmp_path / "model.joblib", work / "rows.csv", "--trust", "-o", out
    )
    assert done.exit_code != 0
    assert "Early exit is for classifiers" in " ".join(done.stderr.split())


def test_rows_for_a_regressor_are_refused_in_the_words_of_the_command(work, tmp_path):
    table = pd.read_csv(work / "rows.csv")
    model = LGBMRegressor(n_estimators=3, verbose=-1).fit(
        table.drop(columns=["iron", "ill"]), table["iron"]
    )
    model.booster_.save_model(tmp_path / "model.txt")
    done = run(
        *("accelerate", tmp_path / "model.txt", work / "rows.csv"),
        *("-o", tmp_path / "fast.spinney"),
    )
    assert done.exit_code == 2
    assert "Leave DATA out" in " ".join(done.stderr.split())
    assert not (tmp_path / "fast.spinney").exists()


def test_labels_that_a_report_would_refuse_are_refused_before_the_work(
    work, tmp_path, monkeypatch
):
    def work_begins(*_, **__):
        raise AssertionError

    monkeypatch.setattr(spinney, "accelerate", work_begins)
    table = pd.read_csv(work / "rows.csv")
    table["ill"] = table["ill"].map({0: "no", 1: "yes"})
    table.to_csv(tmp_path / "rows.csv", index=False)
    done = run(
        *("accelerate", work / "model.txt", tmp_path / "rows.csv", "--target", "ill"),
        *("-o", tmp_path / "a.spinney", "--report", tmp_path / "page.txt"),
    )
    assert done.exit_code == 2
    assert "the label 'no', which the model does not know" in done.stderr
    assert "its classes are 0, 1" in done.stderr


def test_a_report_needs_rows(work, tmp_path):
    out = tmp_path / "fast.spinney"
    page = tmp_path / "page.html"
    done = run("accelerate", work / "model.txt", "-o", out, "--report", page)
    assert done.exit_code != 0
    assert "--report needs rows" in done.stderr
    assert not out.exists()


# ------------------------------------------------------------------ other bounds


def test_a_bound_for_each_class(accelerate, tmp_path):
    each = ("--max-disagreement", "1=0.05", "--max-disagreement", "0=0.1")
    done = accelerate(*each, "--json", "--report", tmp_path / "page.html")
    assert done.exit_code == 0, done.output
    promise = json.loads(done.stdout)["promise"]
    fast = spinney.load(tmp_path / "fast.spinney")
    if promise["kind"] != "never":  # else nothing was faster than all trees
        assert [one["max_disagreement"] for one in promise["by_class"]] == [0.1, 0.05]
        assert "assigns to a class" in promise["words"]
        assert "assigns to a class" in (tmp_path / "page.html").read_text("utf-8")
        assert fast.max_disagreement == {0: 0.1, 1: 0.05}


def test_the_same_bound_for_each_class(accelerate):
    done = accelerate("--max-disagreement", "0.1", "--per-class", "--json")
    assert done.exit_code == 0, done.output
    promise = json.loads(done.stdout)["promise"]
    assert promise["kind"] == "never" or len(promise["by_class"]) == 2


def test_a_bound_on_the_loss_of_accuracy(accelerate, tmp_path):
    page = tmp_path / "page.txt"
    done = accelerate("--max-accuracy-loss", "0.02", "--json", "--report", page)
    assert done.exit_code == 0, done.output
    promise = json.loads(done.stdout)["promise"]
    if promise["kind"] != "never":
        assert promise["accuracy"]["max_accuracy_loss"] == 0.02
        assert "more of the predictions are wrong" in promise["words"]
        assert "2 % more errors allowed" in " ".join(page.read_text("utf-8").split())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--max-disagreement", "ill=0.1"), "'ill', which the model does not know"),
        (("--max-disagreement", "1=0.1"), "has no bound for 0"),
        (("--max-disagreement", "1=much"), "takes a number such as 0.001"),
        (("--max-disagreement", "1=0.1", "--max-disagreement", "1=0.2"), "two bounds"),
        (("--max-disagreement", "0.1", "--max-disagreement", "1=0.2"), "for all rows"),
        (("--max-disagreement", "2"), "must be in [0, 1)"),
        (("--max-accuracy-loss", "1.5"), "--max-accuracy-loss must be in [0, 1)"),
    ],
)
def test_bounds_that_are_none(accelerate, options, words):
    done = accelerate(*options)
    assert done.exit_code == 2
    assert words in " ".join(done.stderr.split())


def test_a_loss_of_accuracy_takes_labels(work, tmp_path):
    given = ("accelerate", work / "model.joblib", work / "rows.csv", "--trust")
    out = ("-o", tmp_path / "fast.spinney", "--max-accuracy-loss", "0.01")
    done = run(*given, *out)
    assert done.exit_code == 2
    assert "pass --target" in " ".join(done.stderr.split())
    done = run(*given, *out, "--target", "nothing")
    assert done.exit_code == 2
    assert "--target nothing names no column" in " ".join(done.stderr.split())
