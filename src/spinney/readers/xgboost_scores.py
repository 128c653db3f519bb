"""What the raw scores of an XGBoost model mean, and where they begin."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.errors import UnsupportedModelError
from spinney.forest.links import c_float_function, smallest_positive_score
from spinney.readers.xgboost_trees import refuse_damaged

IDENTITY_OBJECTIVES = (
    "reg:squarederror",
    "reg:linear",
    "reg:absoluteerror",
    "reg:pseudohubererror",
    "reg:squaredlogerror",
    "reg:quantileerror",
    "rank:pairwise",
    "rank:ndcg",
    "rank:map",
)
EXPONENT_OBJECTIVES = (
    "count:poisson",
    "reg:gamma",
    "reg:tweedie",
    "survival:cox",
    "survival:aft",
)
TWO_CLASS_OBJECTIVES = ("binary:logistic", "binary:logitraw", "reg:logistic")
CLASS_OBJECTIVES = ("multi:softprob", "multi:softmax")
SUPPORTED = (
    "binary:logistic, binary:logitraw, multi:softprob, multi:softmax, "
    + ", ".join(IDENTITY_OBJECTIVES + EXPONENT_OBJECTIVES)
)

# XGBoost keeps probabilities this far from 0 and 1 before it takes their logit, since
# this version.
LOGIT_MARGIN, MARGIN_SINCE = np.float32(1e-6), (3, 2)


def decision(
    objective: str, kind: str, n_classes: int, n_targets: int
) -> dict[str, Any]:
    """Return the parameters of `Forest` that say what the raw scores mean.

    Parameters
    ----------
    objective : str
        Name of the objective.
    kind : {"Booster", "classifier", "regressor", "file"}
        What the model was read from; a file of which no estimator is known to have
        written it is ``"file"``.
    n_classes, n_targets : int
        Number of classes, 1 unless there are several outputs for them, and number of
        labels that a row has.
    """
    two_classes = objective in TWO_CLASS_OBJECTIVES
    if two_classes and n_targets > 1:
        msg = (
            f"The XGBoost model decides about {n_targets} labels at once, and a Forest "
            "about one.\nHint: spinney.accelerate(model), without rows, evaluates all "
            "trees, exactly; pass the model itself, not its file."
        )
        raise UnsupportedModelError(msg)
    if kind == "regressor" and (two_classes or objective in CLASS_OBJECTIVES):
        msg = (
            f"The XGBoost model is a regressor with objective={objective!r}, whose "
            "predictions are probabilities; spinney cannot read that.\nHint: train an "
            "XGBClassifier, or pass get_booster() and use predict_proba."
        )
        raise UnsupportedModelError(msg)
    if objective == "reg:logistic" and kind != "classifier":
        msg = (
            "The XGBoost model has objective='reg:logistic', whose predictions are "
            "probabilities without classes; spinney cannot read that.\nHint: train "
            "with objective='binary:logistic'."
        )
        raise UnsupportedModelError(msg)
    if two_classes:
        raw = objective == "binary:logitraw"
        positive = _raw_is_positive if raw else _probability_is_positive
        return {
            "classes": np.arange(2),
            "link": "identity" if raw else "logistic",
            "decision_threshold": smallest_positive_score(positive, np.float32),
            "model_predicts": (
                "answer" if kind != "Booster" else "raw" if raw else "probability"
            ),
        }
    if objective in CLASS_OBJECTIVES:
        by_raw = objective == "multi:softmax"
        if kind == "classifier" and n_classes == 2 and not by_raw:
            msg = (
                f"The XGBClassifier was trained on two classes with objective="
                f"{objective!r}; its predict does not return labels.\nHint: pass its "
                "get_booster(), or train with objective='binary:logistic'."
            )
            raise UnsupportedModelError(msg)
        return {
            "classes": np.arange(n_classes),
            "link": "softmax",
            "decides_by": "raw" if by_raw else "probability",
            # For this objective XGBClassifier leaves the softmax to SciPy.
            "exponential": "scipy" if by_raw and kind != "Booster" else "numpy",
            "model_predicts": (
                "answer" if by_raw or kind != "Booster" else "probability"
            ),
        }
    known = objective in IDENTITY_OBJECTIVES + EXPONENT_OBJECTIVES
    if not known or kind == "classifier":
        what = "is a classifier with" if known else "has"
        msg = (
            f"The XGBoost model {what} objective={objective!r}, which spinney cannot "
            f"read exactly.\nHint: supported are {SUPPORTED}."
        )
        raise UnsupportedModelError(msg)
    return {"link": "exp" if objective in EXPONENT_OBJECTIVES else "identity"}


def label_threshold() -> float:
    """Return the smallest raw score that means the second of two classes."""
    return smallest_positive_score(_probability_is_positive, np.float32)


def _raw_is_positive(raw: np.floating) -> bool:
    # XGBClassifier compares whatever its booster predicts with one half.
    return bool(raw > np.float32(0.5))


def _probability_is_positive(raw: np.floating) -> bool:
    one = np.float32(1)
    power = c_float_function("expf", math.exp)(-raw)
    return bool(one / (one + power) > np.float32(0.5))


def base_score(
    settings: dict[str, Any], objective: str, n_outputs: int, version: list[int]
) -> NDArray[np.float32]:
    """Return the raw score before any tree, one number per output.

    Parameters
    ----------
    settings : dict
        The part of the document that holds the base score: a number, or a list of
        them, as text. It is a prediction, such as a probability, not a raw score.
    objective : str
        Name of the objective.
    n_outputs : int
        Number of outputs.
    version : list of int
        The version that wrote the document, empty if that is not known.
    """
    given = settings.get("base_score")
    try:
        stored = json.loads(given) if isinstance(given, str) else given
        base: NDArray[Any] = np.atleast_1d(np.asarray(stored, dtype=np.float64))
        with np.errstate(over="ignore"):
            base = base.astype(np.float32)
    except (TypeError, ValueError, OverflowError, RecursionError):
        base = np.empty(0, dtype=np.float32)
    if base.shape not in ((1,), (n_outputs,)) or not np.isfinite(base).all():
        refuse_damaged(f"'base_score' must be {n_outputs} numbers, got {given!r:.40}")
    base = np.resize(base, n_outputs)
    log = c_float_function("logf", math.log)
    one = np.float32(1)
    if objective in ("binary:logistic", "reg:logistic"):
        if ((base < 0) | (base > 1)).any():
            refuse_damaged(f"'base_score' must be a probability, got {given!r:.40}")
        if not version or tuple(version[:2]) >= MARGIN_SINCE:
            base = np.clip(base, LOGIT_MARGIN, one - LOGIT_MARGIN)
        elif ((base <= 0) | (base >= 1)).any():
            refuse_damaged(f"'base_score' must not be certain, got {given!r:.40}")
        return np.array([-log(one / each - one) for each in base], dtype=np.float32)
    if objective in EXPONENT_OBJECTIVES:
        if (base <= 0).any():
            refuse_damaged(f"'base_score' must be above zero, got {given!r:.40}")
        return np.array([log(each) for each in base], dtype=np.float32)
    return base
