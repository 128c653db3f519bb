"""What held-out rows prove about the disagreement of a fitted classifier.

All statements rest on one fact: if a classifier is fixed and rows are then drawn
independently, the number of rows on which it disagrees with its full ensemble is
binomial. `certify` turns that number into a bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import Any

import numpy as np

from spinney.calibration.engine_rows import engine_of
from spinney.errors import InvalidArgumentError
from spinney.forest.frames import as_known_frame


@dataclass(frozen=True, repr=False)
class Certificate:
    """A proven bound on how often a classifier disagrees with its full ensemble.

    Parameters
    ----------
    disagreement : float
        Share of the rows on which the two differ; NaN if there are no rows.
    upper_bound : float
        Bound on the share among all rows of the same kind, at `confidence`.
    n_rows : int
        Rows compared.
    n_disagreements : int
        Rows among them on which the two differ.
    confidence : float
        Probability, over the draw of the rows, that the bound holds.
    by_class : mapping
        A certificate for the rows that the full ensemble assigns to each class, if
        requested; each holds with this confidence on its own.

    See Also
    --------
    spinney.certify : Makes one from a fitted classifier and rows.
    """

    disagreement: float
    upper_bound: float
    n_rows: int
    n_disagreements: int
    confidence: float
    by_class: Mapping[Any, Certificate] = field(default_factory=dict)

    def __repr__(self) -> str:
        if self.n_rows == 0:
            return "<Certificate: there were no rows, so nothing is known.>"
        bound = rounded_up(self.upper_bound)
        return (
            f"<Certificate: {self.n_disagreements:,} of {self.n_rows:,} rows "
            f"({percent(self.disagreement)}) disagreed with the full ensemble; of new "
            f"rows of the same kind at most {percent(bound)} do, with "
            f"{percent(self.confidence)} confidence{self._words_by_class()}.>"
        )

    def _words_by_class(self) -> str:
        """Return the same for each class, in brief."""
        told = [
            f"{label!r} {one.n_disagreements:,} of {one.n_rows:,}, at most "
            f"{percent(rounded_up(one.upper_bound))}"
            for label, one in self.by_class.items()
        ]
        return f"; by class: {'; '.join(told)}" if told else ""


def certify(
    classifier: Any, X: Any, *, confidence: float = 0.95, per_class: bool = False
) -> Certificate:
    """Bound how often a fitted classifier disagrees with its full ensemble.

    Both predict every row of `X`, and the share of rows on which they differ gets an
    exact binomial bound.

    Parameters
    ----------
    classifier : fitted classifier of spinney
        It is compared with the predictions of the trained model itself, even if its
        `voting` differs from the model's. (Any object with ``predict(X)`` and
        ``predict_full(X)``, the labels of all trees together, is accepted.)
    X : array-like of shape (n_rows, n_features)
        Held-out rows, used neither to train the model nor in `fit`. No labels are
        needed. For Dask or Spark, disagreements are counted on the workers, over all
        rows.
    confidence : float, default=0.95
        Confidence of the bound, above 0 and below 1.
    per_class : bool, default=False
        Whether to bound the disagreement for the rows of each class as well, as
        predicted by the full ensemble: ``certificate.by_class[label]``.

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
    against the true labels) among all rows of the distribution that `X` was drawn
    from. It is an average over rows; it does not hold for each single row. The
    classifier is taken as it is, with the order of trees that its `fit` has drawn.

    Over which randomness: the draw of `X`. With probability `confidence` or more, `X`
    is drawn such that the bound holds (one-sided Clopper-Pearson bound [1]_, which is
    exact for any number of rows).

    Each bound on a class has the same confidence on its own. For all K classes to hold
    together, pass a confidence of ``1 - (1 - confidence) / K``.

    What would invalidate it: rows to which the classifier was fitted or on which its
    settings were chosen; dependent rows (duplicates, several rows of one person); new
    rows of another distribution (drift); certifying several classifiers on the same
    rows and keeping the best, or repeating it with more rows until the bound is good
    enough.

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
    if not isinstance(per_class, (bool, np.bool_)):
        msg = f"per_class must be True or False, got {per_class!r}."
        raise InvalidArgumentError(msg)
    for method in ("predict", "predict_full"):
        if not callable(getattr(classifier, method, None)):
            msg = (
                "classifier must be a fitted classifier of spinney, with predict and "
                f"predict_full, got {type(classifier).__name__} without {method}. "
                "Wrap the model first, spinney.SequentialVotingClassifier("
                "FrozenEstimator(model)) for example."
            )
            raise InvalidArgumentError(msg)
    engine = engine_of(X)
    if engine is not None:
        counts = engine.count_disagreements(classifier, X)
        certificate = _certificate(
            int(counts[:, 1].sum()), int(counts[:, 0].sum()), confidence
        )
        if not per_class:
            return certificate
        return _with_classes(certificate, classifier.classes_, counts)
    # Here and not above: importing spinney imports this module, and not scikit-learn.
    from sklearn.utils.validation import _num_samples

    X = as_known_frame(X)
    quick = full = np.zeros(0)
    if _num_samples(X):
        quick = np.asarray(classifier.predict(X))
        own = getattr(classifier, "predict_model", classifier.predict_full)
        full = np.asarray(own(X))
    differs = quick != full
    certificate = _certificate(int(np.count_nonzero(differs)), len(full), confidence)
    if not per_class:
        return certificate
    labels = getattr(classifier, "classes_", np.unique(full))
    counts = [
        (np.count_nonzero(full == label), np.count_nonzero(differs[full == label]))
        for label in labels
    ]
    return _with_classes(certificate, labels, counts)


