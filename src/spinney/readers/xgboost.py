"""XGBoost models and their ``.json`` and ``.ubj`` files.

What XGBoost does, as far as exactness depends on it (checked with 2.1 to 3.4):

- Rows are rounded to float32. ``x < t`` goes left; NaN goes where the node says.
- Members of a category set go right. Fractions are cut off; negative numbers, and
  numbers that are no category of the model, are in no set.
- Since 3.1 a model keeps the categories of the data frame that it was trained on, and
  values of other frames are looked up there (`xgboost_categories`). Before, the codes
  of the given frame were used, whatever they meant.
- Trees are added in order, in float32, onto the base score. That is stored as a
  probability (or as a mean, under a log link) and turned into a raw score by the C
  library's `logf`. Labels and raw scores come out bit for bit.
- ``dart`` multiplies each leaf by the weight of its tree. Before 3.3, the scikit-learn
  interface adds the base score to the leaf, and takes it off again, before it does so;
  the last bits then differ from those of ``Booster.predict``. Since 3.3 the document
  says ``gbtree`` and has weights beside the trees, and the two interfaces agree.
- Probabilities rest on another exponential function here; they agree to a few units
  in the last place of a float32. ``XGBClassifier`` with ``multi:softmax`` leaves the
  softmax to SciPy, whose bits are met.
"""

from __future__ import annotations

import json
import math
import warnings
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from spinney.errors import InvalidForestError, SpinneyWarning, UnsupportedModelError
from spinney.forest import MAX_OUTPUTS, Forest
from spinney.forest.derived import LabelSet
from spinney.readers.fitted import not_fitted
from spinney.readers.known_members import refuse_unknown, warn_of_newer_version
from spinney.readers.ubjson import decode_ubjson
from spinney.readers.xgboost_categories import read_categories
from spinney.readers.xgboost_scores import base_score, decision, label_threshold
from spinney.readers.xgboost_trees import (
    fill_inner_values,
    numbers,
    part,
    read_trees,
    refuse_damaged,
)

# All that documents of XGBoost 1.3 to 3.4 have; see `known_members`.
MEMBERS = {
    "document": ("learner", "version"),
    "learner": (
        "attributes",
        "feature_names",
        "feature_types",
        "gradient_booster",
        "learner_model_param",
        "objective",
    ),
    "gradient_booster": ("gbtree", "model", "name", "weight_drop"),
    "gbtree": ("model", "name"),
    "model": (
        "cats",
        "gbtree_model_param",
        "iteration_indptr",
        "tree_info",
        "trees",
        "weight_drop",
    ),
    "cats": ("enc", "feature_segments", "sorted_idx"),
    "gbtree_model_param": ("num_parallel_tree", "num_trees", "size_leaf_vector"),
    "learner_model_param": (
        "base_score",
        "boost_from_average",
        "num_class",
        "num_feature",
        "num_target",
    ),
    # Settings of the loss, which matter in training alone.
    "objective": (
        "aft_loss_param",
        "lambda_rank_param",
        "lambdarank_param",
        "name",
        "poisson_regression_param",
        "pseudo_huber_param",
        "quantile_loss_param",
        "reg_loss_param",
        "softmax_multiclass_param",
        "ti+",
        "tj-",
        "tweedie_regression_param",
    ),
    "tree_param": ("num_deleted", "num_feature", "num_nodes", "size_leaf_vector"),
}
TREE_MEMBERS = (
    "base_weights",
    "categories",
    "categories_nodes",
    "categories_segments",
    "categories_sizes",
    "default_left",
    "id",
    "leaf_child_counts",
    "leaf_weights",
    "left_children",
    "loss_changes",
    "parents",
    "right_children",
    "split_conditions",
    "split_indices",
    "split_type",
    "sum_hessian",
    "tree_param",
)


