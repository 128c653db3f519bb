"""Pickles of fitted classifiers: their files, and nothing more."""

from __future__ import annotations

import copy
import operator
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import spinney
from spinney.persistence.store import to_bytes

KINDS = [
    spinney.SequentialVotingClassifier,
    spinney.CascadeClassifier,
    spinney.AllTreesClassifier,
]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 5)).astype(np.float32)
    return X, (X[:, 0] + X[:, 1] > 0.3).astype(int)


@pytest.fixture(scope="module")
def model(rows):
    X, y = rows
    forest = RandomForestClassifier(30, max_depth=6, random_state=0)
    return forest.fit(X[:500], y[:500])


def made(kind, estimator, *data):
    settings = {"max_disagreement": 0.05, "random_state": 0}
    if kind is spinney.AllTreesClassifier:
        settings = {}
    return kind(estimator, **settings).fit(*data)


@pytest.mark.parametrize("kind", KINDS)
def test_a_pickle_is_as_small_as_the_file(kind, rows, model):
    fitted = made(kind, FrozenEstimator(model), rows[0][500:])
    fitted.predict(rows[0])  # what is compiled or laid out by it does not travel
    content = pickle.dumps(fitted)
    assert len(content) < len(to_bytes(fitted)) + 200
    again = pickle.loads(content)
    known = {name for name, value in vars(fitted).items() if value is not None}
    assert known <= set(vars(again))
    for ours, own in zip(
        again.predict_counted(rows[0]), fitted.predict_counted(rows[0]), strict=True
    ):
        assert (ours == own).all()


def test_a_classifier_that_trains_its_own_model_can_be_trained_again(rows):
    X, y = rows
    unfitted = RandomForestClassifier(10, max_depth=4, random_state=0)
    fitted = made(spinney.SequentialVotingClassifier, unfitted, X, y)
    again = pickle.loads(pickle.dumps(fitted))
    assert isinstance(again.estimator, RandomForestClassifier)
    assert (clone(again).fit(X, y).predict(X) == fitted.predict(X)).all()


def test_what_no_file_holds_is_pickled_all_the_same(rows):
    X, y = rows
    steps = make_pipeline(
        FunctionTransformer(operator.neg), RandomForestClassifier(10, random_state=0)
    ).fit(np.abs(X[:500]), y[:500])
    fitted = made(spinney.AllTreesClassifier, FrozenEstimator(steps), np.abs(X[500:]))
    with pytest.raises(TypeError):
        to_bytes(fitted)
    again = pickle.loads(pickle.dumps(fitted))
    assert (again.predict(np.abs(X)) == fitted.predict(np.abs(X))).all()


def test_before_fit_parameters_are_pickled(model):
    early = spinney.CascadeClassifier(FrozenEstimator(model), max_disagreement=0.03)
    again = pickle.loads(pickle.dumps(early))
    assert again.max_disagreement == 0.03


def test_a_copy_shares_what_the_original_has(rows, model):
    fitted = made(spinney.CascadeClassifier, FrozenEstimator(model), rows[0][500:])
    other = copy.copy(fitted)
    assert vars(other) == vars(fitted)
    assert other is not fitted
    assert other.forest_ is fitted.forest_
