"""Predictions for one partition of the rows, the same on every engine.

A partition may be empty. Results always have the types declared when the job was built.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.errors import InvalidArgumentError
from spinney.forest import Forest
from spinney.integrations.portable import PortableModel, forest_of

N_EVALUATED = np.dtype(np.int32)
PROBABILITY = np.dtype(np.float64)


def label_type(model: Any) -> np.dtype:
    """Return the type of a model's predictions: that of its labels, or float64."""
    classes = getattr(model, "classes_", None)
    return PROBABILITY if classes is None else np.asarray(classes).dtype


def check_can(model: Any, method: str) -> None:
    """Raise if a model lacks a method that a job needs, before the job is built.

    Parameters
    ----------
    model : Forest or classifier
        The model to predict with.
    method : {"predict", "predict_counted", "predict_proba", "predict_model"}
        The method that the job will call.
    """
    if isinstance(model, Forest) and method == "predict_counted":
        return  # all of its trees
    if isinstance(model, Forest) and method == "predict_model":
        msg = (
            "A Forest evaluates all trees, so there is nothing to compare it with. "
            "Pass a fitted classifier, such as the result of spinney.accelerate."
        )
        raise InvalidArgumentError(msg)
    if isinstance(model, Forest) and method == "predict" and model.n_outputs > 1:
        missing = model.classes_ is None
    elif method == "predict_proba":
        missing = getattr(model, "classes_", None) is None
    else:
        missing = False
    if missing or not callable(getattr(model, method, None)):
        what = {
            "predict_counted": "does not count the trees it evaluates",
            "predict_proba": "has no probabilities",
        }.get(method, "has several outputs per row")
        msg = (
            f"A {type(model).__name__} {what}, so there is no {method} here. Pass the "
            "result of spinney.accelerate, or the trained model itself, which "
            "evaluates all trees."
        )
        raise InvalidArgumentError(msg)


def labels(portable: PortableModel, X: Any) -> NDArray[Any]:
    """Return the labels of a partition."""
    model, kind = portable.model, label_type(portable.model)
    if not _n_rows(X):
        return np.empty(0, dtype=kind)
    # Some classifiers predict as their model does, which may be a probability.
    if hasattr(model, "predict_counted"):
        return counted(portable, X)[0]
    return np.asarray(model.predict(X)).astype(kind, copy=False)


def counted(portable: PortableModel, X: Any) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """Return the labels of a partition, and the trees evaluated for each."""
    model = portable.model
    if isinstance(model, Forest):
        answers = labels(portable, X)
        return answers, np.full(len(answers), model.n_trees, dtype=N_EVALUATED)
    kind = label_type(model)
    if not _n_rows(X):
        return np.empty(0, dtype=kind), np.empty(0, dtype=N_EVALUATED)
    answers, n_evaluated = model.predict_counted(X)
    return (
        np.asarray(answers).astype(kind, copy=False),
        np.asarray(n_evaluated).astype(N_EVALUATED, copy=False),
    )


def probability_names(model: Any) -> list[str]:
    """Return the names of the columns of probabilities: the classes, as a rule.

    The columns are counted where there are more than classes (`n_probabilities`).
    """
    forest = model if isinstance(model, Forest) else getattr(model, "forest_", None)
    names = list(map(str, model.classes_))
    if forest is None or forest.n_probabilities == len(names):
        return names
    return list(map(str, range(forest.n_probabilities)))


def probabilities(portable: PortableModel, X: Any) -> NDArray[np.float64]:
    """Return the probabilities of all classes for a partition."""
    model = portable.model
    if not _n_rows(X):
        return np.empty((0, len(probability_names(model))), dtype=PROBABILITY)
    return np.asarray(model.predict_proba(X)).astype(PROBABILITY, copy=False)


def disagreements(portable: PortableModel, X: Any) -> NDArray[np.int64]:
    """Return how many rows of each class a partition has, and how many differ.

    The first column counts the rows to which the trained model assigns each class, the
    second those among them for which the classifier predicts another class.
    """
    model = portable.model
    classes = np.asarray(model.classes_)
    counts = np.zeros((len(classes), 2), dtype=np.int64)
    if not _n_rows(X):
        return counts
    own = getattr(model, "predict_model", model.predict_full)
    if forest_of(model).model_predicts != "answer":
        own = model.predict_full  # labels, where the model has probabilities
    full = np.asarray(own(X))
    differ = labels(portable, X) != full
    for index, label in enumerate(classes):
        of_class = full == label
        counts[index] = np.count_nonzero(of_class), np.count_nonzero(of_class & differ)
    return counts


def _n_rows(X: Any) -> int:
    return int(X.shape[0])


def width(model: Any) -> int:
    """Return how many columns a model takes."""
    return int(getattr(model, "n_features_in_", forest_of(model).n_features))


def feature_names(model: Any) -> list[str] | None:
    """Return the names of the columns that a model was fitted on, if it has them."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        names = forest_of(model).feature_names
    return None if names is None else [str(name) for name in names]


def columns_to_read(model: Any, given: list[str]) -> list[str]:
    """Return the columns of a data frame that a model takes, in its order.

    Parameters
    ----------
    model : Forest or classifier
        The model to predict with.
    given : list of str
        Names of the available columns.

    Returns
    -------
    columns : list of str
        By name if the model has feature names and all of them are there; other columns
        are not read. By position if none of them is there, and then the number of
        columns must match.

    Raises
    ------
    InvalidArgumentError
        If columns are missing, or some have the same name.
    """
    twice = sorted({name for name in given if given.count(name) > 1})
    if twice:
        msg = f"Several columns are called {', '.join(map(repr, twice))}. Rename them."
        raise InvalidArgumentError(msg)
    names = feature_names(model)
    if names is not None and set(names) <= set(given):
        return names
    n_features = width(model)
    # A frame with some of the names lacks columns, whatever their number: by position,
    # a key would pass for a feature.
    by_name = names is not None and bool(set(names) & set(given))
    strict = hasattr(model, "feature_names_in_") or by_name
    if not strict and len(given) == n_features:
        return given
    if names is not None and strict:
        missing = [name for name in names if name not in set(given)]
        msg = (
            f"The rows lack {len(missing)} of the {n_features} columns that the model "
            f"was fitted on: {_some(missing)}. The columns are: {_some(given)}. Rename "
            "or add columns first."
        )
    else:
        msg = (
            f"The rows have {len(given)} columns, but the model was fitted on "
            f"{n_features} columns without names. Select these columns, in the order "
            "used in training."
        )
    raise InvalidArgumentError(msg)


def refuse_texts(model: Any, columns: list[str], kinds: dict[str, str]) -> None:
    """Raise if a column holds strings where the model takes numbers.

    Parameters
    ----------
    model : Forest or classifier
        The model to predict with.
    columns : list of str
        Columns in the order of the model.
    kinds : dict
        Columns that do not hold numbers, and a description of what they hold.
    """
    if getattr(model, "has_preprocessing", False):
        return  # pipeline steps may take any type
    categories = forest_of(model).categories_ or (None,) * len(columns)
    for name, known in zip(columns, categories, strict=True):
        if name in kinds and known is None:
            msg = (
                f"Column {name!r} holds {kinds[name]}, and the model takes numbers "
                "there. Encode it as in training, or select other columns."
            )
            raise InvalidArgumentError(msg)


def _some(names: list[str]) -> str:
    shown = ", ".join(map(repr, names[:10]))
    return shown if len(names) <= 10 else f"{shown}, ..."
