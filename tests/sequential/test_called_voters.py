"""Voters that are called: the answer of all is the model's own, to the last tie."""

from __future__ import annotations

import warnings

import joblib
import numba
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_classification
from sklearn.ensemble import BaggingClassifier, VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

import spinney
from spinney import SequentialVotingClassifier, UnsupportedModelError

pytestmark = [
    pytest.mark.skipif(
        bool(numba.config.DISABLE_JIT), reason="the kernels have tests of their own"
    ),
    # Most ensembles here have few rows to calibrate on; other tests look at that.
    pytest.mark.filterwarnings("ignore::spinney.errors.SpinneyWarning"),
]


class Says(ClassifierMixin, BaseEstimator):
    """A classifier that says what stands in a table, by the number in each row."""

    def __init__(self, table=None, dtype=np.float64):
        self.table = table
        self.dtype = dtype

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.n_features_in_ = X.shape[1]
        return self

    def predict_proba(self, X):
        return np.asarray(self.table, dtype=self.dtype)[X[:, 0].astype(int)]

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


class Asked(VotingClassifier):
    """An ensemble that counts the rows it has to answer itself."""

    n_rows_asked = 0

    def predict(self, X):
        self.n_rows_asked += len(X)
        return super().predict(X)


def numbered(n_rows):
    """Return rows that hold their number, in each of two columns."""
    return np.repeat(np.arange(float(n_rows))[:, None], 2, axis=1)


def committee(tables, *, kind=VotingClassifier, labels=None, dtype=np.float64, **more):
    """Return a fitted committee whose members say what stands in each table."""
    n_rows, n_classes = np.shape(tables)[1:]
    labels = np.arange(n_classes) if labels is None else labels
    members = [(str(i), Says(table, dtype)) for i, table in enumerate(tables)]
    more.setdefault("voting", "soft")
    y = np.asarray(labels)[np.arange(max(n_rows, n_classes)) % n_classes]
    return kind(members, **more).fit(numbered(len(y)), y)


def bagging(tables, *, dtype=np.float64, n_jobs=None):
    """Return a bagging whose members say what stands in each table."""
    n_rows, n_classes = np.shape(tables)[1:]
    y = np.arange(max(n_rows, 8 * n_classes)) % n_classes
    model = BaggingClassifier(
        Says(), n_estimators=len(tables), max_samples=1.0, bootstrap=False
    ).fit(numbered(len(y)), y)
    model.n_jobs = n_jobs
    for member, table in zip(model.estimators_, tables, strict=True):
        member.set_params(table=table, dtype=dtype)
    return model


def fitted(model, rows, **parameters):
    parameters.setdefault("random_state", 0)
    return SequentialVotingClassifier(FrozenEstimator(model), **parameters).fit(rows)


def answers_like(model, rows, **parameters):
    """Assert that all rows which stay to the end have the model's own answer."""
    own = model.predict(rows)
    quick = fitted(model, rows, **parameters)
    assert np.array_equal(quick.predict_full(rows), own)
    assert np.array_equal(quick.predict_model(rows), own)
    labels, n_evaluated = quick.predict_counted(rows)
    stayed = n_evaluated == quick._voters.n_voters
    assert np.array_equal(labels[stayed], own[stayed])
    if parameters["max_disagreement"] == 0.0:
        assert np.array_equal(labels, own)
    assert spinney.certify(quick, rows).n_disagreements == (labels != own).sum()
    return n_evaluated


@st.composite
def probabilities_in_twentieths(draw):
    """Tables of 2 to 7 voters for 2 or 3 classes, all of them multiples of 0.05."""
    n_classes = draw(st.sampled_from([2, 3]))
    n_voters = draw(st.integers(2, 7))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    bars = np.sort(rng.integers(0, 21, size=(n_voters, 40, n_classes - 1)), axis=2)
    # Half of the rows are such that all voters together hesitate between two classes.
    ends = np.stack([bars[:-1].sum(axis=0)[:20, 0]] * (n_classes - 1), axis=1)
    needed = 10 * n_voters - ends
    fits = ((needed >= 0) & (needed <= 20)).all(axis=1)
    bars[-1, :20][fits] = needed[fits]
    steps = np.diff(bars, axis=2, prepend=0, append=20)
    return steps / 20


