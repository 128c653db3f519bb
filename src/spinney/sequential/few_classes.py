"""Hard votes of a few classes: the rule that knows the votes of all of them.

The exact theory of `full_counts` finds the best rule for the full counts that it is
given. Those of some thousand calibration rows are a handful among all that there can
be, and the best rule for exactly these does worse on new rows than one that looks at
the two classes in front only. So some of the votes of every row are forgotten and drawn
again from Pólya's urn: what other trees of the same kind might have voted. A row then
stands for all counts near its own, and the rule is smooth where rows are few.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spinney.calibration.fitted_rule import FittedRule
from spinney.runtime.exit_rule import ExitRule
from spinney.runtime.exit_rule_checks import MOST_CLASSES
from spinney.sequential.full_counts import (
    CountProblem,
    CountRule,
    VoteLattice,
    masses_of_counts,
    n_states,
)
from spinney.sequential.problems import LadderProblem, Points, Solver

# States up to which a rule for a bound takes about as long as by the two in front.
MOST_STATES = 5_000_000
# Part of the votes that is drawn again, and the votes that each class has beside its
# own when they are.
SHARE_DRAWN, PRIOR = 0.5, 0.1
# Part of the voters after which no exit is planned.
LATEST = 0.85
# Prices of a wrong decision, in votes: powers of this number.
RATIO, LOWEST, HIGHEST = 1.1, -30, 290


def are_few(n_voters: int, n_classes: int) -> bool:
    """Return whether there are few enough classes and voters for a rule on all counts.

    Parameters
    ----------
    n_voters, n_classes : int
        How many there are.
    """
    few = 2 < n_classes <= MOST_CLASSES
    return few and n_states(n_voters, n_classes) <= MOST_STATES


class HardVotesOfFew(LadderProblem):
    """Majority votes of a few classes: the votes of all of them decide.

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
        # Hardly any row is left so late, and there are the most states.
        self.steps = self.steps[self.steps <= LATEST * self.n_voters]
        self._lattice = VoteLattice(self.n_voters, counts.shape[1])
        self._seen = masses_of_counts(counts, None, self._lattice)
        self._masses = redrawn(self._lattice, self._seen)

    def _solver(
        self, points: Points, rng: np.random.RandomState, rough: bool
    ) -> Solver:
        ladder = PriceLadder(self._lattice, self._seen, self._masses, points)

        def best_at(level: float) -> FittedRule:
            rule = ladder.certain if level == 0.0 else ladder.boldest(level)
            tables = [rule.answers[i] for i in points.tolist()]
            undecided = np.zeros(0)
            if rough:
                undecided = np.array(list(ladder.seen.undecided(rule).values()))
            return FittedRule(
                ExitRule.by_all_counts(self.order, points, tables),
                rule.votes,
                rule.wrong,
                undecided,
            )

        return best_at


class PriceLadder:
    """The best rules for one price of a wrong decision after another.

    The lower the price, the more states there are in which a rule stops. So rules of
    ever lower prices exit ever earlier, with the same predictions.

    Parameters
    ----------
    lattice : VoteLattice
        The states.
    seen, masses : ndarray of shape (n_states,)
        How likely full counts are on the calibration rows, where rules are measured,
        and for what they are the best.
    points : ndarray
        Exit points.
    """

    def __init__(
        self,
        lattice: VoteLattice,
        seen: NDArray[np.float64],
        masses: NDArray[np.float64],
        points: Points,
    ) -> None:
        may_stop = np.zeros(lattice.n_voters + 1, dtype=np.bool_)
        may_stop[points] = True
        self.seen = CountProblem(lattice, seen, may_stop)
        self._problem = CountProblem(lattice, masses, may_stop)
        self.certain = self.seen.measured(
            {i: certain_answers(lattice, i) for i in points.tolist()}
        )
        self._known: dict[int, CountRule] = {}

    def boldest(self, level: float) -> CountRule:
        """Return the rule of the lowest price that keeps a level on the rows.

        Parameters
        ----------
        level : float
            Largest allowed disagreement.
        """
        low, high = LOWEST - 1, HIGHEST + 1
        while high - low > 1:
            middle = (low + high) // 2
            if self._at(middle).wrong <= level:
                high = middle
            else:
                low = middle
        return self.certain if high > HIGHEST else self._at(high)

    def _at(self, step: int) -> CountRule:
        """Return the best rule for a price, and what it does on the rows."""
        if step not in self._known:
            answers = self._problem.rule_at(RATIO**step).answers
            for i, certain in self.certain.answers.items():
                answers[i] = np.where(certain >= 0, certain, answers[i])
            self._known[step] = self.seen.measured(answers)
        return self._known[step]


def redrawn(
    lattice: VoteLattice, masses: NDArray[np.float64], share: float = SHARE_DRAWN
) -> NDArray[np.float64]:
    """Return how likely full counts are if some of the votes are drawn again.

    Parameters
    ----------
    lattice : VoteLattice
        The states.
    masses : ndarray of shape (n_states,)
        How likely each full count is.
    share : float, default=SHARE_DRAWN
        Part of the votes, any of them, that is forgotten and drawn from an urn with the
        others in it.
    """
    n_voters = lattice.n_voters
    kept = n_voters - round(share * n_voters)
    for n_votes in range(n_voters - 1, kept - 1, -1):
        masses = lattice.down(masses, n_votes)
    for n_votes in range(kept, n_voters):
        masses = lattice.drawn(masses, n_votes, PRIOR)
    return masses


def certain_answers(lattice: VoteLattice, n_votes: int) -> NDArray[np.int8]:
    """Return the class in front where the votes left cannot change that, else -1.

    Parameters
    ----------
    lattice : VoteLattice
        The states.
    n_votes : int
        Votes cast.
    """
    counts = lattice.counts[: lattice.size(n_votes)].copy()
    counts[:, -1] = n_votes - counts[:, :-1].sum(axis=1)
    best_two = np.partition(counts, -2, axis=1)[:, -2:]
    ahead = best_two[:, 1] - best_two[:, 0] > lattice.n_voters - n_votes
    return np.where(ahead, lattice.leading(n_votes), np.int8(-1))
