"""The histogram of positive votes."""

from __future__ import annotations

import numpy as np
import pytest

from spinney.errors import InvalidArgumentError
from spinney.sequential.plotting import plot_votes


@pytest.fixture
def pyplot():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


def shares(patch):
    return np.asarray(patch.get_data().values).tolist()


def test_bars_are_shares_of_all_rows(pyplot):
    ax = plot_votes([0, 0, 3, 1], 3)
    (bars,) = ax.patches
    assert shares(bars) == [50.0, 25.0, 0.0, 25.0]
    assert ax.get_xlabel() == "positive votes"
    assert ax.get_ylabel() == "% of rows"
    ax.figure.canvas.draw()


def test_true_classes_are_drawn_apart_and_add_up(pyplot):
    _, ax = pyplot.subplots()
    assert plot_votes(np.array([0, 0, 3, 1]), 3, y=[0, 1, 1, 0], ax=ax) is ax
    negative, positive = ax.patches
    assert shares(negative) == [25.0, 25.0, 0.0, 0.0]
    assert shares(positive) == [25.0, 0.0, 0.0, 25.0]


@pytest.mark.parametrize("numbers", [[4], [-1], [[1, 2]], [0.5], [], ["a"]], ids=str)
def test_impossible_numbers_of_votes_are_refused(numbers):
    with pytest.raises(InvalidArgumentError, match="integers from 0 to 3"):
        plot_votes(numbers, 3)


def test_classes_of_another_length_are_refused():
    with pytest.raises(InvalidArgumentError, match="each of the 2 rows"):
        plot_votes([1, 2], 3, y=[1])
