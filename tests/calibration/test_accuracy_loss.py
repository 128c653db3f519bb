"""The loss of accuracy keeps its bound, on average and with confidence, exactly."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import multinomial

from spinney.calibration.accuracy_loss import (
    ExpectedLoss,
    ProvenLoss,
    accuracy_test,
    changes_of_accuracy,
)
from spinney.calibration.bounds import clopper_pearson_upper
from spinney.calibration.ladder import boldest_kept
from spinney.calibration.limits import limits_for

# True loss, and share of the rows that change between right and wrong.
LOSSES = [(r, c) for r in (0.02, 0.1, 0.21, 0.3, 0.45, 0.7) for c in (0.1, 0.3, 0.6, 1)]


def answers(n_rows, n_harmed, n_helped):
    """Return answers of the full ensemble, true classes, and answers that change."""
    full, true = np.zeros(n_rows, dtype=int), np.zeros(n_rows, dtype=int)
    true[-n_helped or n_rows :] = 1
    early = full.copy()
    early[:n_harmed] = 1
    early[-n_helped or n_rows :] = 1
    return full, true, early


def chances_to_pass(test, n_rows, bound, confidence=None):
    """Return how likely a rule passes, by its loss and the share of rows that change.

    The sum over all numbers of rows that change, one by one.
    """
    passing = [
        (harmed, helped)
        for harmed in range(n_rows + 1)
        for helped in range(n_rows + 1 - harmed)
        if _passes(test, n_rows, harmed, helped, bound, confidence)
    ]
    counts = np.array([(a, b, n_rows - a - b) for a, b in passing]).reshape(-1, 3)
    chances = {}
    for loss, changed in LOSSES:
        if changed < loss:
            continue
        p = np.array([(changed + loss) / 2, (changed - loss) / 2, 1.0 - changed])
        chances[loss, changed] = float(multinomial.pmf(counts, n_rows, p).sum())
    return chances


def _passes(test, n_rows, harmed, helped, bound, confidence):
    full, true, early = answers(n_rows, harmed, helped)
    given = (
        (full, true, bound) if confidence is None else (full, true, bound, confidence)
    )
    return test(*given).passes(early)


def test_changes_are_counted():
    full, true, early = answers(10, 3, 2)
    assert changes_of_accuracy(full, true, early) == (3, 2)
    # Wrong before and after: nothing has changed.
    assert changes_of_accuracy(np.array([0]), np.array([2]), np.array([1])) == (0, 0)


@pytest.mark.parametrize("n_rows", [40, 55])
def test_the_expected_loss_of_a_ladder_keeps_its_bound(n_rows):
    bound = 0.2
    chances = chances_to_pass(ExpectedLoss, n_rows, bound)
    # One rule, and then nothing.
    assert max(loss * chance for (loss, _), chance in chances.items()) <= bound
    # The worst ladder of rules that pass or fail independently of one another: each
    # with the share of changes with which it passes most often.
    best = [
        (loss, max(chance for (other, _), chance in chances.items() if other == loss))
        for loss in sorted({loss for loss, _ in chances})
    ]
    expected, reached = 0.0, 1.0
    for (loss, chance), (_, following) in itertools.pairwise([*best, (0.0, 0.0)]):
        reached *= chance
        expected += loss * reached * (1.0 - following)
    assert 0.0 < expected <= bound


@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_a_rule_that_breaks_the_bound_seldom_passes(confidence):
    bound, n_rows = 0.2, 40
    chances = chances_to_pass(ProvenLoss, n_rows, bound, confidence)
    worst = max(chance for (loss, _), chance in chances.items() if loss > bound)
    assert worst <= 1.0 - confidence
    kept = max(chance for (loss, _), chance in chances.items() if loss < bound / 2)
    assert kept > 0.3


def test_rows_that_become_right_make_up_for_others():
    n_rows, bound = 20_000, 0.001
    # As many become right as become wrong, of ever more rows.
    kept = {}
    for confidence in (None, 0.95):
        test = accuracy_test(*answers(n_rows, 0, 0)[:2], bound, confidence)
        n_changed = 0
        while True:
            full, true, early = answers(n_rows, n_changed, n_changed)
            test = accuracy_test(full, true, bound, confidence)
            if not test.passes(early):
                break
            n_changed += 1
        kept[confidence] = n_changed
    # Bounds on the disagreement allow 19 rows in all, and 12.
    assert kept[None] >= 80
    assert kept[0.95] >= 25
    assert clopper_pearson_upper(12, n_rows, 0.95) <= bound


def test_as_many_rows_as_for_a_disagreement_are_enough():
    for bound, confidence in ((0.01, None), (0.01, 0.95), (0.05, 0.8)):
        limits = limits_for(None, False, np.arange(2), confidence, bound)
        n_rows = limits.n_to_prove
        full, true, early = answers(n_rows, 0, 0)
        assert boldest_kept([early], lambda rule: rule, full, limits, true) is not None
        full, true, early = answers(n_rows - 1, 0, 0)
        assert boldest_kept([early], lambda rule: rule, full, limits, true) is None


def test_the_promise_says_what_holds():
    full, true, early = answers(1000, 5, 7)
    limits = limits_for(None, False, np.arange(2), None, 0.02)
    promise = limits.promise(full, early, true)
    assert promise.max_disagreement is None
    assert str(promise) == (
        "On new rows of the same kind, at most 2 % more of the predictions are wrong "
        "than with the full ensemble, on average (of 1,000 calibration rows 5 became "
        "wrong and 7 right)."
    )
    assert type(promise).from_dict(promise.to_dict()) == promise
    both = limits_for(0.03, False, np.arange(2), 0.9, 0.02).promise(full, early, true)
    words = "at most 3 % of the predictions differ, with 90 % confidence (12 of"
    assert words in str(both)
    assert "; and at most 2 % more of the predictions are wrong" in str(both)


def test_both_bounds_are_tested():
    full, true, early = answers(1000, 12, 12)
    only = limits_for(None, False, np.arange(2), None, 0.02)
    both = limits_for(0.02, False, np.arange(2), None, 0.02)
    assert boldest_kept([early], lambda rule: rule, full, only, true) is not None
    assert boldest_kept([early], lambda rule: rule, full, both, true) is None
