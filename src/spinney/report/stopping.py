"""Numbers of classifiers that stop asking early, and of those that ask all trees."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.calibration.bounds import clopper_pearson_upper
from spinney.report.histograms import of_counts, of_numbers
from spinney.report.sweep import sweep_levels
from spinney.report.timing import measure_times
from spinney.runtime.early_exit import positive_from, scoring_forest
from spinney.runtime.row_kernels import BETWEEN, BY_COUNT, BY_LEAD, BY_MARGIN

# Confidence of what the given rows would prove.
CONFIDENCE = 0.95
# Shares of the rows of which it is told when they are done.
SHARES_DONE = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)


def collect_stopping(classifier: Any, X: Any, y: NDArray[Any] | None) -> dict[str, Any]:
    """Return what stopping early gives on rows, and what another level would.

    Parameters
    ----------
    classifier : fitted classifier of spinney
        With `predict_counted`.
    X : array-like of shape (n_rows, n_features)
        Rows.
    y : ndarray of shape (n_rows,) or None
        True labels.
    """
    labels, n_asked = classifier.predict_counted(X)
    own = classifier._model_answers(X)
    n_trees = len(classifier.order_)
    n_rows = len(labels)
    differing = int(np.count_nonzero(labels != own))
    reference = classifier.predict_full(X)
    certificate = getattr(classifier, "certificate_", None)
    acceleration = getattr(classifier, "acceleration_", None)
    return {
        "kind": _kind(classifier),
        "method": _method(classifier),
        "settings": {
            "max_disagreement": getattr(classifier, "max_disagreement", None),
            "confidence": getattr(classifier, "confidence", None),
        },
        "trees": {
            "mean": n_asked.mean(),
            "median": np.median(n_asked),
            "percentile_95": _enough_for(n_asked, 0.95),
            "share": n_asked.mean() / n_trees,
            "done": _done(n_asked),
            "histogram": of_counts(n_asked, n_trees, min(1, int(n_asked.min()))),
        },
        "disagreement": {
            "n_disagreements": differing,
            "share": differing / n_rows,
            "with_reference": np.mean(labels != reference),
            "reference_with_model": np.mean(reference != own),
            "upper_bound_if_fresh": clopper_pearson_upper(
                differing, n_rows, CONFIDENCE
            ),
        },
        "error": None
        if y is None
        else {"early": np.mean(labels != y), "full": np.mean(own != y)},
        "microseconds": measure_times(classifier, X),
        "certificate": None if certificate is None else asdict(certificate),
        "distribution": _distribution(classifier, X),
        "stopping": _stopping(classifier),
        "sweep": sweep_levels(classifier, X),
        "acceleration": None if acceleration is None else acceleration.to_dict(),
    }


def _enough_for(n_asked: NDArray[np.int32], share: float) -> int:
    """Return a number of trees that this share of the rows does not exceed."""
    return int(np.quantile(n_asked, share, method="inverted_cdf"))


def _done(n_asked: NDArray[np.int32]) -> list[dict[str, Any]]:
    """Return how many trees are enough for some shares of the rows."""
    return [
        {"share": share, "trees": _enough_for(n_asked, share)} for share in SHARES_DONE
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
    if kind == "cascade":
        return f"scores added up, rule {classifier.rule!r}"
    return "all trees, always"


def _policy(classifier: Any) -> Any:
    """Return the object that asks the trees, None where all are asked."""
    policy = getattr(classifier, "_engine", None)
    return getattr(classifier, "_policy", None) if policy is None else policy


def _counting(classifier: Any) -> str:
    """Return what is added up: "votes" or "scores"."""
    return getattr(classifier, "_counting", "scores")


def _distribution(classifier: Any, X: Any) -> dict[str, Any]:
    """Return how rows lie around the border between the answers of all trees."""
    counting = _counting(classifier)
    rows = classifier._rows(X)
    forest = classifier.forest_
    n_jobs = getattr(classifier, "n_jobs", None)
    if forest is None:
        sums = classifier._voters.totals(counting, rows)
        border = len(classifier.order_) / 2 if counting == "votes" else 0.0
    else:
        sums = scoring_forest(forest, counting).engine.raw(rows, n_jobs)
        border = positive_from(forest, counting)
        if counting == "votes":
            border -= 0.5  # between the numbers of votes for either answer
    what = "votes" if counting == "votes" else "score"
    if sums.shape[1] > 1:
        ordered = np.sort(sums, axis=1)
        sums = (ordered[:, -1] - ordered[:, -2])[:, None]
        what = "lead in votes" if counting == "votes" else "lead"
        border = 0.0
    numbers = sums[:, 0]
    histogram = (
        of_counts(np.rint(numbers), len(classifier.order_))
        if counting == "votes"
        else of_numbers(numbers)
    )
    return {"what": what, "border": border, "histogram": histogram}


def _stopping(classifier: Any) -> dict[str, Any] | None:
    """Return between which numbers a row goes on, at each look; None if not simple."""
    policy = _policy(classifier)
    rule = getattr(policy, "rule", None)
    if rule is None or getattr(classifier, "_at_once", False) or not len(rule.checks):
        return None
    steps = rule.checks
    lower = upper = margin = None
    if rule.kind == BY_COUNT:
        what = "votes"
        within = np.arange(rule.stops.shape[1]) <= steps[:, None]
        lower = _last(within & (rule.stops == 0))
        upper = _first(within & (rule.stops == 1))
    elif rule.kind == BETWEEN:
        what, (lower, upper) = "score", rule.bounds
    elif rule.kind == BY_MARGIN:
        what, margin = "lead", rule.bounds[0]
    else:
        assert rule.kind == BY_LEAD
        what = "lead in votes"
        # By how much the leader must be ahead depends on its votes; the least of it.
        leader = np.arange(rule.stops.shape[1])
        possible = (rule.stops >= 0) & (leader <= steps[:, None])
        ahead = np.where(possible, leader - np.minimum(rule.stops, leader), np.inf)
        margin = ahead.min(axis=1)
    border = 0.0
    forest = classifier.forest_
    if what == "score" and forest is not None:
        border = positive_from(forest, "scores")
    return {
        "what": what,
        "steps": steps,
        "lower": lower,
        "upper": upper,
        "margin": margin,
        "border": border,
        "all_done_after": _all_done_after(steps, lower, upper, margin),
    }


def _all_done_after(
    steps: NDArray[np.int64],
    lower: NDArray[np.float64] | None,
    upper: NDArray[np.float64] | None,
    margin: NDArray[np.float64] | None,
) -> int | None:
    """Return the first look after which no row goes on, None if there is none."""
    if margin is not None:
        everybody = margin == -np.inf
    else:
        assert lower is not None
        assert upper is not None
        everybody = (lower == np.inf) | (upper == -np.inf)
    return int(steps[np.argmax(everybody)]) if everybody.any() else None


def _last(true: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the last place in each line that is true, NaN if there is none."""
    place = true.shape[1] - 1 - np.argmax(true[:, ::-1], axis=1)
    return np.where(true.any(axis=1), place, np.nan)


def _first(true: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the first place in each line that is true, NaN if there is none."""
    return np.where(true.any(axis=1), np.argmax(true, axis=1), np.nan)
