"""Numbers of classifiers that exit early, and of those that evaluate all trees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.base.progress import say_nothing
from spinney.calibration.bounds import clopper_pearson_upper
from spinney.calibration.class_changes import class_changes
from spinney.calibration.limits import largest_bound
from spinney.calibration.risk_control import n_allowed
from spinney.report.classifiers import (
    Thresholds,
    is_hard,
    thresholds,
)
from spinney.report.histograms import of_counts, of_numbers
from spinney.report.probabilities import collect_probabilities
from spinney.report.sweep import Answers, sweep_levels
from spinney.report.timing import measure_times

# Confidence of what the given rows would prove.
CONFIDENCE = 0.95
# Shares of the rows for which the number of trees is listed.
SHARES_DONE = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)

# Shares of the work, for a progress bar, before and after other bounds are tried.
MEASURED, SWEPT = 0.2, 0.98

# Name of the method where classes are dropped.
DROPPED = "classes that are far behind are dropped"


def collect_stopping(
    classifier: Any,
    X: Any,
    y: NDArray[Any] | None,
    *,
    show: Callable[[float], None] = say_nothing,
) -> dict[str, Any]:
    """Return the results of early exit on rows, and at other bounds.

    Parameters
    ----------
    classifier : fitted classifier of spinney
        With `predict_counted`.
    X : array-like of shape (n_rows, n_features)
        Rows.
    y : ndarray of shape (n_rows,) or None
        True labels.
    show : callable, optional
        Called with the share of the work that is done.
    """
    labels, n_evaluated = classifier.predict_counted(X)
    own = classifier.predict_model(X)
    n_trees = len(classifier.order_)
    n_rows = len(labels)
    differing = int(np.count_nonzero(labels != own))
    reference = classifier.predict_full(X)
    certificate = getattr(classifier, "certificate_", None)
    promise = getattr(classifier, "promise_", None)
    acceleration = getattr(classifier, "acceleration_", None)
    distribution = _distribution(classifier, X)
    show(MEASURED)
    return {
        "kind": _kind(classifier),
        "method": _method(classifier),
        "settings": {
            "max_disagreement": (
                largest_bound(classifier.max_disagreement)
                if promise is None or promise.accuracy is None
                else promise.max_disagreement
            ),
            "max_accuracy_loss": (
                promise.accuracy.max_accuracy_loss
                if promise is not None and promise.accuracy is not None
                else None
            ),
            "decision_threshold": classifier.decision_threshold,
            "confidence": getattr(classifier, "confidence", None),
        },
        "trees": {
            "mean": n_evaluated.mean(),
            "median": np.median(n_evaluated),
            "percentile_95": _enough_for(n_evaluated, 0.95),
            "share": n_evaluated.mean() / n_trees,
            "done": _done(n_evaluated),
            "histogram": of_counts(
                n_evaluated, n_trees, min(1, int(n_evaluated.min()))
            ),
        },
        "disagreement": {
            "n_disagreements": differing,
            "share": differing / n_rows,
            "with_reference": np.mean(labels != reference),
            "reference_with_model": np.mean(reference != own),
            "upper_bound_if_fresh": clopper_pearson_upper(
                differing, n_rows, CONFIDENCE
            ),
            # How likely that many are by chance, at most, if the promise holds.
            "chance_of_so_many": _chance(differing, n_rows, promise),
        },
        "error": None
        if y is None
        else {"early": np.mean(labels != y), "full": np.mean(own != y)},
        "probabilities": None
        if _kind(classifier) == "all trees"
        else collect_probabilities(classifier, X, y),
        "microseconds": measure_times(classifier, X),
        "certificate": None if certificate is None else asdict(certificate),
        "promise": None if promise is None else promise.to_dict(),
        "classes": [
            asdict(one) for one in class_changes(classifier.classes_, own, labels)
        ],
        "distribution": distribution,
        "stopping": _stopping(classifier, distribution["border"]),
        "sweep": sweep_levels(
            classifier,
            X,
            Answers(labels, n_evaluated, own, y),
            lambda share: show(MEASURED + (SWEPT - MEASURED) * share),
        ),
        "acceleration": None if acceleration is None else acceleration.to_dict(),
    }


def _chance(n_differing: int, n_rows: int, promise: Any) -> float | None:
    """Return the probability of at least this many events where the promise holds.

    A bound with confidence is on the share of all new rows that differ, so the number
    among some is binomial at most. A bound on average leaves room for the draw of the
    calibration rows: the rule is the boldest at which at most k of n of them differ. A
    row begins to differ somewhere along the ladder, and new rows begin before the one
    of rank k + 1 among the calibration rows with a beta-binomial number. Promises over
    the order of the trees are not about rows.
    """
    if promise is None or not promise.max_disagreement or promise.by_class:
        return None
    from scipy.stats import betabinom, binom

    bound, n_calibration = promise.max_disagreement, promise.n_rows
    if promise.kind == "expected":
        rank = n_allowed(n_calibration, bound) + 1
        if rank < 1:
            return None
        others = n_calibration + 1 - rank
        return float(betabinom.sf(n_differing - 1, n_rows, rank, others))
    if promise.kind in ("each row", "votes"):
        return None
    return float(binom.sf(n_differing - 1, n_rows, bound))


def _enough_for(n_evaluated: NDArray[np.int32], share: float) -> int:
    """Return the number of trees that this share of the rows does not exceed."""
    return int(np.quantile(n_evaluated, share, method="inverted_cdf"))


def _done(n_evaluated: NDArray[np.int32]) -> list[dict[str, Any]]:
    """Return how many trees suffice for given shares of the rows."""
    return [
        {"share": share, "trees": _enough_for(n_evaluated, share)}
        for share in SHARES_DONE
    ]


def _kind(classifier: Any) -> str:
    """Return the kind of a classifier, by what sets it apart."""
    if hasattr(classifier, "voting_"):
        return "sequential"
    return "cascade" if hasattr(classifier, "rule") else "all trees"


def _method(classifier: Any) -> str:
    """Return how rows are decided, in a few words."""
    kind = _kind(classifier)
    if kind == "sequential":
        return f"{classifier.voting_} votes in random order"
    if kind == "cascade" and classifier.leads_ is not None:
        return f"scores added up, {DROPPED}"
    if kind == "cascade":
        return f"scores added up, rule {classifier.rule!r}"
    return "all trees, always"


def _distribution(classifier: Any, X: Any) -> dict[str, Any]:
    """Return the distribution of rows around the decision threshold of all trees."""
    hard = is_hard(classifier)
    sums, threshold = classifier.full_sums(X)
    what = "votes" if hard else "score"
    if sums.shape[1] > 1:
        ordered = np.sort(sums, axis=1)
        sums = (ordered[:, -1] - ordered[:, -2])[:, None]
        what = "lead in votes" if hard else "lead"
        threshold = 0.0
    numbers = sums[:, 0]
    histogram = (
        of_counts(np.rint(numbers), len(classifier.order_))
        if hard
        else of_numbers(numbers)
    )
    return {"what": what, "border": threshold, "histogram": histogram}


def _stopping(classifier: Any, border: float | None) -> dict[str, Any] | None:
    """Return between which numbers a row stays, at each exit point."""
    found = thresholds(classifier)
    if found is None:
        return None
    return {
        "what": found.what,
        "steps": found.exit_points,
        "lower": found.lower,
        "upper": found.upper,
        "margin": found.margin,
        "border": border if found.what == "score" else 0.0,
        "all_done_after": _all_done_after(found),
    }


def _all_done_after(found: Thresholds) -> int | None:
    """Return the first exit point after which no row stays, None if there is none."""
    if found.margin is not None:
        everybody = found.margin == -np.inf
    else:
        assert found.lower is not None
        assert found.upper is not None
        everybody = (found.lower == np.inf) | (found.upper == -np.inf)
    return int(found.exit_points[np.argmax(everybody)]) if everybody.any() else None
