"""Timers take turns, and say what they have measured."""

from __future__ import annotations

import time

import numpy as np
import pytest

from spinney.acceleration import timing
from spinney.acceleration.timing import Timer, run_in_turn


def test_timers_take_turns_and_the_slow_ones_have_fewer_samples():
    calls = []

    def timer(name, seconds):
        def call(given):
            calls.append(name)
            time.sleep(seconds)

        return Timer(call, [None], n_calls=1)

    slow, quick = timer("slow", 0.02), timer("quick", 0.006)
    calls.clear()
    shares = []
    run_in_turn([slow, quick], 0.2, on_round=shares.append)
    assert len(quick.samples) > len(slow.samples) >= 3
    assert set(calls[:2]) == {"slow", "quick"}
    assert slow.median >= slow.shortest > quick.median >= 0.006
    assert shares == sorted(shares)
    assert shares[-1] <= 1.0


def test_the_order_changes_from_round_to_round():
    called = []
    timers = [
        Timer(lambda given, name=name: called.append(name), [0], n_calls=1)
        for name in "abc"
    ]
    called.clear()
    run_in_turn(timers, 0.0, min_samples=4)
    rounds = [called[first : first + 3] for first in range(0, len(called), 3)]
    assert len(rounds) == 4
    assert all(sorted(names) == ["a", "b", "c"] for names in rounds)
    assert len({tuple(names) for names in rounds}) > 1


@pytest.mark.parametrize(
    ("seconds", "n_calls"), [(0.0, None), (0.0011, None), (0.006, 1)]
)
def test_short_calls_are_repeated_within_a_sample(seconds, n_calls):
    timer = Timer(lambda given: time.sleep(seconds) if seconds else None, [0])
    if n_calls is not None:
        assert timer.n_calls == n_calls
    assert 1 <= timer.n_calls <= timing.MOST_CALLS
    assert timer.n_calls > 1 or seconds > 0.001
    timer.sample()
    assert timer.shortest >= seconds


def test_inputs_are_taken_in_turn():
    seen = []
    timer = Timer(seen.append, [1, 2, 3], n_calls=3)
    seen.clear()
    timer.sample()
    assert np.array_equal(sorted(seen), [1, 2, 3])