def _with_classes(certificate: Certificate, labels: Any, counts: Any) -> Certificate:
    """Add a certificate for each class, from its numbers of rows and disagreements."""
    by_class = {
        label.item() if isinstance(label, np.generic) else label: _certificate(
            int(n_disagreements), int(n_rows), certificate.confidence
        )
        for label, (n_rows, n_disagreements) in zip(labels, counts, strict=True)
    }
    return replace(certificate, by_class=by_class)


def clopper_pearson_upper(n_events: int, n_rows: int, confidence: float) -> float:
    """Return the exact upper confidence bound on the probability of an event.

    Parameters
    ----------
    n_events : int
        How often the event occurred, from 0 to `n_rows`.
    n_rows : int
        Number of independent rows. With 0 the bound is 1.
    confidence : float
        Confidence of the bound, above 0 and below 1.

    Returns
    -------
    upper_bound : float
        The largest probability of the event for which so few events occur with a
        probability of ``1 - confidence``; 1 if the event occurred on every row.
    """
    n_rows = check_n_rows("n_rows", n_rows, None)
    n_events = check_n_rows("n_events", n_events, n_rows)
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
    n_events = check_n_rows("n_events", n_events, None)

    def enough(n_rows: int) -> bool:
        return clopper_pearson_upper(n_events, n_rows, confidence) <= number

    return first_enough(enough, n_events + 1)


def check_confidence(confidence: Any, name: str = "confidence") -> float:
    """Return the confidence as a float, or raise."""
    number = _as_float(confidence)
    if not 0.0 < number < 1.0:
        msg = (
            f"{name} must be above 0 and below 1, got {confidence!r}. It is a "
            "probability: write 0.95 for 95 %."
        )
        raise InvalidArgumentError(msg)
    return number


def check_max_disagreement(
    max_disagreement: Any, name: str = "max_disagreement"
) -> float:
    """Return the bound on the disagreement as a float, or raise."""
    number = _as_float(max_disagreement)
    if not 0.0 <= number < 1.0:
        msg = (
            f"{name} must be in [0, 1), got {max_disagreement!r}. It is a share of the "
            "rows: write 0.005 for five rows in a thousand."
        )
        raise InvalidArgumentError(msg)
    return number


def check_max_accuracy_loss(max_accuracy_loss: Any) -> float:
    """Return the bound on the loss of accuracy as a float, or raise."""
    return check_max_disagreement(max_accuracy_loss, "max_accuracy_loss")


def _as_float(value: Any) -> float:
    """Return a real number as a float, and NaN for anything else."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return math.nan
    return float(value)


def _certificate(n_events: int, n_rows: int, confidence: float) -> Certificate:
    upper_bound = clopper_pearson_upper(n_events, n_rows, confidence)
    rate = n_events / n_rows if n_rows else math.nan
    return Certificate(rate, upper_bound, n_rows, n_events, confidence)


def check_n_rows(name: str, value: Any, most: int | None) -> int:
    """Return a number of rows as an int, or raise.

    Parameters
    ----------
    name : str
        What the caller calls it.
    value : int
        What was passed.
    most : int or None
        The largest number allowed, if there is one.
    """
    wanted = "an integer, 0 or more" if most is None else f"an integer from 0 to {most}"
    is_integer = isinstance(value, Integral) and not isinstance(value, bool)
    number = int(value) if is_integer else -1
    if number < 0 or (most is not None and number > most):
        msg = f"{name} must be {wanted}, got {value!r}. It is a number of rows."
        raise InvalidArgumentError(msg)
    return number


def first_enough(enough: Callable[[int], bool], start: int) -> int:
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


def rounded_up(bound: float) -> float:
    """Return the least number of three digits that is no smaller than `bound`."""
    rounded = float(f"{bound:.3g}")
    if rounded < bound:
        rounded = float(f"{bound + 10.0 ** (math.floor(math.log10(bound)) - 2):.3g}")
    return rounded


def percent(share: float) -> str:
    """Return a share in percent, with three significant digits."""
    return f"{float(f'{100.0 * share:.3g}'):g} %"
