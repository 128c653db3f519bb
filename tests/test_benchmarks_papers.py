"""What the pages of the papers are drawn with."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

pytest.importorskip("benchmarks.papers", reason="benchmarks are not shipped here")

from benchmarks.papers import drawing  # noqa: E402


@pytest.fixture
def pyplot():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


def shares(patch):
    return np.asarray(patch.get_data().values).tolist()


def test_votes_of_true_classes_are_drawn_apart_and_add_up_to_all_rows(pyplot):
    _, ax = pyplot.subplots()
    drawing.draw_votes(np.array([0, 0, 3, 1]), 3, np.array([0, 1, 1, 0]), ax)
    negative, positive = ax.patches
    assert shares(negative) == [25.0, 25.0, 0.0, 0.0]
    assert shares(positive) == [25.0, 0.0, 0.0, 25.0]
    assert ax.get_xlabel() == "positive votes"
    assert ax.get_ylabel() == "% of rows"


def test_the_same_figure_gives_the_same_file(pyplot, tmp_path, monkeypatch):
    monkeypatch.setattr(drawing, "FIGURES", tmp_path)
    written = []
    with pyplot.rc_context():
        drawing.start_drawing()
        for _ in range(2):
            figure, ax = pyplot.subplots()
            ax.plot([0, 1], [1, 0], label="line")
            drawing.save_figure(figure, "line")
            written.append((tmp_path / "line.svg").read_bytes())
    assert written[0] == written[1]
    assert b"Date" not in written[0]
