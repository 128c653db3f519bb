"""Votes among several classes: against all rules there are, and all orders."""

from __future__ import annotations

import json
import shutil
from fractions import Fraction
from functools import cache
from itertools import permutations, product

import numpy as np
import pytest
from scipy.special import gammaln
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator

import spinney
from spinney.calibration.fitted_rule import FittedRule
from spinney.errors import FormatError, InvalidArgumentError, PollDecidedError
from spinney.report.classifiers import thresholds
from spinney.runtime.count_tables import counts_of_ranks, ranks_of_counts
from spinney.runtime.exit_rule import ExitRule
from spinney.sequential.class_strategy import ClassStoppingStrategy
from spinney.sequential.full_counts import (
    CountProblem,
    VoteLattice,
    n_states,
    profile_of,
)


def dirichlet_counts(n_voters, alpha):
    """Return all full counts, and how likely they are."""
    counts = counts_of_ranks(n_voters, len(alpha))
    alpha = np.asarray(alpha)
    log = gammaln(n_voters + 1) - gammaln(counts + 1).sum(axis=1)
    log += (gammaln(counts + alpha) - gammaln(alpha)).sum(axis=1)
    return counts, np.exp(log - log.max())


def exact_values(n_voters, n_classes, weights, stops):
    """Return mean votes and disagreement of a rule, state by state in fractions."""

    @cache
    def chance(prefix, full):
        """How likely the first votes of a full count are these."""
        if sum(prefix) == n_voters:
            return Fraction(int(prefix == full))
        i = sum(prefix) + 1
        found = Fraction(0)
        for c in range(n_classes):
            more = (*prefix[:c], prefix[c] + 1, *prefix[c + 1 :])
            if more[c] <= full[c]:
                found += Fraction(more[c], i) * chance(more, full)
        return found

    @cache
    def onwards(prefix, full):
        """Votes and disagreement from a state on, times how likely it is."""
        i = sum(prefix)
        winner = full.index(max(full))
        if i == n_voters:
            return n_voters * chance(prefix, full), Fraction(0)
        if stops(prefix):
            wrong = prefix.index(max(prefix)) != winner
            return i * chance(prefix, full), int(wrong) * chance(prefix, full)
        votes = wrong = Fraction(0)
        for c in range(n_classes):
            more = (*prefix[:c], prefix[c] + 1, *prefix[c + 1 :])
            if more[c] <= full[c]:
                here = onwards(more, full)
                votes += Fraction(more[c], i + 1) * here[0]
                wrong += Fraction(more[c], i + 1) * here[1]
        return votes, wrong

    total = sum(weights.values())
    start = (0,) * n_classes
    each = [(onwards(start, full), weight) for full, weight in weights.items()]
    return tuple(sum(w * value[k] for value, w in each) / total for k in (0, 1))


def rule_of(strategy, which=0):
    """Return whether a rule stops in a state."""
    answers = strategy.rules[which]

    def stops(prefix):
        table = answers.get(sum(prefix))
        return table is not None and table[ranks_of_counts(np.array([prefix]))[0]] >= 0

    return stops


@pytest.mark.parametrize(("n_voters", "n_classes"), [(4, 3), (5, 3), (4, 4)])
def test_values_are_those_of_fractions(n_voters, n_classes):
    rng = np.random.default_rng(n_voters)
    counts = counts_of_ranks(n_voters, n_classes)
    weights = rng.integers(1, 9, size=len(counts))
    strategy = spinney.optimal_strategy(n_voters, 0.1, votes=(counts, weights))
    given = {tuple(c): int(w) for c, w in zip(counts.tolist(), weights, strict=True)}
    values = [
        exact_values(n_voters, n_classes, given, rule_of(strategy, k))
        for k in range(len(strategy.rules))
    ]
    shares = strategy.shares
    votes = sum(s * float(v[0]) for s, v in zip(shares, values, strict=True))
    wrong = sum(s * float(v[1]) for s, v in zip(shares, values, strict=True))
    assert strategy.expected_votes == pytest.approx(votes, rel=1e-12)
    assert wrong <= strategy.proven_disagreement <= 0.1
    assert strategy.lower_bound <= strategy.expected_votes <= votes * (1 + 1e-12)
    assert strategy.expected_votes - strategy.lower_bound < 1e-9
    # The profile says the same, full count by full count.
    all_counts, each_votes, each_wrong = strategy.profile()
    assert np.array_equal(all_counts, counts)
    mean = weights / weights.sum()
    assert mean @ each_votes == pytest.approx(votes, rel=1e-12)
    assert mean @ each_wrong == pytest.approx(wrong, abs=1e-13)


