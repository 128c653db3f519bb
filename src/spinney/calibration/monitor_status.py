"""What a monitor watches, and its status: from another monitor, and for Prometheus."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from spinney.calibration.bounds import check_n_rows
from spinney.calibration.limits import plain
from spinney.errors import InvalidArgumentError

# Stands for a label where one bound is for all rows.
ALL_ROWS = None

COUNTS = ("n_seen", "n_checked", "n_disagreements")

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
METRICS = (
    ("n_seen", "counter", "Rows predicted."),
    ("n_checked", "counter", "Rows checked against all trees."),
    ("n_disagreements", "counter", "Checked rows with a different prediction."),
    ("disagreement", "gauge", "Share of checked rows with a different prediction."),
    ("lower", "gauge", "Lower end of the confidence sequence."),
    ("upper", "gauge", "Upper end of the confidence sequence."),
    ("max_disagreement", "gauge", "The bound that is monitored."),
    ("e_value", "gauge", "Evidence against the bound."),
    ("alarm", "gauge", "1 if there is evidence that the bound is broken."),
)


def bounds_of(classifier: Any) -> dict[Any, float]:
    """Return the bounds that a monitor watches, or raise.

    Parameters
    ----------
    classifier : fitted classifier
        The classifier to monitor.

    Returns
    -------
    bounds : dict
        By class, or one for all rows under `ALL_ROWS`.
    """
    promise = getattr(classifier, "promise_", None)
    if promise is not None and promise.accuracy and promise.max_disagreement is None:
        msg = (
            "This classifier promises a bound on the loss of accuracy, which needs "
            "labels, but a monitor checks the disagreement with the model. Pass "
            "max_disagreement to accelerate as well."
        )
        raise InvalidArgumentError(msg)
    bounds = getattr(classifier, "max_disagreement", None)
    if bounds is None:
        msg = (
            "A monitor needs a classifier with a bound, and "
            f"{type(classifier).__name__} has no max_disagreement. "
            "spinney.accelerate(model, X) returns one that has."
        )
        raise InvalidArgumentError(msg)
    if isinstance(bounds, Mapping):
        return {plain(label): float(bound) for label, bound in bounds.items()}
    if getattr(classifier, "per_class", False):
        return {plain(label): float(bounds) for label in classifier.classes_}
    return {ALL_ROWS: float(bounds)}


def counts_in(
    status: Any, bounds: Mapping[Any, float]
) -> tuple[int, dict[Any, tuple[int, int]]]:
    """Return what a monitor has counted according to its status, or raise.

    Parameters
    ----------
    status : mapping
        What `Monitor.status` has returned, perhaps read from a file.
    bounds : mapping
        The bounds that this monitor watches, by class or under `ALL_ROWS`.

    Returns
    -------
    n_seen : int
        Rows predicted.
    counts : dict
        Rows checked and disagreements among them, for each key of `bounds`.
    """
    if not isinstance(status, Mapping):
        msg = (
            "other must be a Monitor or what its status() returns, got "
            f"{type(status).__name__}."
        )
        raise InvalidArgumentError(msg)
    bound, watched = status.get("max_disagreement"), max(bounds.values())
    if bound != watched:
        msg = (
            f"The other monitor has a bound of {bound!r}, and this one of "
            f"{watched!r}. Merge monitors of the same classifier."
        )
        raise InvalidArgumentError(msg)
    missing = [name for name in COUNTS if name not in status]
    if missing:
        msg = (
            f"The status of a monitor has {', '.join(COUNTS)}, and this one lacks "
            f"{', '.join(missing)}. Pass what status() returns."
        )
        raise InvalidArgumentError(msg)
    seen = check_n_rows("n_seen", status["n_seen"], None)
    checked = check_n_rows("n_checked", status["n_checked"], seen)
    wrong = check_n_rows("n_disagreements", status["n_disagreements"], checked)
    if ALL_ROWS in bounds:
        return seen, {ALL_ROWS: (checked, wrong)}
    counts = _counts_of_classes(status.get("by_class"), bounds)
    of_classes = tuple(map(sum, zip(*counts.values(), strict=True)))
    if of_classes != (checked, wrong):
        msg = (
            f"The classes of the other monitor have {of_classes[0]} checked "
            f"rows and {of_classes[1]} disagreements in all, but its status "
            f"says {checked} and {wrong}. Pass what status() returns."
        )
        raise InvalidArgumentError(msg)
    return seen, counts


def _counts_of_classes(
    given: Any, watched: Mapping[Any, float]
) -> dict[Any, tuple[int, int]]:
    """Return the counts of classes in the status of another monitor, or raise."""
    try:
        others = {} if given is None else {one["label"]: one for one in given}
        bounds = {label: one["max_disagreement"] for label, one in others.items()}
        found = {
            label: (one["n_checked"], one["n_disagreements"])
            for label, one in others.items()
        }
    except (KeyError, TypeError) as error:
        msg = (
            "The status of a monitor has label, max_disagreement, n_checked and "
            f"n_disagreements of each class, got by_class={given!r}. Pass what "
            "status() returns."
        )
        raise InvalidArgumentError(msg) from error
    if bounds != watched:
        msg = (
            f"The other monitor has the bounds {bounds!r} for classes, and "
            f"this one {watched!r}. Merge monitors of the same classifier."
        )
        raise InvalidArgumentError(msg)
    counts = {}
    for label, (n_checked, n_wrong) in found.items():
        checked = check_n_rows("n_checked", n_checked, None)
        counts[label] = checked, check_n_rows("n_disagreements", n_wrong, checked)
    return counts


def as_prometheus(status: Mapping[str, Any], prefix: str) -> str:
    """Return a status in the text format that Prometheus reads.

    Parameters
    ----------
    status : mapping
        What `Monitor.status` has returned.
    prefix : str
        Prefix of the metric names.

    Raises
    ------
    InvalidArgumentError
        If Prometheus would not take such names.
    """
    if not isinstance(prefix, str) or not NAME.fullmatch(prefix):
        msg = (
            "prefix must begin with a letter, _ or :, and continue with these or "
            f"digits, as Prometheus names metrics, got {prefix!r}."
        )
        raise InvalidArgumentError(msg)
    lines = []
    for name, kind, words in METRICS:
        value = status[name]
        number = math.nan if value is None else float(value)
        full = f"{prefix}_{name.removeprefix('n_')}"
        full += "_total" if kind == "counter" else ""
        shown = "NaN" if math.isnan(number) else f"{number:.17g}"
        lines += [f"# HELP {full} {words}", f"# TYPE {full} {kind}"]
        lines.append(f"{full} {shown}")
    return "\n".join(lines) + "\n"
