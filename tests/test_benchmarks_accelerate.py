"""The tables about `accelerate`: what they compare with, and what they own up to."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

pytest.importorskip("benchmarks.accelerate", reason="benchmarks are not shipped here")

from benchmarks.accelerate import tables  # noqa: E402
from benchmarks.accelerate.worker import FAST, OWN, WHOLE, interval  # noqa: E402


def timed(peer, batch, per_row, rows=None):
    rows = rows or batch
    times = {"median_us": per_row * rows, "min_us": 0.5 * per_row * rows}
    return {"peer": peer, "threads": 1, "batch": batch, "rows": rows} | times


def agreeing(labels_differ, probabilities_differ):
    found = {
        "labels_differ": labels_differ,
        "probabilities_differ": probabilities_differ,
        "rows": 1000,
    }
    return {"status": "timed", "ours": False, "agreement": found}


def fit(seed, n_differ, warnings=()):
    trial = {
        "name": "soft votes",
        "disagreement": 0.0004,
        "trees": 8.125,
        "microseconds_batch": 0.75,
        "microseconds_single": None,
        "kept_promise": True,
        "chosen": True,
    }
    return {
        "seed": seed,
        "kept": "soft votes",
        "share": 0.0812,
        "n_differ": n_differ,
        "n_new": 5000,
        "interval": interval(n_differ, 5000),
        "seconds": 3.0 + seed,
        "warnings": list(warnings),
        "acceleration": {"trials": [trial], "n_compared": 4000},
    }


@pytest.fixture
def result():
    slow = {
        "dataset": "covertype",
        "title": "a forest",
        "paper_share": 0.1302,
        "rows": {"train": 35_000, "given": 10_000, "new": 5_000},
        "fits": [fit(0, 4), fit(1, 40, ["Too few rows."])],
        "labels_differ": {WHOLE: 0, "predictor": 0},
        "peers": {
            "Rough": agreeing(3, 9),
            "Good": agreeing(0, 0),
            "Broken": agreeing(600, 600),
            "Row": agreeing(0, 0),
            "Absent": {"status": "skipped", "reason": "not installed (x)"},
        },
        "times": [
            timed(OWN, 10_000, 20.0),
            timed(WHOLE, 10_000, 3.0),
            timed(FAST, 10_000, 1.0),
            timed("Rough", 10_000, 4.0),
            timed("Good", 10_000, 12.0, rows=1_000),
            timed("Broken", 10_000, 0.5),
            timed(OWN, 1, 900.0),
            timed(WHOLE, 1, 15.0),
            timed(FAST, 1, 5.0),
            timed("Row", 1, 40.0),
        ],
    }
    # As fast as the goal asks, and a set on which it asks for nothing.
    times = [timed(FAST, 10_000, 0.8), *slow["times"][:2], *slow["times"][3:]]
    met = slow | {"dataset": "shuttle", "paper_share": 0.0103, "times": times}
    other = slow | {"dataset": "adult", "paper_share": None}
    return {
        "quick": False,
        "machine": {
            "cpu": "Some Processor",
            "cores": 2,
            "system": "Linux",
            "python": "3.12.1",
            "date": "2026-01-31",
            "load_before": 0.1,
            "load_after": 1.0,
            "versions": {"numpy": "2.4.0"},
        },
        "settings": {"batch": 10_000, "level": 0.001, "wall_seconds": 600.0},
        "cases": [slow, met, other],
    }


def test_tables_name_the_fastest_engines_and_where_the_goal_is_missed(result):
    text = tables.render(result)

    assert "was missed on 1 of 2:" in text
    assert "- Covertype: a forest: 4.00 times as fast as Rough." in text
    assert "Shuttle: a forest: 5.00 times" not in text
    times = r"20.0 (10.0) | 4.00 (Rough\*) | 12.0 (Good) | 3.00 (1.50) | 1.00 (0.50)"
    assert f"| Covertype: a forest | {times} |" in text
    assert "| Covertype: a forest | 20.0 | 4.00 | 12.0 | 3.00 |" in text
    others = "900 (450) | 40.0 (Row) | 40.0 (Row) | 15.0 (7.50)"
    assert (
        f"| Covertype: a forest | {others} | 5.00 (2.50) | 180 | 8.00 | 3.00 |" in text
    )
    assert "| Good | 12.0 (6.00) on 1,000 rows |  | none |" in text
    assert "Skipped: Absent: not installed (x)." in text
    assert "busy" not in text


def test_tables_say_what_became_of_the_bound_on_new_rows(result):
    text = tables.render(result)

    kept = "soft votes | 13.02 % | 8.12 % | 0.080 % | 0.022 to 0.205 %"
    assert f"| Covertype: a forest | {kept} | 10,000, 5,000 | 3.5 s |" in text
    assert "above 0.1 % for 3 of 6 accelerated models, and for 3 the whole" in text
    assert "- Covertype: a forest, seed 1: Too few rows." in text


def test_goal_that_is_reached_everywhere_is_said_to_be(result):
    result["cases"] = result["cases"][1:]

    assert "was reached on 1 of 1." in tables.render(result)


def test_short_table_goes_between_the_marks_and_nowhere_else(result, tmp_path, capsys):
    page, readme = tmp_path / "page.md", tmp_path / "README.md"
    page.write_text("<!-- results: begin -->\n<!-- results: end -->\n")
    readme.write_text(f"before\n{tables.BEGIN}\nold\n{tables.END}\nafter\n")

    tables.write_pages(json.loads(json.dumps(result)), page, readme)

    text = readme.read_text()
    assert text.startswith(f"before\n{tables.BEGIN}\n")
    assert text.endswith(f"{tables.END}\nafter\n")
    assert "old" not in text
    line = r"20.0 | 4.00 (Rough\*) | **3.00** (7 ×) | **1.00** (20 ×) | 0.08 %"
    assert f"| Covertype: a forest | {line} |" in text
    assert "8.1 % on Covertype" in text
    assert "Covertype" in (tmp_path / tables.FIGURE).read_text()

    readme.write_text("no marks")
    tables.write_pages(result, page, readme)

    assert readme.read_text() == "no marks"
    assert "lacks the marks" in capsys.readouterr().out


def test_interval_holds_the_rates_under_which_the_count_is_not_unusual():
    low, high = interval(0, 100)

    assert low == 0.0
    assert high == pytest.approx(1.0 - 0.025 ** (1 / 100), rel=1e-6)
