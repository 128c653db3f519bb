"""The rule on the votes of all of three or four classes, fitted to calibration rows."""

from __future__ import annotations

from itertools import combinations_with_replacement, pairwise, permutations

import numpy as np
import pytest

from spinney.runtime.count_tables import ranks_of_counts
from spinney.sequential.few_classes import (
    HardVotesOfFew,
    are_few,
    certain_answers,
    redrawn,
)
from spinney.sequential.full_counts import (
    CountProblem,
    VoteLattice,
    masses_of_counts,
)


def drawn_counts(n_rows, n_voters, alpha, seed):
    """Return the votes of rows whose shares of votes come from a Dirichlet."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(alpha, n_rows)
    return np.array([rng.multinomial(n_voters, each) for each in shares])


def after(lattice, state, n_votes, prior):
    """Return what one more vote from an urn leads to, as pairs of state and chance."""
    total = n_votes + lattice.n_classes * prior
    for c, count in enumerate(state):
        more = tuple(n + (c == d) for d, n in enumerate(state))
        yield more, (count + prior) / total


def test_votes_are_forgotten_and_drawn_again_one_by_one():
    lattice = VoteLattice(6, 3)
    masses = masses_of_counts(np.array([[4, 1, 1], [0, 6, 0]]), None, lattice)
    # Forget three of six votes, any of them, and draw three.
    known = {}
    for counts in ((4, 1, 1), (0, 6, 0)):
        votes = [c for c, n in enumerate(counts) for _ in range(n)]
        for kept in permutations(votes, 3):
            state = tuple(np.bincount(kept, minlength=3).tolist())
            known[state] = known.get(state, 0.0) + 0.5 / 120
    for n_votes in (3, 4, 5):
        following = {}
        for state, mass in known.items():
            for more, chance in after(lattice, state, n_votes, 0.1):
                following[more] = following.get(more, 0.0) + mass * chance
        known = following
    expected = np.zeros(len(masses))
    for state, mass in known.items():
        expected[ranks_of_counts(np.array([state]))[0]] = mass
    assert redrawn(lattice, masses, 0.5) == pytest.approx(expected)
    assert np.array_equal(redrawn(lattice, masses, 0.0), masses)


@pytest.mark.parametrize("n_classes", [3, 4, 5])
def test_certain_answers_are_those_that_no_rest_of_the_votes_changes(n_classes):
    n_voters = 7 if n_classes < 5 else 5
    lattice = VoteLattice(n_voters, n_classes)
    for n_votes in range(1, n_voters):
        found = certain_answers(lattice, n_votes)
        left = n_voters - n_votes
        rests = [
            np.bincount(rest, minlength=n_classes)
            for rest in combinations_with_replacement(range(n_classes), left)
        ]
        for counts in VoteLattice(n_votes, n_classes).counts:
            ends = {int((counts + rest).argmax()) for rest in rests}
            answer = found[ranks_of_counts(counts[None])[0]]
            if answer >= 0:
                assert ends == {int(answer)}
            else:
                # A tie at the end may be the same class after all.
                best, second = np.sort(counts)[::-1][:2]
                assert len(ends) > 1 or best - second == left


def test_what_it_does_on_the_rows_is_what_all_orders_do():
    counts = drawn_counts(60, 6, [1.0, 0.7, 0.4], 0)
    problem = HardVotesOfFew(counts, np.arange(6), 1)
    fitted = problem.solve(0.08, np.array([2, 3, 5]), np.random.RandomState(0))
    rule = fitted.rule
    n_trees, n_wrong, n_paths = 0, 0, 0
    for row in counts:
        votes = [c for c, n in enumerate(row) for _ in range(n)]
        paths = np.eye(3)[np.array(list(permutations(votes)))]

        def add(start, end, left, totals, paths=paths):
            totals += paths[left, start:end].sum(axis=1)

        classes, evaluated, left, _ = rule.follow(np.zeros((len(paths), 3)), add)
        classes[left] = row.argmax()
        n_trees += evaluated.sum()
        n_wrong += (classes != row.argmax()).sum()
        n_paths += len(paths)
    assert 0.0 < fitted.disagreement < 0.12
    assert fitted.expected_trees == pytest.approx(n_trees / n_paths)
    assert fitted.disagreement == pytest.approx(n_wrong / n_paths)


def test_along_the_ladder_rows_leave_ever_earlier():
    counts = drawn_counts(500, 25, [2.0, 0.5, 0.3, 0.2], 1)
    points = np.array([2, 3, 5, 8, 12, 17])
    problem = HardVotesOfFew(counts, np.arange(25), 1)
    rng = np.random.RandomState(0)
    fitted = [problem.solve(level, points, rng) for level in (0.0, 0.002, 0.01, 0.05)]
    assert fitted[0].disagreement == 0.0
    for cautious, bold in pairwise(fitted):
        assert bold.expected_trees < cautious.expected_trees
        for k, point in enumerate(points.tolist()):
            states = VoteLattice(point, 4).counts.astype(float)
            stops, stops_now = (f.rule.decide(k, states) for f in (cautious, bold))
            assert (stops_now[stops >= 0] == stops[stops >= 0]).all()


def test_redrawn_votes_make_a_better_rule_for_new_rows():
    # The true distribution is known here, and with it what a rule does on new rows.
    alpha, n_voters, bound = [1.5, 0.5, 0.25], 41, 0.01
    lattice = VoteLattice(n_voters, 3)
    may_stop = np.zeros(n_voters + 1, dtype=bool)
    may_stop[[1, 2, 3, 4, 5, 7, 9, 12, 16, 21, 27, 34]] = True
    many = masses_of_counts(drawn_counts(100_000, n_voters, alpha, 0), None, lattice)
    truth = CountProblem(lattice, many, may_stop)

    def votes_at_bound(share, seed):
        counts = drawn_counts(400, n_voters, alpha, seed)
        masses = masses_of_counts(counts, None, lattice)
        problem = CountProblem(lattice, redrawn(lattice, masses, share), may_stop)
        found = [
            truth.measured(problem.solve(level * bound, 1e-3).safe.answers)
            for level in (0.2, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0)
        ]
        curve = np.array(sorted((one.wrong, one.votes) for one in found))
        return np.interp(bound, curve[:, 0], np.minimum.accumulate(curve[:, 1]))

    best = truth.solve(bound).lower_bound
    as_they_are, smooth = (
        np.mean([votes_at_bound(share, seed) for seed in range(1, 4)])
        for share in (0.0, 0.5)
    )
    assert best <= smooth < as_they_are
    assert smooth < 1.15 * best


def test_for_few_classes_and_not_too_many_voters():
    assert are_few(101, 3)
    assert are_few(101, 4)
    assert not are_few(201, 4)
    assert not are_few(11, 2)
    assert are_few(11, 5)
    assert not are_few(101, 5)
    assert not are_few(3, 16)
