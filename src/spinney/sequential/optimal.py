"""The best stopping strategy for a bound: check arguments, solve, prove.

Solvers and compiled kernels are imported on use, so that importing spinney stays quick.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spinney.base.parameters import check_choice, check_min_votes, check_n_voters
from spinney.calibration.bounds import check_max_disagreement
from spinney.errors import InvalidArgumentError
from spinney.sequential.class_strategy import ClassStoppingStrategy, class_strategy
from spinney.sequential.compact import (
    CompactStrategy,
    certain_strategy,
    earliest_strategy,
)
from spinney.sequential.strategy import StoppingStrategy
from spinney.sequential.vote_weights import check_stop_steps, check_votes

if TYPE_CHECKING:
    from spinney.sequential.minimean import Solution

OBJECTIVES = ("minimean", "minimixed", "minimax")
ROUNDINGS = ("randomise", "deterministic")
# Bounds below this are as good as 0: floats could not prove that they are kept.
LEAST_BOUND = 1e-250

Progress = Callable[[float], None]


@overload
def optimal_strategy(
    n_voters: int,
    max_disagreement: float,
    *,
    objective: str = "minimean",
    votes: None = None,
    min_votes: int = 1,
    round: str = "randomise",
    stop_steps: ArrayLike | None = None,
) -> StoppingStrategy: ...


@overload
def optimal_strategy(
    n_voters: int,
    max_disagreement: float,
    *,
    objective: str = "minimean",
    votes: ArrayLike,
    min_votes: int = 1,
    round: str = "randomise",
    stop_steps: ArrayLike | None = None,
) -> StoppingStrategy | ClassStoppingStrategy: ...


def optimal_strategy(
    n_voters: int,
    max_disagreement: float,
    *,
    objective: str = "minimean",
    votes: ArrayLike | None = None,
    min_votes: int = 1,
    round: str = "randomise",
    stop_steps: ArrayLike | None = None,
) -> StoppingStrategy | ClassStoppingStrategy:
    """Return the strategy that needs the fewest votes for a bound on disagreement.

    Votes are cast in random order until the strategy stops; the majority so far, a tie
    counting as negative, then stands for the majority of all.

    Parameters
    ----------
    n_voters : int
        Number of voters, at least 1.
    max_disagreement : float
        Largest allowed probability that the decision differs from that of all voters,
        in ``[0, 1)``. With 0 it never differs (with ``"minimean"``: for numbers of
        positive votes that `votes` holds possible).
    objective : {"minimean", "minimixed", "minimax"}, default="minimean"
        - ``"minimean"``: least mean votes, bound on the mean disagreement, both over
          the distribution `votes`;
        - ``"minimixed"``: least mean votes, bound on the disagreement for every
          number of positive voters;
        - ``"minimax"``: least votes for the worst number of positive voters, bound as
          before; among the strategies within a billionth of the best, one with the
          least mean votes.
    votes : array-like of shape (n_voters + 1,) or (n_rows, n_classes), optional
        Counts or frequencies of 0, 1, ..., `n_voters` positive votes, not negative.
        None treats all numbers as equally likely. For three or four classes: full votes
        as counts per class, one row each, that add up to `n_voters`; or a tuple of such
        a table and weights of its rows. For ``"minimean"`` only.
    min_votes : int, default=1
        Votes that are always cast, up to `n_voters`. With 0 a decision may be made
        without any vote.
    round : {"randomise", "deterministic"}, default="randomise"
        The optimal strategy randomises in a few states. ``"deterministic"`` continues
        there instead, which keeps the bound and takes some more votes; `lower_bound` is
        still that for randomised strategies.
    stop_steps : array-like of int, optional
        Numbers of votes after which a stop is possible, for votes that are cast in
        groups or where checking has a cost; None for all. The strategy is optimal among
        those that stop only after these numbers of votes, and at the end.

    Returns
    -------
    strategy : StoppingStrategy or ClassStoppingStrategy
        The strategy, with its value, the proven disagreement, and a proven lower bound
        on the value of any other that decides with the majority of the votes cast.

    Raises
    ------
    ValueError
        If an argument is outside its range; the same error is a TypeError too.

    See Also
    --------
    StoppingStrategy : What is returned.
    Poll : Applies it to voters one at a time.

    Notes
    -----
    The bound is on the disagreement with the full vote, not on errors against some
    truth, over the random order of the voters (and the random draws): on average over
    `votes` for ``"minimean"``, for each single number of positive voters otherwise. An
    order that depends on the votes invalidates it, and so does, for ``"minimean"``, a
    distribution other than `votes`.

    The bound is proven: for up to 301 voters the strategy returned is evaluated in
    exact arithmetic, beyond that in floats, with a bound on their error added.

    The theory is that of [1]_; the linear programs given there are solved by backward
    recursion and column generation.

    References
    ----------
    .. [1] J. Kalman and A. Moscovich, "Optimal Sequential Testing for Binary Ensemble
       Classifiers", 2026.

    Examples
    --------
    Of 101 annotators twelve vote on average if one decision in twenty may differ,
    and if all splits of the votes are equally likely:

    >>> import spinney
    >>> strategy = spinney.optimal_strategy(101, 0.05)
    >>> round(strategy.expected_votes, 2)
    12.26
    >>> round(strategy.proven_disagreement, 9)
    0.05
    """
    if isinstance(votes, tuple) and len(votes) == 2 and np.ndim(votes[0]) == 2:
        by_class = True
    else:
        by_class = votes is not None and np.ndim(votes) == 2
    if by_class:
        return _of_several_classes(
            n_voters, max_disagreement, objective, votes, min_votes, round, stop_steps
        )
    return find_strategy(
        n_voters,
        max_disagreement,
        objective=objective,
        votes=votes,
        min_votes=min_votes,
        round=round,
        stop_steps=stop_steps,
    )


def _of_several_classes(
    n_voters: int,
    max_disagreement: float,
    objective: str,
    votes: Any,
    min_votes: int,
    round: str,
    stop_steps: ArrayLike | None,
) -> ClassStoppingStrategy:
    """Check the arguments for counts of several classes, and solve."""
    n_voters = check_n_voters(n_voters)
    bound = check_max_disagreement(max_disagreement)
    check_choice("objective", objective, OBJECTIVES)
    check_choice("round", round, ROUNDINGS)
    if objective != "minimean":
        msg = (
            f"objective={objective!r} is for two classes; counts of several classes "
            "have 'minimean' only."
        )
        raise InvalidArgumentError(msg)
    may_stop = check_stop_steps(stop_steps, n_voters)
    may_stop[: check_min_votes(min_votes, n_voters)] = False
    return class_strategy(n_voters, bound, votes, may_stop, round == "randomise")


def find_strategy(
    n_voters: int,
    max_disagreement: float,
    *,
    objective: str,
    votes: ArrayLike | None,
    min_votes: int,
    round: str,
    stop_steps: ArrayLike | None = None,
    on_round: Progress | None = None,
) -> StoppingStrategy:
    """Do the work of `optimal_strategy`, and report the progress.

    Parameters
    ----------
    n_voters, max_disagreement, objective, votes, min_votes, round, stop_steps
        As in `optimal_strategy`.
    on_round : callable, optional
        Called after each round of a solver with the relative gap that is left.
    """
    n_voters = check_n_voters(n_voters)
    bound = check_max_disagreement(max_disagreement)
    objective = check_choice("objective", objective, OBJECTIVES)
    round = check_choice("round", round, ROUNDINGS)
    min_votes = check_min_votes(min_votes, n_voters)
    may_stop = check_stop_steps(stop_steps, n_voters)
    may_stop[:min_votes] = False
    weights = check_votes(votes, n_voters)
    possible = weights > 0.0 if objective == "minimean" else None
    safe = certain_strategy(n_voters, may_stop, possible)
    if bound < LEAST_BOUND:
        proof = _prove(safe, bound, objective, weights)
        lower_bound = proof.expected_votes if bound == 0.0 else 0.0
        return _strategy(safe, proof, bound, objective, lower_bound, may_stop)

    from spinney.sequential.evaluation import evaluate
    from spinney.sequential.proof import rounding_error

    mean = weights / weights.sum()
    error = rounding_error(n_voters)
    earliest = earliest_strategy(n_voters, may_stop)
    wrong = evaluate(earliest).wrong
    least = mean @ wrong if objective == "minimean" else wrong.max()
    if least <= bound * (1.0 + error):
        proof = _prove(earliest, bound, objective, weights)
        if proof.kept:
            return _strategy(earliest, proof, bound, objective, 0.0, may_stop)

    # Aiming a little below the bound leaves room for the error of the floats, ours
    # and those of whoever checks.
    slack = 2.0 * error
    while True:
        target = bound * (1.0 - slack)
        solution = _solve(objective, mean, bound, target, may_stop, safe, on_round)
        rule = _rule_of(solution, round, objective, mean, target)
        proof = _prove(rule, bound, objective, weights)
        if proof.kept:
            break
        # The tolerance of the linear program was not made up for. More room costs
        # next to nothing, and the lower bound does not suffer.
        slack = max(8.0 * slack, 1e-10)
    return _strategy(rule, proof, bound, objective, solution.lower_bound, may_stop)


def _solve(
    objective: str,
    mean: NDArray[np.float64],
    bound: float,
    target: float,
    may_stop: NDArray[np.bool_],
    safe: CompactStrategy,
    on_round: Progress | None,
) -> Solution:
    from spinney.sequential.evaluation import evaluate

    arguments: tuple[Any, ...] = (bound, target, may_stop, evaluate(safe), on_round)
    if objective == "minimean":
        from spinney.sequential.minimean import solve_minimean

        return solve_minimean(mean, mean, *arguments)
    from spinney.sequential import column_generation

    if objective == "minimixed":
        return column_generation.solve_minimixed(mean, *arguments)
    return column_generation.solve_minimax(mean, *arguments)


def _rule_of(
    solution: Solution,
    round: str,
    objective: str,
    mean: NDArray[np.float64],
    target: float,
) -> CompactStrategy:
    """Return the rule with chance, or the best without that keeps the target."""
    from spinney.sequential.evaluation import evaluate, mixture

    rules = [corner.rule for corner in solution.corners]
    rule = mixture(rules, solution.weights.tolist())
    if round == "randomise":
        return rule
    best: CompactStrategy | None = None
    best_value = np.inf
    # Going on where the mixture draws lots nearly always keeps the bound. Where it
    # does not, the rules that were mixed are there too, one of them quite safe.
    for candidate in (evaluate(rule.without_chance()), *solution.corners):
        votes, wrong = candidate.votes, candidate.wrong
        disagreement = mean @ wrong if objective == "minimean" else wrong.max()
        value = float(votes.max() if objective == "minimax" else mean @ votes)
        if disagreement <= target and value < best_value:
            best, best_value = candidate.rule, value
    assert best is not None, "the safe rule is among the corners"
    return best


@dataclass(frozen=True)
class _Proof:
    """What was proven about a rule."""

    expected_votes: float
    disagreement: float
    kept: bool
    kind: str


def _prove(
    rule: CompactStrategy, bound: float, objective: str, weights: NDArray[np.float64]
) -> _Proof:
    """Evaluate a rule exactly, or with a bound on the error where it is large."""
    from spinney.sequential import proof as proofs

    if rule.n_voters <= proofs.EXACT_LIMIT:
        exact = proofs.exact_profile(rule)
        shares = proofs.integer_weights(weights)
        if objective == "minimean":
            disagreement = exact.mean_disagreement(shares)
        else:
            disagreement = max(exact.disagreement())
        if objective == "minimax":
            expected = max(exact.expected_votes())
        else:
            expected = exact.mean_votes(shares)
        kept = disagreement <= proofs.exact_bound(bound)
        return _Proof(float(expected), float(disagreement), kept, "exact")

    from spinney.sequential.evaluation import evaluate

    evaluated = evaluate(rule)
    mean = weights / weights.sum()
    wrong, votes = evaluated.wrong, evaluated.votes
    most = float(mean @ wrong if objective == "minimean" else wrong.max())
    if most > 0.0:
        most = most * (1.0 + proofs.rounding_error(rule.n_voters))
        most += proofs.UNDERFLOW
    value = float(votes.max() if objective == "minimax" else mean @ votes)
    return _Proof(value, most, most <= bound, "rounded")


def _strategy(
    rule: CompactStrategy,
    proof: _Proof,
    bound: float,
    objective: str,
    lower_bound: float,
    may_stop: NDArray[np.bool_],
) -> StoppingStrategy:
    return StoppingStrategy(
        rule,
        max_disagreement=bound,
        objective=objective,
        expected_votes=proof.expected_votes,
        lower_bound=min(
            max(lower_bound, float(may_stop.argmax())), proof.expected_votes
        ),
        proven_disagreement=proof.disagreement,
        proof=proof.kind,
    )
