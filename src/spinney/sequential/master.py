"""The small linear program over the stop rules met so far."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, linprog

from spinney.sequential.evaluation import Evaluated
from spinney.sequential.proof import rounding_error

# Tolerances of HiGHS to try, the smallest that it allows first.
TOLERANCES = (1e-10, 1e-9, 1e-8, 1e-7)
# Constraints that are violated by less, relatively, are left to the last adjustment.
VIOLATED_WRONG = 1e-9
VIOLATED_VOTES = 1e-10
# Votes close to their limit differ in the fourth digit and later.
LIMIT_SCALE = 1e-3
# An adjusted mixture may cost so much more.
ADJUSTMENT = 2e-10


@dataclass
class Master:
    """A linear program over mixtures of the rules and constraints known so far.

    Parameters
    ----------
    columns : list of Evaluated
        Rules met so far. The first one never disagrees.
    target : float
        Bound on the disagreement, above 0.
    wrong_rows : list of int
        Numbers of positive voters for which the disagreement is bounded.
    time_rows : list of int
        Numbers of positive voters for which the votes are bounded, by the worst case
        or by `limit`.
    mean : ndarray of shape (n_voters + 1,) or None
        Distribution over which the votes are averaged; None minimises the worst case.
    limit : float or None
        Bound on the votes in the worst case, where the mean is minimised.
    penalty : float
        Price of a vote above `limit`: as a hard bound it would leave HiGHS next to
        nothing to live on.
    """

    columns: list[Evaluated]
    target: float
    wrong_rows: list[int]
    time_rows: list[int] = field(default_factory=list)
    mean: NDArray[np.float64] | None = None
    limit: float | None = None
    penalty: float = 0.0

    def __post_init__(self) -> None:
        self.columns = list(self.columns)
        self.wrong_rows = list(self.wrong_rows)
        self.time_rows = list(self.time_rows)
        self.votes = np.array([column.votes for column in self.columns]).T
        self.wrong = np.array([column.wrong for column in self.columns]).T

    def add(self, column: Evaluated) -> bool:
        """Add a rule, unless it is known already; tell whether it is new."""
        if (self.votes == column.votes[:, None]).all(axis=0).any():
            return False
        self.columns.append(column)
        self.votes = np.column_stack([self.votes, column.votes])
        self.wrong = np.column_stack([self.wrong, column.wrong])
        return True

    def value(self, votes: NDArray[np.float64]) -> float:
        """Return the objective of a mixture with these expected votes."""
        if self.mean is None:
            return float(votes.max())
        value = float(self.mean @ votes)
        if self.limit is not None:
            value += self.penalty * max(float(votes.max()) - self.limit, 0.0)
        return value

    def solve(self) -> tuple[NDArray, NDArray, NDArray] | None:
        """Return the mixture, the price of votes and the price of disagreement.

        Prices are in votes, by the number of positive voters. None if HiGHS gives up.
        """
        n_voters, n_columns = len(self.votes) - 1, len(self.columns)
        n_wrong, n_time = len(self.wrong_rows), len(self.time_rows)
        # The weights add up to 1, so limits may be taken off all coefficients: what is
        # left is differences, which HiGHS resolves much better.
        wrong = self.wrong[self.wrong_rows] / self.target - 1.0
        if self.limit is None:
            level = float(self.votes[self.time_rows].max()) if n_time else 0.0
            scale = float(n_voters)
        else:
            level, scale = self.limit, self.limit * LIMIT_SCALE
        time = (self.votes[self.time_rows] - level) / scale
        # The last variable is the worst case, or how far it is above the limit.
        table = np.zeros((n_wrong + n_time, n_columns + 1))
        table[:n_wrong, :-1] = wrong
        table[n_wrong:, :-1] = time
        table[n_wrong:, -1] = -1.0
        objective = np.zeros(n_columns + 1)
        least: float | None = 0.0
        if self.mean is None:
            objective[-1] = 1.0
            least = None
        else:
            objective[:-1] = self.mean @ self.votes / n_voters
            objective[-1] = max(self.penalty, 1.0) * scale / n_voters
        answer = _solve_program(objective, table, least)
        if answer is None:
            return None
        in_votes = float(scale if self.mean is None else n_voters)
        duals = np.maximum(-answer.ineqlin.marginals, 0.0) * in_votes
        wrong_prices = np.zeros(n_voters + 1)
        wrong_prices[self.wrong_rows] = duals[:n_wrong] / self.target
        time_prices = np.zeros(n_voters + 1)
        time_prices[self.time_rows] = duals[n_wrong:] / scale
        weights = np.maximum(answer.x[:-1], 0.0)
        return weights / weights.sum(), time_prices, wrong_prices

    def add_violated(self, weights: NDArray[np.float64]) -> bool:
        """Bound the worst numbers on either side; tell if there were any to add."""
        votes, wrong = self.votes @ weights, self.wrong @ weights
        half = (len(votes) - 1) // 2
        most = np.inf
        if self.time_rows:
            most = max(float(votes[self.time_rows].max()), self.limit or 0.0)
        added = False
        for side in (slice(0, half + 1), slice(half + 1, None)):
            first = side.start
            n = first + int(np.argmax(wrong[side]))
            bound = self.target * (1.0 + VIOLATED_WRONG)
            if wrong[n] > bound and n not in self.wrong_rows:
                self.wrong_rows.append(n)
                added = True
            n = first + int(np.argmax(votes[side]))
            if votes[n] > most * (1.0 + VIOLATED_VOTES) and n not in self.time_rows:
                self.time_rows.append(n)
                added = True
        return added

    def adjusted(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a mixture that keeps its bounds to the last digits.

        HiGHS keeps them up to its tolerance, which also lets in rules with a weight of
        next to nothing: they are left out if the rest can do without them.
        """
        for least, limited in ((1e-6, False), (1e-6, True), (0.0, True)):
            used = np.flatnonzero(weights > least)
            better = self._moved(weights, used, limited)
            if better is not None:
                return better
        # The first rule never disagrees: a little of it makes up for the rest.
        excess = max(float((self.wrong @ weights).max()) / self.target, 1.0)
        shrunk = weights / excess
        shrunk[0] += 1.0 - 1.0 / excess
        return shrunk

    def _moved(
        self, weights: NDArray[np.float64], used: NDArray[np.intp], limited: bool
    ) -> NDArray[np.float64] | None:
        """Move the mixture so that active bounds hold with equality.

        The move is the shortest one among the rules `used`. The limit on the votes,
        which need not hold to the last digit, is among the bounds if `limited`. None
        if the move costs votes or breaks a bound.
        """
        rows = [np.ones(len(weights))]
        for n in self.wrong_rows:
            row = self.wrong[n] / self.target
            if row @ weights > 1.0 - 1e-8:
                rows.append(row)
        if limited and self.limit is not None:
            for n in self.time_rows:
                row = self.votes[n] / self.limit
                if row @ weights > 1.0 - 1e-9:
                    rows.append(row)
        table = np.array(rows)[:, used]
        some = weights[used]
        for _ in range(3):  # the second and third step mend the rounding of the first
            some = some + np.linalg.lstsq(table, 1.0 - table @ some, rcond=1e-14)[0]
        better = np.zeros_like(weights)
        better[used] = some
        error = rounding_error(len(self.votes) - 1)
        votes, old_votes = self.votes @ better, self.votes @ weights
        most = self.value(old_votes) * (1.0 + ADJUSTMENT)
        if self.limit is not None and self.mean is not None:
            most = float(self.mean @ old_votes) * (1.0 + 1e-6)
            if votes.max() > max(self.limit, old_votes.max()) * (1.0 + ADJUSTMENT):
                return None
            value = float(self.mean @ votes)
        else:
            value = self.value(votes)
        if (
            (some < 0.0).any()
            or abs(some.sum() - 1.0) > error
            or (self.wrong @ better).max() > self.target * (1.0 + error)
            or value > most
        ):
            return None
        return better


