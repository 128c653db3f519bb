"""Results at other bounds of the same kind, on the rows of the report."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spinney.base.estimator import class_codes
from spinney.base.progress import say_nothing
from spinney.calibration.ladder import boldest_kept
from spinney.calibration.limits import Limits, largest_bound, limits_for
from spinney.calibration.row_splits import SHARES, split_rows
from spinney.errors import SpinneyWarning
from spinney.forest.frames import rows_at
from spinney.report.classifiers import exits_early, n_sums

# Levels as multiples of the classifier's own, up to the largest that makes sense.
MULTIPLES = (0.1, 0.3, 3.0, 10.0, 30.0, 100.0)
LARGEST = 0.2
WITHOUT_OWN = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
# Rules from the most conservative to the most aggressive that a level chooses among.
N_RUNGS = 12
# Rows of each half that rules are fitted to and bounds are established on.
MOST_ROWS = 10_000
# Where every voter is a call, fewer will have to do, and there may be no more.
MOST_CALLED_ROWS = 1_000
# Soft votes are solved for over many orders of the trees: seconds for more scores.
MOST_SOFT_SCORES = 200_000
FEWEST_SOFT_ROWS = 1_000
FEWEST_ROWS = 50
# Promises that rows establish; others follow from the strategy.
BY_ROWS = ("expected", "confidence", "never")


class Answers(NamedTuple):
    """Predictions of a classifier for all rows of a report.

    Parameters
    ----------
    labels : ndarray of shape (n_rows,)
        Labels, with early exit.
    n_evaluated : ndarray of shape (n_rows,)
        Trees evaluated.
    own : ndarray of shape (n_rows,)
        Labels of the model itself.
    true : ndarray of shape (n_rows,) or None
        True labels.
    """

    labels: NDArray[Any]
    n_evaluated: NDArray[np.int32]
    own: NDArray[Any]
    true: NDArray[Any] | None


def levels_around(own: float) -> list[float]:
    """Return the levels to try: the classifier's own, none at all, and others.

    Parameters
    ----------
    own : float
        What the classifier may do: `max_disagreement`, or the loss of accuracy.
    """
    if own <= 0.0:
        return [0.0, *WITHOUT_OWN]
    others = (float(f"{multiple * own:.3g}") for multiple in MULTIPLES)
    return sorted({0.0, own, *(level for level in others if level <= LARGEST)})


def sweep_levels(
    classifier: Any,
    X: Any,
    answers: Answers,
    show: Callable[[float], None] = say_nothing,
) -> dict[str, Any]:
    """Return what the classifier does on rows, and what other levels would do.

    At its own level it is the classifier itself, on all rows. For other levels the same
    method is fitted to one half of the rows and measured on the other, and the other
    way round, so that each row counts once everywhere. A part of each half is kept back
    to establish the level on, as `fit` does it.

    Parameters
    ----------
    classifier : fitted classifier of spinney
        One that stops early at a level of disagreement.
    X : array-like of shape (n_rows, n_features)
        Rows.
    answers : Answers
        Its predictions for them.
    show : callable, optional
        Called with the share of the work that is done.

    Returns
    -------
    sweep : dict
        ``points``, one for each level, and what they are about; without points there
        is a ``reason``.
    """
    n_rows = len(answers.labels)
    nothing = {
        "points": [],
        "what": "disagreement",
        "n_fitted": 0,
        "n_measured": n_rows,
        "reason": None,
    }
    reason = _reason_against(classifier, n_rows)
    if reason is not None:
        return nothing | {"reason": reason}
    limits = limits_of(classifier)
    by_accuracy = limits.overall is None and limits.by_class is None
    if by_accuracy and answers.true is None:
        reason = (
            "The promise is about the loss of accuracy, so other bounds on it need "
            "the true labels: pass y."
        )
        return nothing | {"reason": reason}
    own = largest_bound(classifier.max_disagreement)
    if by_accuracy:
        assert limits.accuracy_loss is not None
        own = limits.accuracy_loss
    levels = levels_around(own)
    halves = split_rows(n_rows, (1.0, 1.0), np.random.RandomState(0))
    found = {level: _Measured(n_rows) for level in levels if level != own}
    with warnings.catch_warnings():
        # Few rows, or one prediction for all of them: the numbers show it.
        warnings.simplefilter("ignore", SpinneyWarning)
        for number, (to_fit, to_measure) in enumerate((halves, halves[::-1])):
            part = _Half(classifier, X, answers, np.sort(to_fit), np.sort(to_measure))
            part.measure(
                found,
                limits,
                own,
                partial(_show_half, show, number),
            )
    itself = _Measured(n_rows, answers.labels, answers.n_evaluated)
    what = "accuracy" if by_accuracy else "disagreement"
    if limits.by_class is not None:
        what = "classes"
    return nothing | {
        "points": [
            _point(
                level,
                itself if level == own else found[level],
                level == own,
                answers,
                scaled(limits, level, own),
                len(classifier.order_),
            )
            for level in levels
        ],
        "what": what,
        "n_fitted": min(map(len, halves)),
    }


def _show_half(show: Callable[[float], None], number: int, share: float) -> None:
    """Show the share of all work, from that of one half."""
    show((number + share) / 2)


def _reason_against(classifier: Any, n_rows: int) -> str | None:
    """Return why there are no other levels, None if there are."""
    if not exits_early(classifier):
        return "All trees are always evaluated, at any bound."
    if len(classifier.classes_) == 1:
        return "There is only one class, and nothing to decide."
    if n_rows < FEWEST_ROWS:
        return (
            "Other bounds are fitted on one half of the rows and measured on the "
            f"other, and {n_rows} rows are too few for that: pass {FEWEST_ROWS} or "
            "more."
        )
    if classifier.forest_ is None and n_rows > MOST_CALLED_ROWS:
        return (
            "Each voter is a function call, and other bounds would call all of them "
            f"on all rows: pass at most {MOST_CALLED_ROWS:,} rows for that."
        )
    return None


def limits_of(classifier: Any) -> Limits:
    """Return all bounds that a fitted classifier is to keep.

    Parameters
    ----------
    classifier : fitted classifier of spinney
        One that stops early.
    """
    promise = classifier.promise_
    loss, bounds = None, classifier.max_disagreement
    if promise is not None and promise.accuracy is not None:
        loss = promise.accuracy.max_accuracy_loss
        if promise.max_disagreement is None:
            bounds = None
    return limits_for(
        bounds, classifier.per_class, classifier.classes_, classifier.confidence, loss
    )


def scaled(limits: Limits, level: float, own: float) -> Limits:
    """Return bounds at another level: all of them in the same proportion.

    Parameters
    ----------
    limits : Limits
        The bounds of the classifier.
    level, own : float
        The other level and the classifier's own.
    """
    if own <= 0.0:
        return replace(limits, overall=level, by_class=None, accuracy_loss=None)
    factor = level / own

    def times(bound: Any) -> Any:
        return None if bound is None else np.minimum(factor * bound, 1.0 - 1e-9)

    return replace(
        limits,
        overall=times(limits.overall),
        by_class=times(limits.by_class),
        accuracy_loss=times(limits.accuracy_loss),
    )


class _Measured:
    """Predictions for all rows at one bound, filled in part by part."""

    def __init__(
        self,
        n_rows: int,
        labels: NDArray[Any] | None = None,
        n_evaluated: NDArray[np.int32] | None = None,
    ) -> None:
        self.labels = np.empty(n_rows, dtype=object) if labels is None else labels
        self.n_evaluated = (
            np.zeros(n_rows, dtype=np.int32) if n_evaluated is None else n_evaluated
        )
        # Whether the rows were enough to establish the level.
        self.is_established = True


class _Half:
    """Rules fitted to one half of the rows, measured on the other."""

    def __init__(
        self,
        classifier: Any,
        X: Any,
        answers: Answers,
        to_fit: NDArray[np.intp],
        to_measure: NDArray[np.intp],
    ) -> None:
        self.classifier = classifier
        self.X = X
        self.answers = answers
        self.to_measure = to_measure
        rng = np.random.RandomState(0)
        most = MOST_ROWS
        if getattr(classifier, "voting_", None) == "soft":
            n_scores = len(classifier.order_) * n_sums(classifier)
            most = min(most, 2 * max(FEWEST_SOFT_ROWS, MOST_SOFT_SCORES // n_scores))
        some = to_fit[np.sort(rng.permutation(len(to_fit))[:most])]
        promise = classifier.promise_
        self.by_rows = promise is None or promise.kind in BY_ROWS
        self.to_fit, self.to_prove = some, some[:0]
        if self.by_rows:
            shares = (1.0 - SHARES["prove"], SHARES["prove"])
            fit, prove = split_rows(len(some), shares, rng)
            self.to_fit, self.to_prove = some[np.sort(fit)], some[np.sort(prove)]

    def measure(
        self,
        found: dict[float, _Measured],
        limits: Limits,
        own: float,
        show: Callable[[float], None],
    ) -> None:
        """Fill in what each level gives on the rows that nothing was fitted to."""
        levels = list(found)
        tried = [0.0, *_rungs(max(levels), min(filter(None, levels)))]
        if not self.by_rows:
            tried = levels
        rows = rows_at(self.X, self.to_fit)
        rules = []
        for rule in self.classifier.at_levels(rows, tried):
            rules.append(rule)
            show(len(rules) / len(tried))
        fresh = rows_at(self.X, self.to_measure)
        counted = cache(lambda k: rules[k].predict_counted(fresh))
        choose = self._chooser(rules)
        for level, measured in found.items():
            k = tried.index(level) if not self.by_rows else 0
            if self.by_rows and level > 0.0:
                chosen = choose(scaled(limits, level, own))
                measured.is_established &= chosen is not None
                k = chosen or 0
            labels, n_evaluated = counted(k)
            measured.labels[self.to_measure] = labels
            measured.n_evaluated[self.to_measure] = n_evaluated

    def _chooser(self, rules: list[Any]) -> Callable[[Limits], int | None]:
        """Return what chooses the most aggressive rule within bounds, as `fit`."""
        classes = self.classifier.classes_
        if not len(self.to_prove):
            return lambda limits: None
        rows = rows_at(self.X, self.to_prove)
        # What `accelerate` has made is compared with the model, whatever is counted.
        full = self.answers.own[self.to_prove]
        if not hasattr(self.classifier, "acceleration_"):
            full = self.classifier.predict_full(rows)
        codes = class_codes(classes, full)
        true = None
        if self.answers.true is not None:
            true = class_codes(classes, self.answers.true[self.to_prove])
        given = cache(lambda k: class_codes(classes, rules[k].predict(rows)))

        def choose(limits: Limits) -> int | None:
            if not limits.are_enough(codes):
                return None
            kept = boldest_kept(range(1, len(rules)), given, codes, limits, true)
            return None if kept is None else kept[0]

        return choose


def _rungs(largest: float, smallest: float) -> list[float]:
    """Return levels to fit rules to, the most conservative first."""
    return np.geomspace(smallest / 4.0, min(1.5 * largest, 0.5), N_RUNGS).tolist()


def _point(
    level: float,
    measured: _Measured,
    is_own: bool,
    answers: Answers,
    limits: Limits,
    n_trees: int,
) -> dict[str, Any]:
    """Return what the page shows of one level."""
    differs = measured.labels != answers.own
    trees = float(measured.n_evaluated.mean())
    n_differing = int(np.count_nonzero(differs))
    errors_added = None
    if answers.true is not None:
        wrong = np.mean(measured.labels != answers.true)
        errors_added = float(wrong - np.mean(answers.own != answers.true))
    return {
        "level": level,
        "is_own": is_own,
        "is_established": measured.is_established,
        "trees": trees,
        "share": trees / n_trees,
        "n_disagreements": n_differing,
        "disagreement": n_differing / len(differs),
        "errors_added": errors_added,
        "worst_class": _worst_class(differs, answers.own, limits),
        "speed_up": n_trees / trees if trees else None,
    }


def _worst_class(
    differs: NDArray[np.bool_], own: NDArray[Any], limits: Limits
) -> dict[str, Any] | None:
    """Return the class that uses most of its bound, if classes have bounds."""
    if limits.by_class is None:
        return None
    worst, most = None, -1.0
    for label, bound in zip(limits.classes, limits.by_class, strict=True):
        of_class = own == label
        n_full = int(np.count_nonzero(of_class))
        n_lost = int(np.count_nonzero(of_class & differs))
        used = n_lost / n_full / max(bound, 1e-12) if n_full else 0.0
        if n_full and used > most:
            most = used
            worst = {"label": str(label), "n_full": n_full, "n_lost": n_lost}
    return worst
