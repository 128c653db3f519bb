"""The same rows fitted to in three ways: to keep a bound on them, or on new rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator

import spinney
from spinney.calibration.ladder import boldest_kept, rows_to_promise
from spinney.calibration.limits import limits_for
from spinney.calibration.row_splits import SHARES, split_by_use
from spinney.cascade.exit_points import paying_exit_points, spread_exit_points
from spinney.cascade.fitter import RuleFitter
from spinney.cascade.greedy import fit_thresholds
from spinney.cascade.rungs import undecided
from spinney.cascade.tables import table_of
from spinney.errors import SpinneyWarning
from spinney.forest import Forest
from spinney.ordering import ScoreTable
from spinney.ordering.qwyc import qwyc
from spinney.runtime.early_exit import EarlyExitEngine
from spinney.runtime.exit_rule import ExitRule

# Ways to fit, in the order of the tables: to the rows themselves, with risk control
# (the default), and with confidence.
FITS = ("rows", "risk control", "confidence")
CONFIDENCE = 0.95

Rows = NDArray[np.float32]
# Labels and numbers of trees for rows.
Counted = Callable[[Rows], tuple[NDArray[Any], NDArray[np.int32]]]


def fit_all(
    approach: str, model: Any, X: Rows, bound: float, seed: int
) -> tuple[dict[str, Counted], Callable[[Rows], NDArray[Any]], str]:
    """Fit an approach to the same rows in all of the ways.

    Parameters
    ----------
    approach : str
        A key of `benchmarks.promise.cases.APPROACHES`.
    model : fitted model
        The model.
    X : ndarray of shape (n_rows, n_features)
        Rows to calibrate on.
    bound : float
        Bound on the disagreement.
    seed : int
        Value of `random_state`.

    Returns
    -------
    fitted : dict of str to callable
        What predicts rows and counts trees, for each of `FITS`.
    full : callable
        Predicts rows with the ensemble that the bound is about.
    kept : str
        What `accelerate` has chosen; empty for others.
    """
    with warnings.catch_warnings():
        # Too few rows for a promise, or a class that is lost: the numbers show it.
        warnings.simplefilter("ignore", SpinneyWarning)
        if approach.startswith("accelerate"):
            return _accelerated(model, X, bound, seed)
        if approach.startswith("cascade"):
            return _cascades(approach.split(", ")[1], model, X, bound, seed)
        return _votes(approach.split()[0], model, X, bound, seed)


def _votes(voting: str, model: Any, X: Rows, bound: float, seed: int) -> Any:
    """Fit votes in random order; to the rows themselves with all of them."""
    classifier = spinney.SequentialVotingClassifier(
        FrozenEstimator(model),
        voting=voting,
        max_disagreement=bound,
        random_state=seed,
    )
    kept = promised(classifier, X, bound, seed)
    on_rows = next(iter(kept["risk control"].at_levels(X, [bound])))
    full = on_rows.predict_full
    return _counted({"rows": on_rows} | kept), full, ""


def _accelerated(model: Any, X: Rows, bound: float, seed: int) -> Any:
    """Accelerate; what is chosen is then fitted to all of the rows themselves."""

    def fitted(confidence: float | None) -> Any:
        return spinney.accelerate(
            model,
            X,
            max_disagreement=bound,
            confidence=confidence,
            random_state=seed,
        )

    kept = fitted(None)
    found = {
        "rows": next(iter(kept.at_levels(X, [bound]))),
        "risk control": kept,
        "confidence": fitted(CONFIDENCE),
    }
    names = [one.name for one in kept.acceleration_.candidates if one.chosen]
    return _counted(found), model.predict, names[0]


def _cascades(rule: str, model: Any, X: Rows, bound: float, seed: int) -> Any:
    """Fit cascades; to the rows themselves as before there was risk control."""
    forest = spinney.read_model(model)
    classifier = spinney.CascadeClassifier(
        forest, rule=rule, max_disagreement=bound, random_state=seed
    )
    kept = promised(classifier, X, bound, seed)
    engine = EarlyExitEngine(forest, _fitted_to_rows(rule, forest, X, bound, seed))

    def on_rows(rows: Rows) -> tuple[NDArray[Any], NDArray[np.int32]]:
        codes, n_evaluated = engine.evaluate(forest.engine.rows(rows), None)
        return forest.classes_[codes], n_evaluated

    return {"rows": on_rows} | _counted(kept), forest.predict, ""


def promised(classifier: Any, X: Rows, bound: float, seed: int) -> dict[str, Any]:
    """Return the boldest candidates that keep a bound on new rows.

    They are those that ``classifier.fit(X)`` finds, without confidence and with; here
    one ladder serves both, which takes half the time.

    Parameters
    ----------
    classifier : CascadeClassifier or SequentialVotingClassifier
        With everything set but the confidence.
    X : ndarray of shape (n_rows, n_features)
        Rows to calibrate on.
    bound : float
        Bound on the disagreement.
    seed : int
        Draws which row is for what.
    """
    parts, other = (
        split_by_use(
            len(X),
            SHARES,
            rows_to_promise(bound, confidence),
            np.random.RandomState(seed),
        )
        for confidence in (None, CONFIDENCE)
    )
    assert np.array_equal(parts.prove, other.prove), "too few rows for the confidence"
    ladder = [cache(make) for make in classifier.candidates(X[parts.fit])]
    fresh = X[parts.prove]
    full = ladder[0]().predict_full(fresh)
    kept = {}
    for name, confidence in (("risk control", None), ("confidence", CONFIDENCE)):
        found = boldest_kept(
            (make() for make in ladder[1:]),
            lambda candidate: candidate.predict(fresh),
            full,
            limits_for(bound, False, ladder[0]().classes_, confidence),
        )
        kept[name] = ladder[0]() if found is None else found[0]
    return kept


def _counted(fitted: dict[str, Any]) -> dict[str, Counted]:
    return {name: one.predict_counted for name, one in fitted.items()}


def _fitted_to_rows(
    rule: str, forest: Forest, X: Rows, bound: float, seed: int
) -> ExitRule:
    """Return a rule that keeps the bound on one half of the rows, and says no more.

    The order comes from the other half. For ``"thresholds"`` these are the greedy ones
    of the paper, with exit points planned as for the classifier; for ``"optimal"`` the
    boldest rule of the classifier's ladder.
    """
    rng = np.random.RandomState(seed)
    index = rng.permutation(len(X))
    first, second = (
        table_of(forest, forest.engine.rows(X[half]))
        for half in np.array_split(index, 2)
    )
    order = qwyc(first, bound).order
    if rule == "optimal":
        fitter = RuleFitter(forest, "qwyc", rule, "both", None, None)
        return fitter.fit_to_rows(second, order, bound, rng)
    return _greedy(forest, second, order, bound)


def _greedy(
    forest: Forest, table: ScoreTable, order: NDArray[np.int64], bound: float
) -> ExitRule:
    """Return the greedy thresholds, with exits where they pay."""
    every = spread_exit_points(forest.n_trees)
    rough = fit_thresholds(table, order, bound, exit_points=every)
    points = paying_exit_points(forest, every, undecided(table, rough), order)
    return fit_thresholds(table, order, bound, exit_points=points)
