import numpy as np
import pytest

from spinney.sequential.moved_thresholds import MovedThresholds

COSTS = np.array([1.0, 3.0, 10.0])


def two_sided(sums, full, thresholds):
    """Return how far paths are beyond pairs of thresholds, and whether it is wrong."""
    for here, low, high in zip(sums, *thresholds, strict=True):
        below, above = low - here, here - high
        yield np.maximum(below, above), (above > below) != full


def followed(sums, full, lower, upper):
    """Return mean cost, disagreement and shares that go on, path by path."""
    cost, wrong, undecided = [], 0, np.zeros(len(sums))
    for p in range(sums.shape[1]):
        for k, (low, high) in enumerate(zip(lower, upper, strict=True)):
            if sums[k, p] < low or sums[k, p] > high:
                cost.append(COSTS[k])
                wrong += (sums[k, p] > high) != full[p]
                break
            undecided[k] += 1
        else:
            cost.append(COSTS[-1])
    n_paths = sums.shape[1]
    return np.mean(cost), wrong / n_paths, undecided / n_paths


@pytest.mark.parametrize("target", [0.0, 0.01, 0.04, 0.2, 0.45])
@pytest.mark.parametrize("low", [-0.5, -np.inf])
def test_it_says_what_following_each_path_shows(target, low):
    rng = np.random.default_rng(0)
    sums = np.cumsum(rng.normal(size=(3, 300)), axis=0)
    full, sums = sums[2] > 0.0, sums[:2]
    thresholds = (np.array([low, -0.2]), np.array([0.6, 0.1]))
    moved = MovedThresholds(
        lambda level: thresholds,
        lambda given: two_sided(sums, full, given),
        COSTS,
        0.3,
    ).at(target, 0.01)
    lower, upper = thresholds[0] - moved.by, thresholds[1] + moved.by
    crossed = lower > upper
    lower[crossed] = upper[crossed] = 0.5 * (lower + upper)[crossed]
    cost, wrong, undecided = followed(sums, full, lower, upper)
    assert wrong == pytest.approx(moved.disagreement)
    assert wrong <= target
    assert cost == pytest.approx(moved.trees)
    np.testing.assert_allclose(undecided, moved.undecided)


@pytest.mark.parametrize("far", [0.0, 5.0, 500.0, 2000.0])
def test_moves_go_as_far_as_they_have_to(far):
    # One path in ten is wrong and beyond the threshold by `far`, the others by more.
    excess = np.concatenate([np.full(10, far), np.full(90, 2.0 * far + 1.0)])
    wrong = np.arange(100) < 10
    moved = MovedThresholds(
        lambda level: None, lambda given: [(excess, wrong)], COSTS[1:], 0.25
    ).at(0.05, 0.01)
    assert far <= moved.by <= 1.01 * far + 0.01
    assert (moved.trees, moved.disagreement) == (0.9 * 3.0 + 0.1 * 10.0, 0.0)


def test_nothing_stops_where_no_move_is_far_enough():
    moved = MovedThresholds(
        lambda level: None,
        lambda given: [(np.full(4, 1e9), np.ones(4, dtype=bool))],
        COSTS[1:],
        0.0,
    ).at(0.1, 0.1)
    assert (moved.by, moved.trees, moved.disagreement) == (np.inf, 10.0, 0.0)
    assert moved.undecided.tolist() == [1.0]


def test_neighbouring_disagreements_share_thresholds():
    levels = []
    rng = np.random.default_rng(0)
    moved = MovedThresholds(
        lambda level: levels.append(level),
        lambda given: [(rng.normal(size=50), np.zeros(50, dtype=bool))],
        COSTS[1:],
        1.0,
    )
    for target in np.geomspace(0.001, 0.9, 40):
        moved.at(target, 1e-6)
    assert len(levels) <= 11
    assert max(levels) <= 0.5
