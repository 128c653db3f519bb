"""``spinney accelerate``: what it tells, writes and refuses."""

from __future__ import annotations

import json

import numba
import numpy as np
import pytest
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
    assert "The file was written all the same" in told
    fast = spinney.load(tmp_path / "fast.spinney")
    assert fast.promise_.kind == "never"
    if option == ("--json",):
        assert json.loads(done.stdout)["promise_kept"] is False
    assert (done.stdout == "") == (option == ("--quiet",))


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


@pytest.mark.parametrize("ending", [".html", ".md", ".txt", ".json"])
def test_the_report_is_of_the_kind_that_its_name_says(accelerate, tmp_path, ending):
    page = tmp_path / f"page{ending}"
    done = accelerate("--max-disagreement", "0.05", "--report", page)
    assert done.exit_code == 0, done.output
    assert f"Written to {page}" in done.stdout
    beginning = {".html": "<!", ".md": "#", ".json": "{"}.get(ending, "")
    assert page.read_text().startswith(beginning)


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


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--report", "page.pdf"), "The report must be a file that ends with .html"),
        (("--report", "none/page.html"), "There is no directory"),
        (("--max-disagreement", "2"), "max_disagreement must be"),
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


@pytest.mark.parametrize("command", ["accelerate", "bench", "prune", "anytime"])
def test_a_pipeline_is_refused_before_the_work(work, tmp_path, command):
    out = ("-o", tmp_path / "x.spinney") if command == "accelerate" else ()
    done = run(command, work / "pipeline.joblib", work / "rows.csv", "--trust", *out)
    assert done.exit_code == 2
    words = " ".join(done.stderr.split())
    assert "is a pipeline (standardscaler, randomforestclassifier)" in words
    assert "model[-1]" in words


def test_a_file_that_is_accelerated_already_is_named(work, tmp_path):
    out = ("-o", tmp_path / "x.spinney")
    done = run("accelerate", work / "fast.spinney", work / "rows.csv", *out)
    assert done.exit_code == 2
    assert "holds a SequentialVotingClassifier" in done.stderr