@pytest.mark.parametrize("bound", [0.0, 0.05, 0.15, 0.3])
def test_no_rule_at_all_needs_fewer_votes(bound):
    """All 2 ** 9 rules that may stop after one or two of three votes."""
    counts = counts_of_ranks(3, 3)
    weights = np.arange(1, len(counts) + 1)
    strategy = spinney.optimal_strategy(3, bound, votes=(counts, weights))
    given = {tuple(c): int(w) for c, w in zip(counts.tolist(), weights, strict=True)}
    states = [tuple(c) for i in (1, 2) for c in counts_of_ranks(i, 3).tolist()]
    points = []
    for flags in product((False, True), repeat=len(states)):
        stops = dict(zip(states, flags, strict=True))
        points.append(exact_values(3, 3, given, lambda p, s=stops: s.get(p, False)))
    points = np.array(points, dtype=float)
    kept = points[:, 1] <= bound + 1e-15
    assert strategy.lower_bound <= points[kept, 0].min() + 1e-12
    best = points[kept, 0].min()  # or a lot between any two rules
    for a in points[kept]:
        for b in points[~kept]:
            share = (bound - a[1]) / (b[1] - a[1])
            best = min(best, a[0] + share * (b[0] - a[0]))
    assert strategy.expected_votes == pytest.approx(best, abs=1e-9)
    alone = spinney.optimal_strategy(
        3, bound, votes=(counts, weights), round="deterministic"
    )
    assert len(alone.rules) == 1
    assert alone.proven_disagreement <= bound
    assert alone.expected_votes >= best - 1e-12


@pytest.mark.parametrize(
    ("n_voters", "bound", "votes"), [(7, 0.05, 1.18), (25, 0.01, 2.11)]
)
def test_the_leading_class_makes_a_difference(n_voters, bound, votes):
    given = dirichlet_counts(n_voters, (6, 0.6, 0.6))
    strategy = spinney.optimal_strategy(n_voters, bound, votes=given)
    assert strategy.expected_votes == pytest.approx(votes, abs=0.01)
    assert strategy.lower_bound == pytest.approx(strategy.expected_votes, rel=1e-9)


def test_polls_decide_as_the_rule_says_in_every_order():
    votes = [0, 0, 1, 2, 1]
    counts = counts_of_ranks(5, 3)
    strategy = spinney.optimal_strategy(5, 0.1, votes=counts, round="deterministic")
    n_cast, wrong = [], []
    for order in set(permutations(votes)):
        poll = strategy.poll()
        for vote in order:
            if poll.cast(vote):
                break
        assert poll.decided
        n_cast.append(poll.n_cast)
        wrong.append(poll.decision != 0)  # a tie of 0 and 1 goes to the first
        with pytest.raises(PollDecidedError, match="takes no more"):
            poll.cast(0)
    all_counts, each_votes, each_wrong = strategy.profile()
    at = all_counts.tolist().index([2, 2, 1])
    assert np.mean(n_cast) == pytest.approx(each_votes[at])
    assert np.mean(wrong) == pytest.approx(each_wrong[at])
    for bad in (0.5, True, "a"):
        with pytest.raises(TypeError, match="index of a class"):
            strategy.poll().cast(bad)
    for bad in (3, -1):
        with pytest.raises(InvalidArgumentError, match="from 0 to 2, got"):
            strategy.poll().cast(bad)


def test_lots_are_drawn_as_often_as_they_should():
    given = dirichlet_counts(7, (6, 0.6, 0.6))
    strategy = spinney.optimal_strategy(7, 0.05, votes=given)
    assert len(strategy.rules) == 2
    drawn = [strategy.poll(seed)._rule is strategy.rules[1] for seed in range(2000)]
    assert np.mean(drawn) == pytest.approx(strategy.shares[1], abs=0.05)


def test_a_dict_brings_the_same_strategy_back():
    counts = counts_of_ranks(6, 4)
    strategy = spinney.optimal_strategy(6, 0.07, votes=counts, stop_steps=[2, 4])
    parts = json.loads(json.dumps(strategy.to_dict()))
    again = ClassStoppingStrategy.from_dict(parts)
    assert again.to_dict() == strategy.to_dict()
    for one, other in zip(strategy.profile(), again.profile(), strict=True):
        assert np.array_equal(one, other)
    assert {step for rule in again.rules for step in rule} == {2, 4}
    for change in (
        {"format": "another"},
        {"n_voters": "x"},
        {"rules": []},
        {"rules": [{"share": 1.0, "answers": {"2": "00"}}]},
        {"rules": [{"share": 1.0, "answers": {"9": "00000000"}}]},
        {"n_classes": 9},
    ):
        with pytest.raises((FormatError, InvalidArgumentError)):
            ClassStoppingStrategy.from_dict(parts | change)
    with pytest.raises(InvalidArgumentError, match="profile"):
        strategy.plot()


