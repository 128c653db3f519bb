"""Classifiers of scikit-learn that decide otherwise than the model inside them.

``CalibratedClassifierCV`` puts a rising curve behind a model;
``FixedThresholdClassifier`` and ``TunedThresholdClassifierCV`` move the probability
from which it is positive. With two classes and one model inside, each is the same trees
with another threshold.
"""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.errors import (
    InvalidArgumentError,
    InvalidForestError,
    UnsupportedModelError,
)
from spinney.forest import Forest
from spinney.forest.curves import Curve, turning_point
from spinney.forest.links import (
    LARGEST_FLOAT32_EXPONENT,
    class_probabilities,
    exponential,
)
from spinney.readers.fitted import require_fitted


def read_calibrated(model: Any) -> Forest:
    """Read a ``CalibratedClassifierCV`` of two classes with one model inside."""
    from spinney.readers.dispatch import read_model

    require_fitted(model, "calibrated_classifiers_")
    name = type(model).__name__
    parts = model.calibrated_classifiers_
    if len(parts) > 1:
        msg = (
            f"{name} cannot be read: it averages {len(parts)} models, one per fold, "
            "each behind a curve of its own, and a sum of curves is not a threshold "
            "on one score, so early exit is not possible.\nHint: "
            "spinney.accelerate(model), without rows, evaluates all trees, exactly. "
            "Or calibrate a single model: "
            "CalibratedClassifierCV(FrozenEstimator(model)), or ensemble=False."
        )
        raise UnsupportedModelError(msg)
    if len(model.classes_) != 2:
        msg = (
            f"{name} cannot be read: it has {len(model.classes_)} classes, each with a "
            "curve of its own, so early exit is not possible.\nHint: "
            "spinney.accelerate(model), without rows, evaluates all trees, exactly."
        )
        raise UnsupportedModelError(msg)
    inside = parts[0].estimator
    forest = single_score(read_model(inside), name)
    if forest.curve is not None:
        msg = f"{name} cannot be read: the model inside is calibrated already."
        raise UnsupportedModelError(msg)
    known = list(forest.classes_)  # type: ignore[arg-type]
    # For a temperature, labels that are strings were numbered before training.
    if parts[0].method == "temperature" and known == [0, 1]:
        forest = forest.replace(classes=model.classes_)
    elif known != list(model.classes_):
        msg = f"{name} cannot be read: its classes are not those of the model inside."
        raise UnsupportedModelError(msg)
    by_raw = hasattr(inside, "decision_function")
    if by_raw:
        _require_own_scores(
            forest,
            name,
            "spinney.accelerate(model), without rows, evaluates all trees, exactly.",
        )
    try:
        curve = _curve(parts[0], "raw" if by_raw else "probability", name)

        def is_positive(scores: NDArray[np.floating]) -> NDArray[np.bool_]:
            given = scores if by_raw else _probability(forest, scores)
            both = curve.probabilities(given)
            return both[:, 1] > both[:, 0]

        threshold = turning_point(is_positive, forest.sum_dtype, _reach(forest))
    except InvalidForestError as error:
        msg = (
            f"{name} cannot be read: {error}\nHint: read the model that it calibrates."
        )
        raise UnsupportedModelError(msg) from error
    return forest.replace(
        curve=curve, decision_threshold=threshold, model_predicts="answer", source=name
    )


def _reach(forest: Forest) -> float:
    """Return a number that no score of the forest exceeds, with room to spare."""
    largest = np.maximum.reduceat(np.abs(forest.value[:, 0]), forest.tree_offsets[:-1])
    return 2.0 * float(largest.sum() + np.abs(forest.base_score).sum()) + 1.0


