"""Bounds for classes: what is asked for, what is refused; they hold exactly."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spinney.calibration.ladder import boldest_kept, certificate_of
from spinney.calibration.limits import check_bounds, largest_bound, limits_for
from spinney.calibration.row_splits import LEAST_OF_CLASS, SHARES, split_by_class
from spinney.errors import InvalidArgumentError

CLASSES = np.array(["fraud", "ok"])


# ------------------------------------------------------------------ what is asked for


def test_a_mapping_is_put_into_the_order_of_the_classes():
    limits = limits_for({"ok": 0.001, "fraud": 0.01}, False, CLASSES)
    assert limits.by_class.tolist() == [0.01, 0.001]
    assert limits.overall is None
    assert limits.on_all_rows == 0.01
    assert limits.n_to_prove == 0
    assert limits.n_to_prove_by_class.tolist() == [99, 999]
    assert limits.as_parameters() == {
        "max_disagreement": {"fraud": 0.01, "ok": 0.001},
        "per_class": False,
    }


def test_a_single_number_for_each_class():
    limits = limits_for(0.02, True, CLASSES, 0.95)
    assert limits.by_class.tolist() == [0.02, 0.02]
    assert limits.n_to_prove_by_class.tolist() == [149, 149]
    assert limits.level == pytest.approx(0.02)
    assert limits.as_parameters() == {"max_disagreement": 0.02, "per_class": True}


def test_zero_for_one_class_means_that_nothing_differs():
    assert limits_for({"ok": 0.01, "fraud": 0.0}, False, CLASSES).level == 0.0


def test_labels_that_are_numbers():
    classes = np.array([0, 1])
    by_label = {np.int64(1): 0.01, 0: 0.1}
    assert limits_for(by_label, False, classes).by_class.tolist() == [0.1, 0.01]
    assert largest_bound(by_label) == 0.1
    assert largest_bound(0.3) == 0.3


@pytest.mark.parametrize(
    ("bounds", "per_class", "words"),
    [
        ({"fraud": 0.01, "fine": 0.1}, False, "'fine', which the model does not know"),
        ({"fraud": 0.01}, False, "no bound for 'ok'. Pass one for each"),
        ({"fraud": 0.01, "ok": 1.0}, False, r"max_disagreement\['ok'\] must be in"),
        ({"fraud": -0.1, "ok": 0.1}, False, r"max_disagreement\['fraud'\] must be in"),
        ({"fraud": True, "ok": 0.1}, False, r"max_disagreement\['fraud'\] must be in"),
        (1.5, True, r"max_disagreement must be in \[0, 1\)"),
        (0.1, "yes", "per_class must be True or False, got 'yes'"),
        ({}, False, "no bound for 'fraud', 'ok'"),
    ],
)
def test_what_is_no_bound_is_refused(bounds, per_class, words):
    with pytest.raises(InvalidArgumentError, match=words):
        limits_for(bounds, per_class, CLASSES)


def test_bounds_are_checked_before_classes_are_known():
    check_bounds({"whatever": 0.1})
    with pytest.raises(InvalidArgumentError, match="must be in"):
        check_bounds({"whatever": 2})


# ------------------------------------------------------------------ rows


@settings(max_examples=50)
@given(
    counts=st.lists(st.integers(0, 300), min_size=2, max_size=4),
    seed=st.integers(0, 99),
)
def test_rows_of_each_class_are_parted_on_their_own(counts, seed):
    codes = np.repeat(np.arange(len(counts)), counts)
    np.random.default_rng(seed).shuffle(codes)
    needs = np.full(len(counts), 60)
    parts = split_by_class(codes, SHARES, needs, np.random.RandomState(seed))
    together = np.sort(np.concatenate([parts.fit, parts.prove]))
    assert together.tolist() == list(range(len(codes)))
    assert parts.given.tolist() == counts
    for c, count in enumerate(counts):
        n_to_prove = np.count_nonzero(codes[parts.prove] == c)
        if count >= 60 + LEAST_OF_CLASS:
            assert n_to_prove >= 60
        assert n_to_prove <= max(count / 2 + 1, 60)


def test_rare_classes_weigh_more_in_rows_to_fit_to():
    full = np.array([0] * 980 + [1] * 20)
    limits = limits_for(0.01, True, np.arange(2))
    drawn = limits.balanced(np.arange(1000), full, np.random.RandomState(0))
    assert np.bincount(full[drawn]).tolist() == [1000, 1000]
    assert set(drawn[full[drawn] == 1].tolist()) == set(range(980, 1000))
    # Four times the bound is half the weight.
    limits = limits_for({0: 0.01, 1: 0.04}, False, np.arange(2))
    drawn = limits.balanced(np.arange(1000), full, np.random.RandomState(0))
    assert np.bincount(full[drawn]).tolist() == [1334, 667]
    plain = limits_for(0.01, False, np.arange(2))
    assert plain.balanced(np.arange(9), None, np.random.RandomState(0)).tolist() == [
        *range(9)
    ]


# ------------------------------------------------------------------ exactly

# Kinds of rows: class by the full ensemble, and on which rungs the answer differs.
# Some differ on a cautious rung and agree on a bolder one.
KINDS = [(0, (0, 0, 1)), (0, (1, 0, 0)), (0, (0, 0, 0)), (1, (0, 1, 1)), (1, (0, 0, 0))]


def taken(kinds, limits):
    """Return the rung taken for rows of such kinds, None if none is."""
    full = np.array([KINDS[kind][0] for kind in kinds])
    differs = np.array([KINDS[kind][1] for kind in kinds], dtype=int)
    kept = boldest_kept(
        range(3), lambda rung: np.where(differs[:, rung], 1 - full, full), full, limits
    )
    return None if kept is None else kept[0]


@pytest.mark.parametrize("chances", [(1, 1, 4, 1, 3), (3, 1, 1, 1, 1), (0, 0, 3, 2, 1)])
@pytest.mark.parametrize("bounds", [(0.5, 0.5), (0.3, 0.5), (0.5, 0.7)])
def test_the_expected_disagreement_of_each_class_keeps_its_bound(chances, bounds):
    p = np.array(chances) / sum(chances)
    limits = limits_for(dict(enumerate(bounds)), False, np.arange(2))
    n_rows = 5
    lost, all_of = np.zeros(2), np.zeros(2)
    for rows in itertools.combinations_with_replacement(range(len(KINDS)), n_rows):
        counts = np.bincount(rows, minlength=len(KINDS))
        ways = math.factorial(n_rows) / math.prod(map(math.factorial, counts))
        weight = ways * float(np.prod(p**counts))
        rung = taken(rows, limits)
        for kind, chance in enumerate(p):
            label, differs = KINDS[kind]
            all_of[label] += weight * chance
            lost[label] += weight * chance * (rung is not None and differs[rung])
    for c in (0, 1):
        assert lost[c] <= bounds[c] * all_of[c] + 1e-12
    assert lost.sum() > 0.0  # it is no promise kept by doing nothing


@pytest.mark.parametrize("chances", [(1, 1, 4, 1, 3), (3, 1, 1, 3, 1), (0, 0, 3, 2, 1)])
def test_all_bounds_hold_together_with_the_confidence(chances):
    p = np.array(chances) / sum(chances)
    bounds, confidence, n_rows = (0.5, 0.45), 0.7, 7
    limits = limits_for(dict(enumerate(bounds)), False, np.arange(2), confidence)
    mass = np.array([p[:3].sum(), p[3:].sum()])
    # The true disagreement of each class on each rung.
    risk = (
        np.array(
            [
                [sum(p[k] * d[j] for k, (c, d) in enumerate(KINDS) if c == label)]
                for label in (0, 1)
                for j in range(3)
            ]
        ).reshape(2, 3)
        / mass[:, None]
    )
    broken = (risk > np.array(bounds)[:, None]).any(axis=0)
    failed = 0.0
    for rows in itertools.combinations_with_replacement(range(len(KINDS)), n_rows):
        counts = np.bincount(rows, minlength=len(KINDS))
        ways = math.factorial(n_rows) / math.prod(map(math.factorial, counts))
        rung = taken(rows, limits)
        if rung is not None and broken[rung]:
            failed += ways * float(np.prod(p**counts))
    assert failed <= 1.0 - confidence + 1e-12


def test_the_promise_has_the_counts_of_each_class():
    full = np.repeat([0, 1], [300, 100])
    answers = full.copy()
    answers[[0, 1, 300]] = [1, 1, 0]
    limits = limits_for({0: 0.05, 1: 0.1}, False, np.arange(2), 0.95)
    promise = limits.promise(full, answers)
    assert [(one.n_rows, one.n_disagreements) for one in promise.by_class] == [
        (300, 2),
        (100, 1),
    ]
    assert promise.max_disagreement == 0.1
    text = str(promise)
    assert (
        "at most 5 % of class 0 [2 of 300], 10 % of class 1 [1 of 100] differ" in text
    )
    assert "with 95 % confidence for all classes together" in text
    certificate = certificate_of(promise)
    assert certificate.upper_bound == 0.1
    assert certificate.by_class[1].n_rows == 100
    assert type(promise).from_dict(promise.to_dict()) == promise


def test_many_classes_are_not_named_one_by_one():
    full = np.arange(700) % 7
    promise = limits_for(0.1, True, np.arange(7)).promise(full, full)
    assert "each of the 7 classes, at most 10 % differ, on average" in str(promise)
