"""Means of full probabilities in leaves: against a slow twin, and where none are."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier

import spinney
from spinney import FormatError
from spinney.calibration.leaf_means import LEAST_ROWS, MOST_TREES, PRIOR_ROWS, LeafMeans

X, Y = make_classification(900, 6, n_informative=4, flip_y=0.1, random_state=0)
ROWS = X[300:].astype(np.float32)


def read(kind=RandomForestClassifier, n_trees=40):
    model = kind(n_estimators=n_trees, max_depth=5, random_state=0)
    return spinney.read_model(model.fit(X[:300], Y[:300]))


def learnt(forest, n_evaluated):
    order = np.random.default_rng(1).permutation(forest.n_trees)
    full = forest.predict_proba(ROWS)
    return order, full, LeafMeans.learn(forest, order, n_evaluated, ROWS, full)


def leaving_at(point, n_rows=600):
    n_evaluated = np.full(len(ROWS), 40)
    n_evaluated[:n_rows] = point
    return n_evaluated


def test_scores_are_means_of_means_in_leaves():
    forest = read()
    order, full, (means, own) = learnt(forest, leaving_at(3))
    assert means.point == 3
    trees = forest.take(order[:3])
    leaves = trees.leaves(ROWS)
    second = full[:, 1]
    # What the value of a leaf lets expect: one straight line for all rows and trees.
    line = np.polyfit(trees.value[leaves, -1].ravel(), np.repeat(second, 3), 1)
    others = trees.leaves(X[:50].astype(np.float32))
    for which, rows in ((None, others), (own, leaves[:50])):
        found = means.scores(X[:50].astype(np.float32)) if which is None else which
        for i in range(50):
            parts = []
            for tree, leaf in enumerate(rows[i]):
                inside = leaves[:, tree] == leaf
                if which is not None:
                    inside[i] = False
                prior = np.clip(np.polyval(line, trees.value[leaf, -1]), 0.0, 1.0)
                total = second[inside].sum() + PRIOR_ROWS * prior
                parts.append(total / (inside.sum() + PRIOR_ROWS))
            assert found[i] == pytest.approx(np.mean(parts), abs=1e-12)


def test_they_rank_rows_as_the_full_ensemble_does_better_than_votes():
    forest = read()
    order, _, (means, _) = learnt(forest, leaving_at(3))
    fresh = make_classification(900, 6, n_informative=4, flip_y=0.1, random_state=0)[0]
    fresh = (fresh[:300] + 0.05).astype(np.float32)
    full = forest.predict_proba(fresh)[:, 1]
    votes = forest.votes(fresh)[:, order[:3]].sum(axis=1)

    def agreement(scores):
        ranks = [np.argsort(np.argsort(one)) for one in (scores, full)]
        return np.corrcoef(*ranks)[0, 1]

    assert agreement(means.scores(fresh)) > agreement(votes) + 0.05


def test_where_sums_rank_well_there_are_none():
    forest = read()
    assert learnt(forest, leaving_at(3, LEAST_ROWS))[2] is not None
    assert learnt(forest, leaving_at(3, LEAST_ROWS - 1))[2] is None
    assert learnt(forest, leaving_at(MOST_TREES + 1))[2] is None
    assert learnt(forest, leaving_at(40))[2] is None
    assert learnt(forest, leaving_at(0))[2] is None
    assert learnt(read(GradientBoostingClassifier), leaving_at(3))[2] is None


def test_leaves_that_are_all_alike_have_one_mean():
    forest = read()
    alike = forest.replace(value=np.full_like(forest.value, 0.5))
    _, full, (means, own) = learnt(alike, leaving_at(3))
    assert np.allclose(full, 0.5)
    assert np.allclose(own, 0.5)
    assert np.allclose(means.scores(ROWS), 0.5)


@pytest.mark.parametrize("wrong", [lambda m: m[1:], lambda m: m * np.nan])
def test_means_of_other_trees_are_refused(wrong):
    forest = read()
    order, _, (means, _) = learnt(forest, leaving_at(3))
    again = LeafMeans.of(forest, order, 3, means.means)
    assert np.array_equal(again.scores(ROWS), means.scores(ROWS))
    with pytest.raises(FormatError, match="means of leaves"):
        LeafMeans.of(forest, order, 3, wrong(means.means))
