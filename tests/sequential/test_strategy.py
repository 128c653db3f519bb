"""What a strategy tells about itself, its JSON form, and its pictures."""

from __future__ import annotations

import json
import sys

import numba
import numpy as np
import pytest

import spinney
from spinney import StoppingStrategy
from spinney.errors import FormatError

WITHOUT_JIT = bool(numba.config.DISABLE_JIT)


@pytest.fixture(scope="module")
def strategy():
    return spinney.optimal_strategy(11, 0.01, objective="minimixed")


def test_theta_is_what_thresholds_and_fractional_states_say(strategy):
    theta = strategy.theta
    assert theta.shape == (12, 12)
    assert theta.dtype == np.float64
    listed = {(i, j): stop for i, j, stop in strategy.fractional}
    assert listed, "this strategy draws lots somewhere"
    for i in range(12):
        for j in range(12):
            if j > i:
                expected = 0.0
            elif j <= strategy.lower[i] or j >= strategy.upper[i]:
                expected = 1.0
            else:
                expected = listed.get((i, j), 0.0)
            assert theta[i, j] == expected
            if j <= i:
                assert strategy.stop_probability(i, j) == expected
    assert (theta[11] == 1.0).all()


def test_theta_is_made_once_and_cannot_be_changed(strategy):
    assert strategy.theta is strategy.theta
    with pytest.raises(ValueError, match="read-only"):
        strategy.theta[0, 0] = 1.0


def test_a_large_theta_takes_half_the_room_and_is_rounded_down(strategy, monkeypatch):
    monkeypatch.setattr("spinney.sequential.strategy.WIDE_THETA_BYTES", 0)
    narrow = StoppingStrategy.from_dict(strategy.to_dict()).theta
    assert narrow.dtype == np.float32
    assert (narrow <= strategy.theta).all()
    assert narrow == pytest.approx(strategy.theta, rel=1e-6)


def test_decisions_lie_on_their_side(strategy):
    steps = np.arange(12)
    assert (strategy.lower <= steps // 2).all()
    assert (strategy.upper > steps // 2).all()


def test_profile_gives_the_value_of_the_objective(strategy):
    votes, wrong = strategy.profile()
    assert votes.shape == wrong.shape == (12,)
    assert votes.mean() == pytest.approx(strategy.expected_votes, rel=1e-12)
    assert wrong.max() == pytest.approx(strategy.proven_disagreement, rel=1e-12)
    assert wrong.max() <= strategy.max_disagreement


def test_repr_names_the_promise_and_the_price(strategy):
    text = repr(strategy)
    assert "n_voters=11, max_disagreement=0.01, objective='minimixed'" in text
    assert f"expected_votes={strategy.expected_votes:.6g}" in text


def test_gap_of_a_strategy_without_votes_is_zero():
    assert spinney.optimal_strategy(3, 0.9, min_votes=0).gap == 0.0


@pytest.mark.parametrize("objective", ["minimean", "minimixed", "minimax"])
@pytest.mark.parametrize("bound", [0.0, 0.03])
def test_json_brings_the_same_strategy_back(objective, bound):
    before = spinney.optimal_strategy(8, bound, objective=objective)
    document = json.loads(json.dumps(before.to_dict()))
    after = StoppingStrategy.from_dict(document)
    assert after.to_dict() == before.to_dict()
    assert after.theta.tolist() == before.theta.tolist()
    assert after.n_voters == 8
    assert after.profile()[1].tolist() == before.profile()[1].tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, "not a description of a stopping strategy"),
        ({"version": 99}, "has version 99, this spinney reads version 1"),
        ({"n_voters": 10}, "one threshold per step"),
        ({"n_voters": "many"}, "damaged: ValueError"),
        ({"lower": [0]}, "one threshold per step"),
        ({"lower": [-2] * 12}, "lower must lie between"),
        ({"lower": [5] * 12}, "lower must lie between"),
        ({"upper": [0] * 12}, "upper must lie above"),
        ({"upper": [99] * 12}, "upper must lie above"),
        ({"lower": [-1] * 12}, "every state of the last step"),
        ({"fractional": [[0, 5, 0.5]]}, r"\(0, 5\) does not lie between"),
        ({"fractional": [[99, 0, 0.5]]}, r"\(99, 0\) does not lie between"),
        ({"fractional": [[0, 0, 1.5]]}, r"probability of state \(0, 0\) is 1.5"),
        ({"fractional": [[0, 0, 0.5]] * 2}, "listed twice"),
        ({"fractional": [[0, 0]]}, "damaged: ValueError"),
        ({"fractional": None}, "damaged: TypeError"),
        ({"expected_votes": float("nan")}, "not finite"),
        ({"proof": None, "lower_bound": None}, "damaged: TypeError"),
        ({"lower": [2**70] * 12}, "damaged: OverflowError"),
    ],
)
def test_damaged_descriptions_are_refused(strategy, change, message):
    with pytest.raises(FormatError, match=message):
        StoppingStrategy.from_dict(strategy.to_dict() | change)


@pytest.mark.parametrize("missing", ["lower", "fractional", "objective", "n_voters"])
def test_missing_entries_are_named(strategy, missing):
    document = strategy.to_dict()
    del document[missing]
    with pytest.raises(FormatError, match=missing):
        StoppingStrategy.from_dict(document)


def test_something_else_than_a_mapping_is_refused():
    with pytest.raises(FormatError, match="Pass what to_dict"):
        StoppingStrategy.from_dict([1, 2])


@pytest.fixture
def pyplot():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


def test_plot_draws_both_thresholds(strategy, pyplot):
    ax = strategy.plot()
    upper, lower, _ = ax.lines
    assert upper.get_ydata().tolist() == strategy.upper.tolist()
    assert lower.get_ydata().tolist() == strategy.lower.tolist()
    ax.figure.canvas.draw()


def test_plot_takes_axes_that_exist(pyplot):
    _, ax = pyplot.subplots()
    assert spinney.optimal_strategy(5, 0.0).plot(ax=ax) is ax


def test_plot_shows_the_graph_of_states_of_a_small_vote(pyplot):
    strategy = spinney.optimal_strategy(3, 0.1, objective="minimax")
    ax = strategy.plot(3)
    # All voters are positive: one chain of four states.
    labels = [text.get_text() for text in ax.texts if text.get_text()]
    assert labels == ["0", "1", "2", "3"]
    ax.figure.canvas.draw()
    assert len(strategy.plot(1).texts) > len(ax.texts)


def test_plot_refuses_graphs_that_nobody_can_read(strategy):
    with pytest.raises(ValueError, match="from 0 to 11, got 12"):
        strategy.plot(12)
    with pytest.raises(ValueError, match="for up to 20 voters, got 21"):
        spinney.optimal_strategy(21, 0.0).plot(3)


def test_plot_without_matplotlib_names_the_extra_to_install(monkeypatch):
    strategy = spinney.optimal_strategy(3, 0.0)
    # Importing it now fails as if it were not there.
    for name in ["matplotlib", *sys.modules]:
        if name.partition(".")[0] == "matplotlib":
            monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"spinney\[plot\]"):
        strategy.plot()


@pytest.mark.skipif(WITHOUT_JIT, reason="takes too long in plain Python")
def test_a_thousand_voters_are_no_trouble():
    strategy = spinney.optimal_strategy(1001, 1e-3)
    assert strategy.gap <= 1e-9
    assert strategy.proven_disagreement <= 1e-3
    votes, wrong = strategy.profile()
    assert wrong.mean() <= 1e-3
    assert votes.mean() == pytest.approx(strategy.expected_votes)
