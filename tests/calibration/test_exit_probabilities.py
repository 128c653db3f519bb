"""Means of full probabilities by exit point and score: against slow twins."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spinney import FormatError
from spinney.calibration import exit_probabilities as subject
from spinney.calibration.exit_probabilities import ExitProbabilities

HALF = (0.5, float(np.nextafter(0.5, 1.0)))
HALF_OF_FLOAT32 = (0.5, float(np.nextafter(np.float32(0.5), np.float32(1.0))))


def left_early(n_rows, n_classes, n_points=6, seed=0, n_stay=0):
    """Return rows that left at exit points, and full probabilities like their sums."""
    rng = np.random.default_rng(seed)
    points = np.sort(rng.choice(np.arange(1, 40), n_points, replace=False))
    n_sums = 1 if n_classes == 2 else n_classes
    sums = rng.normal(size=(n_rows, n_sums))
    n_evaluated = rng.choice(points, n_rows)
    n_evaluated[:n_stay] = 40
    raw = sums + 0.3 * rng.normal(size=sums.shape)
    if n_classes == 2:
        classes = (sums[:, 0] > 0).astype(np.intp)
        second = 1 / (1 + np.exp(-2 * raw[:, 0]))
        full = np.column_stack([1 - second, second])
    else:
        classes = sums.argmax(axis=1)
        powers = np.exp(2 * raw)
        full = powers / powers.sum(axis=1, keepdims=True)
    return points, (classes, n_evaluated, sums), full


def learnt(points, answered, full, scale=None):
    scale = np.ones(len(points)) if scale is None else scale
    return ExitProbabilities.learn(points, scale, HALF, answered, full)


@given(
    n_rows=st.integers(0, 400),
    n_classes=st.integers(2, 5),
    seed=st.integers(0, 10**6),
)
@example(n_rows=3, n_classes=2, seed=9457)  # within a rounding of float32
@settings(max_examples=60, deadline=None)
def test_probabilities_are_such_and_agree_with_the_answers(n_rows, n_classes, seed):
    points, answered, full = left_early(
        n_rows, n_classes, seed=seed, n_stay=n_rows // 5
    )
    known = learnt(points, answered, full)
    known.check()
    new = left_early(100, n_classes, seed=seed)[1]  # the same exit points
    classes = np.random.default_rng(seed).integers(n_classes, size=100)
    for given_classes in (new[0], classes):
        found = known.probabilities(given_classes, new[1], new[2])
        assert ((found >= 0) & (found <= 1)).all()
        assert np.allclose(found.sum(axis=1), 1.0, rtol=0, atol=1e-12)
        assert np.array_equal(found.argmax(axis=1), given_classes)
        # In float32, too, which XGBoost's probabilities are, and so are its limits.
        single = replace(known, limits=HALF_OF_FLOAT32)
        found_single = single.probabilities(given_classes, new[1], new[2])
        assert np.array_equal(
            found_single.astype(np.float32).argmax(axis=1), given_classes
        )
        lookup = known.of_single_rows()
        one_by_one = [
            lookup(int(c), int(n), s, None)
            for c, n, s in zip(given_classes, new[1], new[2], strict=True)
        ]
        assert np.allclose(one_by_one, found, rtol=0, atol=1e-14)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_they_are_means_of_what_the_full_ensemble_says(n_classes):
    points, answered, full = left_early(4000, n_classes)
    known = learnt(points, answered, full)
    found = known.probabilities(*answered)
    # On the rows themselves, for each exit point and answer.
    for point in points:
        for c in range(n_classes):
            some = (answered[1] == point) & (answered[0] == c)
            if some.sum() > 200:
                gap = found[some, c].mean() - full[some, c].mean()
                assert abs(gap) < 0.02
    # On fresh rows: as close as the score allows, closer than any constant.
    points, fresh, truth = left_early(4000, n_classes, seed=1)
    found = learnt(points, *left_early(4000, n_classes, seed=1)[1:]).probabilities(
        *fresh
    )
    error = np.abs(found - truth).mean()
    assert error < 0.5 * np.abs(truth.mean(axis=0) - truth).mean()


def test_the_slow_way_gives_the_same_curve():
    """Isotonic means of bins, by pool-adjacent-violators in plain Python."""
    rng = np.random.default_rng(3)
    scores = rng.integers(0, 60, size=500).astype(float)
    full = np.clip(scores / 60 + 0.4 * rng.normal(size=500), 0, 1)
    at, values = subject._curve(scores, full)
    n_means = min(500 // subject.ROWS_PER_MEAN, subject.MOST_MEANS)
    edges = sorted({sorted(scores)[k * 500 // n_means] for k in range(1, n_means)})
    blocks = []
    for low, high in zip([-np.inf, *edges], [*edges, np.inf], strict=True):
        some = (scores >= low) & (scores < high)
        if some.any():
            blocks.append([[scores[some].mean()], full[some].sum(), int(some.sum())])
    done = []
    for block in blocks:
        done.append(block)
        while len(done) > 1 and done[-2][1] / done[-2][2] >= done[-1][1] / done[-1][2]:
            x, total, count = done.pop()
            done[-1] = [done[-1][0] + x, done[-1][1] + total, done[-1][2] + count]
    slow_at = [x for xs, _, _ in done for x in xs]
    slow_values = [total / count for xs, total, count in done for _ in xs]
    assert np.allclose(np.interp(slow_at, at, values), slow_values)
    assert (np.diff(values) >= 0).all()
    assert (np.diff(at) > 0).all()


@pytest.mark.parametrize("seed", range(40))
def test_curves_rise_though_equal_leads_are_rounded_differently(seed):
    # Leads of votes after 13 of 60 trees: a difference of two scaled counts.
    rng = np.random.default_rng(seed)
    first, second = rng.integers(0, 14, (2, 2000))
    scores = first * (60 / 13) - second * (60 / 13)
    full = (scores + 60.0) / 140.0 + 0.1 * rng.random(2000)
    at, values = subject._curve(scores, full)
    assert (np.diff(at) > 0).all()
    assert (np.diff(values) >= 0).all()


def test_exit_points_with_few_rows_are_put_together():
    counts = np.array([10, 500, 30, 30, 50, 20, 5])
    groups = subject._groups(counts)
    assert groups.tolist() == [0, 0, 1, 1, 1, 1, 1]
    assert subject._groups(np.array([3, 0, 4])).tolist() == [0, 0, 0]
    assert subject._groups(np.array([100, 100])).tolist() == [0, 1]


def test_what_no_calibration_row_has_done_gets_what_is_usual():
    points, (classes, n_evaluated, sums), full = left_early(300, 2)
    only = classes == 0
    known = learnt(points, (classes[only], n_evaluated[only], sums[only]), full[only])
    found = known.probabilities(np.ones(1, int), points[:1], np.array([[5.0]]))
    assert found[0, 1] == pytest.approx(full[only, 0].mean())
    nothing = learnt(points, (classes[:0], n_evaluated[:0], sums[:0]), full[:0])
    found = nothing.probabilities(np.array([0, 1]), points[:2], np.zeros((2, 1)))
    assert found.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert nothing.probabilities(classes[:0], n_evaluated[:0], sums[:0]).shape == (0, 2)


def test_an_answer_that_its_mean_contradicts_is_moved_to_the_decision_threshold():
    points, (classes, n_evaluated, sums), full = left_early(300, 2)
    limits = (float(np.nextafter(0.9, 0.0)), 0.9)
    known = ExitProbabilities.learn(
        points, np.ones(len(points)), limits, (classes, n_evaluated, sums), full
    )
    found = known.probabilities(classes, n_evaluated, sums)[:, 1]
    assert np.array_equal(found >= 0.9, classes == 1)


def test_sums_of_neighbouring_exit_points_are_made_comparable():
    rng = np.random.default_rng(0)
    points = np.array([10, 20])
    share = rng.uniform(size=120)
    n_evaluated = rng.choice(points, 120)
    classes = (share > 0.5).astype(np.intp)
    full = np.column_stack([1 - share, share])
    answered = classes, n_evaluated, (share * n_evaluated)[:, None]
    known = learnt(points, answered, full, scale=40 / points)
    found = known.probabilities(*answered)[:, 1]
    assert np.abs(found - share).max() < 0.2


@pytest.mark.parametrize("n_classes", [2, 3])
def test_arrays_that_do_not_fit_together_are_refused(n_classes):
    points, answered, full = left_early(500, n_classes)
    good = learnt(points, answered, full)
    parts = vars(good)
    bad = {
        "tables": [good.tables[1:], good.tables + 1000, good.tables - 1],
        "offsets": [good.offsets[1:], good.offsets[::-1], good.offsets * 2],
        "scores": [good.scores[:-1], good.scores * np.nan, -good.scores],
        "values": [good.values + 1.0, good.values - 1.0, good.values * np.nan],
    }
    for name, forged in bad.items():
        for one in forged:
            with pytest.raises(FormatError, match="do not fit together"):
                ExitProbabilities(**(parts | {name: one})).check()
