"""The benchmark of serving: what threads measure, and where it is put."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

pytest.importorskip("benchmarks.serving", reason="benchmarks are not shipped here")

from benchmarks.serving import run, tables  # noqa: E402
from benchmarks.serving.load import Latencies, by_trees, run_round  # noqa: E402
from benchmarks.serving.worker import EARLY, EXACT  # noqa: E402


def test_every_thread_calls_its_own_and_takes_all_rows_in_turn():
    called: list[list[int]] = [[], [], []]
    who = [set(), set(), set()]

    def predict_of(k):
        def predict(row):
            called[k].append(row)
            who[k].add(threading.get_ident())

        return predict

    found = Latencies()
    rows = list(range(30))
    run_round([predict_of(k) for k in range(3)], rows, 0.02, found)

    assert all(len(idents) == 1 for idents in who)
    for k, (seen, measured) in enumerate(zip(called, found.rows, strict=True)):
        assert seen[:3] == rows[10 * k : 10 * k + 3]  # not measured
        assert seen[3:] == measured.tolist()
        assert np.array_equal(measured[:40], (10 * k + np.arange(40)) % 30)
    summary = found.to_dict()
    assert summary["calls"] == sum(map(len, called)) - 9
    assert 0 < summary["p50"] <= summary["p99"] <= summary["p99.9"]
    assert summary["rows_per_second"] == summary["calls"] / found.seconds


def test_an_error_in_one_thread_ends_the_round():
    def refuse(row):
        msg = "no such row"
        raise KeyError(msg)

    with pytest.raises(KeyError, match="no such row"):
        run_round([lambda row: None, refuse], [1, 2, 3, 4], 5.0, Latencies())


def test_the_tail_is_told_by_the_trees_that_rows_need():
    n_evaluated = np.array([1, 10, 50, 80])
    rows = np.tile(np.arange(4), 250)
    found = Latencies([1000 * n_evaluated[rows]], [rows], 1.0)

    *parts, slowest = by_trees(found, n_evaluated, 80)

    assert [part["trees"] for part in parts] == [[1, 10], [41, 79], [80, 80]]
    assert [part["share"] for part in parts] == [0.5, 0.25, 0.25]
    assert [part["p99.9"] for part in parts] == [10.0, 50.0, 80.0]
    assert slowest == {"all_trees_among_slowest": 1.0}


def a_case(model="lightgbm", exact=10.0, peer=20.0, differs=0):
    def entry(name, latency, ours):
        return {
            "engine": name,
            "threads": 2,
            "ours": ours,
            "rows_per_second": 1e6 / latency,
            **{"p50": latency, "p99": 2 * latency, "p99.9": 3 * latency},
        }

    return {
        "dataset": "adult",
        "model": model,
        "title": model.upper(),
        "n_trees": 500,
        "machine": {"date": "2026-01-01", "load_before": 0.1, "cores": 2},
        "rows": {"sent": 4000},
        "early": {
            "method": "CascadeClassifier",
            "trees": 50.0,
            "disagreement": 0.001,
            "all_trees": 0.02,
        },
        "peers": {
            "theirs": {
                "status": "timed",
                "agreement": {"labels_differ": differs, "rows": 100},
            },
            "gone": {"status": "skipped", "reason": "not installed"},
        },
        "times": [
            entry(EXACT, exact, True),
            entry(EARLY, 5.0, True),
            entry("theirs", peer, False),
        ],
        "tail": {
            "1": [
                {"trees": [1, 62], "share": 1.0, "p50": 4.0, "p99": 5.0, "p99.9": 6.0},
                {"all_trees_among_slowest": 0.0},
            ]
        },
    }


def a_result(*cases):
    machine = {"cpu": "A", "cores": 2, "system": "S", "date": "D", "python": "3"}
    return {
        "quick": False,
        "machine": machine | {"load_before": 0.1, "versions": {"spinney": "1"}},
        "settings": {"threads": [2]},
        "cases": list(cases),
    }


def test_the_page_says_where_another_engine_is_ahead():
    text = tables.render(a_result(a_case(exact=10.0, peer=8.0)))

    assert "2 threads, p50: theirs has 0.80 of the latency" in text
    assert "(with early exit 1.60)" in text
    assert "| theirs | 8.00 / 16.0 / 24.0 |" in text
    assert "gone: not installed" in text
    ahead = tables.render(a_result(a_case(exact=10.0, peer=20.0)))
    assert "No other engine is ahead" in ahead
    assert "**2.0** (theirs)" in ahead


def test_an_engine_with_other_answers_is_not_compared_with():
    case = a_case(exact=10.0, peer=1.0, differs=11)
    assert tables.compared(case, EXACT, 2, "p50") is None


def test_cases_of_an_earlier_run_stay_and_new_ones_take_their_place():
    before = a_result(a_case("rf-deep", exact=1.0), a_case("lightgbm", exact=2.0))
    now = a_result(a_case("lightgbm", exact=3.0))

    merged = run.with_other_cases(now, before)

    found = [(case["model"], case["times"][0]["p50"]) for case in merged["cases"]]
    assert found == [("rf-deep", 1.0), ("lightgbm", 3.0)]