@given(
    tables=probabilities_in_twentieths(),
    weights=st.one_of(
        st.none(),
        st.lists(st.sampled_from([1, 2, 3]), min_size=7, max_size=7),
        st.lists(st.sampled_from([0.0, 0.1, 0.2, 0.7]), min_size=7, max_size=7),
    ),
    dtype=st.sampled_from([np.float64, np.float32]),
    bound=st.sampled_from([0.0, 0.1]),
)
def test_a_weighted_mean_is_compared_as_the_model_compares_it(
    tables, weights, dtype, bound
):
    if weights is not None:
        weights = weights[: len(tables)]
        if not any(weights):
            weights[0] = 0.1
    model = committee(tables, weights=weights, dtype=dtype)
    answers_like(model, numbered(tables.shape[1]), max_disagreement=bound)


# Joblib's threads take most of the time of an example.
@settings(max_examples=settings.default.max_examples // 3)
@given(
    tables=probabilities_in_twentieths(),
    n_jobs=st.sampled_from([None, 2, 3]),
    dtype=st.sampled_from([np.float64, np.float32]),
    bound=st.sampled_from([0.0, 0.1]),
)
def test_a_bagging_in_several_parts_is_compared_as_it_compares_itself(
    tables, n_jobs, dtype, bound
):
    model = bagging(tables, n_jobs=n_jobs, dtype=dtype)
    with joblib.parallel_config(backend="threading"):
        answers_like(model, numbered(tables.shape[1]), max_disagreement=bound)


@given(tables=probabilities_in_twentieths(), bound=st.sampled_from([0.0, 0.1]))
def test_votes_are_counted_as_the_model_counts_them(tables, bound):
    model = committee(tables, voting="hard", weights=[0.1] * len(tables))
    answers_like(model, numbered(tables.shape[1]), max_disagreement=bound)


@given(tables=probabilities_in_twentieths())
def test_a_list_is_averaged_in_its_order(tables):
    rows, labels = numbered(tables.shape[1]), np.array(["a", "b", "c"])
    labels = labels[: tables.shape[2]]
    members = [Says(table).fit(rows[: len(labels)], labels) for table in tables]
    quick = SequentialVotingClassifier(
        members, voting="soft", max_disagreement=0.0, random_state=1
    ).fit(rows)
    sums = [[0.0] * len(labels) for _ in rows]
    for table in tables:
        for row, row_sums in enumerate(sums):
            for k in range(len(labels)):
                row_sums[k] += table[row, k]
    expected = [labels[row_sums.index(max(row_sums))] for row_sums in sums]
    assert quick.predict_full(rows).tolist() == expected
    assert quick.predict(rows).tolist() == expected


def test_an_exact_tie_goes_where_the_model_sends_it():
    # The sums of both classes are 1.5, and half their differences add up to more.
    tables = np.array([[[0.95, 0.05]] * 30, [[0.45, 0.55]] * 30, [[0.1, 0.9]] * 30])
    model = committee(tables, labels=["no", "yes"])
    assert set(model.predict(numbered(30))) == {"no"}
    answers_like(model, numbered(30), max_disagreement=0.02)
    assert (answers_like(model, numbered(30), max_disagreement=0.0) == 3).all()


def test_only_rows_too_close_to_call_are_left_to_the_model():
    tables = np.full((4, 50, 2), 0.5)
    tables[0, 10:] = [0.45, 0.55]
    model = committee(tables, kind=Asked)
    rows = numbered(50)
    quick = fitted(model, rows, max_disagreement=0.0)
    model.n_rows_asked = 0
    assert quick.predict(rows).tolist() == [0] * 10 + [1] * 40
    assert model.n_rows_asked == 10


def test_neighbours_often_tie_and_the_promise_is_about_the_model():
    X, y = make_classification(6000, 6, n_informative=4, flip_y=0.3, random_state=0)
    model = BaggingClassifier(
        KNeighborsClassifier(5), n_estimators=10, max_features=0.7, random_state=0
    ).fit(X[:600], y[:600])
    rows, new = X[600:3600], X[3600:]
    own = model.predict(new)
    ties = model.predict_proba(new)
    assert (np.abs(ties[:, 0] - ties[:, 1]) < 1e-9).sum() > 20
    quick = fitted(model, rows, max_disagreement=0.003, confidence=0.95)
    labels = quick.predict(new)
    assert np.array_equal(quick.predict_full(new), own)
    assert np.array_equal(quick.predict_model(new), own)
    assert spinney.certify(quick, new).n_disagreements == (labels != own).sum()
    # 2,400 rows at 0.3 % would show 18 or more once in a thousand times.
    assert (labels != own).sum() < 18


def test_members_of_a_bagging_see_arrays_as_the_model_shows_them():
    X, y = make_classification(900, 8, n_informative=5, n_classes=3, random_state=0)
    frame = pd.DataFrame(X, columns=list("abcdefgh"))
    labels = np.array(["red", "green", "blue"])[y]
    model = BaggingClassifier(
        GaussianNB(), n_estimators=9, max_features=0.6, random_state=0
    ).fit(frame[:300], labels[:300])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quick = fitted(model, frame[300:600], max_disagreement=0.0)
        own = model.predict(frame[600:])
        assert np.array_equal(quick.predict(frame[600:]), own)
        assert np.array_equal(quick.predict_full(frame[600:]), own)


def test_a_majority_that_is_asked_for_is_not_the_model_and_certified_against_it():
    tables = np.array([[[0.4, 0.6]], [[0.4, 0.6]], [[1.0, 0.0]]]).repeat(20, axis=1)
    model = committee(tables)
    rows = numbered(20)
    assert set(model.predict(rows)) == {0}
    quick = fitted(model, rows, voting="hard")
    assert set(quick.predict_full(rows)) == {1}
    assert set(quick.predict_model(rows)) == {0}
    assert spinney.certify(quick, rows).n_disagreements == 20


# ------------------------------------------------------------------ what is refused


@pytest.mark.parametrize("weights", [[0, 0], [-1, 2], [np.nan, 1], [np.inf, 1]])
@pytest.mark.parametrize("voting", ["hard", "soft"])
def test_weights_that_mean_nothing_are_refused(weights, voting):
    model = committee(np.full((2, 5, 2), 0.5), voting=voting, weights=weights)
    with pytest.raises(UnsupportedModelError, match=r"weights of this Voting.*\n.*not"):
        fitted(model, numbered(5))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"dtype": np.float16}, "float16"),
        ({"table": np.full((5, 2), 1.5)}, "from 1.5 to 1.5"),
        ({"table": np.full((5, 2), -0.5)}, "between 0 and 1"),
        ({"table": np.full((5, 2, 1), 0.5)}, r"shape \(\d, 2, 1\)"),
    ],
)
def test_what_are_no_probabilities_is_refused(change, words):
    model = committee(np.full((2, 5, 2), 0.5))
    model.estimators_[1].set_params(**change)
    with pytest.raises(UnsupportedModelError, match=words):
        fitted(model, numbered(5))


def test_a_committee_that_mixes_up_its_columns_is_refused():
    X, y = make_classification(300, n_classes=3, n_informative=5, random_state=0)
    narrow = [
        (str(k), FrozenEstimator(GaussianNB().fit(X[y != 0], y[y != 0])))
        for k in range(2)
    ]
    model = VotingClassifier(narrow, voting="soft").fit(X, y)
    with pytest.raises(UnsupportedModelError, match="has 2 classes"):
        fitted(model, X)


def test_members_that_are_not_alike_are_refused():
    X, y = make_classification(300, random_state=0)
    model = BaggingClassifier(LogisticRegression(), n_estimators=3).fit(X, y)
    model.estimators_[1] = RidgeClassifier().fit(X, y)
    with pytest.raises(UnsupportedModelError, match="others do not"):
        fitted(model, X)


def test_a_label_that_nobody_knows_is_refused():
    class Stranger(GaussianNB):
        def predict(self, X):
            return super().predict(X) + 7

    X, y = make_classification(300, random_state=0)
    model = VotingClassifier([("a", GaussianNB()), ("b", Stranger())]).fit(X, y)
    with pytest.raises(UnsupportedModelError, match=r"Stranger predicts [78],"):
        fitted(model, X)