def _probability(forest: Forest, scores: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return the probability of the second class, to the last bit of the library."""
    if forest.curve is not None:
        return forest.probabilities(scores.reshape(-1, 1))[:, 1]
    if forest.link == "logistic" and scores.dtype == np.float32:
        # XGBoost: the exponential function of the C library, number by number.
        exponent = np.minimum(-scores, LARGEST_FLOAT32_EXPONENT)
        one = np.float32(1)
        return one / (one + exponential(exponent, as_in_c=True))
    raw = scores.reshape(-1, 1)
    if forest.aggregation == "mean" and forest.link == "identity":
        raw = np.clip(raw, 0.0, 1.0)  # a mean of probabilities is nowhere else
    return class_probabilities(raw, forest.link, forest.link_scale)[:, 1]


def _curve(part: Any, of: str, name: str) -> Curve:
    calibrator = part.calibrators[0]
    kind = part.method
    if kind == "sigmoid":
        return Curve(kind, of, y=np.array([calibrator.a_, calibrator.b_]))
    if kind == "isotonic":
        # The bounds that it clips to are its first and last corner.
        x, y = calibrator.X_thresholds_, calibrator.y_thresholds_
        if calibrator.X_min_ != x[0] or calibrator.X_max_ != x[-1]:
            msg = "its isotonic curve has corners outside its bounds"
            raise InvalidForestError(msg)
        return Curve(kind, of, x=x, y=y)
    if kind == "temperature":
        beta = np.asarray(calibrator.beta_).reshape(-1)
        return Curve(kind, of, x=np.empty(0, dtype=beta.dtype), y=beta)
    msg = (
        f"{name} cannot be read: its method {kind!r} is unknown.\nHint: calibrate with "
        "'sigmoid', 'isotonic' or 'temperature'."
    )
    raise UnsupportedModelError(msg)


def read_moved_threshold(model: Any) -> Forest:
    """Read a ``FixedThresholdClassifier`` or ``TunedThresholdClassifierCV``."""
    from spinney.readers.dispatch import read_model

    name = type(model).__name__
    inside = getattr(model, "estimator_", None)
    if inside is None:
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(model)
        inside = model.estimator
    forest = single_score(read_model(inside), name)
    method = model._get_response_method()
    wanted = [method] if isinstance(method, str) else list(method)
    used = next(each for each in wanted if hasattr(inside, each))
    threshold = getattr(model, "best_threshold_", getattr(model, "threshold", "auto"))
    if isinstance(threshold, str):  # "auto"
        threshold = 0.5 if used == "predict_proba" else 0.0
    positive = _positive_label(model)
    if positive is not None and positive != forest.classes_[1]:  # type: ignore[index]
        hint = "set pos_label to the second class."
        if used == "predict_proba" and 0.0 < threshold < 1.0:
            hint = (
                "pass the model inside, with "
                f"decision_threshold={1.0 - threshold:.12g}. Predictions are the same "
                "but for rows whose probability is that, up to rounding."
            )
        msg = (
            f"{name} cannot be read: its threshold is on the probability of "
            f"{positive!r}, the first of the two classes.\nHint: {hint}"
        )
        raise UnsupportedModelError(msg)
    moved = _decides_from(forest, threshold, used == "decision_function", name)
    return moved.replace(source=name)


def with_decision_threshold(forest: Forest, threshold: Any) -> Forest:
    """Return a forest that is positive from another probability on.

    Parameters
    ----------
    forest : Forest
        A classifier of two classes.
    threshold : float
        The label is that of the second class where the probability that the library
        gives it is at least this, above 0 and below 1.
    """
    is_number = isinstance(threshold, Real) and not isinstance(threshold, bool)
    if not is_number or not 0.0 < threshold < 1.0:
        msg = (
            f"decision_threshold must be above 0 and below 1, got {threshold!r}. It is "
            "the probability of the second class from which it is predicted."
        )
        raise InvalidArgumentError(msg)
    name = f"{forest.source or 'The model'} with a decision threshold"
    return _decides_from(single_score(forest, name), float(threshold), False, name)


def _decides_from(forest: Forest, threshold: float, by_raw: bool, name: str) -> Forest:
    """Return a forest that is positive from a probability, or raw score, on."""
    if by_raw and threshold != 0.0:  # a sum has the sign of the mean
        _require_own_scores(forest, name, "set response_method='predict_proba'.")

    def is_positive(scores: NDArray[np.floating]) -> NDArray[np.bool_]:
        score = scores if by_raw else _probability(forest, scores)
        return score >= threshold

    try:
        moved = turning_point(is_positive, forest.sum_dtype, _reach(forest))
    except InvalidForestError as error:
        msg = f"{name} cannot be read: {error}"
        raise UnsupportedModelError(msg) from error
    return forest.replace(decision_threshold=moved, model_predicts="answer")


def _require_own_scores(forest: Forest, name: str, hint: str) -> None:
    """Refuse raw scores that are not those of the forest, whose trees are averaged."""
    if forest.aggregation == "mean":
        msg = (
            f"{name} cannot be read: it decides by the raw scores of {forest.source}, "
            "which are sums over the trees, while its probabilities come from their "
            f"means, and a mean is rounded.\nHint: {hint}"
        )
        raise UnsupportedModelError(msg)


def _positive_label(model: Any) -> Any:
    scorer = getattr(model, "_curve_scorer", None)
    return model.pos_label if scorer is None else scorer._get_pos_label()


def single_score(forest: Forest, name: str) -> Forest:
    """Return a forest of two classes as one with a single score, that of the second.

    Parameters
    ----------
    forest : Forest
        A classifier.
    name : str
        How an error calls the model around it.

    Raises
    ------
    UnsupportedModelError
        If it has other classes, or several scores that are not averaged.
    """
    if forest.classes is None or len(forest.classes) != 2:
        has = "none" if forest.classes is None else len(forest.classes)
        msg = (
            f"{name} cannot be read: the model inside must have two classes, and it "
            f"has {has}.\nHint: leave the threshold out. Of several classes the most "
            "probable one is predicted."
        )
        raise UnsupportedModelError(msg)
    if forest.n_outputs == 1:
        return forest
    if forest.aggregation != "mean" or forest.link != "identity":
        msg = (
            f"{name} cannot be read: the model inside ({forest.source}) has two scores."
            "\nHint: train it as a model of two classes with one score."
        )
        raise UnsupportedModelError(msg)
    return forest.replace(value=forest.value[:, 1:], n_outputs=1, base_score=0.0)