def _solve_program(
    objective: NDArray[np.float64], table: NDArray[np.float64], least: float | None
) -> OptimizeResult | None:
    """Minimise over the mixtures x and one number y with ``table @ (x, y) <= 0``.

    `least` is the least value of y. Rules that are nearly the same make HiGHS give up
    at times, with a tolerance or with presolve; another attempt nearly always succeeds.
    """
    # HiGHS lets variables, too, miss their bounds by its tolerance. In units in which
    # no coefficient is large, that does no harm.
    units = np.maximum(np.abs(table).max(axis=0), 1.0)
    table, objective = table / units, objective / units
    total = 1.0 / units[None, :]
    total[0, -1] = 0.0
    bounds: list[tuple[float | None, float | None]] = [(0.0, None)] * len(units)
    bounds[-1] = (least, None)
    for tolerance in TOLERANCES:
        for presolve in (True, False):
            answer = linprog(
                objective,
                A_ub=table,
                b_ub=np.zeros(len(table)),
                A_eq=total,
                b_eq=[1.0],
                bounds=bounds,
                method="highs-ds",
                options={
                    "presolve": presolve,
                    "primal_feasibility_tolerance": tolerance,
                    "dual_feasibility_tolerance": tolerance,
                },
            )
            if answer.status == 0:
                answer.x /= units
                return answer

    return None
