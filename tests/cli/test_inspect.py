"""``spinney inspect``: every kind of file, and what is said about it."""

from __future__ import annotations

import json

import joblib
import numba
import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from typer.testing import CliRunner

import spinney
from spinney.cli.app import app

pytestmark = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="kernels have tests of their own"
)


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def saved(work, tmp_path_factory):
    """Return a folder with one file of each kind."""
    folder = tmp_path_factory.mktemp("kinds")
    with np.load(work / "rows.npz") as stored:
        X, y = stored["X"], stored["y"]
    forest = spinney.read_model(joblib.load(work / "model.joblib"))
    model = FrozenEstimator(forest)
    classifiers = {
        "forest": forest,
        "sequential": spinney.SequentialVotingClassifier(
            model, max_disagreement=0.02, random_state=0
        ),
        "cascade": spinney.CascadeClassifier(model, order="natural", random_state=0),
        "all": spinney.AllTreesClassifier(model),
        "anytime": spinney.AnytimeForestClassifier(model, order="depth"),
        "pruned": spinney.FeatureCostPruner(model, trade_off=0.002),
        "budgeted": spinney.BudgetedForestClassifier(budget=5.0, max_trees=2),
    }
    for name, classifier in classifiers.items():
        if name != "forest":
            classifier.fit(X, y)
        spinney.save(classifier, folder / f"{name}.spinney")
    return folder


WORDS = {
    "forest": ["forest (Forest)", "25, combined by mean"],
    "sequential": ["early exit from a vote", "voting", "soft", "at most 2 % of the"],
    "cascade": ["cascade", "rule", "thresholds", "expected trees", "of 25 per row"],
    "all": ["all trees are evaluated", "Every prediction is that of the full"],
    "anytime": ["anytime forest", "steps", "150"],
    "pruned": ["pruned by feature cost", "mean feature cost", "nodes before pruning"],
    "budgeted": ["grown on a budget", "budget", "5"],
}


@pytest.mark.parametrize("name", WORDS)
def test_inspect_tells_what_each_kind_of_file_is(saved, name):
    path = saved / f"{name}.spinney"
    done = run("inspect", path)
    assert done.exit_code == 0, done.output
    for words in WORDS[name]:
        assert words in done.stdout
    assert f"format 1, by spinney {spinney.__version__}" in done.stdout
    document = json.loads(run("inspect", path, "--json").stdout)
    loaded = spinney.load(path)
    forest = getattr(loaded, "forest_", loaded)
    facts = document["forest"]
    assert facts["trees"] == forest.n_trees
    assert facts["nodes"] == forest.n_nodes == 2 * facts["leaves"] - forest.n_trees
    assert facts["depth"] == forest.depths.max()
    assert facts["features"] == 6
    assert facts["classes"] == [0, 1]
    assert document["class"] == type(loaded).__name__
    assert document["file"]["bytes"] == path.stat().st_size


def test_inspect_shows_the_comparison_that_accelerate_made(work, tmp_path):
    with np.load(work / "rows.npz") as stored:
        rows = stored["X"]
    fast = spinney.accelerate(
        work / "model.txt", rows, max_disagreement=0.05, random_state=0
    )
    spinney.save(fast, tmp_path / "fast.spinney")
    done = run("inspect", tmp_path / "fast.spinney")
    assert done.exit_code == 0, done.output
    assert "Compared on" in done.stdout
    compared = spinney.load(tmp_path / "fast.spinney").acceleration_
    assert " ".join(compared.outcome.split()) in " ".join(done.stdout.split())


def test_inspect_shows_a_decision_threshold_that_is_not_one_half(saved, tmp_path):
    forest = spinney.load(saved / "forest.spinney")
    X = np.random.default_rng(0).normal(size=(50, forest.n_features))
    quick = spinney.CascadeClassifier(
        FrozenEstimator(forest), max_disagreement=0.0, decision_threshold=0.2
    )
    for name, told in (
        ("moved", spinney.read_model(forest, decision_threshold=0.2)),
        ("quick", quick.fit(X.astype(np.float32))),
    ):
        path = tmp_path / f"{name}.spinney"
        spinney.save(told, path)
        shown = " ".join(run("inspect", path).stdout.split())
        assert "threshold 0.2, the probability from which" in shown
        facts = json.loads(run("inspect", path, "--json").stdout)
        assert facts["forest"]["decision_threshold"] == pytest.approx(0.2, abs=1e-7)
    assert "from which" not in run("inspect", saved / "forest.spinney").stdout


def test_inspect_reads_models_of_other_libraries(work, tmp_path):
    done = run("inspect", work / "model.txt")
    assert done.exit_code == 0, done.output
    assert "LightGBM" in done.stdout
    assert "age, body_mass, iron" in done.stdout
    assert "format" not in done.stdout
    refused = run("inspect", work / "model.joblib")
    assert refused.exit_code == 2
    assert "add --trust" in refused.stderr
    done = run("inspect", work / "model.joblib", "--trust")
    assert "RandomForestClassifier" in done.stdout


def test_brackets_in_a_name_are_printed_as_they_are(work, tmp_path):
    path = tmp_path / "[bold]m.spinney"
    path.write_bytes((work / "forest.spinney").read_bytes())
    done = run("inspect", path)
    assert done.exit_code == 0, done.output
    assert "[bold]m.spinney" in "".join(done.stdout.split())
