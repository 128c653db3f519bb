"""Predictions for every way in which votes can be shared out among several classes.

After m votes among C classes there are (m + C - 1 over C - 1) different counts. They
are numbered by the votes for the first class, for the first two, and so on: with these
sums s_1 <= s_2 <= ..., the rank is the sum over v of (s_v + v - 1 over v). It does not
depend on m, and counts of m votes have ranks below (m + C - 1 over C - 1). A prediction
takes four bits, so there are eight in a number of a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spinney.runtime.exit_kinds import STAY, STAYS

PER_WORD = 8


def n_ranks(n_votes: int, n_classes: int) -> int:
    """Return in how many ways votes can be shared out among classes.

    Parameters
    ----------
    n_votes, n_classes : int
        How many there are.
    """
    return comb(n_votes + n_classes - 1, n_classes - 1)


def ranks_of_counts(counts: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the rank of counts among all with the same number of votes.

    Parameters
    ----------
    counts : ndarray of shape (n_rows, n_classes)
        Votes for each class.
    """
    cast = np.cumsum(counts[:, :-1], axis=1, dtype=np.int64)
    ranks = np.zeros(len(counts), dtype=np.int64)
    for v in range(cast.shape[1]):
        term = cast[:, v].copy()
        for j in range(1, v + 1):
            term = term * (cast[:, v] + j) // (j + 1)
        ranks += term
    return ranks


def counts_of_ranks(n_votes: int, n_classes: int) -> NDArray[np.int64]:
    """Return all counts of so many votes, in the order of their ranks.

    Parameters
    ----------
    n_votes, n_classes : int
        How many there are.

    Returns
    -------
    counts : ndarray of shape (n_ranks, n_classes)
        Votes for each class.
    """
    # All s_1 <= s_2 <= ... <= n_votes, the last of them changing most slowly.
    sums = np.arange(n_votes + 1)[:, None]
    for _ in range(n_classes - 2):
        n_below = np.cumsum(np.bincount(sums[:, -1], minlength=n_votes + 1))
        index = np.concatenate([np.arange(n) for n in n_below])
        last = np.repeat(np.arange(n_votes + 1), n_below)
        sums = np.column_stack([sums[index], last])
    whole = np.full((len(sums), 1), n_votes)
    return np.diff(np.column_stack([sums, whole]), prepend=0, axis=1)


def packed(answers: Sequence[ArrayLike]) -> NDArray[np.int32]:
    """Return tables of predictions as one, eight predictions in a number.

    Parameters
    ----------
    answers : sequence of array-like of int
        For each exit point the class index for every rank of counts, -1 to stay.

    Returns
    -------
    table : ndarray of shape (n_exit_points, n_words), dtype=int32
        Filled up with predictions that mean to stay.
    """
    tables = [np.asarray(each, dtype=np.int64) for each in answers]
    longest = max((len(each) for each in tables), default=0)
    n_words = max(1, -(-longest // PER_WORD))
    nibbles = np.full((len(tables), n_words * PER_WORD), STAYS, dtype=np.uint32)
    for each, row in zip(tables, nibbles, strict=True):
        row[: len(each)] = np.where(each == STAY, STAYS, each)
    shifts = np.arange(0, 4 * PER_WORD, 4, dtype=np.uint32)
    words = nibbles.reshape(len(tables), n_words, PER_WORD) << shifts
    return np.bitwise_or.reduce(words, axis=2).view(np.int32)


def unpacked(table: NDArray[np.int32], ranks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the predictions of one exit point.

    Parameters
    ----------
    table : ndarray of shape (n_words,), dtype=int32
        A row of what `packed` returns.
    ranks : ndarray of int
        Ranks of counts.

    Returns
    -------
    answers : ndarray of int
        Class indices, -1 to stay.
    """
    answers = table[ranks >> 3].astype(np.int64) >> (4 * (ranks & 7)) & STAYS
    return np.where(answers == STAYS, STAY, answers)
