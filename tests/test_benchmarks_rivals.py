"""The benchmark of rivals: rules do what they are said to do, and tables show it."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_classification

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

pytest.importorskip("benchmarks.rivals", reason="benchmarks are not shipped here")
pytest.importorskip("lightgbm")

from benchmarks import data  # noqa: E402
from benchmarks.promise import cases  # noqa: E402
from benchmarks.rivals import costs, reweighted, run, stop_rules, tables  # noqa: E402
from benchmarks.rivals.partial import Partial  # noqa: E402

SUMS = np.array([[0.2, 0.6, 0.4, 0.5], [-0.1, 0.1, -0.3, -0.2], [0.3, -0.3, 0.1, 0.2]])
PARTIAL = Partial(SUMS, np.arange(1, 5))


def test_a_margin_stops_at_the_first_step_beyond_it():
    (stopped,) = stop_rules.aggregated_margin(PARTIAL, dials=np.array([0.25]))
    assert stopped.step.tolist() == [1, 2, 0]
    assert stop_rules.outcome(PARTIAL, stopped) == (2.0, 0.0)
    (bold,) = stop_rules.aggregated_margin(PARTIAL, dials=np.array([0.0]))
    assert bold.step.tolist() == [0, 0, 0]
    (never,) = stop_rules.aggregated_margin(PARTIAL, dials=np.array([1.0]))
    assert never.step.tolist() == [3, 3, 3]


def test_rows_stop_when_increments_are_small_beside_the_first():
    increments = np.array([4.0, -4.0, 4.0, 1.0, -1.0, 0.1, 0.1, 0.1])
    partial = Partial(np.cumsum(increments)[None], np.arange(1, 9))
    for dial, step in ((0.9, 4), (0.3, 5), (0.001, 7)):
        (stopped,) = stop_rules.interquartile(partial, 3, dials=np.array([dial]))
        spread = [
            np.subtract(*np.quantile(increments[k - 2 : k + 1], [0.75, 0.25]))
            for k in range(2, 8)
        ]
        first = [k + 2 for k, one in enumerate(spread) if one / spread[0] < dial]
        assert stopped.step[0] == (first[0] if first else 7) == step


def test_several_classes_are_led_by_the_best():
    sums = np.array([[[0.1, 0.5, 0.4], [0.7, 0.1, 0.2]]])
    partial = Partial(sums, np.array([3, 6]))
    np.testing.assert_allclose(partial.lead, [[0.1, 0.5]])
    assert partial.labels.tolist() == [[1, 0]]


def test_weights_keep_all_predictions_with_fewer_trees():
    rng = np.random.default_rng(0)
    useful = rng.choice([-1.0, 1.0], size=(400, 1)) * rng.uniform(1, 2, size=(400, 3))
    scores = np.column_stack([useful, 0.01 * rng.normal(size=(400, 10)), np.zeros(400)])
    scores *= np.sign(scores.sum(axis=1))[:, None]
    weights = reweighted.fewest_weights(scores, None)
    assert (scores @ weights > 0).all()
    assert (np.abs(weights[:-1]) > 1e-9).sum() <= 3


@pytest.fixture
def made_up(monkeypatch, tmp_path):
    X, y = make_classification(
        3000, n_features=8, n_informative=5, flip_y=0.1, random_state=0
    )
    table = data.Table("magic", X.astype(np.float32), y.astype(np.int64), None)
    monkeypatch.setattr(data, "load", lambda name: table)
    monkeypatch.setattr(run, "TARGETS", (0.02,))
    monkeypatch.setattr(run, "PRICES", (None, 1.0))
    monkeypatch.setattr(costs, "TRADE_OFFS", (0.0, 0.01))
    cases.pool_of.cache_clear()
    yield tmp_path
    cases.pool_of.cache_clear()


def test_all_rivals_are_measured_on_the_same_rows(made_up):
    found = [run.measure(kind, "magic", made_up, 12) for kind in ("forest", "lightgbm")]
    for case in found:
        names = [one["rival"] for one in case["entries"]]
        assert names[0] == "spinney, cascade"
        assert {"aggregated margin", "P2-STOP", "fewer trees"} < set(names)
        for one in case["entries"]:
            assert 0 < one["trees"] <= 12
            assert one["disagreement"] <= 0.1
        certain = case["entries"][names.index("only certain exits")]
        assert certain["disagreement"] == 0.0
    text = tables.render(found, [])
    assert "MAGIC: LightGBM, 12 trees" in text
    assert "LightGBM pred_early_stop" in text


def test_columns_bought_are_counted(made_up):
    pytest.importorskip("ortools", reason="pruning needs the extra prune")
    found = costs.measure("magic")
    for kind in ("pruned forest", "LightGBM, CEGB"):
        assert all(0 <= cost <= 8 and 0 <= error <= 1 for cost, error in found[kind])
    assert costs.least_error([(1.0, 0.3), (2.0, 0.1)], 1.5) == 0.3
    assert costs.least_error([(1.0, 0.3)], 0.5) is None