def read_xgboost(model: Any) -> Forest:
    """Read a trained XGBoost model.

    Parameters
    ----------
    model : Booster, XGBClassifier, XGBRegressor, XGBRanker or XGBRF estimator
        With ``gbtree`` or ``dart`` trees. After early stopping, estimators predict
        with the trees up to their best iteration, and a Booster with all of them; so
        does what is read from each.

    Returns
    -------
    forest : Forest
        Predicts like ``model.predict``; its `decision_function` like
        ``model.predict(..., output_margin=True)``. A Booster of a two-class or
        softmax objective is read as a classifier whose `predict` returns labels; what
        ``Booster.predict`` returns is then `Forest.predict_model`.

    Raises
    ------
    UnsupportedModelError
        If the model cannot be read exactly.
    sklearn.exceptions.NotFittedError
        If the model has not been trained.
    """
    from xgboost import Booster, XGBModel
    from xgboost.core import XGBoostError

    name = type(model).__name__
    if isinstance(model, Booster):
        try:
            content = model.save_raw("ubj")
        except XGBoostError as error:  # it knows of no features yet
            raise not_fitted(model, "xgboost.train") from error
        return _read(decode_ubjson(bytes(content)), "Booster", name)
    if not isinstance(model, XGBModel):
        msg = (
            f"spinney cannot read a {name} of XGBoost.\nHint: pass a Booster, or an "
            "XGBClassifier, XGBRegressor, XGBRanker, XGBRFClassifier or "
            "XGBRFRegressor."
        )
        raise UnsupportedModelError(msg)
    if not model.__sklearn_is_fitted__():
        raise not_fitted(model)
    document = decode_ubjson(bytes(model.get_booster().save_raw("ubj")))
    kind = "classifier" if hasattr(model, "n_classes_") else "regressor"
    forest = _read(document, kind, name)
    if kind == "classifier" and forest.link == "softmax":
        _refuse_other_classes(name, int(model.n_classes_), forest)
    # It is compared in float32, and NaN is missing beside it.
    missing = float(np.float32(model.missing))
    if math.isnan(missing):
        return forest
    if math.isinf(missing):
        _refuse_infinity(name, missing)
    return forest.replace(missing_value=missing)


def _refuse_other_classes(name: str, n_classes: int, forest: Forest) -> None:
    """Refuse a softmax over more outputs than the classes that training has seen.

    XGBoost's estimator then takes probabilities for those of several labels, and
    returns tables that are no prediction for a row.
    """
    if n_classes > 2 or n_classes == forest.n_outputs or forest.decides_by == "raw":
        return
    msg = (
        f"The {name} has seen {n_classes} classes, but was trained with "
        f"num_class={forest.n_outputs}, and then its predict does not return labels."
        "\nHint: train without num_class, or pass its get_booster()."
    )
    raise UnsupportedModelError(msg)


def _refuse_infinity(name: str, missing: float) -> NoReturn:
    msg = (
        f"The {name} treats infinity as missing (missing={missing!r}), which "
        "spinney cannot read.\nHint: replace that value by NaN in the rows, and "
        "train with missing=nan."
    )
    raise UnsupportedModelError(msg)


def read_xgboost_labels(model: Any) -> LabelSet | None:
    """Read a trained XGBoost model that decides about several labels at once.

    Parameters
    ----------
    model : Booster or XGBClassifier
        Trained.

    Returns
    -------
    labels : LabelSet or None
        None if it has one label, or none at all.
    """
    from xgboost import Booster, XGBClassifier
    from xgboost.core import XGBoostError

    is_booster = isinstance(model, Booster)
    if not is_booster and not isinstance(model, XGBClassifier):
        return None
    if not is_booster and not model.__sklearn_is_fitted__():
        raise not_fitted(model)
    try:
        booster = model if is_booster else model.get_booster()
        document = decode_ubjson(bytes(booster.save_raw("ubj")))
    except XGBoostError as error:
        raise not_fitted(model, "xgboost.train") from error
    learner = part(document, "learner", dict)
    settings = part(learner, "learner_model_param", dict)
    objective = part(part(learner, "objective", dict), "name", str)
    if _count(settings, "num_target", 1) < 2 or objective != "binary:logistic":
        return None
    kind = "Booster" if is_booster else "classifier"
    forest = _read(document, kind, type(model).__name__, labels=True)
    if not is_booster and not math.isnan(missing := float(np.float32(model.missing))):
        if math.isinf(missing):
            _refuse_infinity(type(model).__name__, missing)
        forest = forest.replace(missing_value=missing)
    return LabelSet(forest, label_threshold(), is_booster)


def read_xgboost_document(document: dict[str, Any]) -> Forest:
    """Read an XGBoost model from its JSON document.

    Parameters
    ----------
    document : dict
        What a ``.json`` model file holds. XGBoost itself need not be installed.

    Returns
    -------
    forest : Forest
        Predicts like an estimator after ``load_model`` of the same file: if the model
        was trained with early stopping, with the trees up to the best iteration. A
        Booster would use all trees of the file; if none but a Booster can have written
        it, a warning says so. The class labels are 0, 1, 2 and so
        on, the only ones that XGBoost knows.

    Raises
    ------
    UnsupportedModelError
        If the document is damaged, or the model cannot be read exactly.
    """
    return _read(document, "file", "model file")


def read_xgboost_ubj(content: bytes) -> Forest:
    """Read an XGBoost model from the content of its ``.ubj`` file.

    Parameters
    ----------
    content : bytes
        The whole file. XGBoost itself need not be installed.

    Returns
    -------
    forest : Forest
        As `read_xgboost_document` returns it.

    Raises
    ------
    UnsupportedModelError
        If the content is damaged, or the model cannot be read exactly.
    """
    return read_xgboost_document(decode_ubjson(content))


