"""LightGBM models, out of memory or out of their text files.

Both ways lead through the model text, which holds thresholds and leaf values with all
their digits. What was found out about the format and about LightGBM's arithmetic:

- A tree of ``n`` leaves lists its ``n - 1`` inner nodes, the root first. A child
  ``c >= 0`` is an inner node, a child ``c < 0`` is leaf ``~c``.
- Before a row meets a tree, every number within 1e-35 of zero becomes zero. Only nodes
  whose threshold lies that close to zero can tell the difference, so their thresholds
  are moved out of that band and the rows are left alone.
- ``decision_type`` packs three things: bit 0, the node tests membership in a set of
  categories; bit 1, missing values go left; bits 2 and 3, what counts as missing:
  nothing (NaN is then read as zero), zero and NaN, or NaN alone.
- Arrays that are not of floats are rounded to float32 first, integers beyond 2**24
  among them. Data frames are not.
- Categories are cut off to integers (-0.5 is category 0). NaN and negative numbers are
  in no set.
- Category columns of a pandas frame are replaced by codes before each prediction, by
  the values of training, which stand behind the trees (``pandas_categorical``). A value
  that is not among them becomes NaN, and so does a missing one.
- ``internal_value`` is on the scale of the leaves: shrinkage and the average that the
  first tree starts from are in it. It has six digits only, and it stays behind where
  LightGBM changes leaf values after growing (the objectives in `RENEWED`, ``refit``).
- Random forests are averaged before the link, over the trees of each output. What
  ``predict(raw_score=True)`` returns for them is the sum instead.
- ``sigmoid`` is written with six digits.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.errors import InvalidForestError, UnsupportedModelError
from spinney.forest import LEAF, ZERO_BAND, Forest
from spinney.forest.links import smallest_positive_score
from spinney.readers.fitted import not_fitted
from spinney.readers.inner_means import inner_means
from spinney.readers.known_members import warn_of_newer_version
from spinney.readers.lightgbm_text import (
    CATEGORICAL,
    DEFAULT_LEFT,
    NOTHING_MISSING,
    ZERO_MISSING,
    ModelText,
    numbers,
    parse_text,
    refuse_damaged,
)

REGRESSION_LINKS = {
    "regression": "identity",
    "regression_l1": "identity",
    "huber": "identity",
    "fair": "identity",
    "quantile": "identity",
    "mape": "identity",
    "lambdarank": "identity",
    "rank_xendcg": "identity",
    "poisson": "exp",
    "gamma": "exp",
    "tweedie": "exp",
}
CLASSIFICATION_LINKS = {
    "binary": "logistic",
    "cross_entropy": "logistic",
    "multiclass": "softmax",
    "multiclassova": "logistic_each",
}

# Leaves of these get new values (a median, say) once the tree is grown; inner nodes
# keep sums of gradients, which mean something else.
RENEWED = ("regression_l1", "quantile", "mape")


def read_lightgbm(model: Any) -> Forest:
    """Read a trained LightGBM model.

    Parameters
    ----------
    model : Booster, LGBMClassifier, LGBMRegressor or LGBMRanker
        With early stopping, the trees up to the best iteration are read, as
        ``predict`` uses them.

    Returns
    -------
    forest : Forest
        A Booster with a classification objective becomes a classifier with the classes
        0, 1, ...: what ``Booster.predict`` returns is then `Forest.predict_model`.

    Raises
    ------
    UnsupportedModelError
        If the model cannot be read exactly.
    sklearn.exceptions.NotFittedError
        If the model has not been trained.
    """
    import lightgbm

    source = f"LightGBM {type(model).__name__}"
    warn_of_newer_version("LightGBM", lightgbm.__version__)
    if isinstance(model, lightgbm.LGBMModel):
        return _read_estimator(model, isinstance(model, lightgbm.LGBMClassifier))
    if isinstance(model, lightgbm.Booster):
        return _read_booster(model, source)
    hint = (
        "pass one of its boosters"
        if isinstance(model, lightgbm.CVBooster)
        else "pass a Booster, LGBMClassifier, LGBMRegressor or LGBMRanker"
    )
    msg = f"{source} is not a single trained model.\nHint: {hint}."
    raise UnsupportedModelError(msg)


def read_lightgbm_text(text: str) -> Forest:
    """Read the text of a LightGBM model file; LightGBM itself is not needed.

    Parameters
    ----------
    text : str
        What ``Booster.save_model`` writes and ``Booster.model_to_string`` returns.

    Returns
    -------
    forest : Forest
        Predicts as a Booster loaded from the same text; see `read_lightgbm`.

    Raises
    ------
    UnsupportedModelError
        If the text is damaged, or the model cannot be read exactly.
    """
    return _forest(parse_text(text), "LightGBM model file")


def _read_estimator(model: Any, is_classifier: bool) -> Forest:
    from sklearn.exceptions import NotFittedError

    name = type(model).__name__
    try:
        booster = model.booster_
    except NotFittedError as error:
        raise not_fitted(model) from error
    if model.get_params().get("pred_early_stop"):
        msg = (
            f"{name} stops its own predictions early (pred_early_stop), which spinney "
            "cannot read.\nHint: set pred_early_stop=False."
        )
        raise UnsupportedModelError(msg)
    # scikit-learn's check of rows makes float64 of objects, and leaves integers alone.
    forest = _read_booster(booster, f"LightGBM {name}")
    forest = forest.replace(rounded_rows="integers")
    if not is_classifier:
        if forest.classes is not None:
            msg = (
                f"{name} with a classification objective predicts probabilities, where "
                "spinney predicts labels.\nHint: train an LGBMClassifier, or read "
                "model.booster_ and use predict_proba."
            )
            raise UnsupportedModelError(msg)
        return forest
    labels = np.asarray(model.classes_)
    if forest.classes is None:
        msg = (
            f"{name} was trained with an objective that is none of "
            f"{sorted(CLASSIFICATION_LINKS)}, so that it has no class probabilities."
            "\nHint: train with one of these, or read model.booster_ for raw scores."
        )
        raise UnsupportedModelError(msg)
    # LightGBM calls a single class the first of two.
    if len(labels) != len(forest.classes) and (len(labels), forest.n_outputs) != (1, 1):
        msg = (
            f"{name} has {len(labels)} classes, but its objective was trained with "
            f"num_class={len(forest.classes)}.\nHint: train without num_class."
        )
        raise UnsupportedModelError(msg)
    return forest.replace(classes=labels, model_predicts="answer")


def _read_booster(booster: Any, source: str) -> Forest:
    # Without arguments: as many iterations as `predict` uses without arguments.
    text = parse_text(booster.model_to_string())
    forest = _forest(text, source)
    sigmoid = float(booster.params.get("sigmoid", forest.link_scale))
    # An objective whose options have none (cross_entropy) does not use it.
    if "sigmoid" in text.options and sigmoid != forest.link_scale:
        msg = (
            f"LightGBM model has sigmoid={sigmoid!r}, but exports only six digits of "
            f"it: {forest.link_scale!r}.\nHint: save the model, load it and read that."
        )
        raise UnsupportedModelError(msg)
    return forest


def _forest(model: ModelText, source: str) -> Forest:
    try:
        forest = Forest(
            **_nodes(model),
            **_outputs(model),
            n_features=model.n_features,
            feature_names=tuple(model.feature_names),
            aggregation="mean" if model.averaged else "sum",
            input_dtype="float64",
            rounded_rows="non_floats",
            exponential="c",
            categories=_categories(model),
            source=source,
        )
    except InvalidForestError as error:
        refuse_damaged(str(error).rstrip("."), error)
    if model.objective not in RENEWED:
        return forest
    rows = forest.n_node_samples
    means = inner_means(
        forest.left,
        forest.right,
        forest.tree_offsets[:-1],
        forest.value,
        None if rows is None else np.maximum(rows, 1.0),
    )
    return forest.replace(value=means.value)


def _categories(model: ModelText) -> tuple[tuple[Any, ...] | None, ...] | None:
    """Return the categories of every column, None if no column has any."""
    if not model.categories:
        return None
    given = [model.categories.get(column) for column in range(model.n_features)]
    return tuple(None if values is None else tuple(values) for values in given)


def _outputs(model: ModelText) -> dict[str, Any]:
    """Return what the objective says about raw scores, classes and decisions."""
    parts: dict[str, Any] = {"n_outputs": model.n_outputs}
    if model.n_outputs > 1:
        n_trees = len(model.n_leaves)
        parts["tree_output"] = np.arange(n_trees) % model.n_outputs
    name = model.objective
    if name is None:  # trained with a function of the user's: raw scores are all
        return parts
    if name in REGRESSION_LINKS and "sqrt" not in model.options:
        return parts | {"link": REGRESSION_LINKS[name]}
    if name not in CLASSIFICATION_LINKS:
        what = f"objective {name!r}" + (" with reg_sqrt=True" * (name == "regression"))
        supported = sorted({*REGRESSION_LINKS, *CLASSIFICATION_LINKS})
        msg = (
            f"LightGBM model has {what}, whose predictions spinney cannot compute.\n"
            f"Hint: retrain with one of {', '.join(supported)}."
        )
        raise UnsupportedModelError(msg)

    parts["link"] = CLASSIFICATION_LINKS[name]
    several = parts["link"] != "logistic"
    if several != (model.n_outputs > 1):
        refuse_damaged(f"objective {name!r} cannot have {model.n_outputs} outputs")
    parts["classes"] = np.arange(max(model.n_outputs, 2))
    parts["model_predicts"] = "probability"
    if "sigmoid" in model.options:
        scale = float(numbers(model.options, "sigmoid", 1, float)[0])
        if not 0 < scale < math.inf:
            refuse_damaged(f"'sigmoid' must be positive, got {scale}")
        parts["link_scale"] = scale
    if several:
        return parts | {"decides_by": "probability"}
    try:
        parts["decision_threshold"] = smallest_positive_score(
            lambda raw: _is_positive(raw, parts.get("link_scale", 1.0)), np.float64
        )
    except ValueError as error:
        msg = (
            f"LightGBM model has sigmoid={parts['link_scale']!r}, which leaves hardly "
            "any score on the positive side.\nHint: retrain with a larger sigmoid."
        )
        raise UnsupportedModelError(msg) from error
    return parts


def _is_positive(raw: np.floating, sigmoid: float) -> bool:
    """Decide as LGBMClassifier does: the larger of two rounded probabilities."""
    # math.exp is the C library's function, the one that LightGBM calls.
    try:
        p = 1.0 / (1.0 + math.exp(-sigmoid * float(raw)))
    except OverflowError:
        p = 0.0
    return p > 1.0 - p


def _nodes(model: ModelText) -> dict[str, Any]:
    """Return the arrays of all nodes: of each tree the inner nodes, then the leaves."""
    trees = model.trees
    n_inner = model.n_leaves - 1
    sizes = model.n_leaves + n_inner
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    n_nodes = int(offsets[-1])
    slot = np.arange(n_nodes) - np.repeat(offsets[:-1], sizes)  # within its tree
    inner = slot < np.repeat(n_inner, sizes)
    start = np.repeat(offsets[:-1], n_inner)  # of the tree that an inner node is in
    first_leaf = start + np.repeat(n_inner, n_inner)

    def spread(values: NDArray[Any], elsewhere: Any) -> NDArray[Any]:
        array = np.full(n_nodes, elsewhere, dtype=values.dtype)
        array[inner] = values
        return array

    parts: dict[str, Any] = {"tree_offsets": offsets}
    parts["feature"] = spread(trees["split_feature"], LEAF)
    for name in ("left", "right"):
        child = trees[f"{name}_child"]
        index = np.where(child >= 0, start + child, first_leaf + ~child)
        parts[name] = spread(index, LEAF)
    parts["value"] = spread(trees["internal_value"], 0.0)
    parts["value"][~inner] = trees["leaf_value"]
    if "leaf_count" in trees:
        parts["n_node_samples"] = spread(trees["internal_count"], 0.0)
        parts["n_node_samples"][~inner] = trees["leaf_count"]

    decision, threshold = trees["decision_type"], trees["threshold"]
    categorical = decision & CATEGORICAL > 0
    default_left = decision & DEFAULT_LEFT > 0
    missing = decision >> 2
    zero_left = threshold >= 0
    missing_left = np.where(missing == NOTHING_MISSING, zero_left, default_left)
    parts["missing_left"] = spread(missing_left & ~categorical, False)
    # Where zero goes the same way as a missing value anyway, a plain node will do.
    by_hand = (missing == ZERO_MISSING) & (default_left != zero_left) & ~categorical
    if by_hand.any():
        parts["zero_is_missing"] = spread(by_hand, False)
    outside = np.where(zero_left, ZERO_BAND, np.nextafter(-ZERO_BAND, -np.inf))
    in_band = (threshold >= -ZERO_BAND) & (threshold < ZERO_BAND)
    plain = np.where(in_band, outside, threshold)
    parts["threshold"] = spread(np.where(categorical, 0.0, plain), 0.0)
    if categorical.any():
        shift = np.cumsum(model.n_category_sets) - model.n_category_sets
        chosen = np.full(len(threshold), -1)
        chosen[categorical] = threshold[categorical]
        chosen[categorical] += np.repeat(shift, n_inner)[categorical]
        parts["category_set"] = spread(chosen, -1)
        parts["category_offsets"] = np.concatenate([[0], np.cumsum(trees["set_sizes"])])
        parts["category_words"] = trees["words"]
        parts["category_rule"] = "truncate"
    return parts
