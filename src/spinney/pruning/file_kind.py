"""Pruned classifiers in files."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator

from spinney.base.classifier_fields import classifier_from_parts, classifier_to_parts
from spinney.errors import FormatError
from spinney.forest import Forest
from spinney.persistence.container import Arrays, Settings
from spinney.persistence.fields import (
    forest_from_parts,
    forest_to_parts,
    refuse_leftovers,
    take_array,
    take_setting,
)
from spinney.persistence.store import Kind, register
from spinney.pruning.costs import Purchases
from spinney.pruning.pruner import FeatureCostPruner
from spinney.pruning.table import Frontier, FrontierPoint

PREFIX = "full."
COLUMNS = ("trade_off", "cost", "error", "ensemble_error", "n_nodes")


def to_parts(pruner: FeatureCostPruner) -> tuple[Settings, Arrays]:
    """Return the settings and arrays that `from_parts` makes a pruner from."""
    settings, arrays = classifier_to_parts(pruner)
    full_settings, full_arrays = forest_to_parts(pruner.full_forest_)
    purchases, frontier = pruner.purchases_, pruner.frontier_
    settings |= {
        "breakpoints": [_written(one) for one in frontier.breakpoints],
        "full": full_settings,
        "gap": pruner.gap_,
        "point": list(pruner.point_),
        "unit": _written(purchases.unit),
    }
    arrays |= {PREFIX + name: array for name, array in full_arrays.items()}
    arrays |= frontier.to_dict() | {
        "item_of_column": purchases.item_of_column,
        "item_cost": purchases.cost,
        "item_price": purchases.price,
        "kept_until": pruner.kept_until_,
    }
    return settings, arrays


def from_parts(settings: Settings, arrays: Arrays) -> FeatureCostPruner:
    """Take a pruner out of settings and arrays, trusting neither."""
    pruner = classifier_from_parts(FeatureCostPruner, settings, arrays)
    full_settings = take_setting(settings, "full", dict)
    full_arrays = {
        name.removeprefix(PREFIX): arrays.pop(name)
        for name in list(arrays)
        if name.startswith(PREFIX)
    }
    full = forest_from_parts(full_settings, full_arrays)
    refuse_leftovers(full_settings, full_arrays)
    pruned = pruner.forest_
    for forest in (full, pruned):
        if not forest.votes_by_class:
            msg = "the trees of its forests must vote"
            raise FormatError(msg)
    if full.n_features != pruned.n_features or full.n_trees != pruned.n_trees:
        msg = "its pruned forest must have the trees and columns of the full one"
        raise FormatError(msg)
    labels: Any = full.classes_
    if not np.array_equal(labels, pruner.classes_):
        msg = "its two forests must have the same classes"
        raise FormatError(msg)
    pruner.estimator = pruner.estimator_ = FrozenEstimator(full)
    pruner.full_forest_ = full
    pruner.frontier_ = _take_frontier(settings, arrays)
    pruner.kept_until_ = _take_levels(arrays, full, len(pruner.frontier_))
    pruner.purchases_ = _take_purchases(settings, arrays, full.n_features)
    pruner.gap_ = take_setting(settings, "gap", float)
    point = take_setting(settings, "point", list)
    if len(point) != len(COLUMNS) or not all(_is_number(one) for one in point):
        msg = f"point must be {len(COLUMNS)} numbers"
        raise FormatError(msg)
    pruner.point_ = FrontierPoint._make([*map(float, point[:-1]), int(point[-1])])
    return pruner


def _written(number: Fraction) -> str:
    """Return a fraction as text: its integers may be longer than JSON's numbers."""
    return f"{number.numerator}/{number.denominator}"


def _read(text: Any) -> Fraction:
    """Return a fraction from its text."""
    top, _, bottom = text.partition("/") if isinstance(text, str) else ("", "", "")
    digits = top.isascii() and bottom.isascii() and top.isdigit() and bottom.isdigit()
    if not digits or max(len(top), len(bottom)) > 1000 or int(bottom) == 0:
        msg = "a fraction must be two whole numbers, such as '3/500'"
        raise FormatError(msg)
    return Fraction(int(top), int(bottom))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _take_frontier(settings: Settings, arrays: Arrays) -> Frontier:
    columns = {
        name: np.array(
            take_array(arrays, name, np.int64 if name == "n_nodes" else np.float64, 1)
        )
        for name in COLUMNS
    }
    breakpoints = tuple(map(_read, take_setting(settings, "breakpoints", list)))
    sizes = {len(breakpoints), *map(len, columns.values())}
    if len(sizes) != 1 or not breakpoints:
        msg = "the columns of its frontier must be of equal length, at least 1"
        raise FormatError(msg)
    if list(breakpoints) != sorted(breakpoints) or breakpoints[0] != 0:
        msg = "its breakpoints must rise from 0"
        raise FormatError(msg)
    return Frontier(**columns, breakpoints=breakpoints)


def _take_levels(arrays: Arrays, full: Forest, n_points: int) -> Any:
    until = np.array(take_array(arrays, "kept_until", np.int32, 1))
    if len(until) != full.n_nodes or until.min() < -1 or until.max() >= n_points:
        msg = f"kept_until must be from -1 to {n_points - 1} for each node"
        raise FormatError(msg)
    return until


def _take_purchases(settings: Settings, arrays: Arrays, n_columns: int) -> Purchases:
    items = np.array(take_array(arrays, "item_of_column", np.int64, 1))
    cost = np.array(take_array(arrays, "item_cost", np.float64, 1))
    price = np.array(take_array(arrays, "item_price", np.int64, 1))
    unit = _read(take_setting(settings, "unit", str))
    if len(items) != n_columns or items.min() < 0 or items.max() >= len(cost):
        msg = "item_of_column must name an item for each column"
        raise FormatError(msg)
    whole = np.isfinite(cost) & (cost >= 0.0)
    if len(price) != len(cost) or price.min() < 0 or not whole.all():
        msg = "items must have a cost and a price, neither below 0"
        raise FormatError(msg)
    return Purchases(items, cost, price, unit)


def register_kind() -> None:
    """Let `save` and `load` know pruned classifiers."""
    register(Kind("feature_cost_pruner", FeatureCostPruner, to_parts, from_parts))