@pytest.mark.parametrize(
    ("votes", "words"),
    [
        ([[3, 2]], "must be a table of three or four columns"),
        ([[1, 1, 1, 1, 1]], "must be a table of three or four columns"),
        ([[3, 2, 1]], "must add up to 5"),
        ([[6, -1, 0]], "not negative"),
        ([[np.nan, 1, 4]], "not negative"),
        ([["a", "b", "c"]], "not negative"),
        ([[None, 1, 4]], "not negative"),
        ([[2.5, 1.5, 1.0]], "integers"),
        (([[3, 1, 1]], [0.0]), "not all 0"),
    ],
)
def test_counts_that_are_none_are_named(votes, words):
    with pytest.raises(InvalidArgumentError, match=words):
        spinney.optimal_strategy(5, 0.1, votes=votes)


def test_what_does_not_fit_is_refused():
    with pytest.raises(InvalidArgumentError, match="different counts"):
        spinney.optimal_strategy(301, 0.1, votes=[[301, 0, 0, 0]])
    with pytest.raises(InvalidArgumentError, match="minimean"):
        spinney.optimal_strategy(5, 0.1, votes=[[5, 0, 0]], objective="minimax")
    assert n_states(101, 3) == sum(len(counts_of_ranks(i, 3)) for i in range(102))


def test_what_goes_on_is_what_has_not_stopped():
    lattice = VoteLattice(9, 3)
    rng = np.random.default_rng(0)
    masses = rng.uniform(size=len(lattice.counts))
    may_stop = np.ones(10, dtype=bool)
    may_stop[0] = False
    problem = CountProblem(lattice, masses / masses.sum(), may_stop)
    rule = problem.solve(0.1).safe
    undecided = problem.undecided(rule)
    # Votes are the sum over all numbers of votes of those that are still going on.
    votes = 1.0 + sum(undecided[i] for i in range(1, 9))
    assert votes == pytest.approx(rule.votes)
    each = profile_of(lattice, rule.answers)
    assert each[0] @ problem.masses == pytest.approx(rule.votes)
    assert each[1] @ problem.masses == pytest.approx(rule.wrong)
    again = problem.measured(rule.answers)
    assert (again.votes, again.wrong) == pytest.approx((rule.votes, rule.wrong))


@pytest.fixture(scope="module")
def three():
    """A forest for three unequal classes, and rows it has not seen."""
    X, y = make_classification(
        5000,
        8,
        n_informative=5,
        n_classes=3,
        weights=[0.5, 0.3],
        flip_y=0.1,
        random_state=0,
    )
    model = RandomForestClassifier(21, max_depth=6, random_state=0)
    return model.fit(X[:1000], y[:1000]), X[1000:]


def test_engines_and_exported_code_follow_it(three, tmp_path):
    model, X = three
    quick = spinney.SequentialVotingClassifier(
        FrozenEstimator(model), voting="hard", max_disagreement=0.0, random_state=0
    ).fit(X[:2000])
    counts = quick.full_sums(X[:2000])[0].astype(int)
    points = [3, 5, 9, 14]
    strategy = spinney.optimal_strategy(
        21, 0.03, votes=counts, stop_steps=points, round="deterministic"
    )
    answers = [strategy.rules[0][point] for point in points]
    rule = ExitRule.by_all_counts(quick.order_, points, answers)
    quick._adopt(FittedRule(rule, 0.0, 0.0, np.zeros(0)))
    quick.fit_probabilities(X[:2000])
    rows = X[2000:].astype(np.float32)
    labels, n_evaluated = quick.predict_counted(rows)
    assert n_evaluated.mean() == pytest.approx(strategy.expected_votes, rel=0.2)
    assert np.mean(labels != quick.predict_full(rows)) < 0.06
    # One vote after another, in the same order.
    votes = quick.forest_.votes(rows[:50])[:, quick.order_]
    for row, label, count in zip(votes, labels, n_evaluated, strict=False):
        poll = strategy.poll()
        for vote in row:
            if poll.cast(int(vote)):
                break
        assert (poll.decision, poll.n_cast) == (label, count)
    one = quick.predictor()
    assert [one(row) for row in rows[:50]] == labels[:50].tolist()
    probabilities = quick.predict_proba(rows)
    assert np.array_equal(probabilities.argmax(axis=1), labels)
    spinney.save(quick, tmp_path / "quick.spinney")
    again = spinney.load(tmp_path / "quick.spinney")
    assert np.array_equal(again.predict_counted(rows)[1], n_evaluated)
    assert (thresholds(quick).margin <= points).any()
    if shutil.which("cc") is None and shutil.which("gcc") is None:
        pytest.skip("exported code needs a C compiler")
    compiled = spinney.compile(quick).predict_counted(rows)
    assert np.array_equal(compiled[0], labels)
    assert np.array_equal(compiled[1], n_evaluated)
