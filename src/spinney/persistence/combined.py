"""Combined models taken apart for a file: see `spinney.base.combined`."""

from __future__ import annotations

from typing import Any

import numpy as np

from spinney.errors import FormatError, InvalidForestError
from spinney.forest import Forest
from spinney.forest.derived import (
    Derived,
    Isolation,
    LabelSet,
    SeveralLabels,
    WeightedMedian,
    WeightedVote,
)
from spinney.persistence.container import Arrays, Settings
from spinney.persistence.fields import (
    labels_from_arrays,
    labels_to_arrays,
    part_forest_to_parts,
    refuse_leftovers,
    take_array,
    take_forest,
    take_setting,
)
from spinney.persistence.steps import steps_from_arrays, steps_to_arrays

# More labels than any model has; keeps a forged number from filling the memory.
MAX_LABELS = 2**16


def combined_to_parts(model: Any) -> tuple[Settings, Arrays]:
    """Return the settings and arrays of a combined model.

    Parameters
    ----------
    model : Derived or estimator of scikit-learn
        What `spinney.base.combined.whole_model` returned.
    """
    if not isinstance(model, Derived):
        return {"combined": {"kind": "sklearn"}}, steps_to_arrays("model", model)
    settings, arrays = part_forest_to_parts("forest", model.forest)
    own: Settings = {"kind": model.kind}
    if isinstance(model, WeightedVote):
        own["total"] = float(model.total)
        arrays |= labels_to_arrays("labels", model.classes_)
    elif isinstance(model, WeightedMedian):
        arrays["weights"] = model.weights
    elif isinstance(model, Isolation):
        own |= {"denominator": float(model.denominator), "offset": float(model.offset)}
    elif isinstance(model, SeveralLabels):
        own["n_labels"] = len(model.labels)
        for number, labels in enumerate(model.labels):
            arrays |= labels_to_arrays(f"labels_{number}", labels)
    elif isinstance(model, LabelSet):
        own |= {"threshold": model.threshold, "as_booster": model.as_booster}
    return settings | {"combined": own}, arrays


def take_combined(settings: Settings, arrays: Arrays) -> Any:
    """Take a combined model out of settings and arrays, which may be forged.

    Parameters
    ----------
    settings, arrays : dict
        What `combined_to_parts` has returned, and others.
    """
    own = take_setting(settings, "combined", dict)
    kind = take_setting(own, "kind", str)
    if kind == "sklearn":
        refuse_leftovers(own, {})
        return steps_from_arrays("model", arrays, method="predict")
    forest = take_forest("forest", settings, arrays)
    try:
        model = _derived(kind, forest, own, arrays)
    except InvalidForestError as error:
        raise FormatError(str(error).rstrip(".")) from error
    refuse_leftovers(own, {})
    return model


def _derived(kind: str, forest: Forest, own: Settings, arrays: Arrays) -> Derived:
    if kind == WeightedVote.kind:
        total = take_setting(own, "total", float)
        return WeightedVote(forest, _labels("labels", arrays), total)
    if kind == WeightedMedian.kind:
        weights = np.array(take_array(arrays, "weights", np.float64, 1))
        return WeightedMedian(forest, weights)
    if kind == Isolation.kind:
        return Isolation(
            forest,
            take_setting(own, "denominator", float),
            take_setting(own, "offset", float),
        )
    if kind == SeveralLabels.kind:
        n_labels = take_setting(own, "n_labels", int)
        if not 1 <= n_labels <= MAX_LABELS:
            msg = f"there cannot be {n_labels} labels"
            raise FormatError(msg)
        labels = (_labels(f"labels_{number}", arrays) for number in range(n_labels))
        return SeveralLabels(forest, tuple(labels))
    if kind == LabelSet.kind:
        return LabelSet(
            forest,
            take_setting(own, "threshold", float),
            take_setting(own, "as_booster", bool),
        )
    msg = f"{kind!r:.40} is not a known kind of combined model"
    raise FormatError(msg)


def _labels(name: str, arrays: Arrays) -> Any:
    labels = labels_from_arrays(name, arrays)
    if labels is None or not len(labels):
        msg = f"the array {name!r} is missing, or empty"
        raise FormatError(msg)
    return labels
