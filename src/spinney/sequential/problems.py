"""What is to be solved for votes or scores, of two classes or several.

Each problem knows the calibration rows in the form it needs, solves for a bound with
stops at given steps only, and tells how many rows are undecided after each step, from
which the runtime plans where to look.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from spinney.runtime import ExitRule
from spinney.sequential.optimal import optimal_strategy
from spinney.sequential.several_classes import (
    LeadStrategy,
    lead_strategy,
    margin_strategy,
)
from spinney.sequential.soft import SoftStrategy, soft_solver
from spinney.sequential.strategy import StoppingStrategy

# Steps at which a stop is considered first, where all of them would take too long.
N_STEPS = 64
# How many paths rows are walked along in random order, and how often each row at least
# and at most; and the same for a rough estimate.
PATHS = (400_000, 8, 100)
ROUGH_PATHS = (40_000, 2, 20)
# Imaginary rows from which it is estimated how many are undecided after each step.
N_IMAGINED = 4000


@dataclass(frozen=True)
class Solved:
    """A rule, and what is known of it.

    Parameters
    ----------
    rule : ExitRule
        When rows leave.
    expected_votes : float
        Voters asked per row, on average over the calibration rows and orders.
    disagreement : float
        Share of the rows on which the answer is not that of all voters, likewise.
    undecided : ndarray of shape (n_checks,)
        Share of the rows that stay at each check, likewise.
    strategy : StoppingStrategy or None
        For votes of two classes: the strategy behind the rule.
    at_once : bool
        Whether all rows are answered with the first class, without any vote.
    """

    rule: ExitRule
    expected_votes: float
    disagreement: float
    undecided: NDArray[np.float64]
    strategy: StoppingStrategy | None = None
    at_once: bool = False


class Problem(Protocol):
    """Something to be solved for a bound on the disagreement."""

    steps: NDArray[np.int64]  # after which a stop is worth considering

    def solve(
        self,
        level: float,
        steps: NDArray[np.int64],
        chance: np.random.RandomState,
        rough: bool = False,
    ) -> Solved:
        """Return the best rule that keeps the disagreement below `level`."""
        ...


class VotesOfTwo:
    """Majority votes of two classes: solved exactly.

    Parameters
    ----------
    n_voters : int
        Number of voters.
    weights : ndarray of shape (n_voters + 1,)
        Weights of 0 to `n_voters` votes for the second class.
    objective : str
        As in `optimal_strategy`.
    min_votes : int
        Votes to be cast in any case.
    """

    def __init__(
        self,
        n_voters: int,
        weights: NDArray[np.float64],
        objective: str,
        min_votes: int,
    ) -> None:
        self.n_voters = n_voters
        self.weights = weights
        self.objective = objective
        self.min_votes = min_votes
        self.steps = np.arange(max(1, min_votes), n_voters)

    def solve(
        self,
        level: float,
        steps: NDArray[np.int64],
        chance: np.random.RandomState,
        rough: bool = False,
    ) -> Solved:
        """Return the best rule that keeps the disagreement below `level`.

        Parameters
        ----------
        level : float
            Bound on the disagreement.
        steps : ndarray
            Numbers of votes after which a stop is possible.
        chance : RandomState
            Draws lots where the strategy leaves it to chance, once for all rows.
        rough : bool, default=False
            Without effect: the solution is exact and takes no time.
        """
        at_start = [0] if self.min_votes == 0 else []
        weights = self.weights
        if level == 0.0:
            # Never is never: also for numbers of votes that no calibration row has.
            weights = np.maximum(weights, np.finfo(np.float64).tiny * weights.max())
        strategy = optimal_strategy(
            self.n_voters,
            level,
            objective=self.objective,
            votes=weights,
            min_votes=self.min_votes,
            # One lot for all rows would make their mean a matter of luck. Bounds for
            # every single row cannot do without.
            round="deterministic" if self.objective == "minimean" else "randomise",
            stop_steps=np.concatenate([at_start, steps]).astype(np.int64),
        )
        answers = np.full((len(steps), self.n_voters + 1), -1, dtype=np.int32)
        for k, step in enumerate(steps.tolist()):
            answers[k, : strategy.lower[step] + 1] = 0
            answers[k, strategy.upper[step] : step + 1] = 1
        place = {step: k for k, step in enumerate(steps.tolist())}
        at_once = strategy.lower[0] == 0
        for step, count, stop in strategy.fractional:
            stops_here = chance.random_sample() < stop
            if stops_here and step == 0:
                at_once = True
            elif stops_here and step in place:
                answers[place[step], count] = int(2 * count > step)
        votes, wrong = strategy.profile()
        shares = self.weights / self.weights.sum()
        return Solved(
            ExitRule.by_count(steps, answers),
            float(shares @ votes),
            float(shares @ wrong),
            self._undecided(steps, answers, chance),
            strategy,
            bool(at_once),
        )

    def _undecided(
        self,
        steps: NDArray[np.int64],
        answers: NDArray[np.int32],
        chance: np.random.RandomState,
    ) -> NDArray[np.float64]:
        """Return the share of imaginary rows that stay at each step."""
        shares = self.weights / self.weights.sum()
        left = chance.choice(self.n_voters + 1, size=N_IMAGINED, p=shares)
        n_positive = np.zeros(N_IMAGINED, dtype=np.int64)
        staying = np.ones(N_IMAGINED, dtype=bool)
        undecided = np.zeros(len(steps))
        before = 0
        for k, step in enumerate(steps.tolist()):
            drawn = chance.hypergeometric(
                left, self.n_voters - before - left, step - before
            )
            n_positive += drawn
            left -= drawn
            before = step
            staying &= answers[k, n_positive] < 0
            undecided[k] = staying.mean()
        return undecided


class VotesOfSeveral:
    """Majority votes of several classes: the two in front decide.

    Parameters
    ----------
    n_voters : int
        Number of voters.
    counts : ndarray of shape (n_rows, n_classes)
        Votes for each class on the calibration rows.
    min_votes : int
        Votes to be cast in any case.
    """

    def __init__(
        self, n_voters: int, counts: NDArray[np.int64], min_votes: int
    ) -> None:
        self.n_voters = n_voters
        self.counts = counts
        self.steps = some_steps(n_voters, min_votes)

    def solve(
        self,
        level: float,
        steps: NDArray[np.int64],
        chance: np.random.RandomState,
        rough: bool = False,
    ) -> Solved:
        """Return the best rule that keeps the disagreement below `level`.

        Parameters
        ----------
        level : float
            Bound on the disagreement.
        steps : ndarray
            Numbers of votes after which a stop is possible.
        chance : RandomState
            Draws the orders in which the rows are walked through.
        rough : bool, default=False
            Whether an estimate from fewer orders will do.
        """
        found = lead_strategy(
            self.counts,
            level,
            checks=steps,
            n_orders=_orders_for(self.counts, rough),
            random_state=chance.randint(2**31),
        )
        assert isinstance(found, LeadStrategy)
        return Solved(
            ExitRule.by_lead(steps, found.runner_limit),
            found.expected_votes,
            found.disagreement,
            found.undecided,
        )


class ScoresOfTwo:
    """Scores that are added up, for two classes: thresholds on the partial sums.

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
    min_votes : int
        Voters to be asked in any case.
    """

    def __init__(
        self,
        scores: NDArray[np.float64],
        positive: NDArray[np.bool_],
        start: float,
        beta: float,
        score_range: tuple[NDArray[np.float64], NDArray[np.float64]],
        min_votes: int,
    ) -> None:
        self.scores = scores
        self.positive = positive
        self.start = start
        self.beta = beta - start
        self.score_range = score_range
        self.steps = some_steps(scores.shape[1], min_votes)
        # Walking through the rows takes longest, and several levels share it.
        self._solver_of: tuple[Any, Callable[[float], SoftStrategy]] | None = None

    def solve(
        self,
        level: float,
        steps: NDArray[np.int64],
        chance: np.random.RandomState,
        rough: bool = False,
    ) -> Solved:
        """Return the best rule that keeps the disagreement below `level`.

        Parameters
        ----------
        level : float
            Bound on the disagreement.
        steps : ndarray
            Numbers of voters after which a stop is possible.
        chance : RandomState
            Draws the orders in which the rows are walked through.
        rough : bool, default=False
            Whether an estimate from fewer orders will do.
        """
        found = self._solver(steps, chance, rough)(level)
        return Solved(
            ExitRule.between(steps, self.start + found.lower, self.start + found.upper),
            found.expected_trees,
            found.disagreement,
            found.undecided,
        )

    def _solver(
        self, steps: NDArray[np.int64], chance: np.random.RandomState, rough: bool
    ) -> Callable[[float], SoftStrategy]:
        """Return what solves for these steps, the one before if they are the same."""
        key = (steps.tobytes(), rough)
        if self._solver_of is None or self._solver_of[0] != key:
            solver = soft_solver(
                self.scores,
                checks=steps,
                beta=self.beta,
                positive=self.positive,
                score_range=self.score_range,
                n_orders=_orders_for(self.scores, rough),
                random_state=chance.randint(2**31),
            )
            self._solver_of = (key, solver)
        return self._solver_of[1]


class ScoresOfSeveral:
    """Scores of several classes that are added up: bounds on the margin.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_voters, n_classes)
        What every voter adds for the calibration rows.
    winners : ndarray of shape (n_rows,)
        The class that all voters together choose.
    score_range : tuple of two ndarrays of shape (n_voters,)
        Least and largest score that each voter can give to any class.
    min_votes : int
        Voters to be asked in any case.
    """

    def __init__(
        self,
        scores: NDArray[np.float64],
        winners: NDArray[np.intp],
        score_range: tuple[NDArray[np.float64], NDArray[np.float64]],
        min_votes: int,
    ) -> None:
        self.scores = scores
        self.winners = winners
        self.score_range = score_range
        self.steps = some_steps(scores.shape[1], min_votes)

    def solve(
        self,
        level: float,
        steps: NDArray[np.int64],
        chance: np.random.RandomState,
        rough: bool = False,
    ) -> Solved:
        """Return the best rule that keeps the disagreement below `level`.

        Parameters
        ----------
        level : float
            Bound on the disagreement.
        steps : ndarray
            Numbers of voters after which a stop is possible.
        chance : RandomState
            Draws the orders in which the rows are walked through.
        rough : bool, default=False
            Whether an estimate from fewer orders will do.
        """
        found = margin_strategy(
            self.scores,
            level,
            checks=steps,
            winners=self.winners,
            score_range=self.score_range,
            n_orders=_orders_for(self.scores, rough),
            random_state=chance.randint(2**31),
        )
        return Solved(
            ExitRule.by_margin(steps, found.margin),
            found.expected_trees,
            found.disagreement,
            found.undecided,
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
        Voters to be asked in any case.
    """
    spread = np.geomspace(1, max(n_voters - 1, 1), N_STEPS).round().astype(np.int64)
    early = np.arange(1, min(n_voters, 9))
    steps = np.unique(np.concatenate([early, spread]))
    return steps[(steps >= min_votes) & (steps < n_voters)]


def everybody(n_voters: int, n_sums: int) -> Solved:
    """Return what asks all voters about all rows."""
    nothing: list[float] = []
    rule = (
        ExitRule.between(nothing, nothing, nothing)
        if n_sums == 1
        else ExitRule.by_margin(nothing, nothing)
    )
    return Solved(rule, float(n_voters), 0.0, np.zeros(0))
