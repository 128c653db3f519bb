"""The command from end to end: what goes well, and what does not.

Every subcommand runs once in a process of its own, as a user calls it. Bad input is
tried in this process: starting Python and importing takes two seconds each time.
"""

from __future__ import annotations

import json
import sys

import joblib
import numba
import numpy as np
import pandas as pd
import pyarrow.csv
import pyarrow.parquet
import pytest

import spinney

pytestmark = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="kernels have tests of their own"
)


@pytest.fixture
def run(call, installed, work):
    """Run a subcommand in the folder of models and tables."""
    return lambda *arguments: call(installed, *arguments, cwd=work)


@pytest.fixture
def run_here(call_here, work, monkeypatch):
    """Run a subcommand like `run`, but in this process."""
    monkeypatch.chdir(work)
    return call_here


def succeeded(done):
    """Return what a command printed, after a look at how it ended."""
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


# ------------------------------------------------------------------ all goes well


def test_accelerate_writes_a_faster_model_and_a_report(run, work, tmp_path):
    out, page = tmp_path / "fast.spinney", tmp_path / "page.html"
    options = ("--trust", "--target", "ill", "--max-disagreement", "0.02")
    arguments = ("accelerate", "model.joblib", "rows.parquet", *options)
    printed = succeeded(run(*arguments, "-o", out, "--report", page))
    assert "all trees" in printed
    assert "Compared on" in printed
    assert f"Written to {out}" in printed
    assert page.read_text().startswith("<!")
    fast = spinney.load(out)
    table = pd.read_parquet(work / "rows.parquet").drop(columns="ill")
    model = joblib.load(work / "model.joblib")
    assert (fast.predict(table.to_numpy()) != model.predict(table)).mean() <= 0.02
    assert fast.acceleration_.max_disagreement == 0.02


def test_predict_streams_labels_and_counts_to_a_table(run, work, tmp_path):
    out = tmp_path / "answers.parquet"
    printed = succeeded(
        run("predict", "fast.spinney", "shuffled.csv", "-o", out, "--target", "ill")
    )
    assert "1,500 rows in" in printed
    assert "per second" in printed
    assert "trees evaluated per row on average" in printed
    assert "Error against the labels" in printed
    answers = pd.read_parquet(out)
    table = pd.read_csv(work / "rows.csv")
    rows = table.drop(columns="ill").astype(np.float32)
    labels, counts = spinney.load(work / "fast.spinney").predict_counted(rows)
    np.testing.assert_array_equal(answers["label"], labels)
    np.testing.assert_array_equal(answers["n_evaluated"], counts)
    assert list(tmp_path.iterdir()) == [out]


def test_inspect_tells_what_a_file_holds(run):
    document = json.loads(succeeded(run("inspect", "fast.spinney", "--json")))
    assert document["class"] == "SequentialVotingClassifier"
    assert document["file"]["format"] == 1
    assert document["file"]["written_by_spinney"] == spinney.__version__
    assert document["forest"]["trees"] == 25
    assert document["forest"]["source"] == "RandomForestClassifier"
    assert document["promise"]["max_disagreement"] == 0.02


def test_bench_sets_spinney_beside_the_original(run):
    printed = succeeded(
        run(
            *("bench", "model.txt", "rows.csv", "--target", "ill"),
            *("--seconds", "0.2", "--max-disagreement", "0.02", "--json"),
        )
    )
    document = json.loads(printed)
    names = [engine["name"] for engine in document["engines"]]
    assert names[:3] == ["spinney, all trees", "spinney, early exit", "LightGBM"]
    full, early, original = document["engines"][:3]
    assert full["labels_differ"] == original["labels_differ"] == 0
    assert early["n_evaluated"] <= full["n_evaluated"] == 20
    assert all(engine["microseconds_single"] > 0 for engine in document["engines"])


def test_prune_shows_the_frontier(run):
    printed = succeeded(
        run("prune", "model.joblib", "rows.csv", "--target", "ill", "--trust")
    )
    assert "Optimal trade-offs" in printed


def test_anytime_compares_orders(run, tmp_path):
    out = tmp_path / "any.spinney"
    printed = succeeded(
        run(
            *("anytime", "model.joblib", "rows.npz", "--trust", "--order", "depth"),
            *("--order", "random", "-o", out),
        )
    )
    assert "NMA" in printed
    assert len(spinney.load(out).order_) == 25 * 6


def test_strategy_prints_a_table_and_writes_json(run, tmp_path):
    out = tmp_path / "strategy.json"
    printed = succeeded(run("strategy", "--voters", "21", "--out", out))
    assert "Expected votes (mean)" in printed
    assert json.loads(out.read_text())["n_voters"] == 21


# ------------------------------------------------------------------ bad input

