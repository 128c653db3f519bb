"""Fitted classifiers taken apart for a file, and put together again."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from spinney.base.comparison import Comparison
from spinney.base.early_exit_classifier import CountingClassifier
from spinney.calibration.bounds import Certificate, check_confidence
from spinney.calibration.ladder import certificate_of
from spinney.calibration.limits import check_bounds
from spinney.calibration.promise import KINDS, AccuracyBound, ClassBound, Promise
from spinney.errors import FormatError, InvalidArgumentError
from spinney.forest import Forest
from spinney.forest.invariants import MAX_FEATURES
from spinney.persistence.combined import combined_to_parts, take_combined
from spinney.persistence.container import Arrays, Settings
from spinney.persistence.fields import (
    part_forest_to_parts,
    refuse_leftovers,
    take_array,
    take_forest,
    take_setting,
    texts_from_arrays,
    texts_to_arrays,
)
from spinney.persistence.steps import steps_from_arrays, steps_to_arrays
from spinney.readers.wrapped import as_pipeline, parted
from spinney.runtime.early_exit import EarlyExitEngine
from spinney.runtime.exit_rule import ExitRule
from spinney.runtime.kernel_arrays import own_copy
from spinney.runtime.score_bins import ScoreBins

# What a file says of a certificate.
IN_CERTIFICATE = (
    "disagreement",
    "upper_bound",
    "n_rows",
    "n_disagreements",
    "confidence",
)
# Parameters that older versions did not have, and what they stand for.
ADDED = {"decision_threshold": None, "per_class": False}


def classifier_to_parts(classifier: BaseEstimator) -> tuple[Settings, Arrays]:
    """Return what all classifiers have: parameters, forest, names of columns.

    Parameters
    ----------
    classifier : classifier of spinney
        Fitted.

    Returns
    -------
    settings, arrays : dict
        To be completed by what is special about the classifier.
    """
    check_is_fitted(classifier)
    steps = parted(getattr(classifier, "estimator_", None)).steps
    forest = getattr(classifier, "forest_", None)
    combined = getattr(classifier, "combined_", None)
    if combined is not None:
        settings, arrays = combined_to_parts(combined)
        settings["n_columns"] = _n_columns(classifier)
    elif isinstance(forest, Forest):
        settings, arrays = part_forest_to_parts("forest", forest)
    else:
        msg = (
            f"This {type(classifier).__name__} holds classifiers that are not trees, "
            "and only forests can be saved."
        )
        raise TypeError(msg)
    parameters = classifier.get_params(deep=False)
    parameters.pop("estimator", None)
    bounds = parameters.get("max_disagreement")
    if isinstance(bounds, Mapping):  # labels need not be texts
        parameters["max_disagreement"] = list(bounds.items())
    settings["parameters"] = {
        name: _plain(name, value) for name, value in parameters.items()
    }
    if steps:
        settings["n_columns"] = _n_columns(classifier)
        arrays |= steps_to_arrays("steps", as_pipeline(steps))
    if hasattr(classifier, "feature_names_in_"):
        arrays |= texts_to_arrays("columns", tuple(classifier.feature_names_in_))
    if isinstance(classifier, CountingClassifier):
        comparison = getattr(classifier, "acceleration_", None)
        settings["acceleration"] = comparison and comparison.to_dict()
    return settings, arrays


def classifier_from_parts(
    kind: type[BaseEstimator], settings: Settings, arrays: Arrays
) -> Any:
    """Take a classifier out of settings and arrays, as far as all are alike.

    Parameters
    ----------
    kind : type
        Class of the classifier.
    settings, arrays : dict
        Parts, perhaps forged; what belongs to the classifier is taken out.

    Returns
    -------
    classifier : object of class `kind`
        With what `estimator_from_parts` sets, `classes_` and, if there was one,
        `acceleration_`.
    """
    classifier = estimator_from_parts(kind, settings, arrays)
    model = classifier.forest_
    if model is None:
        model = classifier.combined_
    if getattr(model, "classes_", None) is None:
        msg = "its forest must have classes"
        raise FormatError(msg)
    classifier.classes_ = model.classes_
    if issubclass(kind, CountingClassifier):
        if settings.get("acceleration", 0) is None:
            del settings["acceleration"]
        else:
            comparison = take_setting(settings, "acceleration", dict)
            classifier.acceleration_ = Comparison.from_dict(comparison)
    return classifier


def estimator_from_parts(
    kind: type[BaseEstimator], settings: Settings, arrays: Arrays
) -> Any:
    """Take an estimator out of settings and arrays, as far as all are alike.

    Parameters
    ----------
    kind : type
        Class of the estimator.
    settings, arrays : dict
        Parts, perhaps forged; what belongs to the estimator is taken out.

    Returns
    -------
    estimator : object of class `kind`
        With parameters, `estimator_` if there is such a parameter, `forest_` (or, for
        drop-ins, `combined_`), `n_features_in_` and, if there were any,
        `feature_names_in_`.
    """
    forest, combined = None, None
    has_steps = "steps_json" in arrays
    if "combined" in settings and hasattr(kind, "combined_"):
        model = combined = take_combined(settings, arrays)
        n_columns = _take_n_columns(settings)
    else:
        model = forest = take_forest("forest", settings, arrays)
        n_columns = forest.n_features
        if "n_columns" in settings:
            n_columns, has_steps = _take_n_columns(settings), True
    parameters = take_setting(settings, "parameters", dict)
    names = set(kind._get_param_names())
    wanted = names - {"estimator"}
    parameters = {k: v for k, v in ADDED.items() if k in wanted} | parameters
    if set(parameters) != wanted:
        msg = f"its parameters must be {sorted(wanted)}"
        raise FormatError(msg)
    _check_parameters(parameters)
    if has_steps:
        steps = steps_from_arrays("steps", arrays)
        model = Pipeline([("steps", steps), ("forest", model)])
    if "estimator" in names:
        parameters["estimator"] = FrozenEstimator(model)
    estimator = kind(**parameters)
    if "estimator" in parameters:
        estimator.estimator_ = parameters["estimator"]
    estimator.forest_ = forest
    if combined is not None:
        estimator.combined_ = combined
    if n_columns is not None:
        estimator.n_features_in_ = n_columns
    columns = texts_from_arrays("columns", arrays)
    if columns is not None:
        if len(columns) != n_columns:
            msg = f"columns must have {n_columns} names, got {len(columns)}"
            raise FormatError(msg)
        estimator.feature_names_in_ = np.array(columns, dtype=object)
    return estimator


def _n_columns(estimator: Any) -> int | None:
    """Return how many columns rows have; None if they are texts or dicts."""
    n_columns = getattr(estimator, "n_features_in_", None)
    return None if n_columns is None else int(n_columns)


def _take_n_columns(settings: Settings) -> int | None:
    """Take out of settings what `_n_columns` has put there."""
    if settings.get("n_columns", 0) is None:
        return settings.pop("n_columns")
    n_columns: int = take_setting(settings, "n_columns", int)
    if not 0 <= n_columns <= MAX_FEATURES:
        msg = f"n_columns must be a number of columns, got {n_columns!r:.40}"
        raise FormatError(msg)
    return n_columns


def _check_parameters(parameters: Settings) -> None:
    """Raise `FormatError` for parameters that `predict` or `fit` would fail on."""

    def is_whole(name: str, least: int, most: int) -> bool:
        value = parameters.get(name)
        return value is None or (type(value) is int and least <= value <= most)

    if not is_whole("n_jobs", -(2**31), 2**31 - 1) or parameters.get("n_jobs") == 0:
        msg = f"n_jobs must be null or a whole number, got {parameters['n_jobs']!r:.40}"
        raise FormatError(msg)
    if not is_whole("random_state", 0, 2**32 - 1):
        given = parameters["random_state"]
        msg = f"random_state must be null or a whole number, got {given!r:.40}"
        raise FormatError(msg)
    try:
        if parameters.get("confidence") is not None:
            check_confidence(parameters["confidence"])
        if isinstance(parameters.get("max_disagreement"), list):
            pairs = parameters["max_disagreement"]
            parameters["max_disagreement"] = _bounds_from_pairs(pairs)
        bounds = parameters.get("max_disagreement", 0.0)
        check_bounds(bounds, parameters.get("per_class", False))
    except InvalidArgumentError as error:
        raise FormatError(str(error).rstrip(".")) from error


# Rules have been saved under these names since the first format: `counting` is what
# is added up, `checks` are the exit points, `stops` is the table.
COUNTING = {"hard": "votes", "soft": "scores"}


def rule_to_parts(rule: ExitRule) -> tuple[Settings, Arrays]:
    """Return the settings and arrays of an exit rule."""
    bins = rule.bins
    if bins is not None:
        settings: Settings = {
            "beta": float(bins.beta),
            "bin_width": float(bins.width),
            "gamma": float(bins.gamma),
            "early_exit": bins.early_exit,
        }
        return settings, {
            "order": rule.order,
            "check_steps": rule.exit_points,
            "first_bin": bins.first,
            "offsets": bins.offsets,
            "mean": bins.mean,
            "deviation": bins.deviation,
        }
    return {"counting": COUNTING[rule.voting], "rule": int(rule.kind)}, {
        "order": rule.order,
        "checks": rule.exit_points,
        "bounds": rule.bounds,
        "stops": rule.table,
    }


def take_rule(settings: Settings, arrays: Arrays, at_once: bool = False) -> ExitRule:
    """Take an exit rule out of settings and arrays.

    Parameters
    ----------
    settings, arrays : dict
        Parts, perhaps forged.
    at_once : bool, default=False
        Whether all rows exit before the first tree.
    """
    order = own_copy(take_array(arrays, "order", np.int64, 1), np.int64)
    if "bin_width" in settings:
        points = take_array(arrays, "check_steps", np.int64, 1)
        bins = ScoreBins(
            beta=take_setting(settings, "beta", float),
            width=take_setting(settings, "bin_width", float),
            first=np.array(take_array(arrays, "first_bin", np.int64, 1)),
            offsets=np.array(take_array(arrays, "offsets", np.int64, 1)),
            mean=np.array(take_array(arrays, "mean", np.float64, 1)),
            deviation=np.array(take_array(arrays, "deviation", np.float64, 1)),
            gamma=take_setting(settings, "gamma", float),
            early_exit=take_setting(settings, "early_exit", str),
        )
        return ExitRule.by_bin(order, points, bins)
    counting = take_setting(settings, "counting", str)
    if counting not in COUNTING.values():
        msg = f"counting must be one of {', '.join(COUNTING.values())}"
        raise FormatError(msg)
    return ExitRule(
        take_setting(settings, "rule", int),
        "hard" if counting == COUNTING["hard"] else "soft",
        order,
        own_copy(take_array(arrays, "checks", np.int64, 1), np.int64),
        own_copy(take_array(arrays, "bounds", np.float64, 2), np.float64),
        own_copy(take_array(arrays, "stops", np.int32, 2), np.int32),
        at_once=at_once,
    )


def engine_of_parts(forest: Forest, rule: ExitRule) -> EarlyExitEngine:
    """Return the engine for a rule out of a file, which may be forged."""
    try:
        return EarlyExitEngine(forest, rule)
    except InvalidArgumentError as error:
        raise FormatError(str(error).rstrip(".")) from error


def _bounds_from_pairs(pairs: list[Any]) -> dict[Any, float]:
    """Return bounds for classes out of a file, or say what is wrong."""
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2 or isinstance(pair[0], list):
            msg = "bounds for classes must be pairs of a label and a number"
            raise FormatError(msg)
    return dict(pairs)


def certificate_to_setting(certificate: Certificate | None) -> Settings | None:
    """Return what is proven about a classifier as one setting, null if nothing is.

    Bounds for classes are those of the promise, which is saved beside it.
    """
    if certificate is None:
        return None
    return {name: getattr(certificate, name) for name in IN_CERTIFICATE}


def take_certificate(settings: Settings, promise: Promise | None) -> Certificate | None:
    """Take out of settings what is proven about a classifier, if anything is.

    Parameters
    ----------
    settings : dict
        Settings, perhaps forged.
    promise : Promise or None
        What is promised, with the bounds for classes.
    """
    if "certificate" in settings and settings["certificate"] is None:
        return settings.pop("certificate")
    parts = take_setting(settings, "certificate", dict)
    kinds = {name: int if name.startswith("n_") else float for name in IN_CERTIFICATE}
    values = {name: take_setting(parts, name, kind) for name, kind in kinds.items()}
    refuse_leftovers(parts, {})
    if promise is not None and promise.by_class:
        return certificate_of(promise)
    return Certificate(**values)


def promise_to_setting(promise: Promise | None) -> Settings | None:
    """Return what is promised about new rows as one setting, null if nothing is."""
    return None if promise is None else promise.to_dict()


def take_promise(settings: Settings) -> Promise | None:
    """Take out of settings what is promised about new rows, if anything is.

    Files of older versions do not have it.
    """
    if settings.get("promise") is None:
        settings.pop("promise", None)
        return None
    parts = take_setting(settings, "promise", dict)
    kind = take_setting(parts, "kind", str)
    if kind not in KINDS:
        msg = f"the kind of a promise must be one of {', '.join(KINDS)}"
        raise FormatError(msg)
    confidence = _number_or_none(parts, "confidence")
    promise = Promise(
        kind,
        _number_or_none(parts, "max_disagreement"),
        confidence,
        take_setting(parts, "n_rows", int),
        take_setting(parts, "n_disagreements", int),
        _take_class_bounds(parts.pop("by_class", [])),
        _take_accuracy_bound(parts.pop("accuracy", None)),
    )
    refuse_leftovers(parts, {})
    if (kind == "confidence") != (confidence is not None):
        msg = "a promise has a confidence if and only if it is of that kind"
        raise FormatError(msg)
    return promise


def _number_or_none(parts: Settings, name: str) -> float | None:
    """Take a number out of settings that may be null, or missing."""
    value = parts.pop(name, None)
    return None if value is None else take_setting({name: value}, name, float)


def _take_class_bounds(given: Any) -> tuple[ClassBound, ...]:
    """Return the bounds for classes out of a file, or say what is wrong."""
    if not isinstance(given, list):
        msg = "by_class of a promise must be a list"
        raise FormatError(msg)
    bounds = []
    for parts in given:
        label = parts.pop("label", None) if isinstance(parts, dict) else None
        if not isinstance(label, (str, int, float)):
            msg = "a bound for a class must have a label that is a string or a number"
            raise FormatError(msg)
        bounds.append(
            ClassBound(
                label,
                take_setting(parts, "max_disagreement", float),
                take_setting(parts, "n_rows", int),
                take_setting(parts, "n_disagreements", int),
            )
        )
        refuse_leftovers(parts, {})
    return tuple(bounds)


def _take_accuracy_bound(parts: Any) -> AccuracyBound | None:
    """Return the bound on the loss of accuracy out of a file, if there is one."""
    if parts is None:
        return None
    if not isinstance(parts, dict):
        msg = "accuracy of a promise must be a mapping"
        raise FormatError(msg)
    bound = AccuracyBound(
        take_setting(parts, "max_accuracy_loss", float),
        take_setting(parts, "n_harmed", int),
        take_setting(parts, "n_helped", int),
    )
    refuse_leftovers(parts, {})
    return bound


def _plain(name: str, value: Any) -> Any:
    """Return the value of a parameter as JSON can hold it."""
    if isinstance(value, np.random.RandomState):
        return None  # its draws are made; another fit draws anew
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(name, one) for one in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _plain(name, one) for key, one in value.items()}
    msg = (
        f"The parameter {name} cannot be saved, since it is {reprlib.repr(value)}. "
        "Numbers, strings, and lists or mappings of them can."
    )
    raise TypeError(msg)
