"""The boldest of a ladder of candidates that rows prove to keep a bound.

Candidates are fixed beforehand, from the most cautious to the boldest, and tested one
after another on rows that played no part in making them, until the first fails.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from spinney.calibration.bounds import (
    Certificate,
    check_confidence,
    check_n_rows,
    clopper_pearson_upper,
    first_enough,
    percent,
    rounded_up,
    rows_needed,
)
from spinney.calibration.row_splits import LEAST_TO_FIT
from spinney.errors import SpinneyWarning

Candidate = TypeVar("Candidate")

# How far the most cautious candidates are moved out, in deviations.
WIDENINGS = (2.0, 1.0, 0.5, 0.25, 0.1)
# What part of the bound candidates aim at: thresholds along an order, whose most
# cautious candidates are widened, and votes in random order.
LEVELS_OF_THRESHOLDS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
LEVELS_OF_VOTES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


@dataclass(frozen=True)
class Accepted:
    """The candidate that a fixed sequence of tests has led to.

    Parameters
    ----------
    index : int
        Its index in the sequence.
    certificate : Certificate
        What is proven about it. The bound is the one that was asked for: a tighter one,
        from its own count, would not hold after the choice.
    """

    index: int
    certificate: Certificate


def certify_sequence(
    n_disagreements: Iterable[int],
    n_rows: int,
    *,
    max_disagreement: float,
    confidence: float,
) -> Accepted | None:
    """Return the boldest candidate that is proven to keep a bound.

    The candidates are tested one after another, from the most cautious on, each at the
    full confidence, until the first fails; the one before it is taken.

    Parameters
    ----------
    n_disagreements : iterable of int
        Number of certification rows on which each candidate disagrees with the full
        ensemble. Read only as far as the first that fails, so a generator need not
        evaluate the bolder ones.
    n_rows : int
        Number of certification rows, the same for all.
    max_disagreement : float
        Bound on the disagreement.
    confidence : float
        Confidence of the statement, above 0 and below 1.

    Returns
    -------
    accepted : Accepted or None
        The last candidate before the first that fails; None if the first one fails
        already. With `max_disagreement` 0 it always does: rows cannot prove that.

    Notes
    -----
    With probability `confidence` at least, over the draw of the certification rows,
    the disagreement of the candidate returned is at most `max_disagreement` (or None
    is returned): to return one that breaks the bound, the *first* of the sequence that
    breaks it must have passed its test, and that single test errs with probability
    ``1 - confidence`` at most. So there is nothing to pay for the number of
    candidates, and they may depend on one another in any way.

    The candidates and their order must be fixed before the certification rows are
    looked at. Going on after a failure, taking the best of all, or moving on to finer
    steps once the result is known invalidates the statement.

    Examples
    --------
    >>> from spinney.calibration.ladder import certify_sequence
    >>> accepted = certify_sequence(
    ...     [0, 1, 9, 2], 10_000, max_disagreement=1e-3, confidence=0.95
    ... )
    >>> accepted.index
    1
    """
    n_rows = check_n_rows("n_rows", n_rows, None)
    confidence = check_confidence(confidence)
    accepted = None
    for index, count in enumerate(n_disagreements):
        upper_bound = clopper_pearson_upper(count, n_rows, confidence)
        if not upper_bound <= max_disagreement:  # a bound of NaN accepts nothing
            break
        certificate = Certificate(
            count / n_rows, float(max_disagreement), n_rows, count, confidence
        )
        accepted = Accepted(index, certificate)
    return accepted


def boldest_proven(
    candidates: Iterable[Candidate],
    answers_of: Callable[[Candidate], NDArray[Any]],
    full: NDArray[Any],
    *,
    max_disagreement: float,
    confidence: float,
    share: float = 1.0,
    n_given: int | None = None,
) -> tuple[Candidate, Certificate] | None:
    """Return the boldest candidate that is proven to keep a bound, or warn and None.

    Parameters
    ----------
    candidates : iterable
        From the most cautious to the boldest, fixed before the rows for certification
        are looked at.
    answers_of : callable
        Returns the answers of a candidate for these rows.
    full : ndarray of shape (n_rows,)
        The answers of the full ensemble.
    max_disagreement, confidence : float
        What is to be proven.
    share : float, default=1.0
        Share of the rows given to `fit` that is usually kept for certification.
    n_given : int, optional
        Number of rows given to `fit`, if `share_to_prove` has shared them out.

    Returns
    -------
    proven : tuple of the candidate and its Certificate, or None
        As `certify_sequence` chooses it.
    """
    tried: list[Candidate] = []
    counts: list[int] = []

    def disagreements() -> Iterator[int]:
        for candidate in candidates:
            tried.append(candidate)
            counts.append(int(np.count_nonzero(answers_of(candidate) != full)))
            yield counts[-1]

    accepted = certify_sequence(
        disagreements(),
        len(full),
        max_disagreement=max_disagreement,
        confidence=confidence,
    )
    if accepted is not None:
        return tried[accepted.index], accepted.certificate
    message = nothing_certified_message(
        counts[0],
        len(full),
        max_disagreement=max_disagreement,
        confidence=confidence,
        share=share,
        n_given=n_given,
    )
    warnings.warn(message, SpinneyWarning, stacklevel=4)
    return None


def nothing_certified_message(
    n_disagreements: int,
    n_rows: int,
    *,
    max_disagreement: float,
    confidence: float,
    share: float = 1.0,
    n_given: int | None = None,
) -> str:
    """Return the words for a warning that even the first candidate was not proven.

    Parameters
    ----------
    n_disagreements, n_rows : int
        What the most cautious candidate did on the certification rows.
    max_disagreement, confidence : float
        What was asked for.
    share : float, default=1.0
        Share of the rows given to `fit` that is usually kept for certification. The
        numbers of rows that the message asks for are those to be given to `fit`.
    n_given : int, optional
        As in `boldest_proven`.
    """
    opening = (
        f"No candidate is proven to disagree on at most {percent(max_disagreement)} "
        f"of new rows with {percent(confidence)} confidence, so all trees are "
        "evaluated. "
    )
    if max_disagreement <= 0.0:
        return opening + (
            "Rows cannot prove that nothing ever differs: leave confidence out, or "
            "allow some disagreement."
        )
    within_reach = clopper_pearson_upper(n_disagreements, n_rows, confidence)
    allowed = rounded_up(within_reach)
    remedy = "Pass more rows"
    if allowed < 1.0:
        remedy += f", or allow a max_disagreement of {allowed:g} or more"
    least = rows_needed(max_disagreement, confidence)
    if n_rows < least:
        in_all = math.ceil(least / share)
        if n_given is not None:
            in_all = min(in_all, least + LEAST_TO_FIT)
        given = math.ceil(n_rows / share) if n_given is None else n_given
        return opening + (
            f"That takes {_rows(least, in_all)} even if none disagrees, and there were "
            f"{_rows(n_rows, given)}. {remedy}."
        )
    rate = n_disagreements / n_rows
    seen = (
        f"The most cautious candidate disagreed on {n_disagreements:,} of {n_rows:,} "
        "rows. "
    )
    if rate >= max_disagreement:
        return f"{opening}{seen}Allow a max_disagreement of {allowed:g} or more."

    def enough(n: int) -> bool:
        bound = clopper_pearson_upper(math.ceil(rate * n), n, confidence)
        return bound <= max_disagreement

    more = first_enough(enough, n_rows)
    return opening + (
        f"{seen}At that rate it takes about {_rows(more, math.ceil(more / share))}. "
        f"{remedy}."
    )


def _rows(n_rows: int, in_all: int) -> str:
    """Return a number of certification rows, and of rows to be given to `fit`."""
    if n_rows == in_all:
        return f"{n_rows:,} rows"
    return f"{n_rows:,} rows for certification ({in_all:,} in all)"


def rungs(
    fit: Callable[[float], Candidate],
    max_disagreement: float,
    levels: Sequence[float],
    widen: Callable[[Candidate, float], Candidate] | None = None,
) -> list[Callable[[], Candidate]]:
    """Return what makes the candidates of a ladder, the most cautious first.

    Each is made only when it is called for. Levels and widenings are fixed, whatever
    the rows say, as the proof demands.

    Parameters
    ----------
    fit : callable
        Makes a candidate that aims at a disagreement.
    max_disagreement : float
        The bound.
    levels : sequence of float
        What part of the bound the candidates aim at, ascending.
    widen : callable, optional
        Makes a candidate more cautious by so many deviations. If given, the candidate
        that aims at no disagreement comes first, moved out by one widening after
        another.
    """

    @cache
    def safe() -> Candidate:
        return fit(0.0)

    made: list[Callable[[], Candidate]] = []
    if widen is not None:
        made += [lambda far=far: widen(safe(), far) for far in WIDENINGS]  # type: ignore[misc]
    return made + [partial(fit, level * max_disagreement) for level in levels]
