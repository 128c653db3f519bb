"""Calibration rows made into the problem that is to be solved for their votes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _num_samples

from spinney.base.parameters import check_choice
from spinney.calibration.out_of_bag import (
    class_counts,
    filled_scores,
    out_of_bag_mask,
    positive_vote_weights,
)
from spinney.errors import InvalidArgumentError
from spinney.forest.frames import rows_at
from spinney.sequential.called_voters import CalledVoters
from spinney.sequential.few_classes import HardVotesOfFew, are_few
from spinney.sequential.problems import (
    HardVotesOfSeveral,
    HardVotesOfTwo,
    Problem,
    SoftVotesOfSeveral,
    SoftVotesOfTwo,
)
from spinney.sequential.vote_weights import check_votes
from spinney.sequential.voters import TreeVoters

# Scores that are kept in memory at most, in 8 bytes each.
MOST_SCORES = 50_000_000


@dataclass(frozen=True, eq=False)
class ProblemMaker:
    """Makes the problem of a classifier from its settings and rows.

    Parameters
    ----------
    voters : TreeVoters or CalledVoters
        The voters.
    voting : {"hard", "soft"}
        What is added up.
    order : ndarray of shape (n_voters,)
        Voters in the order in which they are evaluated.
    objective, min_votes
        As in `SequentialVotingClassifier`.
    n_jobs : int or None
        Number of threads.
    """

    voters: TreeVoters | CalledVoters
    voting: str
    order: NDArray[np.int64]
    objective: str
    min_votes: int
    n_jobs: int | None

    def problem(
        self, rows: Any, votes: Any, model: Any, rng: np.random.RandomState
    ) -> Problem:
        """Return what is to be solved, with the rows in the form it needs.

        Parameters
        ----------
        rows : array-like of shape (n_rows, n_features)
            Calibration rows, converted.
        votes
            As in `SequentialVotingClassifier.fit`.
        model : fitted ensemble
            For out-of-bag votes.
        rng : RandomState
            Draws which rows to take, and votes that are missing.
        """
        voters, voting = self.voters, self.voting
        if _num_samples(rows) == 0:
            msg = "There are no rows to calibrate on. Pass at least one."
            raise InvalidArgumentError(msg)
        named = isinstance(votes, str)
        if named:
            check_choice("votes", votes, ("uniform", "out_of_bag"))
        two_hard = voting == "hard" and voters.n_sums == 1
        if votes is not None and not two_hard and not (named and votes == "out_of_bag"):
            msg = (
                "votes can be given for hard votes of two classes only; here they are "
                f"{self.voting}, of {len(voters.classes)} classes. Leave votes out to "
                "have them counted."
            )
            raise InvalidArgumentError(msg)
        if named and votes == "out_of_bag":
            return self._out_of_bag(rows, model, rng)
        if two_hard:
            if votes is None:
                totals = voters.totals(voting, rows, self.n_jobs)[:, 0]
                weights = np.bincount(
                    totals.astype(np.int64), minlength=voters.n_voters + 1
                ).astype(np.float64)
            else:
                weights = check_votes(None if named else votes, voters.n_voters)
            return HardVotesOfTwo(weights, self.objective, self.order, self.min_votes)
        if voting == "hard":
            counts = voters.totals(voting, rows, self.n_jobs).astype(np.int64)
            return self._counted(counts)
        rows = rows_at(rows, self._not_too_many(_num_samples(rows), rng))
        added = voters.contributions(voting, rows, self.n_jobs)
        classes = voters.full_classes(voting, rows, self.n_jobs)
        return self._soft(added, classes)

    def _counted(self, counts: NDArray[np.int64]) -> Problem:
        """Return the problem for the votes of every row for several classes."""
        few = are_few(self.voters.n_voters, counts.shape[1])
        made = HardVotesOfFew if few else HardVotesOfSeveral
        return made(counts, self.order, self.min_votes)

    def _soft(self, added: NDArray[np.float64], classes: NDArray[np.intp]) -> Problem:
        """Return the problem for what every voter adds to the sums of every row."""
        voters = self.voters
        if voters.n_sums == 1:
            return SoftVotesOfTwo(
                added[:, :, 0],
                classes == 1,
                *voters.decision,
                voters.score_range(),
                self.order,
                self.min_votes,
            )
        return SoftVotesOfSeveral(
            added, classes, voters.score_range(), self.order, self.min_votes
        )

    def _out_of_bag(self, rows: Any, model: Any, rng: np.random.RandomState) -> Problem:
        """Return the problem for training rows, each with the trees that missed it."""
        voters, voting = self.voters, self.voting
        mask = out_of_bag_mask(model, _num_samples(rows))
        cast = voters.votes(rows, self.n_jobs)
        if voting == "hard" and voters.n_sums == 1:
            weights = positive_vote_weights(cast, mask)
            return HardVotesOfTwo(weights, self.objective, self.order, self.min_votes)
        if voting == "hard":
            return self._counted(class_counts(cast, mask, len(voters.classes), rng))
        kept = self._not_too_many(len(mask), rng)
        some = rows_at(rows, kept)
        added = voters.contributions(voting, some, self.n_jobs)
        filled = filled_scores(added, mask[kept], rng)
        totals = filled.sum(axis=1)
        classes = totals.argmax(axis=1)
        if voters.n_sums == 1:
            start, beta = voters.decision
            classes = (start + totals[:, 0] > beta).astype(np.intp)
        return self._soft(filled, classes)

    def _not_too_many(
        self, n_rows: int, rng: np.random.RandomState
    ) -> NDArray[np.intp]:
        """Return which rows to work out scores for: as many as memory allows."""
        most = max(1, MOST_SCORES // (self.voters.n_voters * self.voters.n_sums))
        if n_rows <= most:
            return np.arange(n_rows)
        return np.sort(rng.choice(n_rows, most, replace=False))