def _read(document: Any, kind: str, name: str, labels: bool = False) -> Forest:
    """Read a document that comes from a Booster, an estimator or a file.

    With `labels`, raw scores of several labels are read as such.
    """
    learner = part(document, "learner", dict)
    booster = part(learner, "gradient_booster", dict)
    version = document.get("version")
    if not isinstance(version, list) or not all(type(n) is int for n in version):
        version = []
    warn_of_newer_version("XGBoost", version)
    attributes = learner.get("attributes")
    if not isinstance(attributes, dict):
        attributes = {}
    if kind == "file":
        kind = _estimator_type(attributes) or kind
    model, tree_weights = _trees_and_weights(booster)
    _refuse_unknown_members(document, model)
    settings = part(learner, "learner_model_param", dict)
    n_classes = max(_count(settings, "num_class", 0), 1)
    n_targets = max(_count(settings, "num_target", 1), 1)
    n_outputs = max(n_classes, n_targets)
    objective = part(part(learner, "objective", dict), "name", str)
    categories = read_categories(model)
    if n_outputs > MAX_OUTPUTS:
        refuse_damaged(f"it claims to have {n_outputs:,} outputs")
    meaning = {} if labels else decision(objective, kind, n_classes, n_targets)
    base = base_score(settings, objective, n_outputs, version)

    trees = part(model, "trees", list)
    tree_info = numbers(model, "tree_info")
    if len(tree_info) != len(trees):
        refuse_damaged(f"'tree_info' has {len(tree_info)} entries, not {len(trees)}")
    if kind != "Booster" and "best_iteration" in attributes:
        n_best = _trees_until_best(model, attributes, n_outputs, len(trees))
        if kind == "file" and n_best < len(trees):
            _warn_of_later_trees(n_best, len(trees))
        trees, tree_info = trees[:n_best], tree_info[:n_best]
    if not trees:
        msg = "The XGBoost model has no trees.\nHint: train it for a round at least."
        raise UnsupportedModelError(msg)

    n_values = _values_per_leaf(trees, n_outputs)
    if n_values == 1 and n_outputs > len(trees):
        refuse_damaged(f"it claims to have {n_outputs:,} outputs, with fewer trees")
    arrays = read_trees(trees, n_values)
    if tree_weights is not None:
        rounded = kind != "Booster" and booster["name"] == "dart"
        through = base[tree_info % n_outputs] * np.float32(rounded)
        _weigh(arrays, tree_weights[: len(trees)], through)
    arrays["value"] = fill_inner_values(arrays)
    del arrays["hessian"]
    names = learner.get("feature_names")
    parameters: dict[str, Any] = {
        **arrays,
        **meaning,
        "n_features": _count(settings, "num_feature", 0),
        "n_outputs": n_outputs,
        "aggregation": "sum",
        "tree_output": tree_info if n_outputs > n_values else None,
        "base_score": base,
        "base_added": "first",
        "category_rule": "floor",
        "categories": categories,
        "unseen_category": "missing" if categories is None else "error",
        "input_dtype": "float32",
        "absent": "missing",
        "sum_dtype": "float32",
        "feature_names": names if isinstance(names, list) and names else None,
        "source": f"XGBoost {name}",
    }
    try:
        return Forest(**parameters)
    except InvalidForestError as error:
        refuse_damaged(str(error).rstrip("."), error)


def _refuse_unknown_members(document: dict[str, Any], model: dict[str, Any]) -> None:
    """Refuse a document with members on whose meaning predictions may depend."""
    learner = document["learner"]
    booster = learner["gradient_booster"]
    objective = part(learner, "objective", dict)
    settings = part(learner, "learner_model_param", dict)
    parts: dict[str, Any] = {"document": document, "learner": learner}
    parts |= {"gradient_booster": booster, "model": model}
    parts |= {"learner_model_param": settings, "objective": objective}
    if "gbtree" in booster:
        parts["gbtree"] = booster["gbtree"]
    if isinstance(model.get("cats"), dict):
        parts["cats"] = model["cats"]
    if "gbtree_model_param" in model:
        parts["gbtree_model_param"] = part(model, "gbtree_model_param", dict)
    for name, holder in parts.items():
        refuse_unknown("XGBoost", f"'{name}'", holder, MEMBERS[name])
    for tree in part(model, "trees", list):
        if isinstance(tree, dict):
            refuse_unknown("XGBoost", "a tree", tree, TREE_MEMBERS)
            sizes = part(tree, "tree_param", dict)
            refuse_unknown("XGBoost", "'tree_param'", sizes, MEMBERS["tree_param"])


