"""Early stopping for any number of classes, voters in random order.

With many classes there are too many states for the exact theory, in `full_counts`,
and few rows tell nothing about most of them. The rules
here look at the two classes in front only: at the votes of the leader and of the
runner-up, or, where scores are added up, at the margin between the two. Every
calibration row is walked through in many random orders, and the backward recursion of
`spinney.calibration.recursion` finds the rule with the fewest votes on these paths.
What it then does is measured in fresh orders, on the full counts or sums of every row,
and the rule is made stricter until the bound holds there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spinney.base.parameters import check_min_votes
from spinney.calibration.bounds import check_max_disagreement
from spinney.calibration.fitted_rule import FittedRule
from spinney.errors import InvalidArgumentError
from spinney.runtime.exit_rule import ExitRule, check_exit_points
from spinney.sequential.soft import (
    N_BINS,
    check_n_orders,
    check_score_range,
    check_scores,
    least_shift,
    natural_order,
    random_word,
    rounding_room,
    smoothed,
    target_below,
)

# Up to here there are paths enough for a limit of its own for every number of votes.
FEW_VOTERS = 32
MAX_ROUNDS = 8


def lead_strategy(
    counts: ArrayLike,
    max_disagreement: float,
    *,
    exit_points: ArrayLike | None = None,
    min_votes: int = 1,
    order: ArrayLike | None = None,
    n_orders: int | None = None,
    random_state: Any = None,
) -> FittedRule:
    """Return the rule with the fewest votes for a vote among several classes.

    At each exit point the class in front wins if the next one has few enough votes,
    how many depends on the votes of the class in front.

    Parameters
    ----------
    counts : array-like of shape (n_rows, n_classes)
        Votes for each class in the full vote on the calibration rows, at least two
        classes; the same number of voters in every row. For two classes
        `spinney.optimal_strategy` has an exact theory.
    max_disagreement : float
        Largest allowed mean disagreement with the full vote, in ``[0, 1)``. With 0 a
        vote stops only if the rest cannot change the result.
    exit_points : array-like of int, optional
        Numbers of votes after which a row may leave, increasing, below the number of
        voters; None for all.
    min_votes : int, default=1
        Votes to be cast in any case; exit points before that are left out.
    order : array-like of shape (n_voters,), optional
        The order that the rule is for, drawn at random; None for the natural one.
    n_orders : int, optional
        Random orders in which each calibration row is walked through; None for 50, or
        more if there are few rows.
    random_state : int, Generator or None, default=None
        Draws the orders.

    Returns
    -------
    fitted : FittedRule
        The rule, measured in orders other than those that it was fitted on. Of classes
        with equally many votes the first one leads.

    Raises
    ------
    ValueError
        If there are no rows, or an argument is outside its range.

    Notes
    -----
    The bound is on the mean disagreement over the calibration rows and the random
    orders; it was measured in fresh orders, and kept with some room. About other rows
    it is an estimate. A tie goes to the first class.
    """
    table, n_voters = _check_counts(counts)
    bound = check_max_disagreement(max_disagreement)
    min_votes = check_min_votes(min_votes, n_voters)
    steps = np.arange(min_votes, n_voters)
    if exit_points is not None:
        steps = check_exit_points(exit_points, n_voters, least=0)
    steps = steps[steps >= min_votes].astype(np.int64)
    n_orders = check_n_orders(n_orders, len(table))
    rng = np.random.default_rng(random_state)
    certain = _certain_limits(n_voters, steps)
    fresh = _Follow(table, steps, natural_order(order, n_voters), n_orders, rng)
    if bound == 0.0 or not len(steps):
        return fresh.measured(certain)
    walk = _Votes(table, steps, n_orders, rng)
    target = target_below(bound, len(table) * n_orders)
    best = walk.by_lead(target, certain, fresh)
    if n_voters <= FEW_VOTERS:
        found = walk.by_both(target, certain, fresh)
        if found.expected_trees < best.expected_trees:
            best = found
    return best


class _Votes:
    """Rows walked through in random orders: leader and runner-up at exit points."""

    def __init__(
        self,
        counts: NDArray[np.int64],
        exit_points: NDArray[np.int64],
        n_orders: int,
        rng: np.random.Generator,
    ) -> None:
        from spinney.sequential.walk_kernels import walk_votes

        self.exit_points = exit_points
        self.n_voters = int(counts[0].sum())
        self.costs = np.append(exit_points, self.n_voters).astype(np.float64)
        self.n_paths = len(counts) * n_orders
        shape = (len(exit_points), len(counts), n_orders)
        leaders = np.empty(shape, dtype=np.int32)
        runners = np.empty(shape, dtype=np.int32)
        wrong = np.empty(shape, dtype=np.bool_)
        walk_votes(counts, exit_points, random_word(rng), leaders, runners, wrong)
        flat = (len(exit_points), self.n_paths)
        self.leaders = leaders.reshape(flat)
        self.runners = runners.reshape(flat)
        self.wrong = wrong.reshape(flat)

    def by_lead(
        self, target: float, certain: NDArray[np.int32], fresh: _Follow
    ) -> FittedRule:
        """Return the best strategy with one threshold per exit point.

        It is a threshold on the lead, divided by its standard deviation if the votes
        for the two classes were drawn like coins: there is one number per exit point to
        be fitted, and what a state is worth depends on little else.

        Parameters
        ----------
        target : float
            Largest allowed disagreement.
        certain : ndarray of shape (n_exit_points, n_voters + 1)
            Limits up to which to stop in any case.
        fresh : _Follow
            Where it is measured.
        """
        from spinney.calibration.recursion import optimal_margins

        pairs = zip(self.leaders, self.runners, strict=True)
        leads = (_relative_lead(leader, runner) for leader, runner in pairs)
        found = optimal_margins(
            leads, self.wrong, self.n_paths, self.costs, target, n_bins=N_BINS
        )
        # Fewer voters left can change less.
        spread = np.sqrt(1.0 - self.exit_points / self.n_voters)
        lead = smoothed(found.upper / spread, self.exit_points, self.n_voters)
        return least_shift(
            lambda shift: fresh.measured(
                np.maximum(certain, self._limits(spread * (lead + shift)))
            ),
            1.0,
            target,
        )

    def _limits(self, lead: NDArray[np.float64]) -> NDArray[np.int32]:
        """Return the most votes of a runner-up that is as far behind as `lead`."""
        # With s = leader + runner-up and d = leader - runner-up, d = lead * sqrt(s)
        # and s = 2 * leader - d: a quadratic equation for d.
        leader = np.arange(self.n_voters + 1)
        lead = np.clip(lead, -1.0, self.n_voters)[:, None]
        behind = 0.5 * lead * (np.sqrt(lead**2 + 8.0 * leader) - lead)
        limits = np.ceil(leader - behind) - 1.0
        return np.clip(limits, -1, leader).astype(np.int32)

    def by_both(
        self, target: float, certain: NDArray[np.int32], fresh: _Follow
    ) -> FittedRule:
        """Return the best strategy with a limit for every number of leader's votes.

        Parameters
        ----------
        target, certain, fresh
            As in `by_lead`.
        """
        from spinney.calibration.recursion import Paths, solve

        # A group of states for every number of votes of the leader, in it one state
        # for every lead.
        leader = np.arange(self.n_voters + 1)
        starts = np.append(0, np.cumsum(leader + 1))
        states = starts[self.leaders] + self.leaders - self.runners
        codes = (2 * states + self.wrong).astype(np.uint16)
        paths = Paths(codes, starts)
        level = target
        for _ in range(MAX_ROUNDS):
            cuts = solve(paths, self.costs, level, "positive")
            # The more of the votes cast the leader has, the safer it is, also where no
            # path came by.
            limits = np.maximum.accumulate(leader - (cuts.upper - starts[:-1]), axis=1)
            found = fresh.measured(np.maximum(certain, limits).astype(np.int32))
            if found.disagreement <= target:
                return found
            level *= min(0.97, target / found.disagreement)
        return fresh.measured(certain)


def _relative_lead(
    leader: NDArray[np.int32], runner: NDArray[np.int32]
) -> NDArray[np.float64]:
    """Return the lead over the root of the votes of both, 0 without votes."""
    return (leader - runner) / np.sqrt(np.maximum(leader + runner, 1))


class _Follow:
    """Rows in fresh orders, in which a rule is measured; the same for every rule."""

    def __init__(
        self,
        counts: NDArray[np.int64],
        exit_points: NDArray[np.int64],
        order: NDArray[np.int64],
        n_orders: int,
        rng: np.random.Generator,
    ) -> None:
        self.counts = counts
        self.order = order
        self.exit_points = exit_points
        self.n_orders = n_orders
        self.state = random_word(rng)

    def measured(self, limits: NDArray[np.int32]) -> FittedRule:
        """Return the rule with these limits, measured."""
        from spinney.sequential.walk_kernels import follow_votes

        stops = np.zeros(len(self.exit_points) + 1, dtype=np.int64)
        wrong = np.empty(len(self.counts), dtype=np.int64)
        arguments = (limits, self.n_orders, self.state.copy(), stops, wrong)
        follow_votes(self.counts, self.exit_points, *arguments)
        n_paths = stops.sum()
        costs = np.append(self.exit_points, self.counts[0].sum())
        return FittedRule(
            ExitRule.by_lead(self.order, self.exit_points, limits),
            float(stops @ costs / n_paths),
            float(wrong.sum() / n_paths),
            1.0 - np.cumsum(stops[:-1]) / n_paths,
        )


def _certain_limits(n_voters: int, exit_points: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the limits up to which no rest of the votes can change the result."""
    left = n_voters - exit_points[:, None]
    limits = np.arange(n_voters + 1) - left - 1
    return np.maximum(limits, -1).astype(np.int32)


