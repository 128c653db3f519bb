"""The best stopping rule for a vote among several classes, on the counts of all.

Voters come in random order. Given the counts of the votes so far, the last of i votes
was for class c with probability count_c / i, whatever the full counts are. So what is
known about full counts can be carried down to every state of fewer votes, and the best
rule for a price of a wrong decision is found by one backward recursion over all states.
The price that a bound on the disagreement is worth is found along the lower hull of
votes and disagreement; every price gives a proven lower bound on the votes of any rule
that keeps the bound (Lagrangian duality). Rules decide for the class with most votes so
far, the first of several.

All numbers that are added up are positive, so that rounding is a small relative error.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from spinney.runtime.count_tables import counts_of_ranks, n_ranks, ranks_of_counts

Numbers = NDArray[np.float64]

# States of all numbers of votes together, up to which there is a rule on all counts:
# four classes and 101 voters have 4.8 million.
MOST_STATES = 5_000_000
MOST_ROUNDS = 80


def n_states(n_voters: int, n_classes: int) -> int:
    """Return how many states there are, of all numbers of votes up to `n_voters`.

    Parameters
    ----------
    n_voters, n_classes : int
        How many there are.
    """
    return n_ranks(n_voters, n_classes + 1)


class VoteLattice:
    """All counts of votes among several classes, and how they follow one another.

    States of a number of votes are numbered as `spinney.runtime.count_tables` does it:
    the rank of a state does not depend on the number of votes, given the counts of all
    classes but the last.

    Parameters
    ----------
    n_voters : int
        Number of voters.
    n_classes : int
        Number of classes.
    """

    def __init__(self, n_voters: int, n_classes: int) -> None:
        self.n_voters = n_voters
        self.n_classes = n_classes
        self.counts = counts_of_ranks(n_voters, n_classes)
        self.winners = self.counts.argmax(axis=1)
        size = n_ranks(max(n_voters - 1, 0), n_classes)
        cast = np.cumsum(self.counts[:size, :-1], axis=1)
        self._n_cast = cast[:, -1]  # for all classes but the last
        # Where a state goes with one more vote for a class; for the last one, it stays.
        steps = np.ones_like(cast)
        for v in range(1, n_classes - 1):
            for j in range(1, v + 1):
                steps[:, v] = steps[:, v] * (cast[:, v] + j) // j
        moves = np.cumsum(steps[:, ::-1], axis=1)[:, ::-1]
        self._next = [np.arange(size) + moves[:, c] for c in range(n_classes - 1)]
        self._more = [self.counts[:size, c] + 1.0 for c in range(n_classes - 1)]

    def size(self, n_votes: int) -> int:
        """Return how many states of so many votes there are."""
        return n_ranks(n_votes, self.n_classes)

    def leading(self, n_votes: int) -> NDArray[np.int8]:
        """Return the class with most votes in each state, the first of several."""
        size = self.size(n_votes)
        first = self.counts[:size, :-1]
        last = n_votes - first.sum(axis=1)
        ahead = first.argmax(axis=1)
        return np.where(last > first.max(axis=1), self.n_classes - 1, ahead).astype(
            np.int8
        )

    def down(self, values: Numbers, n_votes: int) -> Numbers:
        """Carry masses of states down to states of one vote less.

        Parameters
        ----------
        values : ndarray of shape (..., n_states)
            Of states of ``n_votes + 1`` votes.
        n_votes : int
            Votes of the states to carry them to.
        """
        size = self.size(n_votes)
        found = (n_votes + 1.0 - self._n_cast[:size]) * values[..., :size]
        for go, more in zip(self._next, self._more, strict=True):
            found += more[:size] * values[..., go[:size]]
        return found / (n_votes + 1.0)

    def up(self, values: Numbers, n_votes: int) -> Numbers:
        """Return means over the orders of votes, in states of one vote more.

        Parameters
        ----------
        values : ndarray of shape (..., n_states)
            Of states of `n_votes` votes.
        n_votes : int
            Their votes.
        """
        size = self.size(n_votes)
        found = np.zeros((*values.shape[:-1], self.size(n_votes + 1)))
        found[..., :size] = (n_votes + 1.0 - self._n_cast[:size]) * values
        for go, more in zip(self._next, self._more, strict=True):
            found[..., go[:size]] += more[:size] * values
        return found / (n_votes + 1.0)

    def drawn(self, masses: Numbers, n_votes: int, prior: float) -> Numbers:
        """Return masses of states of one vote more, the vote drawn from an urn.

        It is for a class with a probability that grows with the votes that the class
        has already (Pólya's urn).

        Parameters
        ----------
        masses : ndarray of shape (n_states,)
            How likely each state of `n_votes` votes is.
        n_votes : int
            Their votes.
        prior : float
            Votes that each class is taken to have beside its own.
        """
        size = self.size(n_votes)
        shares = masses / (n_votes + self.n_classes * prior)
        found = np.zeros(self.size(n_votes + 1))
        found[:size] = (n_votes - self._n_cast[:size] + prior) * shares
        for go, more in zip(self._next, self._more, strict=True):
            # Different states go to different ones: none is counted twice.
            found[go[:size]] += (more[:size] - 1.0 + prior) * shares
        return found


@dataclass(frozen=True, eq=False)
class CountRule:
    """A rule without chance, and what it does on average.

    Parameters
    ----------
    answers : dict
        For numbers of votes, the class to decide for in each state, -1 to go on.
    votes, wrong : float
        Votes and disagreement, on average.
    """

    answers: dict[int, NDArray[np.int8]]
    votes: float
    wrong: float


@dataclass(frozen=True, eq=False)
class CountSolution:
    """The best rule: a lot between two rules, and a bound on all others.

    Parameters
    ----------
    safe, bold : CountRule
        Two rules, of which the first keeps the bound.
    share : float
        How likely the second one is to be taken.
    lower_bound : float
        No rule that keeps the bound has fewer votes, with chance or without.
    """

    safe: CountRule
    bold: CountRule
    share: float
    lower_bound: float


@dataclass(eq=False)
class CountProblem:
    """What is known about full counts, carried down to every state.

    Parameters
    ----------
    lattice : VoteLattice
        The states.
    masses : ndarray of shape (n_states,)
        How likely each full count is; they add up to one.
    may_stop : ndarray of shape (n_voters + 1,), dtype=bool
        After which numbers of votes a stop is possible.
    """

    lattice: VoteLattice
    masses: Numbers
    may_stop: NDArray[np.bool_]
    mass: dict[int, Numbers] = field(init=False)
    wrong: dict[int, Numbers] = field(init=False)
    leading: dict[int, NDArray[np.int8]] = field(init=False)

    def __post_init__(self) -> None:
        lattice = self.lattice
        n_voters, n_classes = lattice.n_voters, lattice.n_classes
        self.mass, self.wrong, self.leading = {}, {}, {}
        self._known: list[CountRule] = []
        by_winner = np.zeros((n_classes, len(self.masses)))
        by_winner[lattice.winners, np.arange(len(self.masses))] = self.masses
        for i in range(n_voters - 1, -1, -1):
            by_winner = lattice.down(by_winner, i)
            if self.may_stop[i]:
                leading = lattice.leading(i)
                self.mass[i] = by_winner.sum(axis=0)
                # What does not win is added up: a difference would lose digits.
                others = by_winner.copy()
                others[leading, np.arange(len(leading))] = 0.0
                self.wrong[i] = others.sum(axis=0)
                self.leading[i] = leading

    @property
    def rounding_error(self) -> float:
        """More than any sum of a recursion can be off, relative to itself."""
        lattice = self.lattice
        n_roundings = 4 * (lattice.n_classes + 3) * (lattice.n_voters + 2)
        return n_roundings * float(np.finfo(np.float64).eps)

    def _at_last_stop(self) -> tuple[Numbers, int]:
        """Return votes and disagreement of going on to the end, and where that begins.

        After the last number of votes with which a stop is possible there is nothing
        to choose.
        """
        last = max(self.mass, default=0)
        mass = self.mass.get(last, np.ones(1) * self.masses.sum())
        return np.stack([self.lattice.n_voters * mass, np.zeros_like(mass)]), last

    def rule_at(self, price: float) -> CountRule:
        """Return the rule with the least votes and price of being wrong together.

        Parameters
        ----------
        price : float
            How many votes a wrong decision is worth; infinite for never.
        """
        lattice = self.lattice
        answers = {}
        both, last = self._at_last_stop()
        for i in range(last, -1, -1):
            if i < last:
                both = lattice.down(both, i)
            if not self.may_stop[i]:
                continue
            mass, wrong = self.mass[i], self.wrong[i]
            if np.isinf(price):
                stops = (wrong == 0.0) & (mass > 0.0)
            else:
                going_on = both[0] + price * both[1]
                stops = (i * mass + price * wrong <= going_on) & (mass > 0.0)
            both[0, stops] = i * mass[stops]
            both[1, stops] = wrong[stops]
            answers[i] = np.where(stops, self.leading[i], np.int8(-1))
        return CountRule(answers, float(both[0, 0]), float(both[1, 0]))

    def solve(self, bound: float, tolerance: float = 1e-12) -> CountSolution:
        """Return the best rule that keeps a bound.

        Parameters
        ----------
        bound : float
            Largest allowed disagreement.
        tolerance : float, default=1e-12
            By what part a rule has to be better to be looked for.
        """
        if not self._known:
            self._known += [self.rule_at(np.inf), self.rule_at(0.0)]
        kept = [rule for rule in self._known if rule.wrong <= bound]
        safe = min(kept, key=lambda rule: rule.votes, default=self._known[0])
        others = [rule for rule in self._known if rule.wrong > bound]
        if not others:
            return CountSolution(safe, safe, 0.0, safe.votes)
        # The next one on the lower hull of all that are known.
        bold = max(
            others,
            key=lambda rule: (safe.votes - rule.votes) / (rule.wrong - safe.wrong),
        )
        error = self.rounding_error
        lower_bound = 0.0
        for _ in range(MOST_ROUNDS):
            price = (safe.votes - bold.votes) / (bold.wrong - safe.wrong)
            if not price > 0.0:
                lower_bound = max(lower_bound, bold.votes * (1.0 - error))
                break
            found = self.rule_at(price)
            value = found.votes + price * found.wrong
            proven = value * (1.0 - error) - price * bound * (1.0 + error)
            lower_bound = max(lower_bound, proven)
            if value >= (safe.votes + price * safe.wrong) * (1.0 - tolerance):
                break
            self._known.append(found)
            if found.wrong <= bound:
                safe = found
            else:
                bold = found
        share = 0.0
        if bold.wrong > safe.wrong and bold.votes < safe.votes:
            share = (bound - safe.wrong) / (bold.wrong - safe.wrong)
        return CountSolution(safe, bold, share, lower_bound)

    def without_chance(self, solution: CountSolution, bound: float) -> CountRule:
        """Return the best rule found that keeps the bound and draws no lots.

        The more aggressive of two rules is followed from some number of votes on, or up
        to it.

        Parameters
        ----------
        solution : CountSolution
            What `solve` has returned.
        bound : float
            Largest allowed disagreement.
        """
        safe, bold = solution.safe, solution.bold
        steps = sorted(safe.answers)
        best = safe
        for early, late in ((safe, bold), (bold, safe)):
            low, high = 0, len(steps)
            while high - low > 1:
                middle = (low + high) // 2
                chosen = {i: early.answers[i] for i in steps[:middle]}
                chosen |= {i: late.answers[i] for i in steps[middle:]}
                found = self.measured(chosen)
                kept = found.wrong <= bound
                if kept and found.votes < best.votes:
                    best = found
                # Which way is more aggressive depends on which of the two comes first.
                if kept == (late is bold):
                    high = middle
                else:
                    low = middle
        return best

    def measured(self, answers: dict[int, NDArray[np.int8]]) -> CountRule:
        """Return a rule with what it does on average.

        Parameters
        ----------
        answers : dict
            As of `CountRule`.
        """
        both, last = self._at_last_stop()
        for i in range(last, -1, -1):
            if i < last:
                both = self.lattice.down(both, i)
            if i in answers:
                stops = answers[i] >= 0
                both[0, stops] = i * self.mass[i][stops]
                both[1, stops] = self.wrong[i][stops]
        return CountRule(answers, float(both[0, 0]), float(both[1, 0]))

    def undecided(self, rule: CountRule) -> dict[int, float]:
        """Return how likely a vote goes on after each number of votes.

        Parameters
        ----------
        rule : CountRule
            The rule.
        """
        found = {}
        going = np.ones(1)
        for i in range(max(rule.answers, default=-1) + 1):
            if i in rule.answers:
                going = np.where(rule.answers[i] >= 0, 0.0, going)
                found[i] = float(going @ self.mass[i])
            going = self.lattice.up(going, i)
        return found


def profile_of(
    lattice: VoteLattice, answers: dict[int, NDArray[np.int8]]
) -> tuple[Numbers, Numbers]:
    """Return votes and disagreement for every full count, over all orders.

    Parameters
    ----------
    lattice : VoteLattice
        The states.
    answers : dict
        As of `CountRule`.

    Returns
    -------
    votes, wrong : ndarray of shape (n_states,)
        In the order of the ranks of full counts.
    """
    # In each state, over all orders of its votes: how many go on, the votes of those
    # that have stopped, and how many of these decided for each class.
    known = np.zeros((2 + lattice.n_classes, 1))
    known[0] = 1.0
    for i in range(lattice.n_voters):
        if i in answers:
            stops = np.flatnonzero(answers[i] >= 0)
            going = known[0, stops].copy()
            known[1, stops] += i * going
            known[2 + answers[i][stops], stops] += going
            known[0, stops] = 0.0
        known = lattice.up(known, i)
    votes = known[1] + lattice.n_voters * known[0]
    decided = known[2:]
    decided[lattice.winners, np.arange(len(votes))] = 0.0
    return votes, decided.sum(axis=0)


def masses_of_counts(
    counts: NDArray[np.integer], weights: Numbers | None, lattice: VoteLattice
) -> Numbers:
    """Return how likely each full count is.

    Parameters
    ----------
    counts : ndarray of shape (n_rows, n_classes)
        Full counts.
    weights : ndarray of shape (n_rows,) or None
        How likely each is, relative to the others; None for all alike.
    lattice : VoteLattice
        The states.
    """
    ranks = ranks_of_counts(counts)
    masses = np.bincount(ranks, weights=weights, minlength=len(lattice.counts))
    return masses / masses.sum()
