"""One vote, taken voter by voter."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from spinney.errors import PollDecidedError
from spinney.sequential.compact import CompactStrategy


class Poll:
    """A majority vote that says when enough votes have been cast.

    Usually made by `spinney.StoppingStrategy.poll`. Poll the voters in random order and
    `cast` each vote until the poll is decided.

    Parameters
    ----------
    rule : CompactStrategy
        When to stop.
    random_state : int, Generator, RandomState or None, default=None
        Draws in states where the rule randomises.

    Attributes
    ----------
    decided : bool
        Whether the poll is over. A strategy that may decide without any vote can be
        decided from the start.
    decision : bool or None
        The result: True for positive; None while the poll is open.
    n_cast : int
        Votes cast so far.
    n_positive : int
        Positive ones among them.

    Examples
    --------
    >>> import spinney
    >>> strategy = spinney.optimal_strategy(5, 0.0)
    >>> poll = strategy.poll()
    >>> [poll.cast(vote) for vote in (True, True, False, True)]
    [False, False, False, True]
    >>> poll.decision, poll.n_cast
    (True, 4)
    """

    def __init__(self, rule: CompactStrategy, random_state: Any = None) -> None:
        self._rule = rule
        self._draw = _generator(random_state)
        self.n_cast = 0
        self.n_positive = 0
        self.decided = False
        self.decision: bool | None = None
        self._look()

    def __repr__(self) -> str:
        if self.decided:
            state = "positive" if self.decision else "negative"
        else:
            state = "open"
        return (
            f"Poll({state}, {self.n_positive} of {self.n_cast} votes positive, "
            f"{self._rule.n_voters} voters)"
        )

    def cast(self, positive: bool) -> bool:
        """Count one vote.

        Parameters
        ----------
        positive : bool
            The vote.

        Returns
        -------
        decided : bool
            Whether the poll is over.
        """
        if self.decided:
            result = "positive" if self.decision else "negative"
            msg = (
                f"This poll was decided ({result}) after {self.n_cast} of "
                f"{self._rule.n_voters} votes, and takes no more. Stop polling once "
                "cast() returns True, and start the next vote with strategy.poll()."
            )
            raise PollDecidedError(msg)
        if not isinstance(positive, (bool, np.bool_)) and not (
            isinstance(positive, Integral) and positive in (0, 1)
        ):
            msg = (
                f"A vote must be True or False, got {positive!r}. Compare the answer "
                'first: cast(answer == "yes").'
            )
            raise TypeError(msg)
        self.n_cast += 1
        self.n_positive += int(positive)
        self._look()
        return self.decided

    def _look(self) -> None:
        """Stop here, if the rule and the dice say so."""
        stop = self._rule.stop_probability(self.n_cast, self.n_positive)
        # Lots are drawn only where something is left to chance.
        if stop == 1.0 or (stop > 0.0 and self._draw.random() < stop):
            self.decided = True
            self.decision = 2 * self.n_positive > self.n_cast


def _generator(random_state: Any) -> np.random.Generator:
    """Return a generator for a seed, a generator, or a legacy RandomState."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    return np.random.default_rng(random_state)