def _estimator_type(attributes: dict[str, Any]) -> str | None:
    """Return whether an estimator wrote the file, and which sort of one."""
    try:
        found = json.loads(attributes["scikit_learn"])["_estimator_type"]
    except (KeyError, TypeError, ValueError):
        return None  # written by a Booster
    return found if found in ("classifier", "regressor") else None


def _count(settings: dict[str, Any], name: str, default: int) -> int:
    """Return a number that XGBoost writes as a text; older files lack some."""
    given = settings.get(name, default)
    try:
        count = -1 if isinstance(given, bool) else int(given)
    except (TypeError, ValueError, OverflowError):
        count = -1
    if not 0 <= count < 2**31:
        refuse_damaged(f"{name!r} must be a whole number, got {given!r:.40}")
    return count


def _trees_and_weights(
    booster: dict[str, Any],
) -> tuple[dict[str, Any], NDArray[np.float32] | None]:
    """Return the part that holds the trees, and the weights of dart's trees."""
    kind = booster.get("name")
    if kind == "gbtree":
        model = part(booster, "model", dict)
        # Since XGBoost 3.3 dart is written as gbtree; 3.4 has the weights in the model.
        for holder in (booster, model):
            if "weight_drop" in holder:
                return model, _tree_weights(holder, model)
        return model, None
    if kind == "dart":
        model = part(part(booster, "gbtree", dict), "model", dict)
        return model, _tree_weights(booster, model)
    msg = (
        f"The XGBoost model is a {kind!r} booster, and spinney reads trees only.\n"
        "Hint: train with booster='gbtree' or 'dart'."
    )
    raise UnsupportedModelError(msg)


def _tree_weights(holder: dict[str, Any], model: dict[str, Any]) -> NDArray[np.float32]:
    """Return the weights by which dart multiplies its trees."""
    weights = numbers(holder, "weight_drop", "iuf")
    if len(weights) != len(part(model, "trees", list)):
        refuse_damaged(f"{len(weights)} tree weights ('weight_drop') do not fit")
    with np.errstate(over="ignore"):
        return weights.astype(np.float32)


def _trees_until_best(
    model: dict[str, Any], attributes: dict[str, Any], n_outputs: int, n_trees: int
) -> int:
    """Return the number of trees up to the best iteration of early stopping."""
    best = _count(attributes, "best_iteration", 0)
    if "iteration_indptr" in model:  # since XGBoost 2.0
        ends = numbers(model, "iteration_indptr")[1:]
    else:
        sizes = part(model, "gbtree_model_param", dict)
        per_iteration = n_outputs * max(_count(sizes, "num_parallel_tree", 1), 1)
        ends = np.arange(per_iteration, n_trees + 1, per_iteration)
    if best >= len(ends) or not 0 <= ends[best] <= n_trees:
        refuse_damaged(f"the best iteration is given as {best}, which does not exist")
    return int(ends[best])


def _warn_of_later_trees(n_best: int, n_trees: int) -> None:
    """Say that a Booster, which seems to have written the file, would use all trees."""
    msg = (
        f"The XGBoost file has {n_trees} trees, {n_best} of them up to the best "
        "iteration of early stopping, and does not say which are meant: an estimator "
        f"that loads it predicts with {n_best}, and so does spinney; a Booster "
        "predicts with all. To have all, pass the Booster itself: "
        "spinney.read_model(xgboost.Booster(model_file=path))."
    )
    warnings.warn(msg, SpinneyWarning, stacklevel=5)


def _values_per_leaf(trees: list[Any], n_outputs: int) -> int:
    """Return 1, or the number of outputs if every leaf has a number for each."""
    found = set()
    for tree in trees:
        # 0 was written for a single value before XGBoost 2.0.
        parameters = part(tree, "tree_param", dict)
        found.add(max(_count(parameters, "size_leaf_vector", 1), 1))
    if found == {1}:
        return 1
    if found == {n_outputs}:
        return n_outputs
    refuse_damaged(f"its leaves have {sorted(found)} values for {n_outputs} outputs")


def _weigh(
    arrays: dict[str, NDArray[Any]],
    tree_weights: NDArray[np.float32],
    through: NDArray[np.float32],
) -> None:
    """Multiply the leaves by the weights of their trees, as dart does it.

    Before that, the number that `through` has for the tree is added and taken off
    again. All in float32, as in XGBoost, because it is the rounding that matters.
    """
    sizes = np.diff(arrays["tree_offsets"])
    weight = np.repeat(tree_weights, sizes)[:, np.newaxis]
    through = np.repeat(through, sizes)[:, np.newaxis]
    with np.errstate(over="ignore", invalid="ignore"):
        arrays["value"] = ((arrays["value"] + through) - through) * weight
