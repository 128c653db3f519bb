"""What the pages of the papers are made with, and that all benchmarks still fit us."""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

pytest.importorskip("benchmarks.papers", reason="benchmarks are not shipped here")

from benchmarks.papers import cascade, drawing  # noqa: E402

from spinney.ordering import ScoreTable  # noqa: E402

SOURCES = sorted((ROOT / "benchmarks").glob("**/*.py"))


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


# ------------------------------------------------------------------ imports


def names_from_us(path):
    """Yield (module, name) for what a file imports from spinney or benchmarks.

    Imports inside functions are among them: they would fail only on use.
    """
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            if node.module.split(".")[0] in ("spinney", "benchmarks"):
                yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] in ("spinney", "benchmarks"):
                    yield alias.name, None


@pytest.mark.parametrize(
    "path", SOURCES, ids=[str(path.relative_to(ROOT)) for path in SOURCES]
)
def test_what_benchmarks_import_is_there(path):
    for module, name in names_from_us(path):
        found = importlib.import_module(module)
        if name is not None and not hasattr(found, name):
            importlib.import_module(f"{module}.{name}")


# ------------------------------------------------------------------ cascades


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(0)

    def table():
        strength = np.geomspace(1.0, 0.1, 12)
        return ScoreTable.of_scores(
            rng.normal(0.2, 1.0, size=(150, 1)) * strength
            + 0.5 * rng.normal(size=(150, 12)) * strength
        )

    calibration, test = table(), table()
    return cascade.Case(
        model=None,
        rate=0.1,
        train=calibration,
        labels_train=calibration.decisions,
        X_calibration=np.zeros((150, 1), dtype=np.float32),
        calibration=calibration,
        labels_calibration=calibration.decisions,
        X_test=np.zeros((150, 1), dtype=np.float32),
        test=test,
        y_test=test.decisions,
        smaller={},
    )


def test_every_method_makes_rules_that_keep_a_level_on_their_rows(case):
    methods = cascade.methods_of(case, 0, "both")
    assert {"QWYC*", "Fan*", "qwyc, Algorithm 2", "random, optimal"} <= set(methods)
    rejecting = cascade.methods_of(case, 0, "negative")
    methods |= {
        f"{name}, rejecting": rejecting[name] for name in cascade.REJECTING_EARLY
    }
    table = case.calibration
    second = cascade.data.split(table.n_rows, (0.5, 0.5), 0)[1]
    for name, fit in methods.items():
        on_half = name.split(", ")[0] in ("qwyc", "individual_mse", "greedy_mse")
        rows = table.take_rows(second) if on_half else table
        for level in (0.0, 0.02):
            decisions, n_evaluated = rows.follow(fit(level))
            assert np.mean(decisions != rows.decisions) <= level, name
        assert n_evaluated.mean() < 12, name


def test_trees_are_read_off_between_two_levels():
    points = [
        {"disagreement": 0.002, "trees": 30.0},
        {"disagreement": 0.006, "trees": 10.0},
    ]
    assert cascade.trees_at(points, 0.005) == pytest.approx(15.0)
    assert np.isnan(cascade.trees_at(points, 0.01))
