"""The benchmark harness: engines agree before they are timed, and nothing is hidden."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.ensemble import RandomForestClassifier

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

pytest.importorskip("benchmarks.compare", reason="benchmarks are not shipped here")

from benchmarks.compare import agreement, merging, run, table, timing  # noqa: E402
from benchmarks.compare.compiling import compiled  # noqa: E402
from benchmarks.compare.datasets import Dataset  # noqa: E402
from benchmarks.compare.models import RECIPES, Trained, train  # noqa: E402
from benchmarks.compare.peers import PEERS, Engine, NotApplicable, Skip  # noqa: E402

from spinney.cli.conversions import CannotTakePartError  # noqa: E402

NATIVE = {
    "sklearn": ["spinney", "spinney predictor()", "scikit-learn"],
    "lightgbm": [
        "spinney",
        "spinney predictor()",
        "LightGBM",
        "LightGBM single row",
    ],
    "xgboost": ["spinney", "spinney predictor()", "XGBoost", "XGBoost DMatrix"],
}


def trained_model(library, folder, load=load_breast_cancer):
    X, y = load(return_X_y=True)
    X = X.astype(np.float32)
    if library == "sklearn":
        estimator = RandomForestClassifier(n_estimators=15, random_state=0)
    elif library == "lightgbm":
        lightgbm = pytest.importorskip("lightgbm")
        estimator = lightgbm.LGBMClassifier(n_estimators=12, verbose=-1, n_jobs=1)
    else:
        xgboost = pytest.importorskip("xgboost")
        estimator = xgboost.XGBClassifier(n_estimators=12, max_depth=4, n_jobs=1)
    estimator.fit(X[::2], y[::2])
    n_classes = len(np.unique(y))
    return Trained(library, library, estimator, n_classes, X.shape[1], folder), X


def test_a_model_on_category_columns_splits_by_sets_and_engines_agree(
    tmp_path, monkeypatch
):
    pytest.importorskip("lightgbm")
    small = dataclasses.replace(RECIPES["lightgbm-categories"], quick_trees=5)
    monkeypatch.setitem(RECIPES, "lightgbm-categories", small)
    rng = np.random.default_rng(0)
    X = rng.integers(0, 12, (600, 14)).astype(np.float32)
    y = np.isin(X[:, 6], [1, 4, 9, 11]) ^ (X[:, 0] > 5)
    data = Dataset("adult", X[:400], y[:400].astype(np.int64), X[400:])

    trained = train("lightgbm-categories", data, tmp_path, quick=True)

    assert re.search("num_cat=[1-9]", trained.estimator.booster_.model_to_string())
    labels, probabilities = trained.labels(data.X_test), trained.probabilities(X[400:])
    for name in NATIVE["lightgbm"]:
        engine = PEERS[name].prepare(trained)
        found = agreement.measure(engine, data.X_test, labels, probabilities)
        assert found.n_labels_differ == 0
        assert not found.n_probabilities_differ


def test_a_model_on_category_columns_is_only_for_sets_that_have_some():
    options = run._options(["--datasets", "adult,magic"])
    cases = run._cases(options)
    assert ("adult", "lightgbm-categories") in cases
    assert ("magic", "lightgbm-categories") not in cases
    assert len(cases) == 2 * len(RECIPES) - 1


@pytest.mark.parametrize("load", [load_breast_cancer, load_wine], ids=["two", "three"])
@pytest.mark.parametrize(
    ("library", "name"),
    [(library, name) for library, names in NATIVE.items() for name in names],
)
def test_engines_agree_with_the_original_on_every_row(library, name, load, tmp_path):
    trained, X = trained_model(library, tmp_path, load)
    engine = PEERS[name].prepare(trained)

    found = agreement.measure(
        engine, X[:150], trained.labels(X[:150]), trained.probabilities(X[:150])
    )

    assert found.n_rows == 150
    assert found.n_labels_differ == 0
    assert not found.n_probabilities_differ


def test_an_engine_that_differs_is_reported_with_the_number_of_rows():
    X = np.zeros((5, 2), dtype=np.float32)
    labels = np.array([0, 0, 1, 1, 1])
    told = np.array([0.1, 0.1, 0.9, 0.9, 0.9])
    wrong = np.array([0.1, 0.1 + 1e-7, 0.2, 0.8, np.nan])
    engine = Engine(lambda n_threads: lambda rows: wrong, call="wrong")

    found = agreement.measure(engine, X, labels, agreement.by_class(told, 5))

    # Row 2 has another label, row 3 another probability, row 4 none at all.
    assert found.n_labels_differ == 2
    assert found.n_probabilities_differ == 3


def test_a_peer_that_is_not_installed_is_skipped_with_the_reason(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    trained, _ = trained_model("sklearn", tmp_path)

    with pytest.raises(Skip, match=r"not installed \(.*onnxruntime"):
        PEERS["ONNX Runtime"].prepare(trained)


def test_a_peer_for_another_library_does_not_take_the_model(tmp_path):
    trained, _ = trained_model("sklearn", tmp_path)

    with pytest.raises(NotApplicable, match="lightgbm only"):
        PEERS["lleaves"].prepare(trained)


def test_compiling_is_given_up_after_the_limit_and_not_tried_again(tmp_path):
    out = tmp_path / "slow.so"
    slow = [sys.executable, "-c", "import time; time.sleep(60)"]
    with pytest.raises(CannotTakePartError, match="longer than"):
        compiled(slow, out, limit=0.2)

    quick = [sys.executable, "-c", f"open({str(out)!r}, 'w').close()"]
    with pytest.raises(CannotTakePartError, match="longer than"):
        compiled(quick, out, limit=0.2)
    assert compiled(quick, out, limit=30.0) > 0


def test_engines_take_turns_and_each_gets_its_samples():
    timers = [timing.EngineTimer(lambda batch: None, [0], 7) for _ in range(3)]

    timing.run_in_turn(timers, seconds=0.0, min_samples=4)

    for one in timers:
        told = one.to_dict()
        assert told["samples"] == 4
        assert told["rows"] == 7
        assert 0.0 < told["min_us"] <= told["median_us"] <= told["p95_us"]


def entry(peer, batch, median, **more):
    times = {"median_us": median, "min_us": 0.9 * median, "p95_us": 2 * median}
    return {"peer": peer, "threads": 1, "batch": batch, "rows": batch} | times | more


@pytest.fixture
def result():
    def timed(labels_differ, *, ours=False):
        return {
            "status": "timed",
            "ours": ours,
            "prepare_seconds": 1.5,
            "agreement": {
                "rows": 1000,
                "labels_differ": labels_differ,
                "probabilities_differ": labels_differ,
                "largest_difference": 0.25,
            },
        }

    return {
        "quick": False,
        "machine": {
            "cpu": "Some Processor",
            "cores": 2,
            "system": "Linux",
            "python": "3.12.1",
            "date": "2026-01-31",
            "load_before": 0.1,
            "load_after": 2.0,
            "versions": {"numpy": "2.4.0"},
        },
        "settings": {"threads": [1], "batches": [1, 1000]},
        "cases": [
            {
                "dataset": "adult",
                "title": "a forest",
                "n_classes": 2,
                "check_rows": 1000,
                "peers": {
                    "spinney": timed(0, ours=True),
                    "spinney predictor()": timed(0, ours=True),
                    "Good": timed(0),
                    "Rough": timed(7),
                    "Broken": timed(600),
                    "Absent": {"status": "skipped", "reason": "not installed (x)"},
                },
                "times": [
                    entry("spinney", 1, 30.0),
                    entry("spinney predictor()", 1, 4.0),
                    entry("Good", 1, 15.0),
                    entry("spinney", 1000, 1000.0),
                    entry("Good", 1000, 3000.0),
                    entry("Rough", 1000, 250.0, rows=100),
                    entry("Broken", 1000, 10.0),
                ],
            }
        ],
    }


def test_table_names_the_fastest_peer_and_says_where_it_is_ahead(result):
    text = table.render(result)

    # Twice as slow on one row, 2.5 times as fast as the fastest on 1,000, and that
    # one is marked for its seven labels, with the fastest that agrees behind it; the
    # broken one counts for nothing.
    both = "**2.5** (Rough\\*); **3.0** (Good)"
    assert f"| **3.8** (Good) | 0.50 (Good) | {both} |" in text
    assert "1 row, 1 thread: Good is ahead, spinney has 0.50 of its speed" in text
    assert "with `predictor()`: 3.75" in text
    assert "7 of 1,000; probabilities of 7 by up to 0.25" in text
    assert "2.50 (2.25) on 100 rows" in text
    assert "- Absent: not installed (x)." in text
    assert "Some Processor, 2 cores" in text
    assert "busy" not in text


def test_table_warns_of_a_busy_machine(result):
    result["machine"]["load_before"] = 3.0

    assert "busy with other work" in table.render(result)


def test_readme_keeps_everything_outside_the_markers(result, tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n")

    table.write_readme(json.loads(json.dumps(result)), readme)

    text = readme.read_text()
    assert text.startswith(f"before\n{table.BEGIN}\n")
    assert text.endswith(f"{table.END}\nafter\n")
    assert "old" not in text
    assert "Some Processor" in text


def test_the_readme_has_a_place_for_the_tables():
    text = table.README.read_text()

    assert text.count(table.BEGIN) == text.count(table.END) == 1


def test_cells_of_a_partial_run_take_the_place_of_earlier_ones():
    def entry(peer, batch, median):
        return {
            "peer": peer,
            "threads": 1,
            "batch": batch,
            "rows": batch,
            "median_us": median,
            "min_us": median,
        }

    def result(date, times, batches):
        found = {"labels_differ": 0, "rows": 9, "probabilities_differ": 0}
        peer = {
            "status": "timed",
            "prepare_seconds": 1.0,
            "agreement": found,
        }
        names = dict.fromkeys(one["peer"] for one in times)
        case = {
            "dataset": "adult",
            "model": "lightgbm",
            "title": "LightGBM",
            "n_classes": 2,
            "check_rows": 9,
            "peers": {name: peer | {"ours": name == "spinney"} for name in names},
            "times": times,
        }
        about = {"cpu": "A", "cores": 2, "system": "S", "date": date, "python": "3"}
        return {
            "quick": False,
            "machine": about | {"load_before": 0.1, "versions": {"spinney": date}},
            "settings": {"threads": [1], "batches": batches},
            "cases": [case],
        }

    old = [entry(*one) for one in (("spinney", 1, 9.0), ("a", 1, 3.0), ("b", 1, 1.0))]
    old += [entry("spinney", 1000, 50.0), entry("a", 1000, 100.0)]
    before = result("monday", old, [1, 1000])
    now = result("friday", [entry("spinney", 1, 2.0), entry("a", 1, 4.0)], [1])

    both = merging.merged(before, now)
    again = merging.merged(both, now)
    text = table.render(both)

    assert again == both
    assert "columns for 1 row are of a later run**, of friday" in text
    assert "**2.0** (a) | **2.0** (a)" in text  # "b" was not measured again
    assert before["cases"][0]["times"] == old
    other = result("friday", old, [1, 1000])
    other["cases"][0]["model"] = "another"
    assert merging.merged(before, other)["cases"] == [*before["cases"], *other["cases"]]
