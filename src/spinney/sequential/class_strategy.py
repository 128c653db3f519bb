"""Stopping strategies for a vote among several classes."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spinney.errors import FormatError, InvalidArgumentError, PollDecidedError
from spinney.runtime.count_tables import n_ranks, packed, ranks_of_counts, unpacked
from spinney.sequential.full_counts import (
    MOST_STATES,
    CountProblem,
    CountRule,
    VoteLattice,
    masses_of_counts,
    n_states,
    profile_of,
)
from spinney.sequential.poll import _generator

FORMAT = "spinney stopping strategy of several classes"
FORMAT_VERSION = 1

Answers = dict[int, NDArray[np.int8]]


class ClassStoppingStrategy:
    """When to stop a vote among several classes early, and what is promised about it.

    Votes are cast in random order. A random draw before the first vote selects one of
    two rules; each says for all counts of votes whether to stop. The decision is the
    class with most votes so far, the first of several. Made by
    `spinney.optimal_strategy` for counts of several classes.

    Parameters
    ----------
    rules : tuple of dict
        One or two rules: for numbers of votes, the class to decide for in each state
        (numbered as in `spinney.runtime.count_tables`), -1 to continue.
    shares : tuple of float
        Probability of each rule.
    n_voters, n_classes : int
        How many there are.
    max_disagreement : float
        Promised bound on the disagreement with the full vote, on average over the
        counts that the strategy was made for.
    expected_votes : float
        Votes, on average.
    lower_bound : float
        No strategy with the same promise has fewer, of those that decide with the
        largest class of the votes cast, and may stop after the same numbers of votes.
    proven_disagreement : float
        Disagreement of this strategy, with what rounding can add.
    """

    objective = "minimean"

    def __init__(
        self,
        rules: tuple[Answers, ...],
        shares: tuple[float, ...],
        *,
        n_voters: int,
        n_classes: int,
        max_disagreement: float,
        expected_votes: float,
        lower_bound: float,
        proven_disagreement: float,
    ) -> None:
        self.rules = rules
        self.shares = shares
        self.n_voters = n_voters
        self.n_classes = n_classes
        self.max_disagreement = max_disagreement
        self.expected_votes = expected_votes
        self.lower_bound = lower_bound
        self.proven_disagreement = proven_disagreement

    def __repr__(self) -> str:
        return (
            f"ClassStoppingStrategy(n_voters={self.n_voters}, "
            f"n_classes={self.n_classes}, max_disagreement={self.max_disagreement!r}, "
            f"expected_votes={self.expected_votes:.6g})"
        )

    def profile(
        self,
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
        """Return what the strategy does for every full count, over all orders.

        Returns
        -------
        counts : ndarray of shape (n_counts, n_classes)
            All possible counts of the full vote.
        votes, disagreement : ndarray of shape (n_counts,)
            Votes cast, and how often the decision differs from that of all voters.
        """
        lattice = VoteLattice(self.n_voters, self.n_classes)
        votes = np.zeros(len(lattice.counts))
        wrong = np.zeros(len(lattice.counts))
        for rule, share in zip(self.rules, self.shares, strict=True):
            here = profile_of(lattice, rule)
            votes += share * here[0]
            wrong += share * here[1]
        return lattice.counts, votes, wrong

    def poll(self, random_state: Any = None) -> ClassPoll:
        """Return a vote that says when enough votes have been cast.

        Parameters
        ----------
        random_state : int, Generator, RandomState or None, default=None
            Draws which of the two rules is followed.
        """
        which = 0
        if len(self.rules) > 1 and _generator(random_state).random() >= self.shares[0]:
            which = 1
        return ClassPoll(self.rules[which], self.n_voters, self.n_classes)

    def plot(self, *_: Any, **__: Any) -> None:
        """Raise: there are too many states for a picture; see `profile`."""
        msg = (
            f"A strategy for {self.n_classes} classes has a state for all counts of "
            "votes, too many for a picture. profile() has votes and disagreement for "
            "all full counts."
        )
        raise InvalidArgumentError(msg)

    def to_dict(self) -> dict[str, Any]:
        """Return the strategy as plain values, for JSON."""
        return {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "n_voters": self.n_voters,
            "n_classes": self.n_classes,
            "max_disagreement": self.max_disagreement,
            "expected_votes": self.expected_votes,
            "lower_bound": self.lower_bound,
            "proven_disagreement": self.proven_disagreement,
            "rules": [
                {
                    "share": share,
                    "answers": {
                        str(step): packed([each])[0].astype("<i4").tobytes().hex()
                        for step, each in rule.items()
                    },
                }
                for rule, share in zip(self.rules, self.shares, strict=True)
            ],
        }

    @classmethod
    def from_dict(cls, parts: Mapping[str, Any]) -> ClassStoppingStrategy:
        """Rebuild a strategy from what `to_dict` returned.

        Parameters
        ----------
        parts : mapping
            What `to_dict` returned.
        """
        try:
            if parts["format"] != FORMAT or parts["version"] != FORMAT_VERSION:
                msg = f"it must be a {FORMAT!r} of version {FORMAT_VERSION}"
                raise FormatError(msg)
            n_voters, n_classes = int(parts["n_voters"]), int(parts["n_classes"])
            _check_size(n_voters, n_classes)
            rules, shares = [], []
            for given in parts["rules"]:
                answers = {
                    int(step): _taken(text, int(step), n_voters, n_classes)
                    for step, text in given["answers"].items()
                }
                rules.append(answers)
                shares.append(float(given["share"]))
            if (
                len(rules) not in (1, 2)
                or min(shares) < 0
                or abs(sum(shares) - 1) > 1e-9
            ):
                msg = "it must have one or two rules, with shares that add up to one"
                raise FormatError(msg)
            numbers = {
                name: float(parts[name])
                for name in (
                    "max_disagreement",
                    "expected_votes",
                    "lower_bound",
                    "proven_disagreement",
                )
            }
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, FormatError):
                raise
            msg = f"it is not a {FORMAT!r}: {type(error).__name__} at {error}"
            raise FormatError(msg) from error
        return cls(
            tuple(rules),
            tuple(shares),
            n_voters=n_voters,
            n_classes=n_classes,
            **numbers,
        )


class ClassPoll:
    """A vote among several classes that says when enough votes have been cast.

    Parameters
    ----------
    rule : dict
        As in `ClassStoppingStrategy`.
    n_voters, n_classes : int
        How many there are.

    Attributes
    ----------
    decided : bool
        Whether the poll is over.
    decision : int or None
        Index of the class; None while the poll is open.
    n_cast : int
        Votes cast so far.
    counts : list of int
        Votes for each class.

    Examples
    --------
    >>> import spinney
    >>> strategy = spinney.optimal_strategy(5, 0.0, votes=[[5, 0, 0], [1, 3, 1]])
    >>> poll = strategy.poll()
    >>> [poll.cast(vote) for vote in (0, 1, 1)]
    [False, False, True]
    >>> poll.decision
    1
    """

    def __init__(self, rule: Answers, n_voters: int, n_classes: int) -> None:
        self._rule = rule
        self._n_voters = n_voters
        self.counts = [0] * n_classes
        self.n_cast = 0
        self.decided = False
        self.decision: int | None = None
        self._look()

    def cast(self, vote: int) -> bool:
        """Count one vote.

        Parameters
        ----------
        vote : int
            Index of the class.

        Returns
        -------
        decided : bool
            Whether the poll is over.
        """
        if self.decided:
            msg = (
                f"This poll was decided (class {self.decision}) after {self.n_cast} of "
                f"{self._n_voters} votes, and takes no more. Stop polling once cast() "
                "returns True, and start the next vote with strategy.poll()."
            )
            raise PollDecidedError(msg)
        known = isinstance(vote, Integral) and not isinstance(vote, bool)
        if not known or not 0 <= vote < len(self.counts):
            msg = (
                "A vote must be the index of a class, from 0 to "
                f"{len(self.counts) - 1}, got {vote!r}."
            )
            raise InvalidArgumentError(msg) if known else TypeError(msg)
        self.counts[int(vote)] += 1
        self.n_cast += 1
        self._look()
        return self.decided

    def _look(self) -> None:
        """Stop here, if the rule says so or everybody has voted."""
        answers = self._rule.get(self.n_cast)
        answer = -1
        if self.n_cast == self._n_voters:
            answer = self.counts.index(max(self.counts))
        elif answers is not None:
            answer = int(answers[ranks_of_counts(np.array([self.counts]))[0]])
        if answer >= 0:
            self.decided, self.decision = True, answer


def class_strategy(
    n_voters: int,
    max_disagreement: float,
    votes: Any,
    may_stop: NDArray[np.bool_],
    with_chance: bool,
) -> ClassStoppingStrategy:
    """Return the best strategy for counts of several classes.

    Parameters
    ----------
    n_voters : int
        Number of voters.
    max_disagreement : float
        Bound on the mean disagreement.
    votes : array-like of shape (n_rows, n_classes), or tuple of that and weights
        Full counts.
    may_stop : ndarray of shape (n_voters + 1,), dtype=bool
        After which numbers of votes a stop is possible.
    with_chance : bool
        Whether a lot may be drawn between two rules.
    """
    counts, weights = check_class_counts(votes, n_voters)
    lattice = VoteLattice(n_voters, counts.shape[1])
    may_stop = may_stop.copy()
    may_stop[-1] = False  # all have voted: there is nothing to decide
    problem = CountProblem(
        lattice, masses_of_counts(counts, weights, lattice), may_stop
    )
    error = problem.rounding_error
    target = max_disagreement * (1.0 - 2.0 * error)
    solution = problem.solve(target)
    rules: tuple[CountRule, ...] = (solution.safe, solution.bold)
    shares: tuple[float, ...] = (1.0 - solution.share, solution.share)
    if not with_chance or solution.share == 0.0:
        rules, shares = (problem.without_chance(solution, target),), (1.0,)
    pairs = list(zip(rules, shares, strict=True))
    expected = sum(share * rule.votes for rule, share in pairs)
    wrong = sum(share * rule.wrong for rule, share in pairs)
    return ClassStoppingStrategy(
        tuple(rule.answers for rule in rules),
        shares,
        n_voters=n_voters,
        n_classes=counts.shape[1],
        max_disagreement=max_disagreement,
        expected_votes=expected,
        lower_bound=min(solution.lower_bound, expected),
        proven_disagreement=wrong * (1.0 + error),
    )


def check_class_counts(
    votes: Any, n_voters: int
) -> tuple[NDArray[np.int64], NDArray[np.float64] | None]:
    """Return counts per class and their weights, or raise.

    Parameters
    ----------
    votes : array-like of shape (n_rows, n_classes), or tuple of that and weights
        Full counts.
    n_voters : int
        What each adds up to.
    """
    weights: ArrayLike | None = None
    if isinstance(votes, tuple):
        votes, weights = votes
    given = np.asarray(votes)
    hint = (
        "Pass one row per vote, with a column for each of three or four classes; or a "
        "tuple of that and a weight for each row."
    )
    if given.ndim != 2 or not len(given) or given.shape[1] not in (3, 4):
        msg = (
            "votes as counts per class must be a table of three or four columns, got "
            f"shape {given.shape}. {hint}"
        )
        raise InvalidArgumentError(msg)
    _check_size(n_voters, given.shape[1])
    try:
        with np.errstate(invalid="ignore"):  # no number, or too large a one
            counts = given.astype(np.int64)
    except (TypeError, ValueError, OverflowError):
        counts = np.full(given.shape, -1)
    if not np.array_equal(counts, given) or (counts < 0).any():
        msg = f"votes must be integers that are not negative. {hint}"
        raise InvalidArgumentError(msg)
    wrong = np.flatnonzero(counts.sum(axis=1) != n_voters)
    if len(wrong):
        msg = (
            f"The votes of all classes must add up to {n_voters}, the number of "
            f"voters, got {int(counts[wrong[0]].sum())} in row {wrong[0]}. {hint}"
        )
        raise InvalidArgumentError(msg)
    if weights is None:
        return counts, None
    shares = np.asarray(weights, dtype=np.float64)
    fits = shares.shape == (len(counts),) and bool(np.isfinite(shares).all())
    if not fits or (shares < 0).any() or not shares.sum() > 0:
        msg = f"Weights must be one number per row, not negative, not all 0. {hint}"
        raise InvalidArgumentError(msg)
    return counts, shares / shares.max()


def _check_size(n_voters: int, n_classes: int) -> None:
    """Raise if there are too many states."""
    if n_voters < 1 or n_classes not in (3, 4):
        msg = f"There are no strategies for {n_voters} voters and {n_classes} classes."
        raise InvalidArgumentError(msg)
    if n_states(n_voters, n_classes) > MOST_STATES:
        msg = (
            f"{n_voters:,} voters and {n_classes} classes have "
            f"{n_states(n_voters, n_classes):,} different counts, more than "
            f"{MOST_STATES:,}. Use fewer voters, or SequentialVotingClassifier, which "
            "then uses the two leading classes."
        )
        raise InvalidArgumentError(msg)


def _taken(text: str, step: int, n_voters: int, n_classes: int) -> NDArray[np.int8]:
    """Return the predictions of one number of votes, from a file."""
    size = n_ranks(step, n_classes) if 0 <= step < n_voters else 0
    words = np.frombuffer(bytes.fromhex(text), dtype="<i4").astype(np.int32)
    if size == 0 or len(words) != max(1, -(-size // 8)):
        msg = f"its decisions after {step} votes do not fit {n_voters} voters"
        raise FormatError(msg)
    answers = unpacked(words, np.arange(size)).astype(np.int8)
    if answers.max() >= n_classes:
        msg = "its decisions must be classes"
        raise FormatError(msg)
    return answers
