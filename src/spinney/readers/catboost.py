"""CatBoost models, their binary files and their JSON exports.

What CatBoost does, as far as exactness depends on it:

- Rows are rounded to float32; a value above the border sets the bit of the split, so
  ``x <= border`` goes left. NaN goes left too, unless training saw NaN in that column
  under ``nan_mode="Max"``.
- The trees are added in order, in double; the bias comes last.
- A single output means the second class if it is *above* the logit of the probability
  threshold. Several outputs are compared as raw scores; the first of the largest wins.
- Labels, raw scores and logistic probabilities come out bit for bit. Softmax and the
  exponential of a Poisson or Tweedie regressor rest on a faster exponential function
  there; they agree to about 1e-14 of their value.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.errors import InvalidForestError, UnsupportedModelError
from spinney.forest import Forest
from spinney.readers.catboost_categories import read_categories
from spinney.readers.catboost_document import (
    numbers,
    part,
    refuse,
    refuse_unknown_members,
)
from spinney.readers.catboost_trees import read_columns, read_trees
from spinney.readers.fitted import not_fitted

# By the name that the document has for it: what a label is in JSON, and in NumPy.
LABEL_TYPES: dict[str, tuple[tuple[type, ...], type]] = {
    "Integer": ((int,), np.int64),
    "Float": ((int, float), np.float64),
    "String": ((str,), np.object_),  # as the labels that CatBoost predicts
    "Boolean": ((bool,), np.bool_),
}

# Losses whose models are classifiers even if the document has no labels.
CLASSIFIER_LOSSES = (
    "Logloss",
    "CrossEntropy",
    "Focal",
    "MultiClass",
    "MultiClassOneVsAll",
)
EXPONENT_LOSSES = ("Poisson", "Tweedie")
REFUSED_LOSSES = {
    "MultiLogloss": "several labels at once",
    "MultiCrossEntropy": "several labels at once",
    "RMSEWithUncertainty": "a mean and a variance at once",
}


def read_catboost(model: Any) -> Forest:
    """Read a fitted CatBoost model.

    Parameters
    ----------
    model : CatBoostClassifier, CatBoostRegressor, CatBoostRanker or CatBoost
        A fitted model on numeric and categorical features.

    Returns
    -------
    forest : Forest
        Predicts as the model does. The class ``CatBoost`` returns raw scores from
        ``predict``, whatever the loss; its forest predicts as a classifier or
        regressor of that loss would, and gives the raw scores from
        `Forest.predict_model`.

    Raises
    ------
    UnsupportedModelError
        If the model cannot be read exactly.
    sklearn.exceptions.NotFittedError
        If the model has not been trained.
    """
    from catboost import (
        CatBoost,
        CatBoostClassifier,
        CatBoostError,
        CatBoostRanker,
        CatBoostRegressor,
    )

    if not isinstance(model, CatBoost):
        msg = (
            f"read_model cannot read an object of type {type(model).__name__} of "
            "CatBoost.\nHint: pass the fitted model itself."
        )
        raise UnsupportedModelError(msg)
    if not model.is_fitted():
        raise not_fitted(model)
    # The library writes JSON to files only.
    with tempfile.TemporaryDirectory(prefix="spinney-") as folder:
        path = Path(folder) / "model.json"
        try:
            model.save_model(str(path), format="json")
        except CatBoostError as error:
            msg = (
                f"CatBoost cannot export this {type(model).__name__} as JSON, which is "
                f"how spinney reads it: {error}\nHint: models with text or embedding "
                "features cannot be read; train on numeric and categorical features."
            )
            raise UnsupportedModelError(msg) from error
        document = json.loads(path.read_text(encoding="utf-8"))
    forest = read_catboost_document(document)
    answers = (CatBoostClassifier, CatBoostRegressor, CatBoostRanker)
    return (
        forest if isinstance(model, answers) else forest.replace(model_predicts="raw")
    )


def read_catboost_binary(path: str | os.PathLike[str]) -> Forest:
    """Read a file in CatBoost's own binary format (``.cbm``).

    Parameters
    ----------
    path : str or path
        The file. Only CatBoost itself, which must be installed, can decode it.

    Returns
    -------
    forest : Forest
        As from :func:`read_catboost`.

    Raises
    ------
    UnsupportedModelError
        If CatBoost is not installed or cannot load the file, or if the model in it
        cannot be read exactly.
    """
    name = os.fspath(path)
    try:
        from catboost import CatBoost, CatBoostError
    except ImportError as error:
        msg = (
            f"{name!r} is a CatBoost binary model, which only the catboost package can "
            "decode, and that is not installed.\nHint: install catboost, or export the "
            "model with save_model(path, format='json') where it is."
        )
        raise UnsupportedModelError(msg) from error
    model = CatBoost()
    try:
        model.load_model(name, format="cbm")
    except CatBoostError as error:
        msg = (
            f"{name!r} begins like a CatBoost binary model, but CatBoost cannot load "
            f"it: {error}\nHint: save the model again."
        )
        raise UnsupportedModelError(msg) from error
    return read_catboost(model).replace(model_predicts="answer")


def read_catboost_document(document: dict[str, Any]) -> Forest:
    """Read CatBoost's JSON export, already parsed; needs no CatBoost.

    Parameters
    ----------
    document : dict
        What ``save_model(path, format="json")`` writes.

    Returns
    -------
    forest : Forest
        As from :func:`read_catboost`.

    Raises
    ------
    UnsupportedModelError
        If the document is damaged, or the model in it cannot be read exactly.
    """
    info = part(document, "model_info", dict, "the document")
    refuse_unknown_members(document)
    loss = _loss(info)
    columns = read_columns(part(document, "features_info", dict, "the document"))
    try:
        encoder, categories = read_categories(document, columns)
        arrays = read_trees(document, columns, categories)
        n_outputs = arrays["value"].shape[1]
        return Forest(
            **arrays,
            **_answers(info, loss, n_outputs),
            n_features=columns.n_features,
            encoder=encoder,
            feature_names=columns.names,
            aggregation="sum",
            base_score=_bias(document, n_outputs),
            base_added="last",
            source=f"CatBoost ({loss})",
        )
    except InvalidForestError as error:
        refuse(str(error).rstrip("."), error)


def _loss(info: dict[str, Any]) -> str:
    """Return the name of the loss, unless its predictions are none of a Forest."""
    # A sum of models has its loss as a text of its own, a trained one among `params`.
    described = info.get("loss_function")
    if isinstance(described, str):
        try:
            described = json.loads(described)
        except (json.JSONDecodeError, RecursionError) as error:
            refuse("'loss_function' of model_info is not valid JSON", error)
    else:
        params = part(info, "params", dict, "model_info")
        described = part(params, "loss_function", dict, "the training parameters")
    loss: str = part(described, "type", str, "the loss function")
    if loss in REFUSED_LOSSES:
        msg = (
            f"CatBoost model with loss {loss} predicts {REFUSED_LOSSES[loss]}, which "
            "spinney cannot express.\nHint: train one model for each."
        )
        raise UnsupportedModelError(msg)
    return loss


def _bias(document: dict[str, Any], n_outputs: int) -> NDArray[np.float64]:
    """Return what is added after the trees; a scale other than one is refused."""
    pair = part(document, "scale_and_bias", list, "the document")
    if len(pair) != 2:
        refuse(f"'scale_and_bias' must have two entries, got {len(pair)}")
    if pair[0] != 1:
        msg = (
            f"CatBoost model has the scale {pair[0]!r}, by which it multiplies the sum "
            "of the trees; spinney only reads models with scale 1.\n"
            "Hint: model.set_scale_and_bias(1, bias) before the export."
        )
        raise UnsupportedModelError(msg)
    if pair[1] is None:
        return np.zeros(n_outputs)
    # Old versions write a plain number.
    given = pair[1] if isinstance(pair[1], list) else [pair[1]]
    bias = numbers(given, "the bias")
    if len(bias) != n_outputs and bias.tolist() != [0]:
        refuse(f"the bias must have {n_outputs} entries, got {len(bias)}")
    return np.broadcast_to(bias, (n_outputs,))


def _answers(info: dict[str, Any], loss: str, n_outputs: int) -> dict[str, Any]:
    """Return the labels, and how raw scores become predictions, as a Forest has it."""
    labels = _labels(info, loss, n_outputs)
    if labels is None:
        return {"link": "exp" if loss in EXPONENT_LOSSES else "identity"}
    if n_outputs == 1:
        threshold = _decision_threshold(info)
        return {"classes": labels, "link": "logistic", "decision_threshold": threshold}
    # CatBoost, too, takes softmax for every other loss.
    link = "logistic_each" if loss == "MultiClassOneVsAll" else "softmax"
    return {"classes": labels, "link": link}


def _labels(info: dict[str, Any], loss: str, n_outputs: int) -> NDArray[Any] | None:
    """Return the class labels in the order of the outputs; None for a regressor."""
    n_classes = max(n_outputs, 2)
    if info.get("class_params") is None:
        return np.arange(n_classes) if loss in CLASSIFIER_LOSSES else None
    params = part(info, "class_params", dict, "model_info")
    kind = part(params, "class_label_type", str, "class_params")
    if kind not in LABEL_TYPES:
        refuse(f"'class_label_type' is {kind!r}")
    accepted, dtype = LABEL_TYPES[kind]
    names = part(params, "class_names", list, "class_params")
    # Without names the classes are numbered, all of them or those that occurred.
    n_labels = len(names) or params.get("classes_count") or n_classes
    outputs = part(params, "class_to_label", list, "class_params")
    if n_labels != n_classes or outputs != list(range(n_classes)):
        msg = (
            f"CatBoost model declares {n_labels} classes and was trained on {outputs} "
            f"of them, while its trees have {n_outputs} outputs: classes that never "
            "occurred have no score.\nHint: train with the classes that occur, without "
            "class_names and classes_count."
        )
        raise UnsupportedModelError(msg)
    names = names or list(range(n_classes))
    for name in names:
        is_flag = isinstance(name, bool)
        if not isinstance(name, accepted) or is_flag != (kind == "Boolean"):
            refuse(f"the class label {name!r} is not of type {kind}")
    try:
        return np.array(names, dtype=dtype)
    except OverflowError as error:
        refuse(f"a class label does not fit into {kind}", error)


def _decision_threshold(info: dict[str, Any]) -> float:
    """Return the smallest raw score that means the second of two classes."""
    given = info.get("binclass_probability_threshold", "0.5")
    try:
        probability = float(given)
    except (TypeError, ValueError, OverflowError) as error:
        refuse(f"the probability threshold is {given!r}", error)
    if not 0 <= probability <= 1:
        refuse(f"the probability threshold must be in [0, 1], got {given!r}")
    # Zero makes every score positive, one makes none.
    largest = float(np.finfo(np.float64).max)
    if probability == 0:
        return -largest
    odds = 1 / probability - 1
    if odds == 0:
        return largest
    # Written like this, the logit agrees with CatBoost's to the last bit.
    return math.nextafter(-math.log(odds), math.inf)