def margin_strategy(
    scores: ArrayLike,
    max_disagreement: float,
    *,
    exit_points: ArrayLike,
    winners: ArrayLike | None = None,
    score_range: tuple[ArrayLike, ArrayLike] | None = None,
    order: ArrayLike | None = None,
    n_orders: int | None = None,
    random_state: Any = None,
) -> FittedRule:
    """Return margins with which the fewest trees are evaluated on average.

    Parameters
    ----------
    scores : array-like of shape (n_rows, n_trees, n_classes)
        Score of every tree for every class on the calibration rows, finite, of at
        least two classes; the full ensemble chooses the class with the largest sum,
        the first of several.
    max_disagreement : float
        Largest allowed mean disagreement with the full ensemble, in ``[0, 1)``. With 0
        a row stops only if the trees left cannot change its result, which
        `score_range` tells; without it, never.
    exit_points
        As in `spinney.sequential.soft.soft_strategy`.
    winners : array-like of shape (n_rows,), dtype=int, optional
        Class that the full ensemble chooses, where rounding makes it differ from what
        the scores say.
    score_range : tuple of two array-likes of shape (n_trees,), optional
        Least and largest score that each tree can give to any class.
    order, n_orders, random_state
        As in `spinney.sequential.soft.soft_strategy`.

    Returns
    -------
    fitted : FittedRule
        The margins.

    Raises
    ------
    ValueError
        If there are no rows, or an argument is outside its range.

    Notes
    -----
    The bound means what it means for `spinney.sequential.soft.soft_strategy`.
    """
    table = check_scores(scores, 3)
    bound = check_max_disagreement(max_disagreement)
    n_rows, n_trees, n_classes = table.shape
    steps = check_exit_points(exit_points, n_trees)
    if n_classes < 2:
        msg = f"scores must be of at least two classes, got {n_classes}."
        raise InvalidArgumentError(msg)
    if winners is None:
        chosen = table.sum(axis=1, dtype=np.float64).argmax(axis=1).astype(np.int64)
    else:
        chosen = np.asarray(winners, dtype=np.int64)
        if chosen.shape != (n_rows,):
            msg = f"winners must have shape ({n_rows},), got {chosen.shape}."
            raise InvalidArgumentError(msg)
    n_orders = check_n_orders(n_orders, n_rows)
    rng = np.random.default_rng(random_state)
    sequence = natural_order(order, n_trees)
    fresh = _Margins(table, chosen, steps, sequence, n_orders, rng)
    if bound == 0.0 or not len(steps):
        return fresh.measured(_certain_margins(n_trees, steps, score_range))

    from spinney.calibration.recursion import optimal_margins

    target = target_below(bound, n_rows * n_orders)
    walk = _Margins(table, chosen, steps, sequence, n_orders, rng)
    found = optimal_margins(
        walk.margins,
        walk.wrong,
        walk.n_paths,
        walk.costs,
        target,
        n_bins=N_BINS,
    )
    spread = np.sqrt(steps * (n_trees - steps) / n_trees)
    margin = smoothed(found.upper / spread, steps, n_trees)
    unit = float(table.std(axis=1).mean())
    return least_shift(
        lambda shift: fresh.measured(spread * (margin + shift)), unit, target
    )


