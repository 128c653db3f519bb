"""Votes of trees that have not seen a row, and what they tell about new rows."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import binom
from sklearn.datasets import make_classification
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
)

import spinney
from spinney.calibration.out_of_bag import (
    class_counts,
    filled_scores,
    out_of_bag_mask,
    positive_vote_weights,
)
from spinney.errors import InvalidArgumentError, UnsupportedModelError

N_TREES = 101


def make_rows(n_rows, n_classes=2, flip_y=0.1):
    return make_classification(
        n_rows,
        n_informative=6,
        n_classes=n_classes,
        flip_y=flip_y,
        class_sep=0.7,
        random_state=0,
    )


# ------------------------------------------------------------------ which trees


@pytest.mark.parametrize(
    "model",
    [
        RandomForestClassifier(15, oob_score=True, random_state=1),
        RandomForestClassifier(15, oob_score=True, random_state=1, max_samples=0.3),
        ExtraTreesClassifier(15, bootstrap=True, oob_score=True, random_state=1),
        BaggingClassifier(n_estimators=15, oob_score=True, random_state=1),
        BaggingClassifier(
            n_estimators=15, oob_score=True, max_features=0.5, random_state=1
        ),
    ],
    ids=["forest", "small draws", "extra trees", "bagging", "some features"],
)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.filterwarnings("ignore:Some inputs do not have OOB:UserWarning")
def test_mask_gives_the_probabilities_that_the_model_calls_out_of_bag(model, weighted):
    X, y = make_rows(120)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 120) if weighted else None
    model.fit(X, y, sample_weight=weight)
    mask = out_of_bag_mask(model, 120)
    scores = spinney.read_model(model).scores(X)
    left_out = mask.any(axis=1)
    assert left_out.sum() > 110
    mean = (scores * mask[:, :, None]).sum(axis=1)[left_out]
    mean /= mask.sum(axis=1)[left_out, None]
    assert mean == pytest.approx(model.oob_decision_function_[left_out])


def test_rows_left_out_without_bootstrap_count_too():
    X, y = make_rows(50)
    model = BaggingClassifier(bootstrap=False, max_samples=0.5, random_state=0)
    mask = out_of_bag_mask(model.fit(X, y), 50)
    assert (mask.sum(axis=0) == 25).all()


@pytest.mark.parametrize(
    "model",
    [
        RandomForestClassifier(5, bootstrap=False),
        ExtraTreesClassifier(5),
        BaggingClassifier(n_estimators=5, bootstrap=False),
    ],
)
def test_a_model_whose_trees_saw_everything_is_refused(model):
    X, y = make_rows(30)
    with pytest.raises(UnsupportedModelError, match="Train with bootstrap=True"):
        out_of_bag_mask(model.fit(X, y), 30)


def test_a_model_that_draws_no_rows_is_refused():
    X, y = make_rows(30)
    model = GradientBoostingClassifier(n_estimators=2).fit(X, y)
    with pytest.raises(UnsupportedModelError, match="got GradientBoostingClassifier"):
        out_of_bag_mask(model, 30)


@pytest.mark.parametrize("kind", [RandomForestClassifier, BaggingClassifier])
def test_other_rows_than_the_training_rows_are_refused(kind):
    X, y = make_rows(30)
    with pytest.raises(InvalidArgumentError, match="trained on 30 rows, got 31"):
        out_of_bag_mask(kind(random_state=0).fit(X, y), 31)


# ------------------------------------------------------------------ two classes


def simulated(n_rows, probabilities, share=0.37, seed=0):
    """Draw votes with known probabilities, and which of them are known."""
    chance = np.random.default_rng(seed)
    p = probabilities(chance, n_rows)
    votes = chance.random((n_rows, N_TREES)) < p[:, None]
    return votes.astype(np.int64), chance.random((n_rows, N_TREES)) < share, p


CASES = {
    "close": lambda chance, n: chance.beta(20.0, 20.0, n),
    "agreeing": lambda chance, n: chance.beta(0.1, 0.3, n),
    "flat": lambda chance, n: chance.random(n),
    "unanimous": lambda chance, n: chance.integers(0, 2, n).astype(float),
    "two groups": lambda chance, n: np.where(chance.random(n) < 0.7, 0.1, 0.6),
}


@pytest.mark.parametrize("case", CASES)
def test_weights_have_the_distribution_of_all_votes(case):
    votes, mask, p = simulated(20_000, CASES[case])
    numbers = np.arange(N_TREES + 1)
    truth = binom.pmf(numbers[:, None], N_TREES, np.sort(p)[::20]).mean(axis=1)
    weights = positive_vote_weights(votes, mask)
    assert weights.sum() == pytest.approx(1.0)
    far = np.abs(np.cumsum(weights - truth)).max()
    assert far < 0.02
    # What is known, scaled up, is further off, unless all trees agree.
    share = (votes * mask).sum(axis=1) / mask.sum(axis=1)
    scaled = np.bincount(np.rint(share * N_TREES).astype(int), minlength=N_TREES + 1)
    scaled_far = np.abs(np.cumsum(scaled / len(votes) - truth)).max()
    assert far < scaled_far or case == "unanimous"


@pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="takes too long in plain Python"
)
def test_a_strategy_fitted_on_training_rows_keeps_its_bound_on_new_rows():
    X, y = make_rows(12_000)
    model = RandomForestClassifier(N_TREES, max_leaf_nodes=300, random_state=0)
    model.fit(X[:3000], y[:3000])
    forest = spinney.read_model(model)
    votes = forest.votes(X)
    counts = votes.sum(axis=1, dtype=np.int64)
    held_out = np.bincount(counts[3000:], minlength=N_TREES + 1) / 9000
    mask = out_of_bag_mask(model, 3000)
    weights = positive_vote_weights(votes[:3000], mask)
    bound = 0.005
    strategy = spinney.optimal_strategy(N_TREES, bound, votes=weights)
    best = spinney.optimal_strategy(N_TREES, bound, votes=held_out)
    asked, wrong = strategy.profile()
    assert wrong @ held_out < 1.2 * bound
    assert asked @ held_out < 1.1 * best.expected_votes
    # Votes of trees that have seen the row are no substitute.
    seen = np.bincount(counts[:3000], minlength=N_TREES + 1)
    naive = spinney.optimal_strategy(N_TREES, bound, votes=seen)
    assert naive.profile()[1] @ held_out > 3.0 * bound


@given(
    votes=arrays(np.int8, (6, 7), elements=st.integers(0, 1)),
    mask=arrays(bool, (6, 7)),
)
def test_weights_are_probabilities_whatever_is_known(votes, mask):
    if not mask.any():
        with pytest.raises(
            InvalidArgumentError, match="every tree was trained on every row"
        ):
            positive_vote_weights(votes, mask)
        return
    weights = positive_vote_weights(votes, mask)
    assert weights.shape == (8,)
    assert (weights >= 0.0).all()
    assert weights.sum() == pytest.approx(1.0)
    # Votes that do not count have no influence.
    assert positive_vote_weights(np.where(mask, votes, 1 - votes), mask) == (
        pytest.approx(weights)
    )


def test_a_single_tree_is_enough():
    weights = positive_vote_weights([[1], [1], [1], [0]], np.ones((4, 1), dtype=bool))
    assert weights == pytest.approx([0.25, 0.75], abs=1e-6)


@pytest.mark.parametrize("function", [positive_vote_weights, class_counts])
def test_shapes_that_do_not_fit_are_refused(function):
    more = (2,) if function is class_counts else ()
    with pytest.raises(InvalidArgumentError, match="same shape"):
        function(np.zeros((3, 4)), np.ones((3, 5), dtype=bool), *more)


# ------------------------------------------------------------------ several classes


def test_counts_keep_what_is_known_and_add_up():
    chance = np.random.default_rng(0)
    votes = chance.integers(0, 4, (300, 25))
    mask = chance.random((300, 25)) < 0.1
    counts = class_counts(votes, mask, 4, random_state=3)
    kept = mask.any(axis=1)
    assert 0 < kept.sum() < 300
    assert counts.shape == (kept.sum(), 4)
    assert (counts.sum(axis=1) == 25).all()
    known = np.stack([((votes == c) & mask).sum(axis=1) for c in range(4)], axis=1)
    assert (counts >= known[kept]).all()
    assert np.array_equal(counts, class_counts(votes, mask, 4, random_state=3))
    assert not np.array_equal(counts, class_counts(votes, mask, 4, random_state=4))


def test_nothing_is_drawn_where_all_votes_are_known():
    votes = np.random.default_rng(0).integers(0, 3, (50, 9))
    counts = class_counts(votes, np.ones((50, 9), dtype=bool), 3)
    assert counts.tolist() == [np.bincount(v, minlength=3).tolist() for v in votes]


@pytest.mark.parametrize("case", CASES)
def test_counts_of_two_classes_have_the_distribution_of_the_weights(case):
    votes, mask, _ = simulated(4000, CASES[case])
    drawn = class_counts(votes, mask, 2, random_state=0)[:, 1]
    frequencies = np.bincount(drawn, minlength=N_TREES + 1) / len(drawn)
    weights = positive_vote_weights(votes, mask)
    assert np.abs(np.cumsum(frequencies - weights)).max() < 0.03


def test_close_rows_among_three_classes_are_as_common_as_they_should_be():
    chance = np.random.default_rng(0)
    p = chance.dirichlet([2.0, 2.0, 1.0], 4000)
    votes = (chance.random((4000, N_TREES, 1)) > np.cumsum(p, axis=1)[:, None]).sum(2)
    mask = chance.random((4000, N_TREES)) < 0.37

    def close(counts):
        ranked = np.sort(counts, axis=1)
        return np.mean(ranked[:, 2] - ranked[:, 1] <= 4)

    everything = class_counts(votes, np.ones_like(mask), 3)
    drawn = class_counts(votes, mask, 3, random_state=0)
    assert close(drawn) == pytest.approx(close(everything), rel=0.15)


# ------------------------------------------------------------------ scores


def test_filled_scores_repeat_those_of_the_row_moved_by_one_number():
    chance = np.random.default_rng(0)
    scores = chance.normal(size=(40, 13))
    mask = chance.random((40, 13)) < 0.4
    mask[0], mask[1], mask[2] = False, True, np.arange(13) == 5
    filled = filled_scores(scores, mask, random_state=1)
    assert filled.shape == (39, 13)
    scores, mask = scores[1:], mask[1:]
    assert np.array_equal(filled[mask], scores[mask])
    for row, known, result in zip(scores, mask, filled, strict=True):
        if known.all():
            continue
        repeated = np.sort(result[~known])
        # Equally often, up to one: the differences to the known ones are one number.
        times = -(-(~known).sum() // known.sum())
        own = np.repeat(np.sort(row[known]), times)
        shifts = repeated[:, None] - own
        common = [s for s in shifts[0] if np.isclose(shifts, s).any(axis=1).all()]
        assert common


def test_filled_scores_have_row_means_that_scatter_as_with_all_trees():
    chance = np.random.default_rng(0)
    centre = chance.normal(0.1, 0.05, 4000)
    scores = centre[:, None] + chance.normal(0.0, 0.5, (4000, N_TREES))
    mask = chance.random(scores.shape) < 0.37
    filled = filled_scores(scores, mask, random_state=0)
    truth = scores.mean(axis=1)
    means = filled.mean(axis=1)
    known = np.where(mask, scores, 0.0).sum(axis=1) / mask.sum(axis=1)
    assert known.std() > 1.3 * truth.std()
    assert means.std() == pytest.approx(truth.std(), rel=0.04)
    assert means.mean() == pytest.approx(truth.mean(), abs=0.005)
    assert filled.var(axis=1).mean() == pytest.approx(0.25, rel=0.06)


def test_filled_probabilities_still_add_up_to_one():
    chance = np.random.default_rng(0)
    scores = chance.dirichlet([1.0, 1.0, 1.0], (30, 11))
    mask = chance.random((30, 11)) < 0.5
    filled = filled_scores(scores, mask, random_state=0)
    assert filled.sum(axis=2) == pytest.approx(1.0)


@pytest.mark.parametrize("shape", [(3,), (3, 5), (3, 4, 2, 1)])
def test_scores_of_another_shape_are_refused(shape):
    with pytest.raises(InvalidArgumentError, match="scores must have shape"):
        filled_scores(np.zeros(shape), np.ones((3, 4), dtype=bool))


def test_equal_scores_stay_as_they_are():
    filled = filled_scores(np.full((5, 6), 0.25), np.eye(5, 6, dtype=bool))
    assert (filled == 0.25).all()
