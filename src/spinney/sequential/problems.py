"""What is to be solved for hard or soft votes, of two classes or several.

Each problem knows the calibration rows in the form it needs, solves for a bound with
exits at given points only, and tells how many rows are undecided after each, from which
the runtime plans the exit points.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.calibration.fitted_rule import FittedRule
from spinney.runtime.exit_rule import ExitRule
from spinney.sequential.optimal import find_strategy
from spinney.sequential.several_classes import lead_solver, margin_solver
from spinney.sequential.soft import soft_solver
from spinney.sequential.strategy import StoppingStrategy

# Steps at which an exit is considered first, where all of them would take too long.
N_STEPS = 64
# How many paths rows are walked along in random order, and how often each row at least
# and at most; and the same for a rough estimate.
PATHS = (400_000, 8, 100)
ROUGH_PATHS = (40_000, 2, 20)

Points = NDArray[np.int64]
Solver = Callable[[float], FittedRule]
Range = tuple[NDArray[np.float64], NDArray[np.float64]]


class Problem(ABC):
    """Something to be solved for a bound on the disagreement.

    Parameters
    ----------
    order : ndarray of shape (n_voters,)
        Voters in the order in which they are evaluated, drawn at random.
    min_votes : int
        Voters to be evaluated in any case.

    Attributes
    ----------
    steps : ndarray
        Numbers of voters after which an exit is worth considering.
    """

    def __init__(self, order: NDArray[np.int64], min_votes: int) -> None:
        self.order = order
        self.n_voters = len(order)
        self.min_votes = min_votes
        self.steps = some_steps(self.n_voters, min_votes)

    @abstractmethod
    def solve(
        self,
        level: float,
        points: Points,
        rng: np.random.RandomState,
        rough: bool = False,
    ) -> FittedRule:
        """Return the best rule that keeps the disagreement below a level.

        Parameters
        ----------
        level : float
            Bound on the disagreement.
        points : ndarray
            Exit points.
        rng : RandomState
            Draws the orders in which rows are walked through, and lots where a
            strategy leaves it to chance, once for all rows.
        rough : bool, default=False
            Whether an estimate from fewer orders will do.
        """


class LadderProblem(Problem):
    """A problem whose levels, at the same exit points, share most of the work.

    Parameters
    ----------
    order, min_votes
        As in `Problem`.
    """

    def __init__(self, order: NDArray[np.int64], min_votes: int) -> None:
        super().__init__(order, min_votes)
        self._last: tuple[tuple[bytes, bool], Solver] | None = None

    def solve(
        self,
        level: float,
        points: Points,
        rng: np.random.RandomState,
        rough: bool = False,
    ) -> FittedRule:
        """Return the best rule that keeps the disagreement below a level."""
        known = (points.tobytes(), rough)
        if self._last is None or self._last[0] != known:
            self._last = (known, self._solver(points, rng, rough))
        return self._last[1](level)

    @abstractmethod
    def _solver(
        self, points: Points, rng: np.random.RandomState, rough: bool
    ) -> Solver:
        """Return what solves for one level after another; arguments as in `solve`."""


class HardVotesOfTwo(Problem):
    """Majority votes of two classes: solved exactly.

    Parameters
    ----------
    weights : ndarray of shape (n_voters + 1,)
        Weights of 0 to `n_voters` votes for the second class.
    objective : str
        As in `optimal_strategy`.
    order, min_votes
        As in `Problem`.
    """

    def __init__(
        self,
        weights: NDArray[np.float64],
        objective: str,
        order: NDArray[np.int64],
        min_votes: int,
    ) -> None:
        super().__init__(order, min_votes)
        self.weights = weights
        self.objective = objective
        self.steps = np.arange(max(1, min_votes), self.n_voters)

    def solve(
        self,
        level: float,
        points: Points,
        rng: np.random.RandomState,
        rough: bool = False,
    ) -> FittedRule:
        """Return the best rule that keeps the disagreement below a level."""
        at_start = [0] if self.min_votes == 0 else []
        weights = self.weights
        if level == 0.0:
            # Never is never: also for numbers of votes that no calibration row has.
            weights = np.maximum(weights, np.finfo(np.float64).tiny * weights.max())
        strategy = find_strategy(
            self.n_voters,
            level,
            objective=self.objective,
            votes=weights,
            min_votes=self.min_votes,
            # One lot for all rows would make their mean a matter of luck. Bounds for
            # every single row cannot do without.
            round="deterministic" if self.objective == "minimean" else "randomise",
            stop_steps=np.concatenate([at_start, points]).astype(np.int64),
        )
        answers = np.full((len(points), self.n_voters + 1), -1, dtype=np.int32)
        for k, step in enumerate(points.tolist()):
            answers[k, : strategy.lower[step] + 1] = 0
            answers[k, strategy.upper[step] : step + 1] = 1
        index = {step: k for k, step in enumerate(points.tolist())}
        at_once = bool(strategy.lower[0] == 0)
        for step, count, stop in strategy.fractional:
            stops_here = rng.random_sample() < stop
            if stops_here and step == 0:
                at_once = True
            elif stops_here and step in index:
                answers[index[step], count] = int(2 * count > step)
        votes, wrong = strategy.profile()
        shares = self.weights / self.weights.sum()
        return FittedRule(
            ExitRule.by_count(self.order, points, answers, at_once),
            float(shares @ votes),
            float(shares @ wrong),
            self._undecided(points, strategy),
            strategy,
        )

    def _undecided(
        self, points: Points, strategy: StoppingStrategy
    ) -> NDArray[np.float64]:
        """Return the share of the rows that stay at each exit point, over all orders.

        Given how many of the first votes are positive, all orders of these are equally
        likely. So the share of the orders that have not stopped depends on that number
        alone, whatever the row, and the rows tell how likely each number is.
        """
        may_stop: dict[int, list[tuple[int, float]]] = {}
        for step, count, stop in strategy.fractional:
            may_stop.setdefault(step, []).append((count, stop))
        index = {step: k for k, step in enumerate(points.tolist())}
        likely = self._counts_after(index)
        undecided = np.zeros(len(points))
        going = np.ones(1)
        for step in range(1, max(index, default=0) + 1):
            share = np.arange(step + 1) / step  # the last vote was a positive one
            negative, positive = np.append(going, 0.0), np.append(0.0, going)
            going = (1.0 - share) * negative + share * positive
            if step in index:
                going[: strategy.lower[step] + 1] = 0.0
                going[strategy.upper[step] :] = 0.0
                for count, stop in may_stop.get(step, ()):
                    going[count] *= 1.0 - stop
                undecided[index[step]] = going @ likely[index[step], : step + 1]
        return undecided

    def _counts_after(self, index: dict[int, int]) -> NDArray[np.float32]:
        """Return how likely 0, 1, ... positive votes are after some steps.

        Parameters
        ----------
        index : dict
            Which row of the result is for which number of votes cast.
        """
        likely = np.zeros((len(index), self.n_voters + 1), dtype=np.float32)
        now = self.weights / self.weights.sum()
        for step in range(self.n_voters, 0, -1):
            if step in index:
                likely[index[step], : step + 1] = now
            share = np.arange(step + 1) / step
            now = ((1.0 - share) * now)[:-1] + (share * now)[1:]
        return likely


class HardVotesOfSeveral(LadderProblem):
    """Majority votes of several classes: the two in front decide.

    Parameters
    ----------
    counts : ndarray of shape (n_rows, n_classes)
        Votes for each class on the calibration rows.
    order, min_votes
        As in `Problem`.
    """

    def __init__(
        self, counts: NDArray[np.int64], order: NDArray[np.int64], min_votes: int
    ) -> None:
        super().__init__(order, min_votes)
        self.counts = counts

    def _solver(
        self, points: Points, rng: np.random.RandomState, rough: bool
    ) -> Solver:
        return lead_solver(
            self.counts,
            exit_points=points,
            order=self.order,
            n_orders=_orders_for(self.counts, rough),
            random_state=rng.randint(2**31),
        )


class SoftVotesOfTwo(LadderProblem):
    """Scores of two classes that are added up: thresholds on the partial sums.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_voters)
        What every voter adds for the calibration rows.
    positive : ndarray of shape (n_rows,), dtype=bool
        Whether all voters together say the second class.
    start : float
        What the sums begin with.
    beta : float
        What the sum of all, `start` included, has to exceed for it.
    score_range : tuple of two ndarrays of shape (n_voters,)
        Least and largest score that each voter can give.
    order, min_votes
        As in `Problem`.
    """

    def __init__(
        self,
        scores: NDArray[np.float64],
        positive: NDArray[np.bool_],
        start: float,
        beta: float,
        score_range: Range,
        order: NDArray[np.int64],
        min_votes: int,
    ) -> None:
        super().__init__(order, min_votes)
        self.scores = scores
        self.positive = positive
        self.start = start
        self.beta = beta - start
        self.score_range = score_range

    def _solver(
        self, points: Points, rng: np.random.RandomState, rough: bool
    ) -> Solver:
        return soft_solver(
            self.scores,
            exit_points=points,
            beta=self.beta,
            positive=self.positive,
            score_range=self.score_range,
            order=self.order,
            start=self.start,
            n_orders=_orders_for(self.scores, rough),
            random_state=rng.randint(2**31),
        )


class SoftVotesOfSeveral(LadderProblem):
    """Scores of several classes that are added up: bounds on the margin.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_voters, n_classes)
        What every voter adds for the calibration rows.
    winners : ndarray of shape (n_rows,)
        The class that all voters together choose.
    score_range : tuple of two ndarrays of shape (n_voters,)
        Least and largest score that each voter can give to any class.
    order, min_votes
        As in `Problem`.
    """

    def __init__(
        self,
        scores: NDArray[np.float64],
        winners: NDArray[np.intp],
        score_range: Range,
        order: NDArray[np.int64],
        min_votes: int,
    ) -> None:
        super().__init__(order, min_votes)
        self.scores = scores
        self.winners = winners
        self.score_range = score_range

    def _solver(
        self, points: Points, rng: np.random.RandomState, rough: bool
    ) -> Solver:
        return margin_solver(
            self.scores,
            exit_points=points,
            winners=self.winners,
            score_range=self.score_range,
            order=self.order,
            n_orders=_orders_for(self.scores, rough),
            random_state=rng.randint(2**31),
        )


def _orders_for(rows: NDArray[Any], rough: bool) -> int:
    """Return in how many orders each calibration row is walked through."""
    n_paths, least, most = ROUGH_PATHS if rough else PATHS
    return int(np.clip(n_paths // len(rows), least, most))


def some_steps(n_voters: int, min_votes: int) -> NDArray[np.int64]:
    """Return steps that are worth considering: all of a few, and ever fewer later on.

    Parameters
    ----------
    n_voters : int
        Number of voters.
    min_votes : int
        Voters to be evaluated in any case.
    """
    spread = np.geomspace(1, max(n_voters - 1, 1), N_STEPS).round().astype(np.int64)
    early = np.arange(1, min(n_voters, 9))
    steps = np.unique(np.concatenate([early, spread]))
    return steps[(steps >= min_votes) & (steps < n_voters)]