class _Margins:
    """Rows walked through in random orders, with the margin at every exit point."""

    def __init__(
        self,
        scores: NDArray[np.float32],
        winners: NDArray[np.int64],
        exit_points: NDArray[np.int64],
        order: NDArray[np.int64],
        n_orders: int,
        rng: np.random.Generator,
    ) -> None:
        from spinney.sequential.walk_kernels import walk_margins

        n_rows, n_trees = scores.shape[:2]
        self.exit_points = exit_points
        self.order = order
        self.costs = np.append(exit_points, n_trees).astype(np.float64)
        shape = (len(exit_points), n_rows, n_orders)
        margins = np.empty(shape, dtype=np.float32)
        wrong = np.empty(shape, dtype=np.bool_)
        walk_margins(scores, winners, exit_points, random_word(rng), margins, wrong)
        self.n_paths = n_rows * n_orders
        self.margins = margins.reshape(len(exit_points), self.n_paths)
        self.wrong = wrong.reshape(len(exit_points), self.n_paths)

    def measured(self, margin: NDArray[np.float64]) -> FittedRule:
        """Return the rule with these margins, measured."""
        n_paths = self.n_paths
        going = np.arange(n_paths)
        n_wrong = 0
        undecided = np.empty(len(self.exit_points))
        expected = self.costs[-1]
        for k, bound in enumerate(margin):
            stops = self.margins[k, going] > bound
            n_wrong += int(self.wrong[k, going[stops]].sum())
            expected -= (self.costs[-1] - self.costs[k]) * stops.sum() / n_paths
            going = going[~stops]
            undecided[k] = len(going) / n_paths
        rule = ExitRule.by_margin(self.order, self.exit_points, margin)
        return FittedRule(rule, float(expected), n_wrong / n_paths, undecided)


