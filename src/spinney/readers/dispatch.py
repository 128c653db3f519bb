"""Find out what a model is, without importing any library, and read it."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from spinney.errors import UnsupportedModelError
from spinney.forest import Forest
from spinney.readers.known_members import parse_document

SUPPORTED = (
    "scikit-learn's tree, forest, bagging and gradient boosting estimators, LightGBM, "
    "XGBoost and CatBoost models, model files of the last three (LightGBM text, "
    "XGBoost .json and .ubj, CatBoost .json and .cbm), and files written by "
    "spinney.save"
)

HEAD_BYTES = 4096

# Beginnings of pickles and of what joblib makes of them: zlib, gzip, bzip2, xz, lz4,
# and zip archives.
PICKLED = (
    b"\x80",
    b"\x78\x01",
    b"\x78\x5e",
    b"\x78\x9c",
    b"\x78\xda",
    b"\x1f\x8b",
    b"BZh",
    b"\xfd7zXZ",
    b"\x04\x22\x4d\x18",
    b"PK",
)


def read_model(model: Any, *, decision_threshold: float | None = None) -> Forest:
    """Convert a trained ensemble into a `Forest` with exactly its predictions.

    Parameters
    ----------
    model : estimator, booster, str or path
        A fitted scikit-learn, LightGBM, XGBoost or CatBoost model, a fitted
        `FeatureCostPruner` or `BudgetedForestClassifier`, or the path of a model file
        of LightGBM, XGBoost or CatBoost. The kind of model is determined by
        the module of its class; only the library it belongs to is imported. A
        :class:`~sklearn.frozen.FrozenEstimator` is unwrapped. A
        :class:`~sklearn.pipeline.Pipeline` that transforms rows before its model sees
        them is rejected, since a forest holds only the trees: `spinney.accelerate` and
        the classifiers apply its steps.
    decision_threshold : float, default=None
        For two classes: the probability of the second class from which it is
        predicted, above 0 and below 1; None for the model's own decision. Then
        ``forest.predict(X) == classes_[1]`` where ``model.predict_proba(X)[:, 1] >=
        decision_threshold``, on every row, and everything built from the forest
        refers to these predictions.

    Returns
    -------
    forest : Forest
        Predicts like the model on float32 and float64 rows, including NaN, infinities
        and values on a threshold.

    Raises
    ------
    UnsupportedModelError
        If the model cannot be read exactly; no model is read approximately.
    sklearn.exceptions.NotFittedError
        If the model has not been trained.

    Notes
    -----
    `Forest.predict` returns labels for every classifier. The `predict` of some models
    returns something else: probabilities from a Booster of LightGBM or XGBoost, raw
    scores from the class ``CatBoost``. `Forest.predict_model` returns what they do.

    Examples
    --------
    >>> import spinney
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = RandomForestClassifier(n_estimators=10, random_state=0).fit(X, y)
    >>> forest = spinney.read_model(model)
    >>> forest.n_trees, forest.aggregation
    (10, 'mean')
    >>> bool((forest.predict(X) == model.predict(X)).all())
    True
    """
    forest = _read(model)
    if decision_threshold is None:
        return forest
    from spinney.readers.sklearn_thresholds import with_decision_threshold

    return with_decision_threshold(forest, decision_threshold)


def _read(model: Any) -> Forest:
    """Return a model as it decides itself."""
    if isinstance(model, Forest):
        return model
    if isinstance(model, (str, os.PathLike)):
        return _read_file(Path(model))
    if str(type(model).__module__).startswith("spinney.pruning."):
        # These predict as their forest does, which is all there is to read.
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(model)
        return model.forest_
    library = library_of(model)
    if library == "sklearn":
        from spinney.readers.sklearn import read_sklearn

        return read_sklearn(model)
    if library == "lightgbm":
        from spinney.readers.lightgbm import read_lightgbm

        return read_lightgbm(model)
    if library == "xgboost":
        from spinney.readers.xgboost import read_xgboost

        return read_xgboost(model)
    if library == "catboost":
        from spinney.readers.catboost import read_catboost

        return read_catboost(model)
    msg = (
        f"read_model cannot read an object of type {_type_name(model)}.\n"
        f"Hint: supported are {SUPPORTED}."
    )
    raise UnsupportedModelError(msg)


def _type_name(model: Any) -> str:
    kind = model if isinstance(model, type) else type(model)
    return f"{kind.__module__}.{kind.__qualname__}"


def library_of(model: Any) -> str | None:
    """Return the library that the class of a model, or a base of it, comes from.

    Parameters
    ----------
    model : object
        Anything but a class.

    Returns
    -------
    library : {"sklearn", "lightgbm", "xgboost", "catboost"} or None
        None if it comes from none of them.
    """
    if isinstance(model, type):
        msg = (
            f"read_model needs a trained model, got the class {_type_name(model)} "
            "itself.\nHint: make an instance of it and fit that."
        )
        raise UnsupportedModelError(msg)
    known = ("lightgbm", "xgboost", "catboost", "_catboost", "sklearn")
    # From the class itself upwards: XGBClassifier also inherits from scikit-learn.
    for base in type(model).__mro__:
        root = str(base.__module__).partition(".")[0]
        if root in known:
            return root.lstrip("_")
    return None


def _read_file(path: Path) -> Forest:
    """Read a model file; its content, not its name, tells what it is."""
    # These two return False, where methods of Path raise, if the text cannot be a path
    # at all, as when somebody passes the content of a model file.
    if os.path.isdir(path):
        msg = f"{_shown(path)} is a directory. Pass the path of a model file in it."
        raise IsADirectoryError(msg)
    if not os.path.exists(path):
        msg = f"There is no file {_shown(path)}. Check the path."
        raise FileNotFoundError(msg)
    if not os.path.isfile(path):  # a pipe would be waited for, perhaps for ever
        msg = (
            f"{_shown(path)} is not a regular file. Save the model to one and pass its "
            "path."
        )
        raise UnsupportedModelError(msg)
    # The beginning first: what is no model may be large.
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    if not head:
        msg = f"{_shown(path)} is empty. Save the model again."
        raise UnsupportedModelError(msg)
    if re.match(rb"(\xef\xbb\xbf)?\s*\{\s*[\"}]", head):
        return _read_json(path)
    if head[:1] == b"{":
        from spinney.readers.xgboost import read_xgboost_ubj

        return read_xgboost_ubj(path.read_bytes())
    if head.startswith((b"tree\n", b"tree\r\n")):
        from spinney.readers.lightgbm import read_lightgbm_text

        return read_lightgbm_text(_text_of(path))
    if head.startswith(b"CBM1"):
        from spinney.readers.catboost import read_catboost_binary

        return read_catboost_binary(path)
    if head[8:9] == b"{":
        return _read_own(path)
    msg = f"{_shown(path)} is not a known model file.\nHint: supported are {SUPPORTED}."
    if head.startswith(PICKLED):
        msg += (
            " A pickle or joblib file can run any code when it is loaded: load it "
            "yourself, if you trust its origin, and pass the model."
        )
    raise UnsupportedModelError(msg)


def _shown(path: Path) -> str:
    """Return the path in quotes, cut if it is no real path but a long text."""
    text = repr(str(path))
    return text if len(text) <= 300 else f"{text[:200]}... ({len(text):,} characters)"


def _text_of(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        msg = f"{_shown(path)} begins like a model file but is not text. Save it again."
        raise UnsupportedModelError(msg) from error


def _read_own(path: Path) -> Forest:
    from spinney.persistence.store import load

    loaded = load(path)
    if not isinstance(loaded, Forest):
        msg = (
            f"{_shown(path)} holds a {type(loaded).__name__}, not a forest.\n"
            "Hint: spinney.load returns it, ready to predict."
        )
        raise UnsupportedModelError(msg)
    return loaded


def _read_json(path: Path) -> Forest:
    try:
        document = parse_document(_text_of(path))
    except (ValueError, RecursionError) as error:
        msg = (
            f"{_shown(path)} is damaged: not valid JSON ({error}). "
            "Save the model again."
        )
        raise UnsupportedModelError(msg) from error
    if "learner" in document:
        from spinney.readers.xgboost import read_xgboost_document

        return read_xgboost_document(document)
    if "oblivious_trees" in document or "trees" in document:
        from spinney.readers.catboost import read_catboost_document

        return read_catboost_document(document)
    msg = (
        f"{_shown(path)} is JSON, but neither an XGBoost nor a CatBoost model.\n"
        f"Hint: supported are {SUPPORTED}."
    )
    raise UnsupportedModelError(msg)
