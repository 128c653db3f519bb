"""Stopping strategies for a majority vote."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spinney.errors import FormatError
from spinney.sequential.compact import CompactStrategy, listed_strategy
from spinney.sequential.poll import Poll

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMAT = "spinney stopping strategy"
FORMAT_VERSION = 1
# Above this, `theta` takes 4 bytes per state instead of 8.
WIDE_THETA_BYTES = 2**28


class StoppingStrategy:
    """When to stop a majority vote early, and what is promised about it.

    Votes are cast in random order. After ``i`` votes, ``j`` of them positive, the
    strategy stops with a certain probability and decides "positive" if ``j > i / 2``,
    "negative" otherwise. Usually made by `spinney.optimal_strategy`.

    Parameters
    ----------
    rule : CompactStrategy
        When to stop.
    max_disagreement : float
        Promised bound on the disagreement with the full vote.
    objective : str
        What was minimised and over which numbers of positive voters the promise holds:
        ``"minimean"``, ``"minimixed"``, ``"minimax"``; ``"none"`` for a strategy that
        was not optimised.
    expected_votes : float
        Value of the objective.
    lower_bound : float
        No strategy with the same promise has a smaller value, of those that decide
        with the majority of the votes cast, and may stop after the same numbers of
        votes.
    proven_disagreement : float
        Proven upper bound on the disagreement of this strategy; at most
        `max_disagreement`.
    proof : str
        ``"exact"`` if that was computed in integers, ``"rounded"`` if in floats, with a
        bound on their error added.

    Attributes
    ----------
    n_voters : int
        Number of voters.
    lower, upper : ndarray of shape (n_voters + 1,)
        After ``i`` votes, ``lower[i]`` or fewer positive ones stop the vote with the
        decision "negative", ``upper[i]`` or more with "positive". ``-1`` and ``i + 1``
        mean that no count does.

    See Also
    --------
    spinney.optimal_strategy : Finds the best strategy for a promise.

    Notes
    -----
    The disagreement is that with the majority of all voters, a tie counting as
    negative. With ``"minimean"`` the promise is about the average over the distribution
    of votes that the strategy was made for; with the others it holds for every number
    of positive voters. The probability is over the order of the voters and the draws of
    the strategy. An order that depends on how the voters will vote breaks it.

    Strategies that may decide against the votes cast are not among those that
    `lower_bound` is about. Where the votes are known to be mostly of one kind, such a
    strategy may need fewer.

    Examples
    --------
    >>> import spinney
    >>> strategy = spinney.optimal_strategy(5, 0.05, objective="minimax", min_votes=0)
    >>> round(strategy.expected_votes, 6)
    4.05
    >>> strategy.upper
    array([1, 2, 3, 3, 3, 3])
    """

    def __init__(
        self,
        rule: CompactStrategy,
        *,
        max_disagreement: float,
        objective: str,
        expected_votes: float,
        lower_bound: float,
        proven_disagreement: float,
        proof: str,
    ) -> None:
        self.rule = rule
        self.max_disagreement = max_disagreement
        self.objective = objective
        self.expected_votes = expected_votes
        self.lower_bound = lower_bound
        self.proven_disagreement = proven_disagreement
        self.proof = proof
        self.n_voters = rule.n_voters
        self.lower = rule.lower
        self.upper = rule.upper

    def __repr__(self) -> str:
        return (
            f"StoppingStrategy(n_voters={self.n_voters}, "
            f"max_disagreement={self.max_disagreement!r}, "
            f"objective={self.objective!r}, expected_votes={self.expected_votes:.6g})"
        )

    @property
    def gap(self) -> float:
        """How far the strategy can be from the best one, relative to its votes."""
        if self.expected_votes == 0.0:
            return 0.0
        return (self.expected_votes - self.lower_bound) / self.expected_votes

    @property
    def fractional(self) -> list[tuple[int, int, float]]:
        """States between the thresholds that may stop: (votes, positive, probability).

        In all other states between the thresholds the vote continues.
        """
        rule = self.rule
        columns = (rule.extra_steps, rule.extra_count, rule.extra_stop)
        return list(zip(*(column.tolist() for column in columns), strict=True))

    @cached_property
    def theta(self) -> NDArray[np.floating]:
        """Stop probability after ``i`` votes with ``j`` positive ones, as ``[i, j]``.

        A read-only array of shape (n_voters + 1, n_voters + 1), zero where ``j > i``,
        made on first use. It has float64 numbers up to 5,791 voters and float32 beyond
        (rounded down, towards continuing), where it takes 400 MB for 10,001 voters:
        `lower`, `upper` and `fractional` hold the same in little memory.
        """
        size = self.n_voters + 1
        wide = 8 * size * size <= WIDE_THETA_BYTES
        theta = np.zeros((size, size), dtype=np.float64 if wide else np.float32)
        for i, (low, high) in enumerate(zip(self.lower, self.upper, strict=True)):
            theta[i, : low + 1] = 1.0
            theta[i, high : i + 1] = 1.0
        for i, j, stop in self.fractional:
            theta[i, j] = stop
            if float(theta[i, j]) > stop:
                theta[i, j] = np.nextafter(theta[i, j], theta.dtype.type(0.0))
        theta.setflags(write=False)
        return theta

    def stop_probability(self, n_cast: int, n_positive: int) -> float:
        """Return the probability of stopping in one state.

        Parameters
        ----------
        n_cast : int
            Votes cast so far.
        n_positive : int
            Positive ones among them.

        Returns
        -------
        probability : float
            The same as ``theta[n_cast, n_positive]``, without making that array.
        """
        return self.rule.stop_probability(n_cast, n_positive)

    def profile(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return expected votes and disagreement for every number of positive voters.

        Returns
        -------
        expected_votes : ndarray of shape (n_voters + 1,)
            Expected number of votes if 0, 1, ..., `n_voters` voters are positive.
        disagreement : ndarray of shape (n_voters + 1,)
            Probability that the decision differs from that of the full vote, likewise.
        """
        from spinney.sequential.evaluation import evaluate

        evaluated = evaluate(self.rule)
        return evaluated.votes, evaluated.wrong

    def poll(self, random_state: Any = None) -> Poll:
        """Start a vote that follows this strategy.

        Parameters
        ----------
        random_state : int, Generator, RandomState or None, default=None
            Draws in states where the strategy randomises. Pass an int for reproducible
            polls.

        Returns
        -------
        poll : Poll
            Takes the votes one at a time and says when to stop.
        """
        return Poll(self.rule, random_state)

    def plot(self, n_positive: int | None = None, *, ax: Axes | None = None) -> Axes:
        """Draw the thresholds, or all states of a small vote.

        Parameters
        ----------
        n_positive : int, optional
            Number of positive voters. If given, all states are drawn as a graph, with
            the probability that each is reached; for up to 20 voters.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        ax : matplotlib Axes
            What was drawn on.
        """
        from spinney.sequential.plotting import plot_states, plot_thresholds

        if n_positive is None:
            return plot_thresholds(self, ax)
        return plot_states(self, n_positive, ax)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers, strings and lists, ready for JSON.

        Returns
        -------
        document : dict
            What `from_dict` takes.
        """
        return {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "n_voters": self.n_voters,
            "max_disagreement": self.max_disagreement,
            "objective": self.objective,
            "expected_votes": self.expected_votes,
            "lower_bound": self.lower_bound,
            "proven_disagreement": self.proven_disagreement,
            "proof": self.proof,
            "lower": self.lower.tolist(),
            "upper": self.upper.tolist(),
            "fractional": [list(state) for state in self.fractional],
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> StoppingStrategy:
        """Rebuild a strategy from what `to_dict` returned.

        Parameters
        ----------
        document : mapping
            The description. Thresholds and probabilities are checked to make sense;
            the promised bound is not, but `profile` computes the actual disagreement.

        Returns
        -------
        strategy : StoppingStrategy
            The same strategy.
        """
        return _read(cls, document)


def _read(
    kind: type[StoppingStrategy], document: Mapping[str, Any]
) -> StoppingStrategy:
    """Make a strategy of a description, or say what is wrong with it."""
    if not isinstance(document, Mapping) or document.get("format") != FORMAT:
        msg = (
            "This is not a description of a stopping strategy: a mapping with the "
            f"entry 'format': {FORMAT!r} was expected. Pass what to_dict() returned."
        )
        raise FormatError(msg)
    if document.get("version") != FORMAT_VERSION:
        msg = (
            f"The stopping strategy has version {document.get('version')!r}, this "
            f"spinney reads version {FORMAT_VERSION}. Make it again, or upgrade."
        )
        raise FormatError(msg)
    fields = {
        "max_disagreement": float,
        "objective": str,
        "expected_votes": float,
        "lower_bound": float,
        "proven_disagreement": float,
        "proof": str,
    }
    try:
        lower = np.array(document["lower"], dtype=np.int64)
        upper = np.array(document["upper"], dtype=np.int64)
        listed = [(int(i), int(j), float(p)) for i, j, p in document["fractional"]]
        facts = {name: make(document[name]) for name, make in fields.items()}
        n_voters = int(document["n_voters"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        msg = (
            f"The stopping strategy is damaged: {type(error).__name__}: {error}. "
            "Make it again."
        )
        raise FormatError(msg) from error
    problem = _problem_with(n_voters, lower, upper, listed)
    if problem is None and not all(
        math.isfinite(fact) for fact in facts.values() if isinstance(fact, float)
    ):
        problem = "a number is not finite"
    if problem is not None:
        msg = f"The stopping strategy is damaged: {problem}. Make it again."
        raise FormatError(msg)
    steps, counts, stops = np.array(listed, dtype=np.float64).reshape(-1, 3).T
    rule = listed_strategy(
        lower, upper, steps.astype(np.int64), counts.astype(np.int64), stops
    )
    return kind(rule, **facts)


def _problem_with(
    n_voters: int,
    lower: NDArray[np.int64],
    upper: NDArray[np.int64],
    listed: list[tuple[int, int, float]],
) -> str | None:
    """Return what makes these no stop rule, None if they are one."""
    if n_voters < 1 or lower.shape != (n_voters + 1,) or upper.shape != lower.shape:
        return "lower and upper must each have one threshold per step"
    steps = np.arange(n_voters + 1)
    if (lower < -1).any() or (lower > steps // 2).any():
        return "lower must lie between -1 and half the step"
    if (upper > steps + 1).any() or (upper <= steps // 2).any():
        return "upper must lie above half the step and at most one above the step"
    if lower[-1] + 1 != upper[-1]:
        return "every state of the last step must stop"
    states = {(i, j) for i, j, _ in listed}
    if len(states) < len(listed):
        return "a state is listed twice"
    for i, j, stop in listed:
        if not 0 <= i <= n_voters or not lower[i] < j < upper[i]:
            return f"state ({i}, {j}) does not lie between the thresholds"
        if not 0.0 < stop <= 1.0:
            return f"the stop probability of state ({i}, {j}) is {stop!r}"
    return None