def _certain_margins(
    n_trees: int,
    exit_points: NDArray[np.int64],
    score_range: tuple[ArrayLike, ArrayLike] | None,
) -> NDArray[np.float64]:
    """Return the margins that no rest of the trees can make up for."""
    if score_range is None:
        return np.full(len(exit_points), np.inf)
    least, most = check_score_range(score_range, n_trees)
    # In the worst case the trees left are those that can tell two classes most apart.
    swings = np.sort(most - least)[::-1]
    swings = np.append(0.0, np.cumsum(swings))
    return swings[n_trees - exit_points] + rounding_room(least, most)


def _check_counts(counts: ArrayLike) -> tuple[NDArray[np.int64], int]:
    """Return the counts as the kernels want them and the number of voters, or raise."""
    given = np.asarray(counts)
    if given.ndim != 2 or not given.shape[0] or given.shape[1] < 2:
        msg = (
            "counts must have one row per calibration row and one column per class, at "
            f"least one row and two columns, got shape {given.shape}."
        )
        raise InvalidArgumentError(msg)
    table = np.ascontiguousarray(given, dtype=np.int64)
    if not np.array_equal(table, given) or (table < 0).any():
        msg = "counts must be numbers of votes: integers, not negative."
        raise InvalidArgumentError(msg)
    n_voters = table.sum(axis=1)
    if n_voters[0] < 1 or (n_voters != n_voters[0]).any():
        msg = (
            "counts must be of the same number of voters in every row, at least one, "
            f"got from {n_voters.min()} to {n_voters.max()}."
        )
        raise InvalidArgumentError(msg)
    return table, int(n_voters[0])
