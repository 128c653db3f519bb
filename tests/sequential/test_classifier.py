"""The sequential classifier: scikit-learn's conventions, the promise, bad input."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numba
import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
)
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import spinney
from datasets import bundled
from spinney import SequentialVotingClassifier, SpinneyWarning, UnsupportedModelError
from spinney.calibration.ladder import LEVELS_OF_VOTES
from spinney.calibration.promise import Promise
from spinney.runtime import EarlyExitEngine
from spinney.sequential.optimal import find_strategy

pytestmark = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="the kernels have tests of their own"
)


def noisy(n_rows=1200, n_classes=2, seed=0, n_features=8):
    """Return rows on which trees often differ, and their labels."""
    return make_classification(
        n_rows,
        n_features,
        n_informative=5,
        n_classes=n_classes,
        flip_y=0.15,
        random_state=seed,
    )


@pytest.fixture(scope="module")
def two():
    """A forest of shallow trees for two classes, and rows it has not seen."""
    X, y = noisy()
    model = RandomForestClassifier(41, max_depth=5, random_state=0)
    return model.fit(X[:400], y[:400]), X[400:]


@pytest.fixture(scope="module")
def four():
    """The same for four classes."""
    X, y = noisy(n_classes=4)
    model = RandomForestClassifier(41, max_depth=6, random_state=0)
    return model.fit(X[:400], y[:400]), X[400:]


def fitted(model, rows, **parameters):
    parameters.setdefault("random_state", 0)
    parameters.setdefault("max_disagreement", 0.02)
    return SequentialVotingClassifier(FrozenEstimator(model), **parameters).fit(rows)


# Their data sets are too small to promise anything, which is warned of.
@pytest.mark.filterwarnings("ignore::spinney.errors.SpinneyWarning")
@parametrize_with_checks(
    [
        SequentialVotingClassifier(
            RandomForestClassifier(7, random_state=0), max_disagreement=0.05
        ),
        SequentialVotingClassifier(
            RandomForestClassifier(7, random_state=0),
            voting="hard",
            max_disagreement=0.05,
        ),
        SequentialVotingClassifier(
            VotingClassifier(
                [
                    ("a", DecisionTreeClassifier(max_depth=3, random_state=0)),
                    ("b", GaussianNB()),
                    ("c", LogisticRegression()),
                ]
            )
        ),
    ]
)
def test_follows_the_conventions_of_scikit_learn(estimator, check):
    check(estimator)


# ------------------------------------------------------------------ the promise


def in_many_orders(quick, rows, n_orders):
    """Return how often each row disagrees, and trees evaluated, over random orders."""
    full = quick.classes_.searchsorted(quick.predict_full(rows))
    wrong, asked = np.zeros(len(rows)), 0.0
    for seed in range(n_orders):
        order = np.random.default_rng(seed).permutation(len(quick.order_))
        engine = EarlyExitEngine(quick.forest_, replace(quick.rule_, order=order))
        classes, counts = engine.evaluate(quick.forest_.engine.rows(rows))
        wrong += classes != full
        asked += counts.mean() / n_orders
    return wrong, asked


@pytest.mark.parametrize("classes", ["two", "four"])
@pytest.mark.parametrize("voting", ["hard", "soft"])
def test_disagrees_no_more_than_promised_on_average_over_orders(
    request, classes, voting
):
    model, rows = request.getfixturevalue(classes)
    bound, n_orders = 0.03, 100
    (quick,) = fitted(model, rows, voting=voting).at_levels(rows, [bound])
    wrong, asked = in_many_orders(quick, rows, n_orders)
    # Over orders a share of 0.03 of 800 rows has a deviation of about 0.006 (measured),
    # a mean of 100 orders a tenth of that.
    assert wrong.mean() / n_orders <= bound + 0.002
    assert asked == pytest.approx(quick.expected_votes_, rel=0.05)
    assert asked < 0.8 * model.n_estimators


@pytest.mark.parametrize("objective", ["minimixed", "minimax"])
def test_bounds_for_every_row_hold_on_average_over_orders_and_lots(two, objective):
    model, rows = two
    wrong, n_orders = np.zeros(len(rows)), 30
    for seed in range(n_orders):
        quick = fitted(
            model,
            rows,
            voting="hard",
            objective=objective,
            max_disagreement=0.1,
            random_state=seed,
        )
        wrong += quick.predict(rows) != quick.predict_full(rows)
    # With 800 rows, the worst of them would exceed this once in ten thousand tests.
    assert wrong.max() <= binom.isf(1e-4 / len(rows), n_orders, 0.1)


def small_against_large(n_small, n_large, depth):
    """Return a forest of single leaves that say 1, and of long chains that say 0."""
    n_nodes = 2 * depth + 1
    inner = np.arange(0, 2 * depth, 2)
    child = np.full(n_nodes, -1)
    child[inner] = inner + 1
    feature = np.full(n_nodes, -1)
    feature[inner] = 0
    threshold = np.zeros(n_nodes)
    threshold[inner] = -1000.0 - inner
    starts = n_small + n_nodes * np.arange(n_large)
    left = np.where(child >= 0, child + starts[:, None], -1)
    right = np.where(child >= 0, child + 1 + starts[:, None], -1)
    leaves = np.full(n_small, -1)
    value = np.zeros((n_small + n_nodes * n_large, 2))
    value[:n_small, 1] = value[n_small:, 0] = 1.0
    return spinney.Forest(
        tree_offsets=np.append(np.arange(n_small), np.append(starts, len(value))),
        feature=np.append(leaves, np.tile(feature, n_large)),
        threshold=np.append(np.zeros(n_small), np.tile(threshold, n_large)),
        left=np.append(leaves, left),
        right=np.append(leaves, right),
        value=value,
        n_features=1,
        aggregation="vote",
        classes=np.array([0, 1]),
    )


@pytest.mark.parametrize("objective", ["minimixed", "minimax"])
def test_a_vote_that_goes_with_the_size_of_the_trees_breaks_no_bound(
    objective, monkeypatch
):
    # Exit points planned from the sizes of the trees that happen to come first would
    # let rows leave where those have voted.
    forest, row = small_against_large(25, 26, 100), np.zeros((1, 1), dtype=np.float32)
    solved = {}

    def solved_once(n_voters, level, **settings):
        key = level, settings["stop_steps"].tobytes()
        if key not in solved:
            solved[key] = find_strategy(n_voters, level, **settings)
        return solved[key]

    monkeypatch.setattr("spinney.sequential.problems.find_strategy", solved_once)
    bound, n_orders, n_wrong, plans = 0.05, 200, 0, set()
    for seed in range(n_orders):
        quick = SequentialVotingClassifier(
            forest,
            voting="hard",
            objective=objective,
            max_disagreement=bound,
            random_state=seed,
        ).fit(row, votes="uniform")
        n_wrong += int(quick.predict(row)[0] != 0)
        plans.add(tuple(quick.exit_points_.tolist()))
    assert n_wrong <= binom.isf(1e-6, n_orders, bound)
    assert len(plans) == 1


@pytest.mark.parametrize("objective", ["minimean", "minimixed", "minimax"])
def test_exit_points_have_nothing_to_do_with_the_order_drawn(objective):
    # (Rows are shared out by the seed, too: the votes are given.)
    forest = spinney.read_model(
        RandomForestClassifier(41, min_samples_leaf=3, random_state=0).fit(*noisy(300))
    ).replace(aggregation="vote")
    rows = noisy(300)[0]
    plans = [
        SequentialVotingClassifier(
            forest, objective=objective, max_disagreement=0.05, random_state=seed
        )
        .fit(rows, votes="uniform")
        .exit_points_.tolist()
        for seed in range(4)
    ]
    assert len(plans[0]) > 0
    assert plans == [plans[0]] * 4


@pytest.mark.parametrize("classes", ["two", "four"])
@pytest.mark.parametrize("voting", ["hard", "soft"])
def test_never_disagrees_if_nothing_may_differ(request, classes, voting):
    model, rows = request.getfixturevalue(classes)
    quick = fitted(model, rows[:300], voting=voting, max_disagreement=0.0)
    assert np.array_equal(quick.predict(rows), quick.predict_full(rows))


def test_the_whole_ensemble_is_the_one_that_voting_names(two):
    model, rows = two
    votes = np.array([tree.predict(rows) for tree in model.estimators_])
    majority = model.classes_[(votes.mean(axis=0) > 0.5).astype(int)]
    hard = fitted(model, rows, voting="hard")
    soft = fitted(model, rows, voting="soft")
    assert np.array_equal(hard.predict_full(rows), majority)
    assert np.array_equal(soft.predict_full(rows), model.predict(rows))
    assert (majority != model.predict(rows)).any()  # or the test says nothing
    assert fitted(model, rows).voting_ == "soft"
    voting = spinney.read_model(model).replace(aggregation="vote")
    quick = SequentialVotingClassifier(voting, max_disagreement=0.02, random_state=0)
    assert quick.fit(rows).voting_ == "hard"


def test_counts_say_how_many_trees_were_asked(two):
    model, rows = two
    quick = fitted(model, rows, max_disagreement=0.05, min_votes=6)
    labels, counts = quick.predict_counted(rows)
    assert np.array_equal(labels, quick.predict(rows))
    assert counts.min() >= 6
    assert counts.max() <= model.n_estimators
    assert set(counts) <= {*quick.exit_points_, model.n_estimators}
    assert counts.mean() < 0.7 * model.n_estimators
    assert quick.expected_votes_ == pytest.approx(counts.mean(), rel=0.5)


def test_one_row_at_a_time_gives_the_same_answers(two):
    model, rows = two
    for voting in ("hard", "soft"):
        quick = fitted(model, rows, voting=voting, max_disagreement=0.02)
        ask = quick.predictor()
        one_by_one = [ask(row) for row in rows[:100].astype(np.float32)]
        assert np.array_equal(one_by_one, quick.predict(rows[:100].astype(np.float32)))


def test_the_strategy_behind_hard_votes_is_the_optimal_one(two):
    model, rows = two
    quick = fitted(model, rows, voting="hard", max_disagreement=0.02)
    # Where all rows are for the fit, it is the one for the votes on all of them.
    (all_rows,) = quick.at_levels(rows, [0.02])
    n_positive = (spinney.read_model(model).votes(rows) == 1).sum(axis=1)
    votes = np.bincount(n_positive, minlength=42)
    best = spinney.optimal_strategy(
        41, 0.02, votes=votes, stop_steps=all_rows.exit_points_, round="deterministic"
    )
    assert all_rows.strategy_.to_dict() == best.to_dict()
    assert all_rows.expected_votes_ == pytest.approx(best.expected_votes)
    assert quick.strategy_.max_disagreement in np.array(LEVELS_OF_VOTES) * 0.02
    assert quick.expected_disagreement_ <= 0.02


def test_the_same_seed_gives_the_same_classifier(two):
    model, rows = two
    first, second, other = (
        fitted(model, rows, random_state=seed) for seed in (3, 3, 4)
    )
    assert np.array_equal(first.order_, second.order_)
    assert np.array_equal(
        first.predict_counted(rows)[1], second.predict_counted(rows)[1]
    )
    assert not np.array_equal(first.order_, other.order_)


def test_threads_change_nothing(two):
    model, rows = two
    many = np.tile(rows, (5, 1))
    alone = fitted(model, rows)
    together = fitted(model, rows, n_jobs=2)
    for one, other in zip(
        alone.predict_counted(many), together.predict_counted(many), strict=True
    ):
        assert np.array_equal(one, other)


# ------------------------------------------------------------------ how votes spread


def test_votes_may_be_uniform_or_given(two):
    model, rows = two
    quick = SequentialVotingClassifier(
        FrozenEstimator(model), voting="hard", max_disagreement=0.05, random_state=0
    )
    counted = quick.fit(rows).expected_votes_
    uniform = quick.fit(rows, votes="uniform").strategy_
    given = quick.fit(rows, votes=np.ones(42)).strategy_
    assert uniform.to_dict() == given.to_dict()
    assert uniform.expected_votes != counted


def test_what_is_promised_depends_on_what_is_known(two):
    model, rows = two
    hard = {"voting": "hard", "max_disagreement": 0.05}
    assert fitted(model, rows, **hard).promise_.kind == "expected"
    for objective in ("minimixed", "minimax"):
        quick = fitted(model, rows[:5], **hard, objective=objective)
        assert quick.promise_ == Promise("each row", 0.05)
    quick = SequentialVotingClassifier(FrozenEstimator(model), **hard)
    assert quick.fit(rows[:5], votes="uniform").promise_ == Promise("votes", 0.05)
    assert quick.fit(rows[:5], votes=np.ones(42)).promise_ == Promise("votes", 0.05)
    certain = fitted(model, rows[:5], voting="hard", max_disagreement=0.0)
    assert certain.promise_ == Promise("never", 0.0)
    X, _ = noisy()
    quick.fit(X[:400], votes="out_of_bag")
    assert quick.promise_ == Promise("out of bag", 0.05)


@pytest.mark.parametrize("voting", ["hard", "soft"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_out_of_bag_votes_stand_in_for_calibration_rows(voting, n_classes):
    X, y = noisy(1600, n_classes)
    bound = 0.03
    quick = SequentialVotingClassifier(
        RandomForestClassifier(61, random_state=0),
        voting=voting,
        max_disagreement=bound,
        random_state=0,
    ).fit(X[:800], y[:800], votes="out_of_bag")
    assert np.array_equal(
        quick.estimator_.predict(X),
        RandomForestClassifier(61, random_state=0).fit(X[:800], y[:800]).predict(X),
    )
    labels, counts = quick.predict_counted(X[800:])
    assert (labels != quick.predict_full(X[800:])).mean() <= 2 * bound
    assert counts.mean() < 50


# ------------------------------------------------------------------ proven on rows


def test_confidence_proves_the_bound_on_rows_kept_back():
    X, y = noisy(8000, seed=1)
    model = RandomForestClassifier(21, max_depth=6, random_state=0)
    model.fit(X[:1000], y[:1000])
    quick = fitted(
        model, X[1000:5000], voting="hard", max_disagreement=0.02, confidence=0.95
    )
    certificate = quick.certificate_
    assert certificate.n_rows == 2000
    assert certificate.upper_bound <= 0.02
    assert certificate.n_disagreements < 40
    labels, counts = quick.predict_counted(X[5000:])
    assert counts.mean() < 18
    assert (labels != quick.predict_full(X[5000:])).mean() < 0.025


@pytest.mark.parametrize("voting", ["hard", "soft"])
@pytest.mark.parametrize(
    ("confidence", "words"),
    [
        (None, r"needs 999 .* 1,049 rows in all"),
        (0.95, r"needs 2,995 .* 3,045 rows in"),
    ],
)
def test_with_too_few_rows_nothing_differs(two, voting, confidence, words):
    model, rows = two
    with pytest.warns(SpinneyWarning, match=words):
        quick = fitted(
            model, rows, voting=voting, confidence=confidence, max_disagreement=1e-3
        )
    labels, counts = quick.predict_counted(rows)
    assert np.array_equal(labels, quick.predict_full(rows))
    assert counts.mean() < model.n_estimators  # where the rest cannot change anything
    assert quick.certificate_ is None
    assert quick.promise_.kind == "never"


@pytest.mark.guarantee
@pytest.mark.parametrize("voting", ["hard", "soft"])
def test_the_proven_bound_is_broken_no_more_often_than_the_confidence_says(voting):
    X, y = noisy(40_000, seed=2)
    model = RandomForestClassifier(41, max_depth=6, random_state=0)
    model.fit(X[:1000], y[:1000])
    rows = X[1000:]
    bound, n_runs, n_broken = 0.02, 100, 0
    full = None
    for seed in range(n_runs):
        drawn = np.random.default_rng(seed).permutation(len(rows))
        quick = fitted(
            model,
            rows[drawn[:3000]],
            voting=voting,
            max_disagreement=bound,
            confidence=0.95,
            random_state=seed,
        )
        if full is None:
            full = quick.predict_full(rows)
        left = drawn[3000:]
        n_broken += (quick.predict(rows[left]) != full[left]).mean() > bound
    assert n_broken <= binom.isf(1e-3, n_runs, 0.05)


def long_tail(n_rows, rng):
    """Return rows of one frequent class and of many that occur once or twice."""
    is_rare = rng.random(n_rows) < 0.4
    number = rng.integers(1, 10**6, n_rows)
    X = np.column_stack(
        [np.where(is_rare, number / 1e6, -1.0), rng.normal(size=(n_rows, 2))]
    )
    return X, np.where(is_rare, number, 0)


@pytest.mark.parametrize("seed", [0, 1, 4])
def test_classes_too_rare_to_be_parted_are_among_the_rows_that_prove(seed):
    rng = np.random.default_rng(seed)
    quick = SequentialVotingClassifier(
        RandomForestClassifier(31, random_state=seed),
        max_disagreement=0.03,
        confidence=0.95,
        random_state=seed,
    )
    with pytest.warns(SpinneyWarning, match=r"classes \(.* the model does not know"):
        quick.fit(*long_tail(1400, rng))
    assert quick.certificate_.n_rows == 175
    assert set(quick.classes_) == set(quick.estimator_.classes_)
    new, _ = long_tail(1000, rng)
    n_wrong = (quick.predict(new) != quick.predict_full(new)).sum()
    assert n_wrong <= binom.isf(1e-6, 1000, 0.03)


# ------------------------------------------------------------------ any voters


class Counting(LogisticRegression):
    """A classifier that counts the rows it is asked about."""

    n_rows_asked = 0

    def predict(self, X):
        self.n_rows_asked += len(X)
        return super().predict(X)

    def predict_proba(self, X):
        self.n_rows_asked += len(X)
        return super().predict_proba(X)


@pytest.mark.parametrize("voting", ["hard", "soft"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_any_voters_are_called_for_undecided_rows_only(voting, n_classes):
    X, y = noisy(900, n_classes)
    y = np.array(["red", "green", "blue"])[y]
    model = VotingClassifier(
        [(str(i), Counting(C=10.0 ** (i - 5))) for i in range(11)], voting=voting
    ).fit(X[:300], y[:300])
    quick = fitted(model, X[300:600], max_disagreement=0.05)
    assert quick.promise_.kind == "expected"
    assert quick.voting_ == voting
    for member in model.estimators_:
        member.n_rows_asked = 0
    labels, counts = quick.predict_counted(X[600:])
    assert sum(member.n_rows_asked for member in model.estimators_) == counts.sum()
    assert counts.mean() < 9
    full = model.predict(X[600:])
    assert np.array_equal(quick.predict_full(X[600:]), full)
    assert (labels != full).mean() <= 0.12


def test_a_bagging_of_anything_is_asked_with_its_columns():
    X, y = noisy(900)
    model = BaggingClassifier(
        LogisticRegression(), n_estimators=15, max_features=0.6, random_state=0
    ).fit(X[:300], y[:300])
    quick = fitted(model, X[300:600], max_disagreement=0.0)
    assert quick.forest_ is None
    assert np.array_equal(quick.predict(X[600:]), model.predict(X[600:]))
    assert quick.predictor()(X[600]) == model.predict(X[600:601])[0]


def test_members_without_probabilities_vote_hard():
    X, y = noisy(900)
    model = BaggingClassifier(RidgeClassifier(), n_estimators=15, random_state=0)
    model.fit(X[:300], y[:300])
    quick = fitted(model, X[300:600], max_disagreement=0.0)
    assert quick.voting_ == "hard"
    assert np.array_equal(quick.predict(X[600:]), quick.predict_full(X[600:]))
    with pytest.raises(UnsupportedModelError, match="no predict_proba"):
        fitted(model, X[300:600], voting="soft")


def test_a_list_of_fitted_classifiers_votes():
    X, y = noisy(900)
    members = [GaussianNB().fit(X[i:300:3], y[i:300:3]) for i in range(3)]
    members += [DecisionTreeClassifier(random_state=0).fit(X[:300], y[:300])]
    quick = SequentialVotingClassifier(members, max_disagreement=0.0)
    quick.fit(X[300:600])
    votes = np.array([member.predict(X[600:]) for member in members])
    assert np.array_equal(
        quick.predict(X[600:]), (votes.mean(axis=0) > 0.5).astype(int)
    )
    assert quick.predict_counted(X[600:])[1].min() >= 2
    with pytest.raises(ValueError, match="not a fitted classifier"):
        SequentialVotingClassifier([GaussianNB()]).fit(X)
    with pytest.raises(ValueError, match="empty"):
        SequentialVotingClassifier([]).fit(X)


def test_voters_of_unequal_weight_are_refused_unless_averaged():
    X, y = noisy(300)
    members = [("a", GaussianNB()), ("b", LogisticRegression())]
    hard = VotingClassifier(members, weights=[1, 2]).fit(X, y)
    with pytest.raises(UnsupportedModelError, match="unequal weights"):
        fitted(hard, X)
    soft = VotingClassifier(members, voting="soft", weights=[1, 2]).fit(X, y)
    quick = fitted(soft, X, max_disagreement=0.0)
    assert np.array_equal(quick.predict(X), soft.predict(X))


# ------------------------------------------------------------------ with scikit-learn


def test_trains_an_estimator_that_is_not_trained():
    X, y = noisy()
    quick = SequentialVotingClassifier(
        RandomForestClassifier(25, random_state=0),
        max_disagreement=0.02,
        random_state=0,
    ).fit(X, y)
    assert quick.score(X, y) > 0.8
    assert quick.estimator_.n_estimators == 25
    assert not hasattr(quick.estimator, "estimators_")
    with pytest.raises(ValueError, match="not trained yet"):
        SequentialVotingClassifier(RandomForestClassifier()).fit(X)


def test_works_in_searches_and_cross_validation():
    X, y = noisy(1000)
    quick = SequentialVotingClassifier(
        RandomForestClassifier(15, random_state=0),
        max_disagreement=0.1,
        random_state=0,
    )
    assert cross_val_score(quick, X, y, cv=3).mean() > 0.6
    search = GridSearchCV(
        quick,
        {"estimator__max_depth": [2, 5], "max_disagreement": [0.0, 0.1]},
        cv=2,
    ).fit(X, y)
    assert search.best_estimator_.predict(X).shape == y.shape
    piped = make_pipeline(StandardScaler(), clone(quick)).fit(X, y)
    assert piped.score(X, y) > 0.7


def test_a_pipeline_inside_keeps_its_preprocessing():
    X, y = noisy()
    model = make_pipeline(
        StandardScaler(), RandomForestClassifier(21, random_state=0)
    ).fit(X[:400], y[:400])
    quick = fitted(model, X[400:800], max_disagreement=0.0)
    assert np.array_equal(quick.predict(X[800:]), model.predict(X[800:]))
    assert quick.predictor()(X[800]) == model.predict(X[800:801])[0]


def test_data_frames_keep_their_columns():
    X, y = noisy()
    frame = pd.DataFrame(X, columns=list("abcdefgh"))
    model = RandomForestClassifier(21, random_state=0).fit(frame[:400], y[:400])
    quick = fitted(model, frame[400:800], max_disagreement=0.0)
    assert list(quick.feature_names_in_) == list("abcdefgh")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.array_equal(quick.predict(frame[800:]), model.predict(frame[800:]))
    reordered = quick.predict(frame[list("hgfedcba")][800:])
    assert np.array_equal(reordered, model.predict(frame[800:]))


@pytest.mark.parametrize(
    "model",
    [
        ExtraTreesClassifier(15, random_state=0),
        BaggingClassifier(
            DecisionTreeClassifier(), n_estimators=15, max_features=0.7, random_state=0
        ),
        DecisionTreeClassifier(random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_every_kind_of_voting_trees(model):
    X, y = noisy()
    y = np.array(["no", "yes"])[y]
    model.fit(X[:400], y[:400])
    quick = fitted(model, X[400:800], max_disagreement=0.0)
    assert np.array_equal(quick.predict(X[800:]), model.predict(X[800:]))


def test_lightgbm_forests_average_scores():
    lightgbm = pytest.importorskip("lightgbm")
    X, y = noisy()
    model = lightgbm.LGBMClassifier(
        boosting_type="rf",
        n_estimators=15,
        bagging_freq=1,
        bagging_fraction=0.6,
        random_state=0,
        verbose=-1,
    ).fit(X[:400], y[:400])
    quick = fitted(model, X[400:800], max_disagreement=0.0)
    assert quick.voting_ == "soft"
    assert np.array_equal(quick.predict(X[800:]), model.predict(X[800:]))
    with pytest.raises(UnsupportedModelError, match="voting='soft'"):
        fitted(model, X[400:800], voting="hard")


def test_one_class_one_tree_one_row_and_no_rows_have_answers():
    X, y = bundled("iris")
    one_class = RandomForestClassifier(5).fit(X[:50], np.full(50, "only"))
    quick = fitted(one_class, X)
    assert set(quick.predict(X)) == {"only"}
    for voting in ("hard", "soft"):
        one_tree = RandomForestClassifier(1, random_state=0).fit(X, y)
        quick = fitted(one_tree, X[:1], voting=voting)
        assert quick.promise_.kind == "never"
        assert np.array_equal(quick.predict(X), one_tree.predict(X))
        assert (quick.predict_counted(X)[1] == 1).all()


# ------------------------------------------------------------------ files


@pytest.mark.parametrize("classes", ["two", "four"])
@pytest.mark.parametrize("voting", ["hard", "soft"])
def test_a_file_brings_the_same_classifier_back(request, tmp_path, classes, voting):
    model, rows = request.getfixturevalue(classes)
    quick = fitted(model, rows, voting=voting, max_disagreement=0.03)
    path = tmp_path / "quick.spinney"
    spinney.save(quick, path)
    again = spinney.load(path)
    assert type(again) is SequentialVotingClassifier
    for one, other in zip(
        quick.predict_counted(rows), again.predict_counted(rows), strict=True
    ):
        assert np.array_equal(one, other)
    assert np.array_equal(again.predict_full(rows), quick.predict_full(rows))
    row = rows[0].astype(np.float32)
    assert again.predictor()(row) == quick.predictor()(row)
    ours, theirs = again.get_params(deep=False), quick.get_params(deep=False)
    assert {**ours, "estimator": None} == {**theirs, "estimator": None}
    assert again.voting_ == quick.voting_
    assert again.promise_ == quick.promise_
    assert again.expected_votes_ == quick.expected_votes_
    if quick.strategy_ is not None:
        assert again.strategy_.to_dict() == quick.strategy_.to_dict()
    spinney.save(again, tmp_path / "again.spinney")
    assert (tmp_path / "again.spinney").read_bytes() == path.read_bytes()


def test_a_certificate_and_names_of_columns_survive_a_file(tmp_path):
    X, y = noisy(4000)
    frame = pd.DataFrame(X, columns=list("abcdefgh"))
    model = RandomForestClassifier(21, max_depth=5, random_state=0)
    model.fit(frame[:500], y[:500])
    quick = fitted(
        model, frame[500:], voting="hard", max_disagreement=0.05, confidence=0.9
    )
    spinney.save(quick, tmp_path / "quick.spinney")
    again = spinney.load(tmp_path / "quick.spinney")
    assert again.certificate_ == quick.certificate_
    assert list(again.feature_names_in_) == list("abcdefgh")
    assert np.array_equal(again.predict(frame), quick.predict(frame))


def test_what_a_file_cannot_hold_is_refused(tmp_path):
    X, y = noisy(400)
    path = tmp_path / "quick.spinney"
    piped = make_pipeline(SplineTransformer(), RandomForestClassifier(5)).fit(X, y)
    with pytest.raises(TypeError, match=r"SplineTransformer.*without pickle"):
        spinney.save(fitted(piped, X), path)
    voters = VotingClassifier([("a", GaussianNB())]).fit(X, y)
    with pytest.raises(TypeError, match="not trees"):
        spinney.save(fitted(voters, X), path)
    with pytest.raises(NotFittedError):
        spinney.save(SequentialVotingClassifier(FrozenEstimator(voters)), path)
    assert not path.exists()


# ------------------------------------------------------------------ bad input


def test_trees_that_do_not_vote_are_refused():
    X, y = noisy(300)
    boosted = GradientBoostingClassifier(n_estimators=3).fit(X, y)
    with pytest.raises(UnsupportedModelError, match="CascadeClassifier"):
        fitted(boosted, X)
    numbers = RandomForestRegressor(3).fit(X, y)
    with pytest.raises(UnsupportedModelError, match="regressor"):
        fitted(numbers, X)
    with pytest.raises(UnsupportedModelError, match="cannot be read"):
        fitted(GaussianNB().fit(X, y), X)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"max_disagreement": 1.0}, "max_disagreement must be"),
        ({"max_disagreement": -0.1}, "max_disagreement must be"),
        ({"max_disagreement": np.nan}, "max_disagreement must be"),
        ({"max_disagreement": "little"}, "max_disagreement must be"),
        ({"voting": "loud"}, "voting must be"),
        ({"objective": "least"}, "objective must be"),
        ({"objective": "minimax"}, "objective='minimax' is for hard votes"),
        ({"confidence": 95}, "confidence must be"),
        ({"min_votes": 42}, "min_votes must be"),
        ({"min_votes": 0.5}, "min_votes must be"),
    ],
)
def test_parameters_out_of_range_are_named(two, parameters, words):
    model, rows = two
    with pytest.raises(ValueError, match=words):
        fitted(model, rows, **parameters)


def test_calibration_rows_of_the_wrong_shape_are_named(two, four):
    model, rows = two
    quick = SequentialVotingClassifier(FrozenEstimator(model))
    with pytest.raises(ValueError, match=r"7 features, but .* trained on 8"):
        quick.fit(rows[:, :7])
    with pytest.raises(ValueError, match="0 sample"):
        quick.fit(rows[:0])
    with pytest.raises(NotFittedError):
        quick.predict(rows)
    quick.set_params(voting="hard")
    with pytest.raises(ValueError, match=r"shape \(42,\)"):
        quick.fit(rows, votes=np.ones(5))
    with pytest.raises(ValueError, match="votes must be one of"):
        quick.fit(rows, votes="all")
    with pytest.raises(ValueError, match="two classes only"):
        SequentialVotingClassifier(FrozenEstimator(four[0]), voting="hard").fit(
            four[1], votes="uniform"
        )


def test_out_of_bag_votes_need_the_training_rows_of_a_bagged_forest(two):
    model, rows = two
    quick = SequentialVotingClassifier(FrozenEstimator(model))
    with pytest.raises(ValueError, match="was trained on 400 rows, got 800"):
        quick.fit(rows, votes="out_of_bag")
    X, y = noisy(300)
    extra = ExtraTreesClassifier(5).fit(X, y)
    with pytest.raises(UnsupportedModelError, match="bootstrap"):
        SequentialVotingClassifier(FrozenEstimator(extra)).fit(X, votes="out_of_bag")
    quick.set_params(confidence=0.95)
    with pytest.raises(ValueError, match="not trained on"):
        quick.fit(rows, votes="out_of_bag")
