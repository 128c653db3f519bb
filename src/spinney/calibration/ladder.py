"""The most aggressive candidate that rows prove to keep a bound.

Candidates are fixed beforehand, from the most conservative to the most aggressive, and
tested one after another on rows that played no part in making them, until the first
fails.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from spinney.calibration.bounds import (
    Certificate,
    check_confidence,
    check_n_rows,
    clopper_pearson_upper,
    percent,
    rounded_up,
    rows_needed,
)
from spinney.calibration.limits import Limits, plain
from spinney.calibration.promise import Promise
from spinney.calibration.risk_control import rows_to_control
from spinney.calibration.row_splits import LEAST_OF_CLASS, LEAST_TO_FIT
from spinney.errors import SpinneyWarning

Candidate = TypeVar("Candidate")

# Classes that a warning names.
MOST_NAMED = 5

# How far the most conservative candidates are moved out, in deviations.
WIDENINGS = (3.0, 2.0, 1.5, 1.0, 0.7, 0.5, 0.35, 0.25, 0.15, 0.1, 0.05)
# A disagreement of 1 is no bound.
MOST_AIMED_AT = 0.999
# What part of the bound candidates aim at: rules whose most conservative candidates are
# widened, and votes in random order. They go beyond the bound, since in the order drawn
# fewer predictions may differ than a candidate aims at.
LEVELS_OF_RULES = tuple(0.05 * k for k in range(31))
LEVELS_OF_VOTES = (0.01, 0.02, 0.03, *(0.05 * k for k in range(1, 31)), 1.75, 2.0)


@dataclass(frozen=True)
class Accepted:
    """The candidate that a fixed sequence of tests has led to.

    Parameters
    ----------
    index : int
        Its index in the sequence.
    certificate : Certificate
        What is proven about it. The bound is the requested one: a tighter one, from its
        own count, would not hold after the choice.
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
    """Return the most aggressive candidate that is proven to keep a bound.

    The candidates are tested one after another, from the most conservative on, each at
    the full confidence, until the first fails; the one before it is taken.

    Parameters
    ----------
    n_disagreements : iterable of int
        Number of certification rows on which each candidate disagrees with the full
        ensemble. Read only as far as the first that fails, so a generator need not
        evaluate the more aggressive ones.
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
    is returned). A candidate that breaks the bound can only be returned if the *first*
    such candidate of the sequence has passed its test, and that single test errs with
    probability ``1 - confidence`` at most. So the number of candidates needs no
    correction, and they may depend on one another in any way.

    The candidates and their order must be fixed before the certification rows are
    used. The statement does not hold if testing continues after a failure, if the best
    of all candidates is taken, or if finer steps are added once the result is known.

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


def boldest_kept(
    candidates: Iterable[Candidate],
    answers_of: Callable[[Candidate], NDArray[np.intp]],
    full: NDArray[np.intp],
    limits: Limits,
    true: NDArray[np.intp] | None = None,
) -> tuple[Candidate, Promise] | None:
    """Return the most aggressive candidate that keeps all bounds, if any does.

    Candidates are tested one after another, until the first fails one of the tests.

    Parameters
    ----------
    candidates : iterable
        From the most conservative to the most aggressive, fixed before the rows are
        looked at.
    answers_of : callable
        Returns the predictions of a candidate, as class indices, for rows that played
        no part in making it.
    full : ndarray of shape (n_rows,)
        The predictions of the full ensemble.
    limits : Limits
        The bounds.
    true : ndarray of shape (n_rows,), optional
        True classes, needed for a bound on the loss of accuracy.

    Returns
    -------
    kept : tuple of the candidate and a Promise, or None
        With one bound on all rows as `control_risk` chooses it, or, with a confidence,
        `certify_sequence`.
    """
    tests = limits.tests(full, true)
    kept = None
    for candidate in candidates:
        answers = np.asarray(answers_of(candidate))
        if not all(test.passes(answers) for test in tests):
            break
        kept = candidate, answers
    if kept is None:
        return None
    return kept[0], limits.promise(full, kept[1], true)


def certificate_of(promise: Promise) -> Certificate | None:
    """Return a promise with confidence as a certificate, and None for others.

    Parameters
    ----------
    promise : Promise
        The promise. The bound is the requested one: a tighter one, from the count of
        the candidate taken, would not hold after the choice. There is none without a
        bound on the disagreement.
    """
    bound, confidence = promise.max_disagreement, promise.confidence
    if promise.kind != "confidence" or bound is None:
        return None
    assert confidence is not None

    def proven(n_events: int, n_rows: int, bound: float) -> Certificate:
        share = n_events / n_rows if n_rows else math.nan
        return Certificate(share, bound, n_rows, n_events, confidence)

    return replace(
        proven(promise.n_disagreements, promise.n_rows, bound),
        by_class={
            one.label: proven(one.n_disagreements, one.n_rows, one.max_disagreement)
            for one in promise.by_class
        },
    )


def rows_to_promise(max_disagreement: float, confidence: float | None) -> int:
    """Return the fewest calibration rows with which a bound can be promised.

    Parameters
    ----------
    max_disagreement : float
        The bound; with 0 no rows are needed, as nothing is left to chance.
    confidence : float or None
        The probability with which it is to hold; None for on average.
    """
    if max_disagreement == 0.0:
        return 0
    if confidence is None:
        return rows_to_control(max_disagreement)
    return rows_needed(max_disagreement, confidence)


def warn_of_certain_exits(
    limits: Limits,
    full: NDArray[np.intp],
    given: NDArray[np.int64],
    *,
    share: float,
    fallback: str,
    stacklevel: int,
) -> None:
    """Warn that no candidate keeps all bounds, and say what would help.

    Parameters
    ----------
    limits : Limits
        The bounds.
    full : ndarray of shape (n_rows,)
        Class indices, by the full ensemble, of calibration rows that were kept for the
        promise.
    given : ndarray of shape (n_classes,)
        How many rows of each class were given; of one length if that is not known.
    share : float
        Share of the rows that is usually kept for the promise.
    fallback : str
        What is done instead, as the end of a sentence.
    stacklevel : int
        As in `warnings.warn`, counted from the caller.
    """
    n_rows, n_given, confidence = len(full), int(given.sum()), limits.confidence
    how = (
        "on average" if confidence is None else f"with {percent(confidence)} confidence"
    )
    what, setting = _what(limits)
    msg = f"{what} on new rows, {how}, could not be established, so {fallback}"
    least = limits.n_to_prove
    counts = np.bincount(full, minlength=len(limits.classes))
    few = np.flatnonzero(counts < limits.n_to_prove_by_class)
    if n_rows < least:
        msg += (
            f". That needs {least:,} held-out calibration rows, "
            f"{least + LEAST_TO_FIT:,} rows in all, but X has {n_given:,}. Pass more "
            f"rows ({math.ceil(3 * least / share):,} or more work well), or a larger "
            f"{setting}"
        )
        at_best = _bound_in_reach(n_given - LEAST_TO_FIT, confidence)
        msg += f": {at_best:g} or more." if at_best < 1.0 else "."
    elif len(few):
        msg += f". {_few_of_classes(limits, few, given, share)}"
    else:
        msg += (
            f": on {n_rows:,} calibration rows even the most conservative candidate "
            f"differed too often. Pass more rows, or a larger {setting}."
        )
    warnings.warn(msg, SpinneyWarning, stacklevel=stacklevel + 1)


def _what(limits: Limits) -> tuple[str, str]:
    """Return the request in words, and the setting that loosens it."""
    words, setting = [], "max_disagreement"
    if limits.overall is not None:
        words.append(f"a disagreement of at most {percent(limits.overall)}")
    if limits.by_class is not None:
        low, high = float(limits.by_class.min()), float(limits.by_class.max())
        most = percent(low) if low == high else f"{percent(low)} to {percent(high)}"
        words.append(f"a disagreement of at most {most} of the rows of each class")
    if limits.accuracy_loss is not None:
        words.append(f"a loss of accuracy of at most {percent(limits.accuracy_loss)}")
        setting = "max_accuracy_loss"
    said = " and ".join(words)
    return said[:1].upper() + said[1:], setting


def _few_of_classes(
    limits: Limits,
    few: NDArray[np.intp],
    given: NDArray[np.int64],
    share: float,
) -> str:
    """Return of which classes there are too few rows, and what would help."""
    needed = limits.n_to_prove_by_class
    told = [
        f"{plain(limits.classes[c])!r} needs {needed[c]:,} held-out rows, "
        f"{needed[c] + LEAST_OF_CLASS:,} in all, but the model assigns {given[c]:,} "
        "of X to it"
        for c in few[:MOST_NAMED].tolist()
    ]
    if len(few) > MOST_NAMED:
        told.append(f"{len(few) - MOST_NAMED} more classes have too few")
    worst = int(few[np.argmax(needed[few] / np.maximum(given[few], 0.5))])
    factor = math.ceil(3 * needed[worst] / share / max(int(given[worst]), 1))
    return (
        f"A bound for each class needs rows of each class: {'; '.join(told)}. Pass "
        f"more rows ({factor:,} times as many work well), or larger bounds for these "
        "classes."
    )


def _bound_in_reach(n_rows: int, confidence: float | None) -> float:
    """Return the least bound that so many rows can establish, rounded up."""
    if n_rows < 1:
        return 1.0
    if confidence is None:
        return rounded_up(1.0 / (n_rows + 1))
    return rounded_up(clopper_pearson_upper(0, n_rows, confidence))


def rungs(
    fit: Callable[[float], Candidate],
    max_disagreement: float,
    levels: Sequence[float],
    widen: Callable[[Candidate, float], Candidate] | None = None,
) -> list[Callable[[], Candidate]]:
    """Return what makes the candidates of a ladder, the most conservative first.

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
        Makes a candidate more conservative by so many deviations. If given, the
        candidate that aims at no disagreement comes first, moved out by one widening
        after another.
    """

    @cache
    def safe() -> Candidate:
        return fit(0.0)

    made: list[Callable[[], Candidate]] = []
    if widen is not None:
        made += [lambda far=far: widen(safe(), far) for far in WIDENINGS]  # type: ignore[misc]
    # Levels beyond the bound may aim at more than there is.
    aims = [min(level * max_disagreement, MOST_AIMED_AT) for level in levels]
    return made + [partial(fit, aim) for aim in aims]