BAD = [
    ("accelerate none.txt rows.csv -o a.spinney", "There is no file 'none.txt'"),
    ("accelerate model.txt narrow.csv -o a.spinney", "lacks columns that the model"),
    ("accelerate corrupt.txt rows.csv -o a.spinney", "model text is damaged"),
    ("predict corrupt.spinney rows.csv -o a.csv", "damaged or cut off"),
    ("predict fast.spinney empty.csv -o a.csv", "is empty"),
    ("predict fast.spinney . -o a.csv", "is a directory"),
    ("inspect none.spinney", "There is no file"),
    ("inspect corrupt.spinney", "damaged or cut off"),
    ("inspect .", "is a directory"),
    ("bench model.joblib rows.csv", "add --trust"),
    ("bench model.txt text.csv --target ill", "'iron' must hold numbers"),
    ("bench model.txt none.csv", "There is no file 'none.csv'"),
    ("prune rows.csv rows.csv --target ill", "is not a known model file"),
    ("prune model.joblib nan.csv --trust --target ill", "no label in 1 of its 20 rows"),
    ("prune model.joblib head.csv --trust --target ill", "has no rows"),
    ("anytime corrupt.txt rows.csv --target ill", "model text is damaged"),
    ("anytime model.joblib nan.csv --trust --target ill", "no label in 1 of its 20"),
    ("anytime model.joblib narrow.csv --trust --target ill", "lacks columns"),
    ("strategy --voters 0", "n_voters must be"),
    ("strategy --voters 9 --max-disagreement 1.5", "max_disagreement must be"),
    ("strategy --voters 9 --out .", "is a directory"),
    ("warm-up extra", "unexpected extra argument"),
    ("warm-up --nothing", "No such option"),
    ("warm-up --json=1", "does not take a value"),
    ("demo extra", "unexpected extra argument"),
    ("demo --page nowhere/page.html", "nowhere"),
    ("demo --page .", "is a directory"),
]


@pytest.mark.parametrize(("words", "complaint"), BAD, ids=[words for words, _ in BAD])
def test_bad_input_ends_with_exit_code_2_and_a_plain_message(
    run_here, work, words, complaint
):
    refused(run_here, work, words, complaint)


def test_bad_input_is_refused_likewise_in_a_process_of_its_own(run, work):
    refused(
        run, work, "predict corrupt.spinney rows.csv -o a.csv", "damaged or cut off"
    )


def refused(run, work, words, complaint):
    """Run a command; look how it ended, at what it said and at what it left behind."""
    before = sorted(work.iterdir())
    done = run(*words.split())
    assert done.returncode == 2, done.stdout + done.stderr
    assert complaint in " ".join(done.stderr.split())
    assert "Traceback" not in done.stdout + done.stderr
    assert sorted(work.iterdir()) == before


# ------------------------------------------------------------------ interrupted


# The command with a signal that comes as soon as the first answers were written. Sent
# from outside it may come too late on a busy machine.
INTERRUPTED = """
import os, signal
from spinney.cli import answers, main

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in background jobs
write = answers.write_atomically


def interrupted(chunks):
    for chunk in chunks:
        yield chunk
        print(*[name for name in os.listdir() if name.startswith(".spinney-")])
        os.kill(os.getpid(), signal.SIGINT)


answers.write_atomically = lambda path, chunks: write(path, interrupted(chunks))
main()
"""


def test_ctrl_c_leaves_the_old_file_and_nothing_else(call, work, tmp_path):
    out = tmp_path / "answers.csv"
    out.write_text("old")
    rows = (work / "rows.npz", "-o", out)
    model = work / "forest.spinney"
    done = call(
        *(sys.executable, "-c", INTERRUPTED, "predict", model, *rows), cwd=tmp_path
    )
    assert done.returncode == 130, done.stdout + done.stderr
    assert done.stderr == "interrupted: Stopped before the end.\n"
    assert done.stdout.endswith(".partial\n")
    assert out.read_text() == "old"
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["parquet", "csv", "npz"])
def test_a_table_larger_than_memory_is_answered(
    installed, work, tmp_path, call, ending
):
    # The limit on memory, beyond what a small table takes, is half of the large one.
    code = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
    n_rows = 4_000_000
    paths = {name: tmp_path / f"{name}.{ending}" for name in ("small", "large")}
    _write_rows(paths["small"], n_rows // 40)
    _write_rows(paths["large"], n_rows)
    peak = {}
    for name, path in paths.items():
        out = tmp_path / f"answers-{name}.parquet"
        command = (installed, "predict", work / "fast.spinney", path, "-o", out)
        done = call(sys.executable, "-c", code, *command, "--quiet")
        assert done.returncode == 0, done.stderr
        peak[name] = int(done.stdout) * 1024
    assert peak["large"] - peak["small"] < paths["large"].stat().st_size / 2
    answers = pyarrow.parquet.ParquetFile(tmp_path / "answers-large.parquet")
    assert answers.metadata.num_rows == n_rows


def _write_rows(path, n_rows):
    columns = ["age", "body mass", "iron", "zinc", "sleep", "steps"]
    rows = np.random.default_rng(0).normal(size=(n_rows, 6))
    if path.suffix == ".npz":
        np.savez(path, X=rows)
        return
    table = pyarrow.table(dict(zip(columns, rows.T, strict=True)))
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(table, path)
    else:
        pyarrow.csv.write_csv(table, path)
