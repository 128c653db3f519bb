"""The benchmark of first predictions puts its numbers where they belong."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

pytest.importorskip("benchmarks.cold", reason="benchmarks are not shipped here")

from benchmarks.cold import run  # noqa: E402


def measured(case, state, engine="auto", answer=(1.0, 2.0)):
    return {
        "case": case,
        "state": state,
        "engine": engine,
        "imports": [0.5, 0.6],
        "answer": list(answer),
    }


def test_the_table_has_a_line_for_each_case_and_engine():
    case = run.CASES[1]
    results = [measured(case, state, answer=(0.1, 0.2)) for state in run.STATES]
    results += [measured(case, "empty", "compiled", (9.0, 10.0))]
    table = run.table_of(results)
    assert f"| {case} | auto | 0.10 | 0.20 | 0.10 | 0.20 | 0.10 | 0.20 |" in table
    assert f"| {case} | compiled | 9.00 | 10.00 |" in table
    assert "take 0.5 s of processor time" in table


def test_the_middle_of_several_runs_counts():
    runs = [measured("", "", answer=(k, 10 * k)) for k in (3.0, 1.0, 2.0)]
    assert run.median_of(runs)["answer"] == [2.0, 20.0]
    assert run.median_of(runs)["n_runs"] == 3
