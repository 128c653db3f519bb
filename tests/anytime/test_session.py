"""Sessions: one row, step by step."""

from __future__ import annotations

import copy
import pickle

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.steps.steps_reference import classifiers, random_order
from spinney import InvalidArgumentError
from spinney.anytime.session import AnytimeSession
from spinney.runtime.steps.engine import StepEngine
from strategies import random_forest, random_rows

SLOW = bool(numba.config.DISABLE_JIT)


@given(classifiers, st.integers(0, 10_000))
@settings(max_examples=10 if SLOW else 100)
def test_session_has_the_answers_of_a_batch_in_every_state(forest, seed):
    rng = np.random.default_rng(seed)
    engine = StepEngine(forest, random_order(forest, seed))
    rows = forest.engine.rows(random_rows(forest, 11, seed=seed))
    session = AnytimeSession(engine, rows[3:4])
    while not session.done:
        done = session.steps_done
        n_taken = int(rng.integers(1, 1 + engine.n_steps - done))
        assert session.step(n_taken).steps_done == done + n_taken
        winner = engine.winners_after(rows, session.steps_done, None)
        assert session.predict() == forest.classes[winner[3]]
        if not session.done:
            sums = engine.sums_after(rows, session.steps_done, None)
            expected = engine.class_sums.probabilities(sums)[3]
            assert session.predict_proba().tolist() == expected.tolist()
    assert session.predict() == forest.predict(rows[3:4])[0]
    assert (session.predict_proba() == forest.predict_proba(rows[3:4])[0]).all()


def test_copies_of_a_session_go_their_own_way():
    forest = random_forest(10, n_trees=4, depth=4, shape="chain", task="mean classes")
    engine = StepEngine(forest, random_order(forest))
    rows = forest.engine.rows(random_rows(forest, 1))
    session = AnytimeSession(engine, rows).step(5)
    before = session.predict_proba().tolist()
    twins = [copy.copy(session), copy.deepcopy(session)]
    twins.append(pickle.loads(pickle.dumps(session)))
    for twin in twins:
        assert twin.steps_done == 5
        assert twin.step(100).done
        assert twin.steps_done == twin.n_steps == 16
        assert session.steps_done == 5
        assert session.predict_proba().tolist() == before
        assert twin.predict() == forest.predict(rows)[0]
    assert repr(session) == "<AnytimeSession: 5 of 16 steps done>"


@pytest.mark.parametrize("k", [-1, 0.5, 1.0, True, "2", None])
def test_sessions_take_whole_steps_only(k):
    forest = random_forest(10, n_trees=2, task="vote")
    session = AnytimeSession(
        StepEngine(forest, random_order(forest)),
        forest.engine.rows(random_rows(forest, 1)),
    )
    with pytest.raises(InvalidArgumentError, match="k must be an integer, 0 or more"):
        session.step(k)


def test_forest_of_single_leaves_is_done_before_it_begins():
    forest = random_forest(11, n_trees=3, shape="leaf", task="mean classes")
    rows = forest.engine.rows(random_rows(forest, 1))
    session = AnytimeSession(StepEngine(forest, random_order(forest)), rows)
    assert session.done
    assert session.predict() == forest.predict(rows)[0]
