"""What held-out rows prove about the disagreement of a fitted classifier.

All statements rest on one fact: if a classifier is fixed and rows are then drawn
independently, the number of rows on which it disagrees with its full ensemble is
binomial. `certify` turns that number into a bound, `certify_sequence` picks among
candidates without spoiling it, and `split_rows` keeps the rows apart.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from spinney.errors import InvalidArgumentError, SpinneyWarning

Candidate = TypeVar("Candidate")

# Fewer rows than this tell nothing about thresholds.
LEAST_TO_FIT = 50


@dataclass(frozen=True, repr=False)
class Certificate:
    """How often a classifier disagrees with its full ensemble, as far as is proven.

    Parameters
    ----------
    disagreement : float
        Share of the rows on which the two differed; NaN if there were no rows.
    upper_bound : float
        Bound on the share among all rows of the same kind, at `confidence`.
    n_rows : int
        Rows looked at.
    n_disagreements : int
        Rows among them on which the two differed.
    confidence : float
        Probability with which rows drawn at random lead to a bound that holds.

    See Also
    --------
    spinney.certify : Makes one from a fitted classifier and rows.
    """

    disagreement: float
    upper_bound: float
    n_rows: int
    n_disagreements: int
    confidence: float

    def __repr__(self) -> str:
        if self.n_rows == 0:
            return "<Certificate: there were no rows, so nothing is known.>"
        bound = _rounded_up(self.upper_bound)
        return (
            f"<Certificate: {self.n_disagreements:,} of {self.n_rows:,} rows "
            f"({_percent(self.disagreement)}) disagreed with the full ensemble; of new "
            f"rows of the same kind at most {_percent(bound)} do, with "
            f"{_percent(self.confidence)} confidence.>"
        )


def certify(classifier: Any, X: Any, *, confidence: float = 0.95) -> Certificate:
    """Bound how often a fitted classifier disagrees with its full ensemble.

    Both are asked for every row of `X`, and an exact binomial bound is put on the share
    of rows on which they differ.

    Parameters
    ----------
    classifier : fitted classifier of spinney
        It is measured against the answers of the trained model itself, also if its
        `voting` names another way of counting. (Any object will do that has
        ``predict(X)`` and ``predict_full(X)``, the labels of all trees together.)
    X : array-like of shape (n_rows, n_features)
        Rows that played no part in making the classifier: neither in training the
        model nor in `fit`. No labels are needed.
    confidence : float, default=0.95
        Confidence of the bound, above 0 and below 1.

    Returns
    -------
    certificate : Certificate
        The observed disagreement and the upper bound on it. Without rows the bound
        is 1.

    Raises
    ------
    ValueError
        If `confidence` is outside its range, or `classifier` lacks a method; the same
        error is a TypeError too.

    Notes
    -----
    A bound on what: on the share of disagreements with the model (not of errors
    against the truth) among all rows of the distribution that `X` was drawn from. It
    is an average over rows; single rows may be more doubtful. The classifier is taken
    as it is, with the order of trees that its `fit` has drawn.

    Over which randomness: the draw of `X`. With probability `confidence` at least, `X`
    comes out so that the bound holds (one-sided Clopper-Pearson bound [1]_, never less
    whatever the number of rows).

    What would invalidate it: rows that the classifier was fitted or its settings were
    chosen on; rows that depend on one another (copies, several rows of one person);
    new rows of another distribution (drift); certifying several classifiers on the
    same rows and keeping the best, or repeating it with more rows until the bound
    pleases.

    References
    ----------
    .. [1] C. J. Clopper and E. S. Pearson, "The use of confidence or fiducial limits
       illustrated in the case of the binomial", Biometrika 26(4), 404-413, 1934.

    Examples
    --------
    >>> from spinney.calibration.bounds import clopper_pearson_upper
    >>> round(clopper_pearson_upper(8, 10_000, 0.95), 6)
    0.001443
    """
    confidence = check_confidence(confidence)
    for method in ("predict", "predict_full"):
        if not callable(getattr(classifier, method, None)):
            msg = (
                "classifier must be a fitted classifier of spinney, with predict and "
                f"predict_full, got {type(classifier).__name__} without {method}. "
                "Wrap the model first, spinney.SequentialVotingClassifier("
                "FrozenEstimator(model)) for example."
            )
            raise InvalidArgumentError(msg)
    quick = np.asarray(classifier.predict(X))
    own = getattr(classifier, "_model_answers", classifier.predict_full)
    full = np.asarray(own(X))
    return _certificate(int(np.count_nonzero(quick != full)), len(full), confidence)


def clopper_pearson_upper(n_events: int, n_rows: int, confidence: float) -> float:
    """Return the exact upper confidence bound on the probability of an event.

    Parameters
    ----------
    n_events : int
        How often the event was seen, from 0 to `n_rows`.
    n_rows : int
        Number of independent rows. With 0 the bound is 1.
    confidence : float
        Confidence of the bound, above 0 and below 1.

    Returns
    -------
    upper_bound : float
        The largest probability at which so few events still have a chance of
        ``1 - confidence``; 1 if the event was seen on every row.
    """
    n_rows = _check_count("n_rows", n_rows, None)
    n_events = _check_count("n_events", n_events, n_rows)
    confidence = check_confidence(confidence)
    if n_events == n_rows:
        return 1.0
    if n_events == 0:
        return -math.expm1(math.log1p(-confidence) / n_rows)
    from scipy.special import betaincinv

    return float(betaincinv(n_events + 1.0, n_rows - n_events, confidence))


def rows_needed(max_disagreement: float, confidence: float, n_events: int = 0) -> int:
    """Return the fewest rows on which a bound on the disagreement can be proven.

    Parameters
    ----------
    max_disagreement : float
        Bound to be proven, above 0 and below 1.
    confidence : float
        Confidence of the bound, above 0 and below 1.
    n_events : int, default=0
        Rows that disagree.

    Returns
    -------
    n_rows : int
        The least number for which the upper bound is at most `max_disagreement`.
    """
    number = _as_float(max_disagreement)
    if not 0.0 < number < 1.0:
        msg = (
            "max_disagreement must be above 0 and below 1 to be proven on rows, got "
            f"{max_disagreement!r}. No number of rows proves that nothing ever differs."
        )
        raise InvalidArgumentError(msg)
    n_events = _check_count("n_events", n_events, None)

    def enough(n_rows: int) -> bool:
        return clopper_pearson_upper(n_events, n_rows, confidence) <= number

    return _first(enough, n_events + 1)


@dataclass(frozen=True)
class Accepted:
    """The candidate that a fixed sequence of tests has led to.

    Parameters
    ----------
    index : int
        Its place in the sequence.
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
        ensemble. Read only as far as the first that fails, so a generator saves asking
        the bolder ones.
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
    >>> from spinney.calibration.bounds import certify_sequence
    >>> accepted = certify_sequence(
    ...     [0, 1, 9, 2], 10_000, max_disagreement=1e-3, confidence=0.95
    ... )
    >>> accepted.index
    1
    """
    n_rows = _check_count("n_rows", n_rows, None)
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


def share_to_prove(
    n_rows: int, usual: float, max_disagreement: float, confidence: float
) -> float:
    """Return the share of some rows that is best kept for certification.

    With few rows the usual share is too few to prove anything, whatever they say. As
    many as a proof takes are then kept, if enough are left to fit something to.

    Parameters
    ----------
    n_rows : int
        Number of rows to be shared out.
    usual : float
        The share with many rows, above 0 and below 1.
    max_disagreement : float
        Bound to be proven, 0 or more and below 1.
    confidence : float
        Confidence of the bound.

    Returns
    -------
    share : float
        `usual`, or a larger one.
    """
    if max_disagreement <= 0.0:
        return usual
    least = rows_needed(max_disagreement, confidence)
    if usual * n_rows < least <= n_rows - LEAST_TO_FIT:
        return least / n_rows
    return usual


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
        f"No candidate is proven to disagree on at most {_percent(max_disagreement)} "
        f"of new rows with {_percent(confidence)} confidence, so all trees are asked. "
    )
    if max_disagreement <= 0.0:
        return opening + (
            "Rows cannot prove that nothing ever differs: leave confidence out, or "
            "allow some disagreement."
        )
    within_reach = clopper_pearson_upper(n_disagreements, n_rows, confidence)
    allowed = _rounded_up(within_reach)
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

    more = _first(enough, n_rows)
    return opening + (
        f"{seen}At that rate it takes about {_rows(more, math.ceil(more / share))}. "
        f"{remedy}."
    )


def split_rows(
    n_rows: int, shares: Sequence[float], random_state: Any = None
) -> tuple[NDArray[np.intp], ...]:
    """Return row numbers for parts that have no row in common.

    A classifier with a proven bound needs rows to choose the order of its trees, others
    to fit its thresholds, and others again to prove the bound on.

    Parameters
    ----------
    n_rows : int
        Number of rows to be parted.
    shares : sequence of float
        Size of each part relative to the others, above 0.
    random_state : int, RandomState instance or None, default=None
        Draws which row comes where. Pass an int for the same parts on every call.

    Returns
    -------
    parts : tuple of ndarray
        Increasing row numbers of each part; every row is in exactly one. Each part has
        at least one row as long as there are as many rows as parts.

    Notes
    -----
    There is no way here to use the same row for fitting and, in turn, for proving.
    The counts of a cross-validation belong to several classifiers, none of which is the
    one in use, and they depend on one another, so their sum is not binomial. What can
    be proven without further assumptions (a bound for each fold, at a confidence that
    pays for all of them) is weaker than the bound from a single split. Before the
    rows for certification are touched everything is allowed, cross-fitting included.
    """
    from sklearn.utils import check_random_state

    n_rows = _check_count("n_rows", n_rows, None)
    sizes = np.asarray(shares, dtype=np.float64)
    if sizes.ndim != 1 or not (np.isfinite(sizes) & (sizes > 0.0)).all():
        msg = (
            f"shares must be positive numbers, one per part, got {shares!r}. "
            "Write (1, 1, 2) for two quarters and a half."
        )
        raise InvalidArgumentError(msg)
    ends = np.rint(np.cumsum(sizes) / sizes.sum() * n_rows).astype(np.intp)
    if n_rows >= len(sizes):
        # No part is left empty by rounding: each ends at least one row after the last,
        # and leaves at least one for each of those that follow.
        places = np.arange(len(sizes))
        ends = np.maximum.accumulate(np.maximum(ends - places, 1)) + places
        ends = np.minimum(ends, n_rows - places[::-1])
    order = check_random_state(random_state).permutation(n_rows)
    return tuple(np.sort(part) for part in np.split(order, ends[:-1]))


def check_confidence(confidence: Any) -> float:
    """Return the confidence as a float, or raise."""
    number = _as_float(confidence)
    if not 0.0 < number < 1.0:
        msg = (
            f"confidence must be above 0 and below 1, got {confidence!r}. It is a "
            "probability: write 0.95 for 95 %."
        )
        raise InvalidArgumentError(msg)
    return number


def _as_float(value: Any) -> float:
    """Return a real number as a float, and NaN for anything else."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return math.nan
    return float(value)


def _certificate(n_events: int, n_rows: int, confidence: float) -> Certificate:
    upper_bound = clopper_pearson_upper(n_events, n_rows, confidence)
    rate = n_events / n_rows if n_rows else math.nan
    return Certificate(rate, upper_bound, n_rows, n_events, confidence)


def _check_count(name: str, value: Any, most: int | None) -> int:
    wanted = "an integer, 0 or more" if most is None else f"an integer from 0 to {most}"
    is_integer = isinstance(value, Integral) and not isinstance(value, bool)
    number = int(value) if is_integer else -1
    if number < 0 or (most is not None and number > most):
        msg = f"{name} must be {wanted}, got {value!r}. It is a number of rows."
        raise InvalidArgumentError(msg)
    return number


def _first(enough: Callable[[int], bool], start: int) -> int:
    """Return the first number from `start` on that is enough, by doubling steps."""
    low, step = start, 1
    if enough(low):
        return low
    while not enough(low + step):
        low, step = low + step, 2 * step
    high = low + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _rounded_up(bound: float) -> float:
    """Return the least number of three digits that is no smaller than `bound`."""
    rounded = float(f"{bound:.3g}")
    if rounded < bound:
        rounded = float(f"{bound + 10.0 ** (math.floor(math.log10(bound)) - 2):.3g}")
    return rounded


def _percent(share: float) -> str:
    """Return a share in percent, with three significant digits."""
    return f"{float(f'{100.0 * share:.3g}'):g} %"


def _rows(n_rows: int, in_all: int) -> str:
    """Return a number of certification rows, and of rows to be given to `fit`."""
    if n_rows == in_all:
        return f"{n_rows:,} rows"
    return f"{n_rows:,} rows for certification ({in_all:,} in all)"
